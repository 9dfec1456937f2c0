// SPDX-License-Identifier: Apache-2.0
// TenantAccounts: what each tenant stores and may store, exact to the commit. The committer's thread counts
// in it while it prepares the members of a group, so that each is held to the quota with the earlier ones;
// the group's batch takes the rows that changed, so that a crash leaves both or neither; and what others see
// is a group's count once it is durable. A group that fails leaves the store read-only, so nothing is ever
// taken back. Of and OfAll are thread-safe; everything else belongs to the committer's thread, or to Open before there
// is a commit.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/status.h"
#include "meta/meta_store.h"
#include "store/object_store.h"
#include "store/quota.h"

namespace forebay::engine {

/// In Family::kSystem: the tenant's number follows, big-endian.
constexpr std::string_view kTenantPrefix = "engine/tenant/";

std::string TenantKey(TenantId tenant);
Result<TenantId> DecodeTenantKey(std::string_view row_key);
std::string EncodeTenant(std::string_view row_key, const store::TenantUsage& usage);
Result<store::TenantUsage> DecodeTenant(std::string_view row_key, std::string_view value);

using TenantUsages = std::map<TenantId, store::TenantUsage>;

/// All rows. DataLoss names the first that is damaged.
Result<TenantUsages> ReadTenants(meta::MetaStore& meta);
/// What the rows should say, from looking at every bucket and object; without quotas.
Result<TenantUsages> CountTenants(meta::MetaStore& meta);

class TenantAccounts {
 public:
  /// Reads the rows. A store that was made before there were any gets them counted, from one look at every
  /// object; the next group writes them.
  Status Load(meta::MetaStore& meta);
  /// Whether there are rows that no group has written.
  bool changed() const { return !changed_.empty(); }

  /// ResourceExhausted when the quota does not allow the change after all changes so far.
  Status Check(TenantId tenant, const store::UsageChange& change) const;
  /// Called by a Prepare that cannot fail any more.
  void Add(TenantId tenant, const store::UsageChange& change);
  /// ResourceExhausted when there are accounts for base::kMaxTenants tenants already.
  Status SetQuota(TenantId tenant, const store::Quota& quota);
  /// Puts the rows that changed into the group's batch.
  void WriteRows(meta::Batch& batch);

  /// For a Done: what the group made of this tenant's account is durable.
  void Publish(TenantId tenant);
  /// As of the last durable change.
  store::TenantUsage Of(TenantId tenant) const FB_EXCLUDES(mutex_);
  /// The same of all tenants together, without the system and without quotas.
  store::TenantUsage OfAll() const FB_EXCLUDES(mutex_);

 private:
  TenantUsages accounts_;  // with the changes of the group in progress
  std::set<TenantId> changed_;
  mutable base::Mutex mutex_;
  TenantUsages durable_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::engine
