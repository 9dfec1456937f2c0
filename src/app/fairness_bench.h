// SPDX-License-Identifier: Apache-2.0
// bench fair: two tenants on the running server, one greedy, one modest, and what the modest one gets. Makes the tenants, and
// removes them. Thread-safe: adds a command.
#pragma once

#include "app/invocation.h"

namespace forebay::app {

void AddFairnessBench(CLI::App& bench, Invocation& invocation);

}  // namespace forebay::app
