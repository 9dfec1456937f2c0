// SPDX-License-Identifier: Apache-2.0
// GroupCommit: the engine's part in each group of transactions. It gives out numbers that are never used
// again, collects which units became used or free and writes their group rows with the batch, and makes data
// durable: witness written, then every device flushed that was written since. After a flush that failed
// nothing is written any more (health says why): what is on the media is known only after it was read again,
// by a restart. Thread-safe in health, flushes and cache_bytes; everything else belongs to the committer's thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "engine/allocator.h"
#include "engine/cache_rows.h"
#include "engine/devices.h"
#include "engine/superblock.h"
#include "engine/tenant_accounts.h"
#include "meta/meta_store.h"
#include "rt/reactor.h"

namespace forebay::engine {

class GroupCommit final : public meta::GroupHooks {
 public:
  /// Borrows `devices`, `clock` and `log`. `witness` is the highest one on the devices' witness device. Fails when io_uring is
  /// not to be had.
  static Result<std::unique_ptr<GroupCommit>> Create(Devices& devices, Uuid store, Witness witness,
                                                     const base::Clock& clock, base::Log& log);

  /// Before the first group: what the counters row says.
  void SetCounters(const Counters& counters) { counters_ = written_counters_ = counters; }
  /// The same of cache buckets.
  void SetCacheTotals(const CacheTotals& totals) {
    cache_totals_ = totals;
    cache_bytes_.store(totals.device_bytes, std::memory_order_relaxed);
  }

  // ---- for transactions, on the committer's thread ----

  uint64_t NextExtent() { return counters_.next_extent++; }
  uint64_t NextVersion() { return counters_.next_version++; }
  uint64_t NextBucket() { return counters_.next_bucket++; }
  /// Called by a Prepare that cannot fail any more.
  void MarkUsed(const UnitRun& run) { AddChange(run, true); }
  void MarkFree(const UnitRun& run) { AddChange(run, false); }
  /// What of this cache objects use, and the store's clock as of a change of them.
  void MarkCache(const UnitRun& run, bool used) {
    cache_totals_.device_bytes += used ? run.length_bytes() : -run.length_bytes();
    cache_changed_ = true;
  }
  void NoteCacheTime(uint64_t now_ms) {
    cache_totals_.clock_ms = std::max(cache_totals_.clock_ms, now_ms);
    cache_changed_ = true;
  }
  const base::Clock& clock() const { return clock_; }
  /// What tenants store; its rows go with each group.
  TenantAccounts& tenants() { return tenants_; }

  Status FinishGroup(meta::View& view, meta::Batch& batch, bool* durable) override;
  Status FlushData(uint64_t witness, bool data) override;

  /// From the next group on the witness is written to device `id` too, or, with `only`, to no other any more. The first
  /// group that is acknowledged then has it there.
  void PutWitnessOn(uint32_t id, bool only);

  /// Writes the witness once more and flushes it, from the caller's reactor: when a store is opened and when
  /// it is closed. No group is in progress.
  rt::Task<Status> WriteWitness(rt::Reactor& reactor, uint64_t commit);

  /// Why nothing can be written; ok while it can.
  Status health() const FB_EXCLUDES(mutex_);
  /// Of the devices, in extents of cache objects.
  uint64_t cache_bytes() const { return cache_bytes_.load(std::memory_order_relaxed); }
  uint64_t flushes() const { return flushes_.load(std::memory_order_relaxed); }

 private:
  struct Change {
    UnitRun run;
    bool used;
  };

  GroupCommit(Devices& devices, Uuid store, Witness witness, const base::Clock& clock, base::Log& log,
              std::unique_ptr<rt::Reactor> reactor)
      : devices_(devices),
        store_(store),
        witness_(witness),
        witness_device_(devices.witness_device()),
        second_witness_(devices.witness_device()),
        clock_(clock),
        log_(log),
        reactor_(std::move(reactor)) {}

  void AddChange(const UnitRun& run, bool used);
  void WriteCounters(meta::Batch& batch, bool* durable);
  rt::Task<Status> Flush(rt::Reactor& reactor, uint64_t witness);
  rt::Task<Status> WriteWitnessTo(rt::Reactor& reactor, uint32_t id, Witness next);
  rt::Task<Status> FlushDevice(rt::Reactor& reactor, uint32_t id);
  Status Fail(std::string_view what, const Status& status) FB_EXCLUDES(mutex_);

  Devices& devices_;
  const Uuid store_;
  Witness witness_;  // the last one written
  std::atomic<uint32_t> witness_device_;
  std::atomic<uint32_t> second_witness_;  // the same device, but for the time of a move
  const base::Clock& clock_;
  base::Log& log_;
  const std::unique_ptr<rt::Reactor> reactor_;  // of the committer's thread
  Counters counters_;
  Counters written_counters_;  // what the row says: at least counters_, once a group is written
  CacheTotals cache_totals_;
  bool cache_changed_ = false;
  std::atomic<uint64_t> cache_bytes_{0};
  TenantAccounts tenants_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Change>> changes_;  // by device and group
  std::atomic<uint64_t> flushes_{0};
  mutable base::Mutex mutex_;
  Status health_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::engine
