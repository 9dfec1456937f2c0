// SPDX-License-Identifier: Apache-2.0
// Of RepairPlanner: the rows of cache buckets: their order, pins, and what caches have of the devices.
#include <algorithm>

#include "engine/repair_planner.h"

namespace forebay::engine {

Status RepairPlanner::PlanCaches() {
  std::map<CachedName, OrderRecord> missing = cached_;
  FB_TRY(ForEach(Family::kSystem, kCacheOrderPrefix, PrefixEnd(kCacheOrderPrefix),
                 [&](std::string_view key, std::string_view value) -> Status {
                   const Result<CachedName> name = DecodeOrderKey(key);
                   const auto object = name.ok() ? cached_.find(*name) : cached_.end();
                   if (object == cached_.end()) {
                     Act("a row of a cache's order is moved aside: its object is not there");
                     Remove(RepairPlan::kRemove, Family::kSystem, key, value, "the order of a cache");
                     return {};
                   }
                   // One that is damaged is written again.
                   const Result<OrderRecord> record = DecodeOrder(key, value);
                   if (record.ok() && record->key == object->second.key) missing.erase(*name);
                   return {};
                 }));
  if (!missing.empty()) Act("{} objects of caches get their place in the order", missing.size());
  for (const auto& [name, record] : missing) {
    const std::string key = EncodeOrderKey(name);
    Put(RepairPlan::kRefer, Family::kSystem, key, EncodeOrder(key, record));
  }
  FB_TRY(ForEach(Family::kSystem, kCachePinPrefix, PrefixEnd(kCachePinPrefix),
                 [&](std::string_view key, std::string_view value) -> Status {
                   const Result<CachedName> name = DecodePinKey(key);
                   if (name.ok() && cached_.contains(*name) && DecodePin(key, value).ok()) return {};
                   Act("a pin is moved aside: it is damaged, or its object is not there");
                   Remove(RepairPlan::kRemove, Family::kSystem, key, value, "a pin");
                   return {};
                 }));

  uint64_t device_bytes = 0;
  for (const Extent& extent : extents_)
    if (extent.cache && extent.seen != 0) device_bytes += extent.run.length_bytes();
  FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kSystem, kCacheTotalsKey));
  const Result<CacheTotals> totals = row ? DecodeCacheTotals(*row) : CacheTotals{};
  if (totals.ok() && totals->device_bytes == device_bytes) return {};
  Act("caches are counted to have {} of the devices", base::FormatSize(device_bytes));
  const uint64_t clock_ms = totals.ok() ? totals->clock_ms : options_.now_ms;
  Put(RepairPlan::kRefer, Family::kSystem, kCacheTotalsKey,
      EncodeCacheTotals({.device_bytes = device_bytes, .clock_ms = clock_ms}));
  return {};
}

}  // namespace forebay::engine
