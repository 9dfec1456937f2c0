// SPDX-License-Identifier: Apache-2.0
// Capability: a signed, short-lived statement of what its holder may do; HeldCapability: one together with the private
// key that proves possession. A capability is a chain of blocks. The first is signed by the server, each further
// one by the holder of the block before, who can only narrow it, offline. What travels is the chain alone; the key never
// leaves its holder. Format and test vectors: docs/formats/capability.md. Immutable after construction.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/curve25519.h"
#include "auth/grant.h"
#include "auth/secret_file.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"

namespace forebay::auth {

/// Blocks of one chain, and bytes of it encoded.
constexpr size_t kMaxCapabilityBlocks = 8;
constexpr size_t kMaxCapabilityBytes = 4096;
/// From issue to expiry.
constexpr std::chrono::days kMaxCapabilityLifetime(90);
/// How far ahead of the server's clock the time of issue may be.
constexpr std::chrono::minutes kMaxCapabilitySkew(5);

/// One block's statement. Times have a resolution of a millisecond.
struct CapabilityBlock {
  CapabilityId id{};    // random
  PublicKey issuer{};   // whose signature this is: the server's key, or the holder's of the block before
  PublicKey holder{};   // whose private key proves possession, and narrows
  TenantId tenant = TenantId::kNone;
  uint64_t epoch = 0;   // the tenant's when it was issued; another one revokes
  RightSet rights;
  base::WallTime issued;
  base::WallTime expires;
  RateGrant rates{};
  std::string bucket{};  // empty: every bucket of the tenant, and then no prefix
  std::string prefix{};
};

class Capability {
 public:
  /// A chain of one block; `block.issuer` is that of `seed`. InvalidArgument when the block breaks a rule of the format.
  static Result<Capability> Issue(const CapabilityBlock& block, const Secret& seed);
  /// The same by who holds the key elsewhere: `sign` signs with block.issuer's.
  static Result<Capability> Issue(const CapabilityBlock& block, const std::function<Signature(ByteView)>& sign);
  /// Reads a chain. InvalidArgument when it is malformed, PermissionDenied when a block claims more than the one before it.
  /// Signatures are not looked at.
  static Result<Capability> Decode(ByteView encoded);
  /// This chain and one more block, signed with the holder's `seed`. PermissionDenied when it claims more.
  Result<Capability> Extend(const CapabilityBlock& block, const Secret& seed) const;

  /// Unauthenticated unless each block is signed by its issuer. Who the first issuer is must be asked too.
  Status CheckSignatures() const;

  ByteView encoded() const { return encoded_; }
  const std::vector<CapabilityBlock>& blocks() const { return blocks_; }
  const PublicKey& issuer() const { return blocks_.front().issuer; }
  const PublicKey& holder() const { return blocks_.back().holder; }
  /// What the last block allows.
  Grant ToGrant() const;

 private:
  Capability() = default;
  Status Append(const CapabilityBlock& block, const std::function<Signature(ByteView)>& sign);

  Bytes encoded_;
  std::vector<CapabilityBlock> blocks_;
  std::vector<std::pair<size_t, size_t>> ranges_;  // of each block's body in encoded_; its signature follows
};

/// What a narrowed capability keeps of its parent's; what is not named stays.
struct Narrowing {
  std::optional<RightSet> rights{};
  std::optional<std::string> bucket{};
  std::optional<std::string> prefix{};
  std::optional<base::WallTime> expires{};
  RateGrant rates{};  // 0 stays, too
};

class HeldCapability {
 public:
  HeldCapability(Capability capability, Secret seed) : capability_(std::move(capability)), seed_(std::move(seed)) {}

  /// The line `fbcap1-<hex>` that Text gives. InvalidArgument when anything of it is not as it was written: format, a
  /// signature, or the key.
  static Result<HeldCapability> Parse(std::string_view text);
  static Result<HeldCapability> Load(const std::string& path);
  /// With the secret key: for a file of its holder.
  void AppendTo(SecretText* text) const;

  /// A capability that allows no more than this one. PermissionDenied where it would; InvalidArgument at the limit
  /// of blocks.
  Result<HeldCapability> Narrow(const Narrowing& narrowing, base::WallTime now, base::Random& random) const;

  const Capability& capability() const { return capability_; }
  Signature Sign(ByteView message) const { return auth::Sign(seed_, message); }

 private:
  Capability capability_;
  Secret seed_;
};

}  // namespace forebay::auth
