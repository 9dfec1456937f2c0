// SPDX-License-Identifier: Apache-2.0
// Memory: hands out arena memory to readers and writers. The tier gives way: its blocks are evicted until the
// request fits. When all memory is in use by operations in progress, those that want some wait in the order
// in which they came. Only the first in line may hold a part of what it asked for, so operations that wait
// cannot block each other for ever. Thread-safe. Outlives the calls in progress.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/tier.h"
#include "rt/completion.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::engine {

class Memory {
 public:
  /// Both are borrowed.
  Memory(base::Arena& arena, Tier& tier) : arena_(arena), tier_(tier) {}

  /// A buffer of each of `sizes` (1 to Arena::kMaxAllocation), without suspending; nothing when memory is
  /// short.
  std::optional<std::vector<base::Buffer>> TryAllocate(const std::vector<size_t>& sizes);
  /// The same, but waits while memory is short. ResourceExhausted when the deadline came first, or at once
  /// when the arena is too small for it.
  rt::Task<Result<std::vector<base::Buffer>>> Allocate(rt::Reactor& reactor, base::TimePoint deadline,
                                                       std::vector<size_t> sizes);
  /// As AllocateUpTo, without suspending; nothing when memory is short.
  std::optional<base::Buffer> TryAllocateUpTo(size_t size);
  /// One buffer of at most `size` bytes, less when memory is scattered, but at least a page (or `size`).
  rt::Task<Result<base::Buffer>> AllocateUpTo(rt::Reactor& reactor, base::TimePoint deadline, size_t size);

  base::Arena& arena() { return arena_; }
  /// Operations that wait for memory now.
  size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  /// The right to wait for memory, held by one operation at a time.
  class Turn {
   public:
    explicit Turn(Memory& memory) : memory_(memory) {}
    ~Turn() { memory_.EndTurn(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Memory& memory_;
  };

  std::optional<base::Buffer> TryOne(size_t size);
  rt::Task<Result<base::Buffer>> WaitForOne(rt::Reactor& reactor, base::TimePoint deadline, size_t size);
  /// False when the deadline came first; otherwise the caller makes a Turn.
  rt::Task<bool> BeginTurn(rt::Reactor& reactor, base::TimePoint deadline);
  void EndTurn() FB_EXCLUDES(mutex_);
  void Leave();
  Status TooLate() const;

  base::Arena& arena_;
  Tier& tier_;
  std::atomic<size_t> waiting_{0};  // with the one whose turn it is
  base::Mutex mutex_;
  bool taken_ FB_GUARDED_BY(mutex_) = false;
  std::deque<rt::Completion<bool>*> queue_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::engine
