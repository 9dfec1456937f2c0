// SPDX-License-Identifier: Apache-2.0
#include "backend/accounts.h"

#include "backend/files.h"
#include "base/limits.h"

namespace forebay::backend {
namespace {

constexpr const char* kName = "quotas";
constexpr size_t kMaxBytes = base::kMaxTenants * 32;

}  // namespace

Status Accounts::Load(int sidecar) {
  sidecar_ = sidecar;
  FB_ASSIGN(const std::optional<std::string> bytes, ReadSmallFile(sidecar_, kName, kMaxBytes));
  if (!bytes) return {};
  FB_ASSIGN(const Quotas quotas, DecodeQuotas(*bytes));
  const base::MutexLock lock(mutex_);
  for (const auto& [tenant, quota] : quotas) tenants_[tenant].quota = quota;
  return {};
}

Status Accounts::Charge(TenantId tenant, const store::UsageChange& change) {
  const base::MutexLock lock(mutex_);
  store::TenantUsage& usage = tenants_[tenant];
  FB_TRY(store::CheckQuota(tenant, usage, change));
  store::AddUsage(change, &usage);
  return {};
}

void Accounts::Add(TenantId tenant, const store::UsageChange& change) {
  const base::MutexLock lock(mutex_);
  store::AddUsage(change, &tenants_[tenant]);
}

void Accounts::TakeBack(TenantId tenant, const store::UsageChange& change) {
  Add(tenant, {.objects = -change.objects, .bytes = -change.bytes, .buckets = -change.buckets});
}

Status Accounts::Check(TenantId tenant, const store::UsageChange& change) const {
  return store::CheckQuota(tenant, Of(tenant), change);
}

Status Accounts::SetQuota(TenantId tenant, const store::Quota& quota) {
  const base::MutexLock one_after_the_other(writing_);
  Quotas quotas;
  {
    const base::MutexLock lock(mutex_);
    if (quota == store::Quota() && !tenants_.contains(tenant)) return {};
    if (!tenants_.contains(tenant) && tenants_.size() >= base::kMaxTenants) return store::TooManyTenants();
    for (const auto& [id, usage] : tenants_)
      if (usage.quota != store::Quota()) quotas[id] = usage.quota;
  }
  quotas[tenant] = quota;
  FB_TRY(WriteSmallFile(sidecar_, kName, Encode(quotas)));
  const base::MutexLock lock(mutex_);
  tenants_[tenant].quota = quota;
  return {};
}

store::TenantUsage Accounts::Of(TenantId tenant) const {
  const base::MutexLock lock(mutex_);
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? store::TenantUsage() : found->second;
}

store::TenantUsage Accounts::Total() const {
  const base::MutexLock lock(mutex_);
  store::TenantUsage total;
  for (const auto& [tenant, usage] : tenants_) {
    if (tenant == TenantId::kSystem) continue;
    total.objects += usage.objects;
    total.bytes += usage.bytes;
    total.buckets += usage.buckets;
  }
  return total;
}

}  // namespace forebay::backend
