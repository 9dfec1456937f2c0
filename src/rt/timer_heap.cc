// SPDX-License-Identifier: Apache-2.0
#include "rt/timer_heap.h"

#include <algorithm>

#include "base/check.h"

namespace forebay::rt {

namespace {
constexpr size_t kArity = 4;  // shallower than a binary heap, and the children of a node share a cache line
}

void TimerHeap::Arm(TimerNode& node, TimePoint when) {
  FB_CHECK(!node.armed());
  node.when = when;
  node.order = next_order_++;
  heap_.push_back(&node);
  SiftUp(heap_.size() - 1, node);
}

void TimerHeap::Cancel(TimerNode& node) {
  if (node.armed()) RemoveAt(node.index);
}

size_t TimerHeap::FireDue(TimePoint now) {
  const uint64_t armed_before = next_order_;
  size_t fired = 0;
  while (!heap_.empty() && heap_.front()->when <= now && heap_.front()->order < armed_before) {
    TimerNode& node = *heap_.front();
    RemoveAt(0);
    ++fired;
    node.fire(node);
  }
  return fired;
}

void TimerHeap::Place(size_t index, TimerNode& node) {
  heap_[index] = &node;
  node.index = index;
}

void TimerHeap::SiftUp(size_t index, TimerNode& node) {
  while (index > 0) {
    const size_t parent = (index - 1) / kArity;
    if (!Before(node, *heap_[parent])) break;
    Place(index, *heap_[parent]);
    index = parent;
  }
  Place(index, node);
}

void TimerHeap::SiftDown(size_t index, TimerNode& node) {
  while (true) {
    const size_t first = index * kArity + 1;
    if (first >= heap_.size()) break;
    const size_t end = std::min(first + kArity, heap_.size());
    size_t least = first;
    for (size_t child = first + 1; child < end; ++child) {
      if (Before(*heap_[child], *heap_[least])) least = child;
    }
    if (!Before(*heap_[least], node)) break;
    Place(index, *heap_[least]);
    index = least;
  }
  Place(index, node);
}

void TimerHeap::RemoveAt(size_t index) {
  heap_[index]->index = TimerNode::kNotArmed;
  TimerNode& last = *heap_.back();
  heap_.pop_back();
  if (index == heap_.size()) return;
  // The node from the end may belong above or below the hole.
  if (index > 0 && Before(last, *heap_[(index - 1) / kArity])) {
    SiftUp(index, last);
  } else {
    SiftDown(index, last);
  }
}

}  // namespace forebay::rt
