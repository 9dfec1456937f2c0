// SPDX-License-Identifier: Apache-2.0
// Reactor-local synchronisation between coroutines: Event, Semaphore, Mutex, WaitGroup, Latch, WhenAll. Waiters are
// resumed in the order in which they came, by the loop and not inside of the waking call. None is thread-safe: for other
// threads there is Completion.
// Reactor-local. Each outlives its waiters.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "rt/cancel.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::rt {

namespace internal {

class WaitList;

/// A suspended coroutine in a WaitList, with what may end its wait early.
class Waiter : private Resumption, private CancelNode, private TimerNode {
 public:
  Waiter(Reactor& reactor, const OpOptions& options)
      : CancelNode(&OnCancel), TimerNode(&OnDeadline), reactor_(reactor), options_(options) {}
  ~Waiter() { FB_CHECK(list_ == nullptr); }

  /// True when waiting makes no sense any more: cancelled, or past the deadline.
  bool Over() const;
  void Suspend(WaitList& list, std::coroutine_handle<> awaiting);
  /// True when it was woken, false when cancelled or timed out.
  bool woken() const { return woken_; }
  void set_woken() { woken_ = true; }

  size_t amount = 0;  ///< for the list's owner

 private:
  friend class WaitList;
  static void OnCancel(CancelNode& node) { static_cast<Waiter&>(node).GiveUp(); }
  static void OnDeadline(TimerNode& node) { static_cast<Waiter&>(node).GiveUp(); }
  void GiveUp();

  Reactor& reactor_;
  const OpOptions options_;
  WaitList* list_ = nullptr;
  Waiter* before_ = nullptr;
  Waiter* after_ = nullptr;
  bool woken_ = false;
};

/// FIFO of waiters.
class WaitList {
 public:
  using GaveUp = void (*)(WaitList&);

  /// `gave_up` is called after a waiter left early, so that the owner can look at the next one. May be null.
  explicit WaitList(GaveUp gave_up = nullptr) : gave_up_(gave_up) {}
  ~WaitList() { FB_CHECK(first_ == nullptr); }
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;

  bool empty() const { return first_ == nullptr; }
  Waiter* first() const { return first_; }
  /// Takes the first one out and makes it ready.
  void WakeFirst();

 private:
  friend class Waiter;
  void Append(Waiter& waiter);
  void Remove(Waiter& waiter);

  GaveUp gave_up_;
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace internal

/// Set stays set until Reset.
class Event {
 public:
  explicit Event(Reactor& reactor) : reactor_(reactor) {}

  bool is_set() const { return set_; }
  void Reset() { set_ = false; }
  /// Wakes all who wait now, whatever Reset does before they run.
  void Set() {
    set_ = true;
    while (!waiters_.empty()) waiters_.WakeFirst();
  }

  class [[nodiscard]] Awaiter {
   public:
    Awaiter(Event& event, const OpOptions& options) : event_(event), waiter_(event.reactor_, options) {}
    bool await_ready() {
      if (event_.set_) waiter_.set_woken();
      return event_.set_ || waiter_.Over();
    }
    void await_suspend(std::coroutine_handle<> awaiting) { waiter_.Suspend(event_.waiters_, awaiting); }
    bool await_resume() const { return waiter_.woken(); }

   private:
    Event& event_;
    internal::Waiter waiter_;
  };
  /// `co_await` gives true when the event was set, false when the token or the deadline came first.
  Awaiter Wait(const OpOptions& options = {}) { return Awaiter(*this, options); }

 private:
  Reactor& reactor_;
  internal::WaitList waiters_;
  bool set_ = false;
};

/// Units handed out strictly first come, first served: a large request is not overtaken by small ones.
class Semaphore : private internal::WaitList {
 public:
  Semaphore(Reactor& reactor, size_t units) : WaitList(&NextAfterGaveUp), reactor_(reactor), available_(units) {}

  size_t available() const { return available_; }
  /// False, with nothing taken, when there are too few or others wait.
  bool TryAcquire(size_t units = 1) {
    if (!empty() || available_ < units) return false;
    available_ -= units;
    return true;
  }
  void Release(size_t units = 1) {
    available_ += units;
    GrantWaiting();
  }

  class [[nodiscard]] Awaiter {
   public:
    Awaiter(Semaphore& semaphore, size_t units, const OpOptions& options)
        : semaphore_(semaphore), waiter_(semaphore.reactor_, options) {
      waiter_.amount = units;
    }
    bool await_ready() {
      if (waiter_.Over()) return true;
      if (!semaphore_.TryAcquire(waiter_.amount)) return false;
      waiter_.set_woken();
      return true;
    }
    void await_suspend(std::coroutine_handle<> awaiting) { waiter_.Suspend(semaphore_, awaiting); }
    bool await_resume() const { return waiter_.woken(); }

   private:
    Semaphore& semaphore_;
    internal::Waiter waiter_;
  };
  /// `co_await` gives true when the units were taken: the caller releases them; false, with none taken, when the token
  /// or the deadline came first. Asking for more than there ever are waits for ever.
  Awaiter Acquire(size_t units = 1, const OpOptions& options = {}) { return Awaiter(*this, units, options); }

 private:
  static void NextAfterGaveUp(WaitList& list) { static_cast<Semaphore&>(list).GrantWaiting(); }
  void GrantWaiting() {
    while (!empty() && first()->amount <= available_) {
      available_ -= first()->amount;
      WakeFirst();
    }
  }

  Reactor& reactor_;
  size_t available_;
};

/// Units of a semaphore, released when destroyed.
class Units {
 public:
  Units() = default;
  /// Takes over `units` that the caller acquired.
  Units(Semaphore& semaphore, size_t units) : semaphore_(&semaphore), units_(units) {}
  Units(Units&& other) noexcept
      : semaphore_(std::exchange(other.semaphore_, nullptr)), units_(std::exchange(other.units_, 0)) {}
  Units& operator=(Units&& other) noexcept {
    std::swap(semaphore_, other.semaphore_);
    std::swap(units_, other.units_);
    return *this;
  }
  ~Units() {
    if (semaphore_ != nullptr) semaphore_->Release(units_);
  }

 private:
  Semaphore* semaphore_ = nullptr;  // borrowed from its owner
  size_t units_ = 0;
};

/// Mutual exclusion across suspension points.
class Mutex {
 public:
  explicit Mutex(Reactor& reactor) : semaphore_(reactor, 1) {}

  class [[nodiscard]] Awaiter : public Semaphore::Awaiter {
   public:
    explicit Awaiter(Semaphore& semaphore) : Semaphore::Awaiter(semaphore, 1, {}), semaphore_(semaphore) {}
    Units await_resume() const { return Units(semaphore_, 1); }

   private:
    Semaphore& semaphore_;
  };
  /// `auto lock = co_await mutex.Lock();` unlocks when `lock` is destroyed.
  Awaiter Lock() { return Awaiter(semaphore_); }
  bool locked() const { return semaphore_.available() == 0; }

 private:
  Semaphore semaphore_;
};

/// Waits until as many Done as Add were called. Unlike a Gate it can be used again and refuses nobody.
class WaitGroup {
 public:
  explicit WaitGroup(Reactor& reactor) : zero_(reactor) { zero_.Set(); }

  void Add(size_t count = 1) {
    count_ += count;
    if (count_ != 0) zero_.Reset();
  }
  void Done() {
    FB_CHECK(count_ > 0);
    if (--count_ == 0) zero_.Set();
  }
  Event::Awaiter Wait(const OpOptions& options = {}) { return zero_.Wait(options); }
  size_t count() const { return count_; }

 private:
  Event zero_;
  size_t count_ = 0;
};

/// Opens for good after `count` calls of CountDown.
class Latch {
 public:
  Latch(Reactor& reactor, size_t count) : group_(reactor) { group_.Add(count); }

  void CountDown() { group_.Done(); }
  Event::Awaiter Wait(const OpOptions& options = {}) { return group_.Wait(options); }

 private:
  WaitGroup group_;
};

}  // namespace forebay::rt
