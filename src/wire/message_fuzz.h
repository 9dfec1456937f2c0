// SPDX-License-Identifier: Apache-2.0
// The fuzz target of the data plane's decoders, and its corpus: one valid message of each body. The fuzzer
// (message_fuzz.cc) and the plain test run the same function.
// Thread-safe: pure functions.
#pragma once

#include <vector>

#include "base/bytes.h"

namespace forebay::wire {

/// Decodes `input` as a message, its body as what its type says; what decodes must encode to the same bytes
/// (checked). True when the body was understood.
bool FuzzOne(ByteView input);

std::vector<Bytes> FuzzCorpus();

}  // namespace forebay::wire
