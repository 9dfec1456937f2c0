// SPDX-License-Identifier: Apache-2.0
// Pins: which objects of cache-class buckets may not be evicted and do not expire until a time. Their rows are few
// (store::kMaxPins for a tenant) and all in memory. What a Prepare changes counts at once, so that nothing of the same
// group evicts what is being pinned; a group that fails leaves the store read-only. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "engine/cache_rows.h"
#include "store/cache_class.h"

namespace forebay::engine {

class Pins {
 public:
  struct Pin {
    PinRecord record;
    TenantId owner = TenantId::kNone;  // of the bucket
  };

  void Set(const CachedName& name, const Pin& pin) {
    base::MutexLock lock(mutex_);
    pins_.insert_or_assign(name, pin);
    count_.store(pins_.size(), std::memory_order_relaxed);
  }
  std::optional<Pin> Take(const CachedName& name) {
    if (count_.load(std::memory_order_relaxed) == 0) return std::nullopt;
    base::MutexLock lock(mutex_);
    const auto found = pins_.find(name);
    if (found == pins_.end()) return std::nullopt;
    const Pin pin = found->second;
    pins_.erase(found);
    count_.store(pins_.size(), std::memory_order_relaxed);
    return pin;
  }
  bool Holds(const CachedName& name, uint64_t now_ms) const {
    if (count_.load(std::memory_order_relaxed) == 0) return false;
    base::MutexLock lock(mutex_);
    const auto found = pins_.find(name);
    return found != pins_.end() && found->second.record.until_ms > now_ms;
  }
  /// Some that have ended, to delete their rows.
  std::vector<CachedName> TakeEnded(uint64_t now_ms, size_t most);
  /// Of what holds.
  store::PinnedUsage Of(TenantId owner, uint64_t now_ms) const;

 private:
  mutable base::Mutex mutex_;
  std::map<CachedName, Pin> pins_ FB_GUARDED_BY(mutex_);
  std::atomic<size_t> count_{0};  // of all: nearly no request has to take the lock
};

}  // namespace forebay::engine
