// SPDX-License-Identifier: Apache-2.0
// Accounts: what the tenants use of a tree, in memory, and their quotas, in a file of the sidecar. Counted when the tree
// is opened and kept along with each change of ours; what others change meanwhile shows at the next start.
// Thread-safe; SetQuota blocks.
#pragma once

#include <map>

#include "backend/records.h"
#include "base/mutex.h"
#include "base/status.h"
#include "store/object_store.h"
#include "store/quota.h"

namespace forebay::backend {

class Accounts {
 public:
  /// Reads the quotas; `sidecar` stays open as long as this.
  Status Load(int sidecar);
  /// Counts the change, or refuses it at the quota.
  Status Charge(TenantId tenant, const store::UsageChange& change);
  void Add(TenantId tenant, const store::UsageChange& change);
  /// What was charged did not take place.
  void TakeBack(TenantId tenant, const store::UsageChange& change);
  Status Check(TenantId tenant, const store::UsageChange& change) const;
  Status SetQuota(TenantId tenant, const store::Quota& quota);
  store::TenantUsage Of(TenantId tenant) const;
  /// Of all tenants but the system.
  store::TenantUsage Total() const;

 private:
  int sidecar_ = -1;  // borrowed
  mutable base::Mutex mutex_;
  base::Mutex writing_;
  std::map<TenantId, store::TenantUsage> tenants_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::backend
