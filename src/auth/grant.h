// SPDX-License-Identifier: Apache-2.0
// Grant: what a caller may do, whatever proved it: a root credential gives everything, a capability what it says. The
// control plane makes one for each call, a session keeps one for its life. CheckGrant is the one place where a grant
// meets an operation. Immutable after construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/curve25519.h"
#include "auth/policy.h"
#include "auth/rights.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"

namespace forebay::auth {

using CapabilityId = std::array<std::byte, 16>;

/// What a tenant, or the holder of a capability, may use; 0 = no limit of its own.
struct RateGrant {
  uint64_t bytes_per_s = 0;
  uint64_t operations_per_s = 0;
  uint32_t transfers = 0;  // at once
  friend bool operator==(const RateGrant&, const RateGrant&) = default;
  /// True when each of `other`'s is at most ours.
  bool Covers(const RateGrant& other) const;
  /// These, with `parent`'s for each that is 0: what was not asked for is as much as there is.
  RateGrant Within(const RateGrant& parent) const;
};

/// One block of the chain that a grant came from.
struct GrantedBlock {
  CapabilityId id{};  // whoever narrows chooses it
  RateGrant rates{};
  std::string digest{};  // of the chain up to and with it, SHA-256 in hex: no other block has the same
};

/// Never expires.
constexpr base::WallTime kNoExpiry = base::WallTime::max();

struct Grant {
  TenantId tenant = TenantId::kNone;
  RightSet rights;
  std::string bucket{};  // empty: all of the tenant's buckets
  std::string prefix{};  // of keys; empty: all of the bucket
  RateGrant rates{};
  base::WallTime expires = kNoExpiry;
  std::string name{};  // for people: "credential root-1f3a5c7e", "capability 00112233..."
  // Of a capability:
  PublicKey issuer{};                  // the server key that signed it
  uint64_t epoch = 0;                  // of its tenant, when it was issued
  std::vector<GrantedBlock> blocks{};  // its own and those it was narrowed from, oldest first

  /// The owner of the whole store.
  static Grant Root(std::string_view credential_id);
  bool from_capability() const { return !blocks.empty(); }
  /// True when whoever holds this may hand `other` out: same tenant, no right, place, rate or time more. A grant of the root
  /// tenant for everything covers those of every tenant.
  Status CheckCovers(const Grant& other) const;
  /// "get,list on `models/llama/*`".
  std::string Allows() const;
};

/// What an operation touches. Views of the request.
struct Target {
  std::string_view bucket{};
  std::string_view key{};  // or the prefix of a listing
};

/// Ok when a caller with `grant` may do what `row` describes to `target`; PermissionDenied, naming the missing right and
/// what there is, otherwise. Expiry and revocation are asked elsewhere.
Status CheckGrant(const Grant& grant, const PolicyRow& row, const Target& target);

}  // namespace forebay::auth
