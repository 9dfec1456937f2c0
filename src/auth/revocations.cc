// SPDX-License-Identifier: Apache-2.0
#include "auth/revocations.h"

#include <algorithm>

namespace forebay::auth {

Status Revocations::Revoke(TenantId tenant, const CapabilityId& id, base::WallTime until) {
  const base::MutexLock lock(mutex_);
  const auto known = revoked_.find({id, tenant});
  if (known != revoked_.end()) {
    known->second = std::max(known->second, until);
    return {};
  }
  size_t& count = counts_[tenant];
  if (revoked_.size() >= kMaxRevocations || (tenant != TenantId::kRoot && count >= kMaxRevocationsOfTenant))
    return Status::ResourceExhausted(
        "{} capabilities are revoked, {} by tenant {}; revoke all of a tenant instead (cap revoke --tenant), or restart "
        "the server, which forgets what has expired",
        revoked_.size(), count, static_cast<uint64_t>(tenant));
  revoked_.emplace(std::pair(id, tenant), until);
  ++count;
  return {};
}

uint64_t Revocations::RaiseEpoch(TenantId tenant) {
  const base::MutexLock lock(mutex_);
  return ++epochs_[tenant];
}

void Revocations::SetEpoch(TenantId tenant, uint64_t epoch) {
  const base::MutexLock lock(mutex_);
  epochs_[tenant] = epoch;
}

uint64_t Revocations::EpochOf(TenantId tenant) const {
  const base::MutexLock lock(mutex_);
  const auto found = epochs_.find(tenant);
  return found == epochs_.end() ? 0 : found->second;
}

Status Revocations::Check(const Grant& grant) const {
  if (!grant.from_capability()) return {};
  const base::MutexLock lock(mutex_);
  const auto epoch = epochs_.find(grant.tenant);
  if (grant.epoch != (epoch == epochs_.end() ? 0 : epoch->second))
    return Status::Unauthenticated("{} was revoked with all others of tenant {}; ask for a new one", grant.name,
                                   static_cast<uint64_t>(grant.tenant));
  for (const GrantedBlock& block : grant.blocks) {
    if (revoked_.contains({block.id, grant.tenant}) || revoked_.contains({block.id, TenantId::kRoot}))
      return Status::Unauthenticated("{} was revoked; ask for a new one", grant.name);
  }
  return {};
}

Result<Grant> CheckCapability(const Capability& capability, const KeyRing& ring, const Revocations& revocations,
                              base::WallTime now) {
  // The cheap questions first: they bound what a stranger can make us compute.
  if (!ring.Holds(capability.issuer()))
    return Status::Unauthenticated(
        "the capability was signed by a key that this server does not have, or has dropped; issue a new one");
  Grant grant = capability.ToGrant();
  if (grant.expires <= now)
    return Status::Unauthenticated(
        "{} expired {} s ago by the server's clock; ask for a new one", grant.name,
        std::chrono::floor<std::chrono::seconds>(now - grant.expires).count());
  if (capability.blocks().front().issued > now + kMaxCapabilitySkew)
    return Status::Unauthenticated("{} was issued in the future by the server's clock, which seems to be wrong",
                                   grant.name);
  FB_TRY(capability.CheckSignatures());
  FB_TRY(revocations.Check(grant));  // last: what was revoked is no stranger's business
  return grant;
}

}  // namespace forebay::auth
