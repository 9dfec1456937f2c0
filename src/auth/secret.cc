// SPDX-License-Identifier: Apache-2.0
#include "auth/secret.h"

#include <openssl/crypto.h>

namespace forebay::auth {

void Wipe(MutableByteView bytes) { OPENSSL_cleanse(bytes.data(), bytes.size()); }

bool EqualInConstantTime(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace forebay::auth
