// SPDX-License-Identifier: Apache-2.0
// WhenAll: runs tasks concurrently on the awaiting reactor and gives all results, in the order of the tasks. It always
// waits for all of them: a failure of one does not stop the others (hand them a CancelToken for that).
// Reactor-local.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "rt/task.h"

namespace forebay::rt {

namespace internal {

/// Counts children; the last one to end resumes the parent.
struct JoinState {
  size_t running = 0;
  std::coroutine_handle<> parent;
};

/// A child of WhenAll: starts when told, frees itself at its end.
struct JoinChild {
  struct promise_type {
    JoinState* state = nullptr;

    JoinChild get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    auto final_suspend() const noexcept {
      struct Awaiter {
        bool await_ready() const noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) const noexcept {
          JoinState& state = *self.promise().state;
          self.destroy();
          return --state.running == 0 ? state.parent : std::noop_coroutine();
        }
        void await_resume() const noexcept {}
      };
      return Awaiter{};
    }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { ExceptionLeftTask(); }

    static void* operator new(size_t size) { return AllocateFrame(size); }
    static void operator delete(void* frame, size_t size) { FreeFrame(frame, size); }
  };
  std::coroutine_handle<promise_type> handle;
};

template <typename T>
JoinChild RunChild(Task<T> task, std::optional<T>& result) {
  result.emplace(co_await std::move(task));
}
inline JoinChild RunChild(Task<void> task) { co_await std::move(task); }

/// Suspends the parent, starts the children, and resumes the parent after the last one.
class Join {
 public:
  explicit Join(std::vector<JoinChild> children) : children_(std::move(children)) {}
  bool await_ready() const noexcept { return children_.empty(); }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> parent) {
    // One more than there are children, so that none of them resumes the parent while the others are being started.
    state_ = {children_.size() + 1, parent};
    for (const JoinChild& child : children_) {
      child.handle.promise().state = &state_;
      child.handle.resume();
    }
    return --state_.running == 0 ? parent : std::noop_coroutine();
  }
  void await_resume() const noexcept {}

 private:
  std::vector<JoinChild> children_;
  JoinState state_;
};

}  // namespace internal

template <typename T>
Task<std::vector<T>> WhenAll(std::vector<Task<T>> tasks) {
  std::vector<std::optional<T>> results(tasks.size());
  std::vector<internal::JoinChild> children;
  children.reserve(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) children.push_back(internal::RunChild(std::move(tasks[i]), results[i]));
  co_await internal::Join(std::move(children));
  std::vector<T> values;
  values.reserve(results.size());
  for (std::optional<T>& result : results) values.push_back(*std::move(result));
  co_return values;
}

inline Task<void> WhenAll(std::vector<Task<void>> tasks) {
  std::vector<internal::JoinChild> children;
  children.reserve(tasks.size());
  for (Task<void>& task : tasks) children.push_back(internal::RunChild(std::move(task)));
  co_await internal::Join(std::move(children));
}

}  // namespace forebay::rt
