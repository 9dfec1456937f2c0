// SPDX-License-Identifier: Apache-2.0
// Channel<T>: a bounded FIFO between coroutines of one reactor. Push suspends while it is full, Pop while it is empty;
// after Close pushes fail and pops drain what is left. Room for all elements is taken at construction.
// Reactor-local. Outlives whoever waits in it.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "rt/sync.h"

namespace forebay::rt {

template <typename T>
class Channel {
 public:
  /// `capacity` is at least 1.
  Channel(Reactor& reactor, size_t capacity) : reactor_(reactor), slots_(capacity) { FB_CHECK(capacity > 0); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  size_t size() const { return size_; }
  size_t capacity() const { return slots_.size(); }
  bool closed() const { return closed_; }

  /// False when full or closed; `value` is then untouched.
  bool TryPush(T&& value) {
    if (closed_ || size_ == slots_.size()) return false;
    Accept(std::move(value));
    return true;
  }
  /// Empty when there is nothing to take now.
  std::optional<T> TryPop() {
    if (size_ == 0) return std::nullopt;
    std::optional<T> value = std::exchange(slots_[head_], std::nullopt);
    head_ = (head_ + 1) % slots_.size();
    --size_;
    if (!pushers_.empty()) {
      auto& pusher = static_cast<PushAwaiter&>(*pushers_.first());
      Append(std::move(pusher.value_));
      pushers_.WakeFirst();
    }
    return value;
  }

  class [[nodiscard]] PushAwaiter : private internal::Waiter {
   public:
    PushAwaiter(Channel& channel, T value, const OpOptions& options)
        : Waiter(channel.reactor_, options), channel_(channel), value_(std::move(value)) {}
    bool await_ready() {
      if (channel_.closed_ || this->Over()) return true;
      if (!channel_.TryPush(std::move(value_))) return false;
      this->set_woken();
      return true;
    }
    void await_suspend(std::coroutine_handle<> awaiting) { this->Suspend(channel_.pushers_, awaiting); }
    bool await_resume() const { return this->woken() && !refused_; }

   private:
    friend class Channel;
    Channel& channel_;
    T value_;
    bool refused_ = false;
  };
  /// `co_await` gives true when the value is in the channel; false when the channel was closed, or the token or deadline
  /// came first: the value is then destroyed.
  PushAwaiter Push(T value, const OpOptions& options = {}) { return PushAwaiter(*this, std::move(value), options); }

  class [[nodiscard]] PopAwaiter : private internal::Waiter {
   public:
    PopAwaiter(Channel& channel, const OpOptions& options) : Waiter(channel.reactor_, options), channel_(channel) {}
    bool await_ready() {
      value_ = channel_.TryPop();
      return value_.has_value() || channel_.closed_ || this->Over();
    }
    void await_suspend(std::coroutine_handle<> awaiting) { this->Suspend(channel_.poppers_, awaiting); }
    std::optional<T> await_resume() { return std::move(value_); }

   private:
    friend class Channel;
    Channel& channel_;
    std::optional<T> value_;
  };
  /// `co_await` gives the next value; empty when the channel is closed and drained, or the token or deadline came first.
  PopAwaiter Pop(const OpOptions& options = {}) { return PopAwaiter(*this, options); }

  /// Refuses pushes from now on, those that wait included, and wakes those who wait to pop.
  void Close() {
    closed_ = true;
    while (!pushers_.empty()) {
      static_cast<PushAwaiter&>(*pushers_.first()).refused_ = true;
      pushers_.WakeFirst();
    }
    while (!poppers_.empty()) poppers_.WakeFirst();
  }

 private:
  /// There is room. Whoever waits to pop gets the value straight away, so that nobody can come in between.
  void Accept(T&& value) {
    if (poppers_.empty()) {
      Append(std::move(value));
      return;
    }
    static_cast<PopAwaiter&>(*poppers_.first()).value_.emplace(std::move(value));
    poppers_.WakeFirst();
  }
  void Append(T&& value) {
    slots_[(head_ + size_) % slots_.size()].emplace(std::move(value));
    ++size_;
  }

  Reactor& reactor_;
  internal::WaitList pushers_;
  internal::WaitList poppers_;
  std::vector<std::optional<T>> slots_;
  size_t head_ = 0;
  size_t size_ = 0;
  bool closed_ = false;
};

}  // namespace forebay::rt
