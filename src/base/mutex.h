// SPDX-License-Identifier: Apache-2.0
// Mutex with clang's thread-safety annotations: -Wthread-safety proves at compile time that guarded members are
// touched under their lock. Never held across a suspension point of a coroutine.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define FB_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define FB_THREAD_ANNOTATION(x)
#endif
#define FB_GUARDED_BY(x) FB_THREAD_ANNOTATION(guarded_by(x))
#define FB_REQUIRES(...) FB_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define FB_EXCLUDES(...) FB_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace forebay::base {

class FB_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() FB_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void Unlock() FB_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

class FB_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) FB_THREAD_ANNOTATION(acquire_capability(mutex)) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() FB_THREAD_ANNOTATION(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class ConditionVariable {
 public:
  /// The caller holds `mutex` and loops over its condition.
  void Wait(Mutex& mutex) FB_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  /// False when `wait` passed without a notification.
  template <typename Rep, typename Period>
  bool WaitFor(Mutex& mutex, std::chrono::duration<Rep, Period> wait) FB_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool notified = condition_.wait_for(lock, wait) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace forebay::base
