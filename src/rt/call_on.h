// SPDX-License-Identifier: Apache-2.0
// Work across reactors: CallOn suspends a coroutine of one reactor while another reactor runs a task for it; RunOn blocks a
// thread that is no reactor. Both keep the function object, captures included, alive until its task is done.
// Thread-safe as far as said at each. The target reactor runs until the call has ended.
#pragma once

#include <future>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "rt/completion.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::rt {

namespace internal {

struct Nothing {};

template <typename T>
using Something = std::conditional_t<std::is_void_v<T>, Nothing, T>;

/// The value of a task, with Nothing for void.
template <typename T>
Task<Something<T>> ValueOf(Task<T> task) {
  if constexpr (std::is_void_v<T>) {
    co_await std::move(task);
    co_return Nothing{};
  } else {
    co_return co_await std::move(task);
  }
}

/// Starts a task on a reactor when that reactor runs it. Lives in the caller's frame.
struct RemoteStart : Runnable {
  RemoteStart(Reactor& reactor, Task<void> to_start)
      : Runnable(&Run), target(reactor), task(std::move(to_start)) {}
  Reactor& target;
  Task<void> task;

 private:
  static void Run(Runnable& item) {
    auto& self = static_cast<RemoteStart&>(item);
    StartDetached(self.target, std::move(self.task), nullptr);
  }
};

template <typename F, typename T>
Task<void> FulfilWith(F& function, Completion<T>& done) {
  done.Fulfil(co_await ValueOf(function()));
}

template <typename F, typename T>
Task<void> SetPromiseWith(F function, std::promise<T> promise) {
  if constexpr (std::is_void_v<T>) {
    co_await function();
    promise.set_value();
  } else {
    promise.set_value(co_await function());
  }
}

}  // namespace internal

/// On `home`: runs the task that `function` makes on `target` and resumes on `home` with its result.
template <TaskFunction F>
auto CallOn(Reactor& home, Reactor& target, F function) -> std::invoke_result_t<F&> {
  using T = typename std::invoke_result_t<F&>::Value;
  if (&home == &target) co_return co_await function();
  Completion<internal::Something<T>> done(home);
  internal::RemoteStart start(target, internal::FulfilWith(function, done));
  target.Post(start);
  if constexpr (std::is_void_v<T>) {
    co_await done.Wait();
  } else {
    co_return co_await done.Wait();
  }
}

/// From any thread: starts the task that `function` makes on `target`. The future is broken when the reactor is destroyed
/// before the task started; the task counts for no gate, so wait for the future before stopping the reactor.
template <TaskFunction F>
auto StartOn(Reactor& target, F function) -> std::future<typename std::invoke_result_t<F&>::Value> {
  std::promise<typename std::invoke_result_t<F&>::Value> promise;
  auto future = promise.get_future();
  target.Post([&target, task = internal::SetPromiseWith(std::move(function), std::move(promise))]() mutable {
    internal::StartDetached(target, std::move(task), nullptr);
  });
  return future;
}

/// From a thread that is not inside a reactor: the same, and waits for the result.
template <TaskFunction F>
auto RunOn(Reactor& target, F function) -> typename std::invoke_result_t<F&>::Value {
  FB_CHECK(Reactor::Current() == nullptr);
  return StartOn(target, std::move(function)).get();
}

}  // namespace forebay::rt
