// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry: `ninja backend_records_fuzz && bin/backend_records_fuzz -max_total_time=20`. Without clang's fuzzer
// nothing is built; the same function runs in backend_test over random changes of real records.
#include "backend/records_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  forebay::backend::FuzzRecords({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
