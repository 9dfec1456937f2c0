// SPDX-License-Identifier: Apache-2.0
// The parts of a repair about what is counted: results of operations, tenants, numbers; and the scrub's row.
#include <algorithm>

#include "engine/repair_planner.h"
#include "engine/scrub_row.h"

namespace forebay::engine {

Status RepairPlanner::PlanOperations() {
  FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kSystem, kOperationsKey));
  const Result<OperationsState> state = row ? DecodeOperations(*row) : Result<OperationsState>(OperationsState{});
  OperationsState right = state.ok() ? *state : OperationsState{.clock_ms = options_.now_ms};
  right.count = 0;
  if (!state.ok()) {
    Act("the row about the results of operations is written anew: no id from before this moment is acted on any more");
    plan_.lost.push_back({Family::kSystem, std::string(kOperationsKey), *row, "about the results of operations"});
    right.floor_ms = right.clock_ms;
  }
  FB_TRY(ForEach(Family::kSystem, kOperationPrefix, PrefixEnd(kOperationPrefix),
                 [&](std::string_view key, std::string_view value) -> Status {
                   const Result<OperationKey> name = DecodeOperationKey(key);
                   const Result<store::OperationRecord> record = DecodeOperation(key, value);
                   if (name.ok() && record.ok()) {
                     ++right.count;
                     return {};
                   }
                   // What it was the result of took place, or not: a repetition must not act.
                   if (name.ok()) right.floor_ms = std::max(right.floor_ms, name->id.unix_ms());
                   Act("the result of an operation is moved aside: {}",
                       name.ok() ? record.status().message() : name.status().message());
                   Remove(RepairPlan::kRemove, Family::kSystem, key, value, "the result of an operation");
                   return {};
                 }));
  if (state.ok() && right == *state) return {};
  if (state.ok() && right.count != state->count)
    Act("{} results of operations are kept, and {} counted: that is corrected", right.count, state->count);
  Put(RepairPlan::kRelease, Family::kSystem, kOperationsKey, EncodeOperations(right));
  return {};
}

Status RepairPlanner::PlanTenants() {
  TenantUsages accounts;
  bool any = false;
  FB_TRY(ForEach(Family::kSystem, kTenantPrefix, PrefixEnd(kTenantPrefix),
                 [&](std::string_view key, std::string_view value) -> Status {
                   any = true;
                   const Result<TenantId> tenant = DecodeTenantKey(key);
                   const Result<store::TenantUsage> account = DecodeTenant(key, value);
                   if (tenant.ok() && account.ok()) {
                     accounts[*tenant] = *account;
                     return {};
                   }
                   Act("the account of a tenant is counted anew, and its quota is gone: set it again: {}",
                       tenant.ok() ? account.status().message() : tenant.status().message());
                   Remove(RepairPlan::kRemove, Family::kSystem, key, value, "the account of a tenant");
                   return {};
                 }));
  if (!any) return {};  // from before there were accounts: the next start counts
  usages_.try_emplace(TenantId::kRoot);
  for (const auto& [tenant, account] : accounts) usages_.try_emplace(tenant);
  for (auto& [tenant, counted] : usages_) {
    const auto account = accounts.find(tenant);
    if (account != accounts.end()) counted.quota = account->second.quota;
    const bool right = account == accounts.end() ? counted == store::TenantUsage{} && tenant != TenantId::kRoot
                                                 : counted == account->second;
    if (right) continue;
    Act("the account of tenant {} becomes {} objects of {} bytes in {} buckets", static_cast<uint64_t>(tenant),
        counted.objects, counted.bytes, counted.buckets);
    const std::string key = TenantKey(tenant);
    Put(RepairPlan::kRelease, Family::kSystem, key, EncodeTenant(key, counted));
  }
  return {};
}

Status RepairPlanner::PlanScrub() {
  FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kSystem, kScrubKey));
  if (!row) return {};
  const Result<ScrubState> state = DecodeScrub(*row);
  if (state.ok()) return {};
  Act("the row of the scrub is moved aside: {}", state.status().message());
  Remove(RepairPlan::kRemove, Family::kSystem, kScrubKey, *row, "the scrub");
  return {};
}

Status RepairPlanner::PlanCounters() {
  const Counters fresh;
  if (counters_ == counters_row_.value_or(fresh)) return {};
  Act("the next numbers become extent {}, version {}, bucket {}", counters_.next_extent, counters_.next_version,
      counters_.next_bucket);
  Put(RepairPlan::kReserve, Family::kSystem, kCountersKey, EncodeCounters(counters_));
  return {};
}

}  // namespace forebay::engine
