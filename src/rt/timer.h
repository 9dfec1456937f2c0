// SPDX-License-Identifier: Apache-2.0
// Timer: calls a function once at a time point, unless cancelled or armed anew first. WithDeadline: gives a piece of
// asynchronous work a time limit by cancelling the token it was handed, and waits for it to end.
// Reactor-local. A Timer may be destroyed at any time, also from its own function.
#pragma once

#include <utility>

#include "rt/reactor.h"

namespace forebay::rt {

class Timer : private TimerNode {
 public:
  explicit Timer(Reactor& reactor) : TimerNode(&Fire), reactor_(reactor) {}
  ~Timer() { Cancel(); }

  /// `function` runs in the loop, not in a coroutine, and must not block. An earlier arming is forgotten. A time that has
  /// passed fires in the next turn.
  void Arm(TimePoint when, MoveOnlyFunction function) {
    Cancel();
    function_ = std::move(function);
    reactor_.timers().Arm(*this, when);
  }
  void Cancel() {
    reactor_.timers().Cancel(*this);
    function_ = nullptr;
  }
  bool armed() const { return TimerNode::armed(); }

 private:
  static void Fire(TimerNode& node) {
    // The function moves to the stack first, since it may arm or destroy the timer.
    MoveOnlyFunction function = std::exchange(static_cast<Timer&>(node).function_, nullptr);
    function();
  }

  Reactor& reactor_;
  MoveOnlyFunction function_;
};

/// Runs `function(token)`, a Task of a Status or Result, and cancels the token at `deadline` or together with `parent`
/// (may be null). What came back Cancelled because of the deadline is reported as DeadlineExceeded.
/// The work always ends before this returns, so what it borrowed may go.
template <typename F>
auto WithDeadline(Reactor& reactor, TimePoint deadline, CancelToken* parent, F function)
    -> std::invoke_result_t<F&, CancelToken&> {
  CancelToken token(parent);
  Timer timer(reactor);
  bool expired = false;
  if (deadline != kNever) {
    timer.Arm(deadline, [&token, &expired] {
      expired = true;
      token.Cancel();
    });
  }
  auto result = co_await function(token);
  timer.Cancel();
  const Status status = base::StatusOf(result);
  if (expired && status.code() == Code::kCancelled) {
    co_return Status::DeadlineExceeded("the deadline passed: {}", status.message());
  }
  co_return result;
}

}  // namespace forebay::rt
