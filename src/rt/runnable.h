// SPDX-License-Identifier: Apache-2.0
// Runnable: an intrusive piece of work a reactor runs once, and RunQueue, a FIFO of them. Whatever makes a coroutine
// resumable (an operation, a waiter, a completion) embeds one, so queueing it allocates nothing.
// Reactor-local. A Runnable must stay where it is while it is queued.
#pragma once

#include <coroutine>
#include <cstddef>

namespace forebay::rt {

struct Runnable {
  using Function = void (*)(Runnable&);

  explicit Runnable(Function function) : run(function) {}
  Runnable(const Runnable&) = delete;
  Runnable& operator=(const Runnable&) = delete;

  Runnable* next = nullptr;
  Function run;  ///< may destroy the Runnable
};

/// A Runnable that resumes a suspended coroutine.
struct Resumption : Runnable {
  Resumption() : Runnable(&Resume) {}

  std::coroutine_handle<> waiter;

 private:
  static void Resume(Runnable& self) { static_cast<Resumption&>(self).waiter.resume(); }
};

class RunQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  Runnable* first() const { return head_; }

  void Push(Runnable& item) {
    item.next = nullptr;
    (tail_ != nullptr ? tail_->next : head_) = &item;
    tail_ = &item;
  }

  /// Null when empty.
  Runnable* Pop() {
    Runnable* item = head_;
    if (item != nullptr) {
      head_ = item->next;
      if (head_ == nullptr) tail_ = nullptr;
      item->next = nullptr;
    }
    return item;
  }

  /// Moves all of `other` to the end of this queue.
  void Append(RunQueue& other) {
    if (other.empty()) return;
    (tail_ != nullptr ? tail_->next : head_) = other.head_;
    tail_ = other.tail_;
    other.head_ = nullptr;
    other.tail_ = nullptr;
  }

  /// Takes `item` out wherever it is: linear, for the rare path. False when it was not in the queue.
  bool Remove(Runnable& item) {
    Runnable* before = nullptr;
    for (Runnable* at = head_; at != nullptr; before = at, at = at->next) {
      if (at != &item) continue;
      (before != nullptr ? before->next : head_) = at->next;
      if (tail_ == at) tail_ = before;
      at->next = nullptr;
      return true;
    }
    return false;
  }

 private:
  Runnable* head_ = nullptr;
  Runnable* tail_ = nullptr;
};

}  // namespace forebay::rt
