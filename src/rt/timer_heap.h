// SPDX-License-Identifier: Apache-2.0
// TimerHeap: the pending timers of one reactor, earliest first and in order of arming where two are equal. Nodes are
// intrusive and live in awaiting frames or in Timer objects; arming and cancelling cost O(log n) and, once the heap has
// reached its size, no allocation.
// Reactor-local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace forebay::rt {

using base::Duration;
using base::kNever;
using base::TimePoint;

struct TimerNode {
  using Function = void (*)(TimerNode&);

  explicit TimerNode(Function function) : fire(function) {}
  TimerNode(const TimerNode&) = delete;
  TimerNode& operator=(const TimerNode&) = delete;

  bool armed() const { return index != kNotArmed; }

  static constexpr size_t kNotArmed = SIZE_MAX;
  Function fire;  ///< called unarmed; may destroy or arm the node
  TimePoint when{};
  uint64_t order = 0;
  size_t index = kNotArmed;
};

class TimerHeap {
 public:
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  /// When the next one is due; kNever when there is none.
  TimePoint next() const { return heap_.empty() ? kNever : heap_.front()->when; }

  /// The node must not be armed. It stays where it is until it fired or was cancelled.
  void Arm(TimerNode& node, TimePoint when);
  /// Nothing happens to a node that is not armed.
  void Cancel(TimerNode& node);
  /// Fires what is due at `now`, except what the fired ones arm: that is for the next call. Returns how many.
  size_t FireDue(TimePoint now);

 private:
  static bool Before(const TimerNode& a, const TimerNode& b) {
    return a.when != b.when ? a.when < b.when : a.order < b.order;
  }
  void Place(size_t index, TimerNode& node);
  void SiftUp(size_t index, TimerNode& node);
  void SiftDown(size_t index, TimerNode& node);
  void RemoveAt(size_t index);

  std::vector<TimerNode*> heap_;
  uint64_t next_order_ = 0;
};

}  // namespace forebay::rt
