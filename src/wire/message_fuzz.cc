// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry: `ninja wire_message_fuzz && bin/wire_message_fuzz -max_total_time=20`. Without clang's
// fuzzer nothing is built; the same function runs in wire_test over its corpus and random flips of it.
#include "wire/message_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  forebay::wire::FuzzOne({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
