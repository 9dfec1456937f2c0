// SPDX-License-Identifier: Apache-2.0
// The fuzz target of what reads capabilities. The fuzzer (capability_fuzz.cc) and the plain test run the same function.
// Thread-safe: pure functions.
#pragma once

#include "base/bytes.h"

namespace forebay::auth {

/// Reads `input` as a chain and as the text of a held capability. What is read keeps the rules of its format (checked). True
/// when it was a chain.
bool FuzzCapability(ByteView input);

}  // namespace forebay::auth
