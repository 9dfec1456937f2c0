// SPDX-License-Identifier: Apache-2.0
// The proof that each control call carries in its metadata `forebay-auth`:
//   v1 <credential id> <unix milliseconds> <nonce, 32 hex digits> <tag, 64 hex digits>
// where tag = HMAC-SHA256(secret, "forebay-rpc-v1\n" method path "\n" milliseconds "\n" nonce). A proof is
// good for one call of one method, within 300 s of the server's clock. docs/security.md says what this
// protects from, and what not.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "auth/credentials.h"
#include "auth/nonce_cache.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"

namespace forebay::auth {

/// The metadata key.
constexpr std::string_view kRpcAuthKey = "forebay-auth";
/// How far the two clocks may differ.
constexpr std::chrono::seconds kMaxRpcClockSkew(300);

/// A proof for one call of `method` ("/forebay.control.v1.Buckets/List"). Thread-safe.
std::string SignRpc(const Credentials& credentials, std::string_view method, base::WallTime now,
                    base::Random& random);

/// The credential with that id, or nothing. Called from several threads at once.
using CredentialLookup = std::function<std::optional<Credentials>(std::string_view id)>;

/// Checks proofs and remembers those seen. Thread-safe.
class RpcAuthenticator {
 public:
  /// `clock` is borrowed for the authenticator's life. Proofs made before this moment are refused: an earlier
  /// process may have accepted them already.
  RpcAuthenticator(CredentialLookup lookup, const base::Clock& clock,
                   size_t max_nonces = NonceCache::kDefaultLimit);

  /// Whose call it is. Unauthenticated, saying what is wrong, when `proof` is malformed, of an unknown
  /// credential, not made with its secret for `method`, out of time, or seen before.
  Result<Credentials> Verify(std::string_view method, std::string_view proof);

 private:
  const CredentialLookup lookup_;
  const base::Clock& clock_;  // borrowed
  NonceCache nonces_;
};

}  // namespace forebay::auth
