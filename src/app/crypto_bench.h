// SPDX-License-Identifier: Apache-2.0
// bench crypto: what the MAC of a message and TLS cost this machine, by themselves: no server, no socket, one
// thread. Thread-safe: adds a command.
#pragma once

#include "app/invocation.h"

namespace forebay::app {

void AddCryptoBench(CLI::App& bench, Invocation& invocation);

}  // namespace forebay::app
