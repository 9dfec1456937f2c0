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
  std::optional<BucketRecord> Find(std::string_view name) const {
    base::MutexLock lock(mutex_);
    const auto found = buckets_.find(name);
    if (found == buckets_.end()) return std::nullopt;
    return found->second;
  }
  /// Only the number: what each request needs. 0 when there is no such bucket.
  uint64_t IdOf(std::string_view name) const {
    base::MutexLock lock(mutex_);
    const auto found = buckets_.find(name);
    return found == buckets_.end() ? 0 : found->second.id;
  }
  std::vector<BucketRecord> All() const {
    base::MutexLock lock(mutex_);
    std::vector<BucketRecord> all;
    all.reserve(buckets_.size());
    for (const auto& [name, bucket] : buckets_) all.push_back(bucket);
    return all;
  }
  size_t size() const {
    base::MutexLock lock(mutex_);
    return buckets_.size();
  }

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, BucketRecord, std::less<>> buckets_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::engine
