// SPDX-License-Identifier: Apache-2.0
// Completion<T>: a result that any thread gives once and a coroutine on the home reactor awaits: how threads that may block
// (the committer, a pool, gRPC) answer a reactor. No allocation: it lives in the awaiting frame.
// Thread-safe in Fulfil, Reactor-local otherwise. Once handed out it must be fulfilled, and awaited before it is destroyed
// (checked). The home reactor outlives the fulfilling thread.
#pragma once

#include <atomic>
#include <coroutine>
#include <optional>
#include <utility>

#include "base/check.h"
#include "rt/reactor.h"
#include "rt/runnable.h"

namespace forebay::rt {

template <typename T>
class Completion : private Runnable {
 public:
  explicit Completion(Reactor& home) : Runnable(&Deliver), home_(home) {}
  ~Completion() { FB_CHECK(state_.load(std::memory_order_relaxed) != State::kPosted && !waiter_); }

  /// From any thread, exactly once. The Completion may be gone when this returns.
  void Fulfil(T value) {
    FB_CHECK(state_.exchange(State::kPosted, std::memory_order_relaxed) == State::kOpen);
    value_.emplace(std::move(value));
    Reactor& home = home_;
    home.Post(static_cast<Runnable&>(*this));
  }

  class [[nodiscard]] Awaiter {
   public:
    explicit Awaiter(Completion& completion) : completion_(completion) {}
    bool await_ready() const { return completion_.delivered(); }
    void await_suspend(std::coroutine_handle<> awaiting) {
      FB_CHECK(!completion_.waiter_);
      completion_.waiter_ = awaiting;
    }
    T await_resume() { return *std::move(completion_.value_); }

   private:
    Completion& completion_;
  };
  /// Suspends until fulfilled and gives the value; once.
  Awaiter Wait() { return Awaiter(*this); }

 private:
  enum class State : unsigned char { kOpen, kPosted, kDelivered };

  bool delivered() const { return state_.load(std::memory_order_relaxed) == State::kDelivered; }
  static void Deliver(Runnable& item) {
    auto& self = static_cast<Completion&>(item);
    // Relaxed is enough: Post orders the value, this state is for the home thread and for checks.
    self.state_.store(State::kDelivered, std::memory_order_relaxed);
    if (auto waiter = std::exchange(self.waiter_, nullptr)) waiter.resume();
  }

  Reactor& home_;
  std::atomic<State> state_{State::kOpen};
  std::coroutine_handle<> waiter_;
  std::optional<T> value_;
};

}  // namespace forebay::rt
