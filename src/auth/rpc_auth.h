// SPDX-License-Identifier: Apache-2.0
// The proof that each control call carries in its metadata `forebay-auth`: by a shared secret
//   v1 <credential id> <unix milliseconds> <nonce, 32 hex digits> <tag, 64 hex digits>
// where tag = HMAC-SHA256(secret, "forebay-rpc-v1\n" method path "\n" milliseconds "\n" nonce), or by a capability
//   v2 <its chain in hex> <unix milliseconds> <nonce, 32 hex digits> <signature, 128 hex digits>
// where the signature is the holder's, of "forebay-rpc-v2\n" and the rest in the same way. A proof is good for one call
// of one method, within 300 s of the server's clock. docs/security.md says what this protects from, and what not.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "auth/capability.h"
#include "auth/credentials.h"
#include "auth/grant.h"
#include "auth/nonce_cache.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"

namespace forebay::auth {

/// The metadata key.
constexpr std::string_view kRpcAuthKey = "forebay-auth";
/// How far the two clocks may differ.
constexpr std::chrono::seconds kMaxRpcClockSkew(300);
/// The longest proof: one with a capability.
constexpr size_t kMaxRpcProofBytes = 2 * kMaxCapabilityBytes + 256;

/// What a client has to prove itself with. Nothing: it can only call what is public.
using Identity = std::variant<std::monostate, Credentials, HeldCapability>;

/// A proof for one call of `method` ("/forebay.control.v1.Buckets/List"); empty for an identity of nothing. Thread-safe.
std::string SignRpc(const Identity& identity, std::string_view method, base::WallTime now, base::Random& random);

/// Who proved itself, and what it may do.
struct Proven {
  std::shared_ptr<const Grant> grant;   // shared with the sessions it opens
  std::optional<Secret> secret{};       // of a credential: sessions derive their keys from it
  PublicKey holder{};                   // of a capability: signs for its sessions' keys
};

/// The credential with that id, or nothing. Called from several threads at once.
using CredentialLookup = std::function<std::optional<Credentials>(std::string_view id)>;
/// What a capability allows here; Unauthenticated when it is not good. Called from several threads at once.
using CapabilityCheck = std::function<Result<Grant>(const Capability&)>;

/// Checks proofs and remembers those seen. Thread-safe.
class RpcAuthenticator {
 public:
  /// `clock` is borrowed for the authenticator's life. Proofs made before this moment are refused: an earlier
  /// process may have accepted them already. Without `check` no capability is accepted.
  RpcAuthenticator(CredentialLookup lookup, CapabilityCheck check, const base::Clock& clock,
                   size_t max_nonces = NonceCache::kDefaultLimit);

  /// Whose call it is. Unauthenticated, saying what is wrong, when `proof` is malformed, of an unknown
  /// credential or a capability that is not good, not made with its secret for `method`, out of time, or seen before.
  Result<Proven> Verify(std::string_view method, std::string_view proof);

 private:
  struct Fields;
  static Result<Fields> Parse(std::string_view text);
  Result<Proven> VerifyCredential(std::string_view method, const Fields& proof) const;
  Result<Proven> VerifyCapability(std::string_view method, const Fields& proof) const;
  Status UseOnce(const Fields& proof);

  const CredentialLookup lookup_;
  const CapabilityCheck check_;
  const base::Clock& clock_;  // borrowed
  NonceCache nonces_;
};

}  // namespace forebay::auth
