// SPDX-License-Identifier: Apache-2.0
// The loop: running, sleeping, spinning, and what other threads post.
#include "rt/reactor.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "rt/gate.h"
#include "rt/ring.h"

namespace forebay::rt {

namespace {

constexpr uint64_t kIgnored = 0;  // see operation.cc
constexpr uint64_t kWake = 1;     // no Operation lives at an odd address
constexpr int kReadyBudget = 256;  // coroutines resumed before the kernel is looked at again
constexpr unsigned kQuickWaits = 4;  // short sleeps in a row before spinning is worth it

thread_local Reactor* current = nullptr;

struct PostedFunction : Runnable {
  explicit PostedFunction(MoveOnlyFunction to_run) : Runnable(&Run), function(std::move(to_run)) {}
  MoveOnlyFunction function;

  static void Run(Runnable& item) {
    std::unique_ptr<PostedFunction> self(static_cast<PostedFunction*>(&item));
    self->function();
  }
};

/// A coroutine that nobody awaits: starts in the next turn of the loop, frees itself at its end.
struct Detached {
  struct promise_type : Resumption {
    Detached get_return_object() {
      waiter = std::coroutine_handle<promise_type>::from_promise(*this);
      return {*this};
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { internal::ExceptionLeftTask(); }

    static void* operator new(size_t size) { return AllocateFrame(size); }
    static void operator delete(void* frame, size_t size) { FreeFrame(frame, size); }
  };
  Runnable& start;
};

Detached RunDetached(Task<void> task, Runnable* on_done) {
  co_await std::move(task);
  if (on_done != nullptr) on_done->run(*on_done);
}

Detached RunInGate(Task<void> task, Gate::Holder /*visit*/) { co_await std::move(task); }

Status CheckCore(int cpu) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return Status::FromErrno(errno, "sched_getaffinity");
  if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed)) {
    return Status::InvalidArgument("core {} is not among the {} cores that this process may use (see `taskset -p`)", cpu,
                                   CPU_COUNT(&allowed));
  }
  return Status();
}

// A core that went away since Create only costs speed.
void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

namespace internal {
void StartDetached(Reactor& reactor, Task<void> task, Runnable* on_done) {
  reactor.Ready(RunDetached(std::move(task), on_done).start);
}
}  // namespace internal

/// The calling thread is inside of the loop.
class Reactor::RunningScope {
 public:
  explicit RunningScope(Reactor& reactor) : reactor_(reactor) {
    FB_CHECK(current == nullptr);
    if (!reactor.owner_) {
      reactor.owner_ = std::this_thread::get_id();
      reactor.ring_->Enable();
      if (reactor.options_.cpu >= 0) PinTo(reactor.options_.cpu);
    }
    FB_CHECK(reactor.owner_ == std::this_thread::get_id());
    current = &reactor;
    reactor.running_ = true;
  }
  ~RunningScope() {
    reactor_.running_ = false;
    current = nullptr;
  }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  Reactor& reactor_;
};

Result<std::unique_ptr<Reactor>> Reactor::Create(Options options) {
  if (options.cpu >= 0) FB_TRY(CheckCore(options.cpu));
  FB_ASSIGN(auto ring, Ring::Create(options.entries));
  const int wake_fd = eventfd(0, EFD_CLOEXEC);
  if (wake_fd < 0) return Status::FromErrno(errno, "eventfd for reactor " + options.name);
  return std::unique_ptr<Reactor>(new Reactor(std::move(options), std::move(ring), wake_fd));
}

Reactor::Reactor(Options options, std::unique_ptr<Ring> ring, int wake_fd)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? options_.clock : &system_clock_),
      ring_(std::move(ring)),
      wake_fd_(wake_fd) {}

Reactor::~Reactor() {
  FB_CHECK(!running_);
  // The kernel may still write to the buffers of operations in flight: their owner must have waited for them.
  FB_CHECK(in_flight_ == 0);
  for (Runnable* item = posted_.exchange(nullptr); item != nullptr;) {
    Runnable* next = item->next;
    if (item->run == &PostedFunction::Run) delete static_cast<PostedFunction*>(item);
    item = next;
  }
  ring_.reset();
  close(wake_fd_);
}

void Reactor::Run() {
  Loop(nullptr);
  stop_.store(false, std::memory_order_relaxed);
}

void Reactor::Stop() {
  stop_.store(true, std::memory_order_release);
  Poke();
}

bool Reactor::InReactor() const { return current == this; }

Reactor* Reactor::Current() { return current; }

uint64_t Reactor::kernel_entries() const { return ring_->kernel_entries; }

bool Reactor::Spawn(Gate& gate, Task<void> task) {
  Result<Gate::Holder> visit = gate.Enter();
  if (!visit.ok()) return false;
  Ready(RunInGate(std::move(task), *std::move(visit)).start);
  return true;
}

void Reactor::Post(MoveOnlyFunction function) { Post(*new PostedFunction(std::move(function))); }

void Reactor::Post(Runnable& item) {
  Runnable* newest = posted_.load(std::memory_order_relaxed);
  do {
    item.next = newest;
  } while (!posted_.compare_exchange_weak(newest, &item, std::memory_order_seq_cst, std::memory_order_relaxed));
  // `item` may be gone from here on. Either the loop sees it before it sleeps, or this thread sees that it sleeps:
  // both sides store first and then look, in one total order.
  if (sleeping_.load(std::memory_order_seq_cst) && sleeping_.exchange(false, std::memory_order_seq_cst)) {
    const uint64_t one = 1;
    FB_CHECK(write(wake_fd_, &one, sizeof(one)) == sizeof(one));
  }
}

void Reactor::Loop(const bool* done) {
  RunningScope scope(*this);
  while (true) {
    now_ = clock_->Now();
    timers_.FireDue(now_);
    RunPosted();
    ready_.Append(next_turn_);
    RunReady();
    if (done != nullptr ? *done : stop_.load(std::memory_order_acquire)) break;
    FlushBacklog();
    if (HasWork()) {
      // Collecting completions costs a kernel entry: only when there is something to hand over or to collect.
      if (ring_->HasUnsubmitted() || ring_->KernelHasWork()) ring_->Enter();
    } else {
      EnterAndWait();
    }
    Reap();
  }
  if (ring_->HasUnsubmitted()) ring_->Enter();
}

void Reactor::RunReady() {
  for (int i = 0; i < kReadyBudget; ++i) {
    Runnable* item = ready_.Pop();
    if (item == nullptr) return;
    item->run(*item);
  }
}

void Reactor::RunPosted() {
  if (posted_.load(std::memory_order_relaxed) == nullptr) return;
  Runnable* newest = posted_.exchange(nullptr, std::memory_order_acquire);
  Runnable* oldest = nullptr;
  while (newest != nullptr) {
    Runnable* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    Runnable* next = oldest->next;
    oldest->run(*oldest);
    oldest = next;
  }
}

bool Reactor::HasWork() const {
  return !ready_.empty() || !next_turn_.empty() || !backlog_.empty() || posted_.load(std::memory_order_relaxed) != nullptr || ring_->HasCompletions() ||
         timers_.next() <= now_;
}

void Reactor::EnterAndWait() {
  if (!ArmWake()) {
    ring_->Enter();  // to make room; a sleep without the poll could be for ever
    return;
  }
  const bool may_spin = options_.spin > Duration::zero();
  if (may_spin && quick_waits_ >= kQuickWaits) {
    if (ring_->HasUnsubmitted()) ring_->Enter();
    if (SpinForWork()) return;
    quick_waits_ = 0;
  }
  std::optional<Duration> timeout;
  if (timers_.next() != kNever) timeout = std::max(timers_.next() - clock_->Now(), Duration::zero());

  const auto start = may_spin ? std::chrono::steady_clock::now() : TimePoint();
  sleeping_.store(true, std::memory_order_seq_cst);
  if (posted_.load(std::memory_order_seq_cst) == nullptr) ring_->EnterAndWait(timeout);
  sleeping_.store(false, std::memory_order_relaxed);
  if (may_spin) {
    const bool quick = std::chrono::steady_clock::now() - start < options_.spin;
    quick_waits_ = quick ? std::min(quick_waits_ + 1, kQuickWaits) : 0;
  }
}

bool Reactor::SpinForWork() {
  const auto work = [this] {
    return ring_->HasCompletions() || ring_->KernelHasWork() || posted_.load(std::memory_order_relaxed) != nullptr;
  };
  const auto start = std::chrono::steady_clock::now();
  const Duration longest = std::min(options_.spin, timers_.next() - now_);
  while (std::chrono::steady_clock::now() - start < longest) {
    for (int i = 0; i < 16; ++i) {
      if (work()) {
        if (ring_->KernelHasWork()) ring_->Enter();
        return true;
      }
      Pause();
    }
  }
  return false;
}

void Reactor::Reap() {
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* entry = nullptr;
  io_uring_for_each_cqe(&ring_->uring, head, entry) {
    ++count;
    if (entry->user_data == kWake) {
      wake_armed_ = (entry->flags & IORING_CQE_F_MORE) != 0;
    } else if (entry->user_data != kIgnored) {
      // Only queued here: whatever a resumed coroutine does, no completion can be lost or seen twice.
      Finish(*reinterpret_cast<Operation*>(entry->user_data), entry->res);
    }
  }
  io_uring_cq_advance(&ring_->uring, count);
}

// The eventfd's counter is never read: each write completes the multishot poll again.
bool Reactor::ArmWake() {
  if (wake_armed_) return true;
  io_uring_sqe* entry = ring_->NextEntry();
  if (entry == nullptr) return false;
  io_uring_prep_poll_multishot(entry, wake_fd_, POLLIN);
  entry->user_data = kWake;
  wake_armed_ = true;
  return true;
}

}  // namespace forebay::rt
