// SPDX-License-Identifier: Apache-2.0
// Core: the parts of an engine, as its readers, writers and transactions see them. Owned by Engine.
// Thread-safe: each part is.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/log.h"
#include "engine/allocator.h"
#include "engine/buckets.h"
#include "engine/cache_order.h"
#include "engine/devices.h"
#include "engine/epochs.h"
#include "engine/flights.h"
#include "engine/freed_space.h"
#include "engine/gates.h"
#include "engine/group_commit.h"
#include "engine/memory.h"
#include "engine/object_cache.h"
#include "engine/operations.h"
#include "engine/pins.h"
#include "engine/tier.h"
#include "meta/meta_store.h"
#include "rt/thread_pool.h"
#include "store/object_store.h"

namespace forebay::engine {

struct EngineOptions {
  uint64_t object_cache_bytes = 64 * base::kMiB;
  uint64_t tier_bytes = UINT64_MAX;  // of the arena, which is the other limit; 0: no tier
  size_t lookup_threads = 4;         // for metadata that is not cached
  uint64_t max_operations = base::kMaxOperations;  // whose results are kept; more are refused
  // Of the devices, in percent: with less than the first free, cache objects are evicted until the second is.
  uint32_t evict_below_percent = 5;
  uint32_t evict_until_percent = 8;
};

/// What became of objects of cache buckets.
struct CacheCounts {
  std::atomic<uint64_t> evicted{0};
  std::atomic<uint64_t> evicted_bytes{0};
  std::atomic<uint64_t> expired{0};
  std::atomic<uint64_t> gone{0};  // their content did not last
};

struct Core {
  Core(Devices& data_devices, base::Arena& arena, std::span<const Allocator::DeviceSpace> spaces,
       const EngineOptions& options, const base::Clock& engine_clock, base::Log& engine_log)
      : devices(data_devices),
        clock(engine_clock),
        log(engine_log),
        tier(options.tier_bytes),
        memory(arena, tier),
        cache(options.object_cache_bytes),
        allocator(spaces),
        epochs([this](const UnitRun& run) {
          allocator.Release(run);
          freed.Notify();
        }),
        operations(engine_clock, options.max_operations),
        lookup_threads(options.lookup_threads),
        evict_below_percent(options.evict_below_percent),
        evict_until_percent(options.evict_until_percent) {}

  /// Why nothing can be written; ok while it can.
  Status health() const {
    const Status status = commits->health();
    return status.ok() ? meta->health() : status;
  }

  /// With less free than the first, caches are evicted until the second is.
  uint64_t evict_below_bytes() const { return allocator.capacity_bytes() / 100 * evict_below_percent; }
  uint64_t evict_until_bytes() const { return allocator.capacity_bytes() / 100 * evict_until_percent; }

  /// Whether an object of a cache bucket has expired: to every call it is not there.
  bool IsExpired(uint64_t bucket, uint64_t version, base::WallTime modified) const {
    const std::chrono::milliseconds ttl = buckets.TtlOf(bucket);
    if (ttl.count() == 0) return false;
    const uint64_t now_ms = operations.NowMs();
    return store::IsExpired(modified, ttl, now_ms) && !pins.Holds({bucket, version}, now_ms);
  }

  Devices& devices;
  const base::Clock& clock;
  base::Log& log;
  Uuid store;
  Tier tier;
  Memory memory;
  base::Buffer zeros;  // of what nobody wrote; set before the first read
  Flights flights;
  ObjectCache cache;
  BucketTable buckets;
  Allocator allocator;
  FreedSpace freed;
  EpochSet epochs;
  Operations operations;
  CacheOrder order;
  Pins pins;
  CacheCounts cache_counts;
  std::atomic<bool> evicting{false};  // in the background
  std::atomic<uint64_t> next_expiry_ms{0};  // when expired objects are looked for again
  uint64_t next_expiry_bucket = 0;          // where; of the committer's thread
  Gates gates;
  std::atomic<uint64_t> tier_hits{0};  // blocks
  std::atomic<uint64_t> tier_misses{0};
  std::atomic<uint64_t> damaged_blocks{0};
  std::atomic<uint64_t> repaired_blocks{0};  // copies of blocks that were wrong, and written again
  const size_t lookup_threads;
  const uint64_t evict_below_percent;  // free of the devices, as they are then
  const uint64_t evict_until_percent;
  // In the order in which they need each other: the committer's thread ends before its hooks, the pool before
  // the store.
  std::unique_ptr<GroupCommit> commits;
  std::unique_ptr<meta::MetaStore> meta;
  std::unique_ptr<rt::ThreadPool> pool;
};

/// Commits and waits until the context's deadline: DeadlineExceeded, and the outcome is not known, when that
/// came first.
rt::Task<Status> Commit(Core& core, const store::Context& context,
                        std::unique_ptr<meta::Transaction> transaction);

Status CommitIsLate();

/// On `reactor`: starts to zero a group ahead of the small writes, when one is due.
void ZeroAhead(Core& core, rt::Reactor& reactor);

}  // namespace forebay::engine
