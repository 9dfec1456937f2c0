// SPDX-License-Identifier: Apache-2.0
// CapabilityAuthority: issues, lists and revokes capabilities, and rotates the key that signs them. What it must not
// forget lies in the store's own records (docs/formats/capability.md); Load reads them at the start. A revocation is in force
// in memory before it is durable, and ends the sessions that it concerns. Thread-safe: called on any reactor. What it
// borrows outlives it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "auth/capability.h"
#include "auth/grant.h"
#include "auth/key_ring.h"
#include "auth/revocations.h"
#include "auth/session_table.h"
#include "auth/trusted_clock.h"
#include "base/random.h"
#include "base/status.h"
#include "rt/reactor.h"
#include "rt/task.h"
#include "rt/thread_pool.h"
#include "store/system_records.h"

namespace forebay::control {

/// Issued and not expired. What expired is forgotten when room is needed.
constexpr size_t kMaxIssuedCapabilities = 10'000;

struct IssueTerms {
  auth::PublicKey holder{};
  TenantId tenant = TenantId::kNone;
  std::string bucket{};
  std::string prefix{};
  auth::RightSet rights;
  base::Duration ttl{};
  auth::RateGrant rates{};
};

struct IssuedCapability {
  auth::CapabilityBlock block;
  bool revoked = false;
};

class CapabilityAuthority {
 public:
  struct Parts {
    auth::KeyRing& keys;
    auth::SessionTable& sessions;
    store::SystemRecords& records;
    auth::TrustedClock& clock;
    base::Random& random;
  };

  explicit CapabilityAuthority(Parts parts) : parts_(parts) {}

  /// Reads what earlier processes recorded. Before everything else.
  rt::Task<Status> Load(rt::Reactor& reactor);

  /// What `capability` allows here; Unauthenticated when it is not good.
  Result<auth::Grant> Check(const auth::Capability& capability) const;
  /// Unauthenticated when what `grant` came from has been revoked since, or has expired, or its key was dropped.
  Status CheckGrant(const auth::Grant& grant) const;
  const auth::KeyRing& keys() const { return parts_.keys; }

  /// PermissionDenied when `by` may not do itself what it hands out.
  rt::Task<Result<auth::Capability>> Issue(rt::Reactor& reactor, const auth::Grant& by, IssueTerms terms);
  /// Those of by's tenant, or all for the owner of the store; ascending by id.
  rt::Task<Result<std::vector<IssuedCapability>>> List(rt::Reactor& reactor, const auth::Grant& by);
  /// Gives the number of sessions that it ended. Unavailable or another error when the store could not record it:
  /// in force until the server restarts.
  rt::Task<Result<size_t>> Revoke(rt::Reactor& reactor, const auth::Grant& by, auth::CapabilityId id);
  struct RevokedTenant {
    uint64_t epoch = 0;
    size_t sessions_ended = 0;
  };
  rt::Task<Result<RevokedTenant>> RevokeTenant(rt::Reactor& reactor, const auth::Grant& by, TenantId tenant);
  /// Gives the number of sessions that it ended.
  rt::Task<Result<size_t>> RotateKey(rt::Reactor& reactor, bool drop_old);

  /// Makes the time of now survive a restart: called when a capability is issued, when it opens a session, and at a
  /// stop. Unless it is `now`, only when the last time was a minute ago.
  rt::Task<Status> RememberTime(rt::Reactor& reactor, bool now = false);

 private:
  size_t EndRevoked() {
    return parts_.sessions.Revoke([this](const auth::Grant& grant) { return !revocations_.Check(grant).ok(); });
  }
  rt::Task<Status> LoadRevocations(rt::Reactor& reactor);
  rt::Task<Status> LoadEpochs(rt::Reactor& reactor);
  rt::Task<Status> MakeRoom(rt::Reactor& reactor);
  rt::Task<Status> StoreEpoch(rt::Reactor& reactor, TenantId tenant);

  const Parts parts_;
  auth::Revocations revocations_;
  std::atomic<size_t> issued_{0};
  std::atomic<int64_t> remembered_ms_{0};
  rt::ThreadPool threads_{1, "fb-keys"};  // the key file is written there
};

}  // namespace forebay::control
