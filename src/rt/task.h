// SPDX-License-Identifier: Apache-2.0
// Task<T>: a lazy coroutine with one result. It runs when it is awaited (or given to Reactor::Spawn or BlockOn), on the
// thread of whoever awaits it, and resumes its awaiter by symmetric transfer, so chains of any depth use no stack.
// A Task owns its frame: destroying one that has not started or has finished frees the frame; one that is suspended in
// the middle must not be destroyed (cancel what it waits for, then await it). Arguments are taken by value; a reference
// argument must outlive the task. No exception leaves a Task: it ends the process.
// Reactor-local once started; may be moved to another thread before that.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "rt/frame_memory.h"

namespace forebay::rt {

template <typename T = void>
class Task;

namespace internal {

/// Says on stderr which exception left a coroutine, then ends the process.
[[noreturn]] void ExceptionLeftTask() noexcept;

struct ResumeAwaiter {
  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
    return self.promise().continuation;
  }
  void await_resume() const noexcept {}
};

struct TaskPromiseBase {
  std::coroutine_handle<> continuation = std::noop_coroutine();

  std::suspend_always initial_suspend() const noexcept { return {}; }
  ResumeAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() const noexcept { ExceptionLeftTask(); }

  static void* operator new(size_t size) { return AllocateFrame(size); }
  static void operator delete(void* frame, size_t size) { FreeFrame(frame, size); }
};

template <typename T>
struct TaskPromise : TaskPromiseBase {
  static_assert(!std::is_reference_v<T>, "a Task gives a value: return a pointer instead of a reference");

  std::optional<T> value;

  Task<T> get_return_object() noexcept;
  template <typename U>
    requires std::is_constructible_v<T, U&&>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T Take() { return *std::move(value); }
};

template <>
struct TaskPromise<void> : TaskPromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void Take() const noexcept {}
};

}  // namespace internal

template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::TaskPromise<T>;
  using Value = T;

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  /// False after it was moved from or awaited.
  bool valid() const { return static_cast<bool>(handle_); }

  /// Starts the task and gives its result; the frame is freed at the end of the awaiting expression.
  auto operator co_await() && noexcept {
    struct Awaiter {
      Task task;
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
        task.handle_.promise().continuation = awaiting;
        return task.handle_;
      }
      T await_resume() { return task.handle_.promise().Take(); }
    };
    FB_CHECK(handle_);
    return Awaiter{std::move(*this)};
  }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

namespace internal {

template <typename T>
Task<T> TaskPromise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

inline Task<void> TaskPromise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

template <typename T>
struct IsTask : std::false_type {};
template <typename T>
struct IsTask<Task<T>> : std::true_type {};

/// Keeps the function object (a lambda with captures, say) alive for as long as the task it makes.
template <typename F>
std::invoke_result_t<F&> Keep(F function) {
  co_return co_await function();
}

}  // namespace internal

/// Something that, called without arguments, makes a Task.
template <typename F>
concept TaskFunction = internal::IsTask<std::invoke_result_t<F&>>::value;

}  // namespace forebay::rt
