// SPDX-License-Identifier: Apache-2.0
// Reactor: one thread's event loop over an io_uring. It resumes coroutines whose operations ended, fires timers and runs
// what other threads posted; it sleeps in the kernel when idle and spins a few microseconds only while completions come
// that fast. Created on any thread; belongs to the first thread that calls Run or BlockOn, for good.
// Reactor-local, except Post, Stop, Poke and the constants, which are thread-safe. Outlives every thread that posts to it.
// Invariant: destroyed only after each operation has ended (close the gates first; this is checked).
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "rt/operation.h"
#include "rt/runnable.h"
#include "rt/task.h"
#include "rt/timer_heap.h"

namespace forebay::rt {

class Gate;
class Reactor;
struct Ring;

namespace internal {
/// On the reactor's thread, or before it runs: starts `task` in the next turn, in no gate; runs `on_done` (may be null)
/// at its end. For the helpers of rt, which wait for it by other means.
void StartDetached(Reactor& reactor, Task<void> task, Runnable* on_done);
}  // namespace internal

using MoveOnlyFunction = std::move_only_function<void()>;

struct ReactorOptions {
  std::string name = "reactor";    ///< for messages and, in ReactorThread, the thread's name (15 characters are shown)
  unsigned entries = 1024;         ///< submission queue; operations beyond it wait, none is lost
  int cpu = -1;                    ///< core to pin the running thread to; -1: not pinned. A client library never pins
  const base::Clock* clock = nullptr;  ///< borrowed for the reactor's life; null: the system's monotonic clock
  Duration spin = std::chrono::microseconds(20);  ///< longest busy wait before a sleep; zero: never
};

class Reactor {
 public:
  using Options = ReactorOptions;

  /// Fails with FailedPrecondition, and the way out, where io_uring is forbidden or too old; with InvalidArgument for a
  /// core that this process may not use.
  static Result<std::unique_ptr<Reactor>> Create(Options options);
  static Result<std::unique_ptr<Reactor>> Create() { return Create(Options()); }
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  const std::string& name() const { return options_.name; }
  const base::Clock& clock() const { return *clock_; }

  // ---- running ----

  /// Runs on the calling thread until Stop. What is suspended then stays so; a further Run or BlockOn goes on with it.
  void Run();
  /// Thread-safe: makes Run return soon, or at once when it starts later.
  void Stop();
  /// Runs the loop on the calling thread until `task` is done, and gives its result: for tests, tools and main threads.
  /// Never from inside a reactor.
  template <typename T>
  T BlockOn(Task<T> task);
  template <TaskFunction F>
  auto BlockOn(F function) {
    return BlockOn(internal::Keep(std::move(function)));
  }

  /// Thread-safe: runs `function` on the reactor, in order per posting thread, each once. What is posted after the last
  /// Run returned is destroyed unrun with the reactor. The queue has no limit of its own: each post answers or carries
  /// something that has one.
  void Post(MoveOnlyFunction function);
  /// The same without allocation: `item` stays where it is until it ran.
  void Post(Runnable& item);
  /// Thread-safe: makes a sleeping loop look at its clock again, for tests that moved a fake clock.
  void Poke() {
    Post([] {});
  }

  /// True on the thread that is inside Run or BlockOn.
  bool InReactor() const;
  /// The reactor that the calling thread is inside of, or null. For assertions inside rt only: pass reactors as arguments.
  static Reactor* Current();
  /// The time at the start of this turn of the loop; outside of Run and BlockOn, the clock's.
  TimePoint Now() const { return running_ ? now_ : clock_->Now(); }

  /// Starts `task` in the next turn of the loop; it holds `gate` until it is done. False when the gate is closed: the task
  /// is destroyed without having run.
  bool Spawn(Gate& gate, Task<void> task);
  /// The same for a lambda coroutine; its captures live as long as the task.
  template <TaskFunction F>
  bool Spawn(Gate& gate, F function) {
    return Spawn(gate, internal::Keep(std::move(function)));
  }

  // ---- operations: see operation.h for results. Buffers and arrays stay the caller's and stay put until the end. ----

  Operation Read(int fd, void* buffer, uint32_t size, uint64_t offset, const OpOptions& options = {});
  Operation Write(int fd, const void* buffer, uint32_t size, uint64_t offset, const OpOptions& options = {});
  Operation Readv(int fd, const iovec* iov, uint32_t count, uint64_t offset, const OpOptions& options = {});
  Operation Writev(int fd, const iovec* iov, uint32_t count, uint64_t offset, const OpOptions& options = {});
  Operation Fsync(int fd, bool data_only, const OpOptions& options = {});
  Operation Fallocate(int fd, int mode, uint64_t offset, uint64_t size, const OpOptions& options = {});
  /// MSG_WAITALL makes the kernel go on after short transfers, for Send and Sendmsg too.
  Operation Recv(int fd, void* buffer, size_t size, int flags, const OpOptions& options = {});
  Operation Send(int fd, const void* buffer, size_t size, int flags, const OpOptions& options = {});
  Operation Recvmsg(int fd, msghdr* message, int flags, const OpOptions& options = {});
  Operation Sendmsg(int fd, const msghdr* message, int flags, const OpOptions& options = {});
  /// Gives a new close-on-exec descriptor, owned by the caller.
  Operation Accept(int fd, const OpOptions& options = {});
  Operation Connect(int fd, const sockaddr* address, socklen_t size, const OpOptions& options = {});
  /// Waits until one of `events` (poll's) holds, once; gives the events that hold.
  Operation Poll(int fd, uint32_t events, const OpOptions& options = {});

  // ---- time ----

  class SleepAwaiter;
  /// `co_await` gives true when the time has come, false when the token was cancelled first.
  SleepAwaiter SleepUntil(TimePoint when, CancelToken* token = nullptr);
  SleepAwaiter Sleep(Duration duration, CancelToken* token = nullptr);
  /// Goes on in the next turn of the loop: after everything else that is ready, due timers and completions seen by then.
  SleepAwaiter Yield();

  TimerHeap& timers() { return timers_; }  ///< for Timer and awaitables of rt
  /// Resumes `item` in this loop, soon: how reactor-local primitives wake a coroutine.
  void Ready(Runnable& item) { ready_.Push(item); }
  void ReadyNextTurn(Runnable& item) { next_turn_.Push(item); }

  // ---- numbers, for metrics and tests ----

  size_t operations_in_flight() const { return in_flight_; }
  uint64_t kernel_entries() const;  ///< io_uring_enter calls so far

 private:
  friend class Operation;
  class RunningScope;

  Reactor(Options options, std::unique_ptr<Ring> ring, int wake_fd);

  void Loop(const bool* done);
  void RunReady();
  void RunPosted();
  bool HasWork() const;
  void EnterAndWait();
  bool SpinForWork();
  void Reap();
  bool ArmWake();

  void Start(Operation& operation);
  void SubmitOrQueue(Operation& operation);
  bool Submit(const Operation& operation);
  bool SubmitCancel(const Operation& operation);
  void FlushBacklog();
  void EndEarly(Operation& operation, int reason);
  void Finish(Operation& operation, int result);

  const Options options_;
  const base::SystemClock system_clock_;
  const base::Clock* const clock_;
  std::unique_ptr<Ring> ring_;
  const int wake_fd_;

  // Touched by the running thread only.
  std::optional<std::thread::id> owner_;  // the first one to run
  TimePoint now_{};
  bool running_ = false;
  bool wake_armed_ = false;
  RunQueue ready_;
  RunQueue next_turn_;
  RunQueue backlog_;  // operations that found the submission queue full, and cancels of running ones
  TimerHeap timers_;
  size_t in_flight_ = 0;
  unsigned quick_waits_ = 0;  // how many waits in a row ended within the spin time; saturates

  // Touched by every thread.
  alignas(64) std::atomic<Runnable*> posted_{nullptr};  // newest first
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> stop_{false};
};

class [[nodiscard]] Reactor::SleepAwaiter : private Resumption, private CancelNode, private TimerNode {
 public:
  SleepAwaiter(Reactor& reactor, TimePoint when, CancelToken* token)
      : CancelNode(&OnCancel), TimerNode(&OnTime), reactor_(reactor), until_(when), token_(token) {}

  bool await_ready() noexcept {
    cancelled_ = token_ != nullptr && token_->cancelled();
    return cancelled_;
  }
  void await_suspend(std::coroutine_handle<> awaiting) noexcept {
    waiter = awaiting;
    if (until_ <= reactor_.Now()) {
      reactor_.ReadyNextTurn(*this);
      return;
    }
    if (token_ != nullptr) token_->Link(*this);
    reactor_.timers().Arm(*this, until_);
  }
  bool await_resume() const noexcept { return !cancelled_; }

 private:
  static void OnTime(TimerNode& node) {
    auto& self = static_cast<SleepAwaiter&>(node);
    self.Unlink();
    self.reactor_.Ready(self);
  }
  static void OnCancel(CancelNode& node) {
    auto& self = static_cast<SleepAwaiter&>(node);
    self.reactor_.timers().Cancel(self);
    self.cancelled_ = true;
    self.reactor_.Ready(self);
  }

  Reactor& reactor_;
  const TimePoint until_;
  CancelToken* const token_;
  bool cancelled_ = false;
};

inline Reactor::SleepAwaiter Reactor::SleepUntil(TimePoint when, CancelToken* token) { return {*this, when, token}; }
inline Reactor::SleepAwaiter Reactor::Sleep(Duration duration, CancelToken* token) {
  return {*this, base::DeadlineAfter(Now(), duration), token};
}
inline Reactor::SleepAwaiter Reactor::Yield() { return {*this, TimePoint::min(), nullptr}; }

namespace internal {

struct DoneFlag : Runnable {
  DoneFlag() : Runnable([](Runnable& self) { static_cast<DoneFlag&>(self).done = true; }) {}
  bool done = false;
};

template <typename T>
Task<void> StoreResult(Task<T> task, std::optional<T>& result) {
  result.emplace(co_await std::move(task));
}

}  // namespace internal

template <typename T>
T Reactor::BlockOn(Task<T> task) {
  FB_CHECK(Current() == nullptr);
  internal::DoneFlag flag;
  if constexpr (std::is_void_v<T>) {
    internal::StartDetached(*this, std::move(task), &flag);
    Loop(&flag.done);
  } else {
    std::optional<T> result;
    internal::StartDetached(*this, internal::StoreResult(std::move(task), result), &flag);
    Loop(&flag.done);
    return *std::move(result);
  }
}

}  // namespace forebay::rt
