// SPDX-License-Identifier: Apache-2.0
// The fuzz target of what reads the directory backend's records and escaped names, which whoever can write to the tree can
// make. The fuzzer (records_fuzz.cc) and the plain test run the same function. Thread-safe: pure functions.
#pragma once

#include "base/bytes.h"

namespace forebay::backend {

/// Reads `input` as each kind of record and as an escaped name. What is read is written again the same (checked). True when
/// it was one of them.
bool FuzzRecords(ByteView input);

}  // namespace forebay::backend
