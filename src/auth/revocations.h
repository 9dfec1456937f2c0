// SPDX-License-Identifier: Apache-2.0
// Revocations: which capabilities are good no more, though they have not expired: single ones by their id, with all that was
// narrowed from them, and all of a tenant by its epoch. Kept in memory for CheckCapability and the sessions; whoever changes it
// makes it durable first. Thread-safe.
#pragma once

#include <map>
#include <set>

#include "auth/capability.h"
#include "auth/grant.h"
#include "auth/key_ring.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/status.h"

namespace forebay::auth {

/// Ids that are revoked at once: of all, and of one tenant other than root. Expired ones are forgotten at a start.
constexpr size_t kMaxRevocations = 50'000;
constexpr size_t kMaxRevocationsOfTenant = 5'000;

class Revocations {
 public:
  /// A revoked id is remembered until `until`, when everything with it has expired. Only capabilities of
  /// `tenant` are meant; the root tenant's word counts for all. ResourceExhausted at either limit.
  Status Revoke(TenantId tenant, const CapabilityId& id, base::WallTime until);
  /// A new epoch of the tenant's, which no other call gives.
  uint64_t RaiseEpoch(TenantId tenant);
  /// From now on only this epoch of the tenant's is good.
  void SetEpoch(TenantId tenant, uint64_t epoch);
  uint64_t EpochOf(TenantId tenant) const;

  /// Unauthenticated, saying why, when `grant` is of a capability that was revoked.
  Status Check(const Grant& grant) const;

 private:
  mutable base::Mutex mutex_;
  std::map<std::pair<CapabilityId, TenantId>, base::WallTime> revoked_ FB_GUARDED_BY(mutex_);
  std::map<TenantId, size_t> counts_ FB_GUARDED_BY(mutex_);  // of revoked_
  std::map<TenantId, uint64_t> epochs_ FB_GUARDED_BY(mutex_);  // 0 when absent
};

/// All that a server asks of a capability that was shown to it: signed by a key of `ring`, unchanged, not expired, not
/// from the future, not revoked. What it allows; Unauthenticated otherwise. Possession is proved elsewhere.
Result<Grant> CheckCapability(const Capability& capability, const KeyRing& ring, const Revocations& revocations,
                              base::WallTime now);

}  // namespace forebay::auth
