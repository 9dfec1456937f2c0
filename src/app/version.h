// SPDX-License-Identifier: Apache-2.0
// The version of the program, from the build.
// Immutable.
#pragma once

#include <string_view>

namespace forebay::app {

#ifndef FOREBAY_VERSION
#error "FOREBAY_VERSION is set by src/app/CMakeLists.txt"
#endif
constexpr std::string_view kVersion = FOREBAY_VERSION;

}  // namespace forebay::app
