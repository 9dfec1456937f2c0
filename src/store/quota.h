// SPDX-License-Identifier: Apache-2.0
// Quotas, decided in one place for every backend under whatever makes its decision atomic with the change (a
// mutex, a metadata batch). Thread-safe: pure functions.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "store/object_store.h"

namespace forebay::store {

/// What a change adds to a tenant's usage, or takes from it.
struct UsageChange {
  int64_t objects = 0;
  int64_t bytes = 0;
  int64_t buckets = 0;

  /// A put of `new_bytes`; without what it replaces.
  static UsageChange Put(uint64_t new_bytes) {
    return {.objects = 1, .bytes = static_cast<int64_t>(new_bytes)};
  }
  /// One version goes.
  void Remove(uint64_t old_bytes) {
    objects -= 1;
    bytes -= static_cast<int64_t>(old_bytes);
  }
};

/// ResourceExhausted, with the way out, when the change would bring `tenant` above the quota in `usage`. What
/// makes the usage smaller, or leaves it, is never refused, also above the quota.
Status CheckQuota(TenantId tenant, const TenantUsage& usage, const UsageChange& change);

/// The largest number in a usage or a quota.
constexpr uint64_t kMaxUsage = INT64_MAX;

/// Adds the change. A number stays within 0 and kMaxUsage: at either end it was wrong before, which fsck
/// tells, and a delete is not refused for that.
void AddUsage(const UsageChange& change, TenantUsage* usage);

/// A tenant more than kMaxTenants.
Status TooManyTenants();

/// PermissionDenied unless the context's tenant is root, the system, or `tenant` itself.
Status CheckMayAskUsage(const Context& context, TenantId tenant);
/// PermissionDenied unless the context's tenant is root or the system; InvalidArgument when `tenant` cannot
/// have a quota, or none can be so large.
Status CheckSetQuota(const Context& context, TenantId tenant, const Quota& quota);

}  // namespace forebay::store
