// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry: `ninja auth_capability_fuzz && bin/auth_capability_fuzz -max_total_time=20`. Without clang's
// fuzzer nothing is built; the same function runs in auth_test over random changes of a real chain.
#include "auth/capability_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  forebay::auth::FuzzCapability({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
