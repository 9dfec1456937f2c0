// SPDX-License-Identifier: Apache-2.0
// Sealer: keeps secrets at rest that a server must be able to read again (SigV4 needs an access key's plain
// secret): AES-256-GCM under a key that only the root secret gives. What is sealed is bound to a context,
// such as the name of its record, and opens in no other. Thread-safe: constant after construction, but for
// the random source, which is thread-safe.
#pragma once

#include <string_view>

#include "auth/secret.h"
#include "base/bytes.h"
#include "base/random.h"
#include "base/status.h"

namespace forebay::auth {

class Sealer {
 public:
  static constexpr size_t kNonceBytes = 12;
  static constexpr size_t kTagBytes = 16;
  static constexpr size_t kSealedBytes = kNonceBytes + Secret::kSize + kTagBytes;

  /// The key is HKDF(root, "", "forebay sealed records v1"). `random` is borrowed.
  Sealer(const Secret& root, base::Random& random);

  /// nonce, ciphertext, tag: kSealedBytes.
  Bytes Seal(const Secret& secret, std::string_view context) const;
  /// DataLoss when `sealed` was changed, or sealed for another context or under another root secret.
  Result<Secret> Open(ByteView sealed, std::string_view context) const;

 private:
  Secret key_;
  base::Random& random_;
};

}  // namespace forebay::auth
