// SPDX-License-Identifier: Apache-2.0
#include "store/quota.h"

#include <algorithm>

#include "base/limits.h"

namespace forebay::store {
namespace {

uint64_t Sum(uint64_t count, int64_t change) {
  if (change < 0) {
    const uint64_t less = -static_cast<uint64_t>(change);
    return less <= count ? count - less : 0;
  }
  return count + std::min(static_cast<uint64_t>(change), kMaxUsage - std::min(count, kMaxUsage));
}

/// Whether a change may not be, with 0 for no limit.
bool Exceeds(uint64_t used, int64_t change, uint64_t limit) {
  if (limit == 0 || change <= 0) return false;
  return used > limit || static_cast<uint64_t>(change) > limit - used;
}

uint64_t Number(TenantId tenant) { return static_cast<uint64_t>(tenant); }

}  // namespace

Status CheckQuota(TenantId tenant, const TenantUsage& usage, const UsageChange& change) {
  const Quota& quota = usage.quota;
  if (Exceeds(usage.bytes, change.bytes, quota.max_bytes))
    return Status::ResourceExhausted(
        "tenant {} may store {} bytes, stores {} and would store {} more: delete objects, or allow more "
        "with: "
        "forebay tenant set {} --max-bytes BYTES",
        Number(tenant), quota.max_bytes, usage.bytes, change.bytes, Number(tenant));
  if (Exceeds(usage.objects, change.objects, quota.max_objects))
    return Status::ResourceExhausted(
        "tenant {} may store {} objects and stores {}: delete some, or allow more with: forebay tenant set "
        "{} "
        "--max-objects COUNT",
        Number(tenant), quota.max_objects, usage.objects, Number(tenant));
  return {};
}

void AddUsage(const UsageChange& change, TenantUsage* usage) {
  usage->objects = Sum(usage->objects, change.objects);
  usage->bytes = Sum(usage->bytes, change.bytes);
  usage->buckets = Sum(usage->buckets, change.buckets);
}

Status TooManyTenants() {
  return Status::ResourceExhausted("there are {} tenants already, which is the limit: delete some first",
                                   base::kMaxTenants);
}

Status CheckMayAskUsage(const Context& context, TenantId tenant) {
  if (context.tenant == TenantId::kRoot || context.tenant == TenantId::kSystem || context.tenant == tenant)
    return {};
  return Status::PermissionDenied("tenant {} may not see what tenant {} uses: ask as root",
                                  Number(context.tenant), Number(tenant));
}

Status CheckSetQuota(const Context& context, TenantId tenant, const Quota& quota) {
  if (context.tenant != TenantId::kRoot && context.tenant != TenantId::kSystem)
    return Status::PermissionDenied("tenant {} may not set quotas: ask as root", Number(context.tenant));
  if (tenant == TenantId::kNone || tenant == TenantId::kSystem)
    return Status::InvalidArgument("tenant {} has no quota: name a tenant that exists", Number(tenant));
  if (std::max(quota.max_bytes, quota.max_objects) > kMaxUsage)
    return Status::InvalidArgument("a quota of {} bytes and {} objects: neither may pass {}; 0 is no limit",
                                   quota.max_bytes, quota.max_objects, kMaxUsage);
  return {};
}

}  // namespace forebay::store
