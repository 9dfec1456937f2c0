// SPDX-License-Identifier: Apache-2.0
// Flights: which blocks are on their way from a device, so that many readers who want the same cold block
// cost one read. Whoever claims a block has the memory for it already and lands it whatever happens; whoever
// finds it claimed joins. Thread-safe. Outlives the calls in progress.
#pragma once

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "engine/tier.h"
#include "rt/completion.h"
#include "rt/reactor.h"
#include "rt/task.h"
#include "rt/timer.h"

namespace forebay::engine {

class Flights {
 public:
  /// True: the caller reads the block and calls Land, without waiting for another flight before.
  bool Claim(const BlockKey& key) {
    Shard& shard = ShardOf(key);
    base::MutexLock lock(shard.mutex);
    return shard.flights.try_emplace(key).second;
  }

  /// Ends a flight; `block` is the verified content, empty after a failure.
  void Land(const BlockKey& key, const base::Buffer& block) {
    Waiters waiters;
    {
      Shard& shard = ShardOf(key);
      base::MutexLock lock(shard.mutex);
      const auto found = shard.flights.find(key);
      waiters = std::move(found->second);
      shard.flights.erase(found);
    }
    for (rt::Completion<base::Buffer>* waiter : waiters) waiter->Fulfil(block);
  }

  /// The block once it landed; empty when it failed, when it is not in flight (any more), or when the
  /// deadline came first.
  rt::Task<base::Buffer> Join(rt::Reactor& reactor, base::TimePoint deadline, BlockKey key) {
    rt::Completion<base::Buffer> mine(reactor);
    Shard& shard = ShardOf(key);
    {
      base::MutexLock lock(shard.mutex);
      const auto found = shard.flights.find(key);
      if (found == shard.flights.end()) co_return base::Buffer();
      found->second.push_back(&mine);
    }
    rt::Timer timer(reactor);
    if (deadline != base::kNever) {
      timer.Arm(deadline, [&] {
        if (Leave(shard, key, &mine)) mine.Fulfil(base::Buffer());
      });
    }
    base::Buffer block = co_await mine.Wait();
    timer.Cancel();
    co_return block;
  }

 private:
  static constexpr size_t kShards = 16;
  using Waiters = std::vector<rt::Completion<base::Buffer>*>;

  struct Shard {
    base::Mutex mutex;
    std::unordered_map<BlockKey, Waiters, BlockKeyHash> flights FB_GUARDED_BY(mutex);
  };

  Shard& ShardOf(const BlockKey& key) { return shards_[(BlockKeyHash()(key) >> 33) % kShards]; }

  /// False when it has been, or is about to be, fulfilled.
  static bool Leave(Shard& shard, const BlockKey& key, rt::Completion<base::Buffer>* waiter) {
    base::MutexLock lock(shard.mutex);
    const auto found = shard.flights.find(key);
    return found != shard.flights.end() && std::erase(found->second, waiter) != 0;
  }

  std::array<Shard, kShards> shards_;
};

}  // namespace forebay::engine
