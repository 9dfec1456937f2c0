// SPDX-License-Identifier: Apache-2.0
// EpochSet: decides when space that a commit freed may be written again. A reader enters before it looks an
// object up and leaves when it is closed; what was retired is handed to the reclaim function once every
// reader that was in at that moment has left. Readers that never leave keep everything retired later from
// being used again: reads have deadlines. Entering and leaving take no lock. Thread-safe. Outlives its guards
// (checked).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/allocator.h"

namespace forebay::engine {

class EpochSet {
 public:
  /// One reader's visit. Leaves when destroyed.
  class Guard {
   public:
    Guard(Guard&& other) noexcept : set_(std::exchange(other.set_, nullptr)), place_(other.place_) {}
    Guard& operator=(Guard&& other) noexcept {
      std::swap(set_, other.set_);
      std::swap(place_, other.place_);
      return *this;
    }
    ~Guard() {
      if (set_ != nullptr) set_->Leave(place_);
    }

   private:
    friend class EpochSet;
    Guard(EpochSet* set, size_t place) : set_(set), place_(place) {}
    EpochSet* set_;  // borrowed from the engine
    size_t place_;
  };

  /// `reclaim` is called on whatever thread finds out, under this set's lock: it takes no lock that is held
  /// around a call to this set.
  explicit EpochSet(std::function<void(const UnitRun&)> reclaim) : reclaim_(std::move(reclaim)) {}
  ~EpochSet();
  EpochSet(const EpochSet&) = delete;
  EpochSet& operator=(const EpochSet&) = delete;

  Guard Enter();
  /// Takes over runs that no reader entering from now on can find.
  void Retire(std::vector<UnitRun> runs) FB_EXCLUDES(mutex_);
  /// Reclaims what can be, some at a time: others get in between.
  void Collect() FB_EXCLUDES(mutex_);
  /// Runs that wait for readers.
  size_t retired() const { return retired_count_.load(std::memory_order_relaxed); }
  uint64_t retired_bytes() const { return retired_bytes_.load(std::memory_order_relaxed); }

 private:
  // Two generations of readers are told apart, the classic scheme: the epoch moves on from e to e + 1 only
  // when nobody is left from e - 1. Each thread counts in a stripe of its own.
  static constexpr size_t kStripes = 16;
  struct alignas(64) Count {
    std::atomic<int64_t> readers{0};
  };
  struct Retired {
    uint64_t epoch;
    std::deque<UnitRun> runs;  // of all changes of this epoch, which is long while somebody stays
  };
  /// Reclaimed under one lock, so that nobody waits long when a reader leaves who held much.
  static constexpr size_t kBatch = 1024;

  void Leave(size_t place) FB_EXCLUDES(mutex_);
  bool Empty(uint64_t epoch) const;
  /// At most `most` runs; gives how many.
  size_t CollectSome(size_t most) FB_REQUIRES(mutex_);

  const std::function<void(const UnitRun&)> reclaim_;
  std::atomic<uint64_t> current_{2};
  std::array<Count, 2 * kStripes> counts_;
  std::atomic<size_t> retired_count_{0};
  std::atomic<uint64_t> retired_bytes_{0};
  base::Mutex mutex_;
  std::deque<Retired> retired_ FB_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace forebay::engine
