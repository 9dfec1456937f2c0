// SPDX-License-Identifier: Apache-2.0
// How a command ends: its exit status, and the one way an error is shown (stderr, "forebay: message").
// Thread-safe.
#pragma once

#include <string_view>

namespace forebay::app {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

/// Prints the message and gives kFailed.
int Fail(std::string_view message);
/// Prints the message and gives kWrongUsage.
int RefuseUsage(std::string_view message);

}  // namespace forebay::app
