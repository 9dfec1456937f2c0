// SPDX-License-Identifier: Apache-2.0
#include "engine/cache_order.h"

#include <string>

#include "engine/rows.h"

namespace forebay::engine {

using meta::Family;

namespace {
/// No version is below.
constexpr uint64_t kFirst = 1;
}  // namespace

void OrderWalk::Offer(uint64_t bucket, uint64_t version) {
  if (at_.try_emplace(bucket, version).second) heads_.emplace(version, bucket);
}

void OrderWalk::Remove(uint64_t bucket) {
  const auto at = at_.find(bucket);
  if (at == at_.end()) return;
  heads_.erase({at->second, bucket});
  at_.erase(at);
}

Result<std::optional<CachedObject>> OrderWalk::Next(meta::View& view) {
  while (!heads_.empty()) {
    const auto [version, bucket] = *heads_.begin();
    FB_ASSIGN(const auto row, view.First(Family::kSystem, EncodeOrderKey({bucket, version}), PrefixEnd(OrderPrefix(bucket))));
    Remove(bucket);
    if (!row) {
      if (version == kFirst) empty_.push_back(bucket);
      continue;
    }
    FB_ASSIGN(const CachedName name, DecodeOrderKey(row->first));
    // Another bucket may have an older one. No two have the same version, so a head that is equal is of a later one.
    const bool is_oldest = heads_.empty() || name.version <= heads_.begin()->first;
    Offer(bucket, is_oldest ? name.version + 1 : name.version);
    if (!is_oldest) continue;
    FB_ASSIGN(OrderRecord record, DecodeOrder(row->first, row->second));
    return std::optional(CachedObject{.name = name, .record = std::move(record)});
  }
  return std::optional<CachedObject>();
}

void CacheOrder::AddBucket(uint64_t bucket, TenantId owner) {
  buckets_.emplace(bucket, owner);
  occupied_.insert(bucket);
  hand_.Offer(bucket, kFirst);
  has_buckets_.store(true, std::memory_order_relaxed);
}

void CacheOrder::RemoveBucket(uint64_t bucket) {
  buckets_.erase(bucket);
  occupied_.erase(bucket);
  hand_.Remove(bucket);
  has_buckets_.store(!buckets_.empty(), std::memory_order_relaxed);
}

void CacheOrder::Add(meta::Batch& batch, const CachedName& name, const OrderRecord& record) {
  const std::string key = EncodeOrderKey(name);
  batch.Put(Family::kSystem, key, EncodeOrder(key, record));
  occupied_.insert(name.bucket);
  hand_.Offer(name.bucket, name.version);
}

void CacheOrder::Remove(meta::Batch& batch, const CachedName& name) {
  batch.Delete(Family::kSystem, EncodeOrderKey(name));
}

Result<std::optional<CachedObject>> CacheOrder::Next(meta::View& view) {
  Result<std::optional<CachedObject>> next = hand_.Next(view);
  for (const uint64_t bucket : hand_.TakeEmpty()) occupied_.erase(bucket);
  FB_TRY(next.status());
  if (!*next) {
    ++rounds_;
    for (const uint64_t bucket : occupied_) hand_.Offer(bucket, kFirst);
  }
  return next;
}

OrderWalk CacheOrder::WalkOf(TenantId owner) const {
  OrderWalk walk;
  for (const auto& [bucket, bucket_owner] : buckets_)
    if (bucket_owner == owner && occupied_.contains(bucket)) walk.Offer(bucket, kFirst);
  return walk;
}

}  // namespace forebay::engine
