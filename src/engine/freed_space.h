// SPDX-License-Identifier: Apache-2.0
// FreedSpace: who needs units that readers hold waits here until some come back. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "rt/completion.h"
#include "rt/reactor.h"
#include "rt/task.h"
#include "rt/timer.h"

namespace forebay::engine {

class FreedSpace {
 public:
  /// How often units came back: asked before looking whether there are enough.
  uint64_t times() const { return times_.load(); }

  void Notify() {
    std::vector<rt::Completion<bool>*> waiting;
    {
      base::MutexLock lock(mutex_);
      times_.fetch_add(1);
      waiting = std::exchange(waiting_, {});
    }
    for (rt::Completion<bool>* one : waiting) one->Fulfil(true);
  }

  /// Until units came back more often than `times`; false when the deadline came first.
  rt::Task<bool> Wait(rt::Reactor& reactor, base::TimePoint deadline, uint64_t times) {
    rt::Completion<bool> mine(reactor);
    {
      base::MutexLock lock(mutex_);
      if (times_.load() != times) co_return true;
      waiting_.push_back(&mine);
    }
    rt::Timer timer(reactor);
    if (deadline != base::kNever) {
      timer.Arm(deadline, [this, &mine] {
        if (Leave(&mine)) mine.Fulfil(false);
      });
    }
    const bool came = co_await mine.Wait();
    timer.Cancel();
    co_return came;
  }

 private:
  bool Leave(rt::Completion<bool>* waiting) {
    base::MutexLock lock(mutex_);
    return std::erase(waiting_, waiting) != 0;
  }

  std::atomic<uint64_t> times_{0};
  base::Mutex mutex_;
  std::vector<rt::Completion<bool>*> waiting_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::engine
