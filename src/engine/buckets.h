// SPDX-License-Identifier: Apache-2.0
// BucketTable: all buckets, in memory; the only place that lookups are answered from. Changed by transactions
// when they are durable. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "engine/rows.h"
#include "store/tenancy.h"

namespace forebay::engine {

class BucketTable {
 public:
  void Add(BucketRecord bucket) {
    base::MutexLock lock(mutex_);
    std::string name = bucket.info.name;
    buckets_.insert_or_assign(std::move(name), std::move(bucket));
  }
  void Remove(const std::string& name) {
    base::MutexLock lock(mutex_);
    buckets_.erase(name);
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
  mutable base::Mutex mutex_;
  std::map<std::string, BucketRecord, std::less<>> buckets_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::engine
