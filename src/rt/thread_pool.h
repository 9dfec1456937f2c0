// SPDX-License-Identifier: Apache-2.0
// ThreadPool: a few threads for calls that block (file system metadata, foreign libraries), with a bounded queue. Offload:
// runs a function there and resumes the coroutine on its reactor.
// Thread-safe. The destructor runs what is queued and joins; the reactors that wait for results outlive the pool.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "rt/completion.h"
#include "rt/reactor.h"
#include "rt/runnable.h"
#include "rt/task.h"

namespace forebay::rt {

class ThreadPool {
 public:
  static constexpr size_t kDefaultQueueLimit = 1024;

  /// `threads` is at least 1; they are named `name`.
  ThreadPool(size_t threads, std::string name, size_t queue_limit = kDefaultQueueLimit);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Runs `item` on one of the threads; it stays where it is until then. ResourceExhausted when the queue is full.
  Status Submit(Runnable& item);
  /// The same with an allocation.
  Status Submit(MoveOnlyFunction function);

 private:
  void Work();

  const std::string name_;
  const size_t queue_limit_;
  base::Mutex mutex_;
  base::ConditionVariable changed_;
  RunQueue queue_ FB_GUARDED_BY(mutex_);
  size_t queued_ FB_GUARDED_BY(mutex_) = 0;
  bool stopping_ FB_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

namespace internal {

template <typename R>
struct OffloadedAs {
  using Type = Result<R>;
};
template <typename R>
struct OffloadedAs<Result<R>> {
  using Type = Result<R>;
};
template <>
struct OffloadedAs<Status> {
  using Type = Status;
};
template <>
struct OffloadedAs<void> {
  using Type = Status;
};

template <typename F, typename Value>
struct OffloadWork : Runnable {
  OffloadWork(Reactor& home, F& to_run) : Runnable(&Run), function(to_run), done(home) {}
  F& function;
  Completion<Value> done;

 private:
  static void Run(Runnable& item) {
    auto& self = static_cast<OffloadWork&>(item);
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      self.function();
      self.done.Fulfil(Status());
    } else {
      self.done.Fulfil(Value(self.function()));
    }
  }
};

}  // namespace internal

/// What Offload gives for a function that returns R: Result<R>; Status for void or Status; Result<R> for Result<R>.
template <typename F>
using Offloaded = typename internal::OffloadedAs<std::invoke_result_t<F&>>::Type;

/// On `home`: runs `function` on the pool and resumes with its result, or with ResourceExhausted when the pool's queue is
/// full. The function is destroyed on `home`.
template <typename F>
Task<Offloaded<F>> Offload(Reactor& home, ThreadPool& pool, F function) {
  internal::OffloadWork<F, Offloaded<F>> work(home, function);
  FB_CO_TRY(pool.Submit(static_cast<Runnable&>(work)));
  co_return co_await work.done.Wait();
}

}  // namespace forebay::rt
