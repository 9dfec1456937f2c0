// SPDX-License-Identifier: Apache-2.0
// BucketTable: all buckets, in memory; the only place that lookups are answered from. Changed by transactions
// when they are durable. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/rows.h"
#include "store/cache_class.h"
#include "store/tenancy.h"

namespace forebay::engine {

class BucketTable {
 public:
  void Add(BucketRecord bucket) {
    base::MutexLock lock(mutex_);
    std::string name = bucket.info.name;
    if (store::IsCache(bucket.info)) caches_.insert_or_assign(bucket.id, Cache{bucket.info.ttl, bucket.info.owner});
    has_ttl_.store(std::ranges::any_of(caches_, [](const auto& cache) { return cache.second.ttl.count() != 0; }),
                   std::memory_order_relaxed);
    buckets_.insert_or_assign(std::move(name), std::move(bucket));
  }
  void Remove(const std::string& name) {
    base::MutexLock lock(mutex_);
    const auto found = buckets_.find(name);
    if (found == buckets_.end()) return;
    caches_.erase(found->second.id);
    buckets_.erase(found);
  }
  /// As `tenant` sees it.
  std::optional<BucketRecord> Find(TenantId tenant, std::string_view name) const {
    base::MutexLock lock(mutex_);
    const auto found = buckets_.find(name);
    if (found == buckets_.end() || !store::Sees(tenant, found->second.info.owner)) return std::nullopt;
    return found->second;
  }
  /// Only the number: what each request needs. 0 when there is no such bucket for `tenant`.
  uint64_t IdOf(TenantId tenant, std::string_view name) const {
    base::MutexLock lock(mutex_);
    const auto found = buckets_.find(name);
    const bool is_there = found != buckets_.end() && store::Sees(tenant, found->second.info.owner);
    return is_there ? found->second.id : 0;
  }
  /// kNone when there is no such bucket.
  TenantId OwnerOf(std::string_view name) const {
    base::MutexLock lock(mutex_);
    const auto found = buckets_.find(name);
    return found == buckets_.end() ? TenantId::kNone : found->second.info.owner;
  }
  store::Versioning VersioningOf(std::string_view name) const {
    base::MutexLock lock(mutex_);
    const auto found = buckets_.find(name);
    return found == buckets_.end() ? store::Versioning::kOff : found->second.info.versioning;
  }
  /// Of cache buckets, by their numbers.
  bool IsCache(uint64_t id) const {
    base::MutexLock lock(mutex_);
    return caches_.contains(id);
  }
  /// 0: nothing in it expires.
  std::chrono::milliseconds TtlOf(uint64_t id) const {
    if (!has_ttl()) return {};
    base::MutexLock lock(mutex_);
    const auto found = caches_.find(id);
    return found == caches_.end() ? std::chrono::milliseconds() : found->second.ttl;
  }
  bool has_ttl() const { return has_ttl_.load(std::memory_order_relaxed); }
  /// At most `most` buckets with a ttl, from the number `from` on.
  std::vector<std::pair<uint64_t, std::chrono::milliseconds>> WithTtl(uint64_t from, size_t most) const {
    std::vector<std::pair<uint64_t, std::chrono::milliseconds>> found;
    base::MutexLock lock(mutex_);
    for (auto cache = caches_.lower_bound(from); cache != caches_.end() && found.size() < most; ++cache)
      if (cache->second.ttl.count() != 0) found.emplace_back(cache->first, cache->second.ttl);
    return found;
  }
  /// Of all cache buckets, with their owners.
  std::vector<std::pair<uint64_t, TenantId>> Caches() const {
    std::vector<std::pair<uint64_t, TenantId>> found;
    base::MutexLock lock(mutex_);
    found.reserve(caches_.size());
    for (const auto& [id, cache] : caches_) found.emplace_back(id, cache.owner);
    return found;
  }
  /// Those that `tenant` is shown, ascending by name.
  std::vector<store::BucketInfo> List(TenantId tenant) const {
    base::MutexLock lock(mutex_);
    std::vector<store::BucketInfo> infos;
    for (const auto& [name, bucket] : buckets_)
      if (store::IsListed(tenant, bucket.info.owner)) infos.push_back(bucket.info);
    return infos;
  }
  /// Those that count towards kMaxBuckets.
  size_t size() const {
    base::MutexLock lock(mutex_);
    return buckets_.size() - buckets_.count(store::kSystemBucket);
  }

 private:
  struct Cache {
    std::chrono::milliseconds ttl{};
    TenantId owner = TenantId::kNone;
  };

  mutable base::Mutex mutex_;
  std::map<uint64_t, Cache> caches_ FB_GUARDED_BY(mutex_);  // those of their class
  std::atomic<bool> has_ttl_{false};                        // one of them: nearly no lookup has to take the lock
  std::map<std::string, BucketRecord, std::less<>> buckets_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::engine
