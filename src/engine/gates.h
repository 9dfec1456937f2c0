// SPDX-License-Identifier: Apache-2.0
// Gates: one rt::Gate for each reactor that the engine was called on, for the coroutines that outlive the
// call that started them (device writes of a put, zeroing ahead, reads and commits whose caller had no more
// time). Thread-safe as far as said; each gate belongs to its reactor.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "rt/gate.h"
#include "rt/reactor.h"
#include "rt/sync.h"
#include "rt/task.h"

namespace forebay::engine {

class Gates {
 public:
  /// On `reactor`. False when Close was called for it: the task is destroyed without having run.
  bool Spawn(rt::Reactor& reactor, rt::Task<void> task) {
    return reactor.Spawn(Of(reactor), std::move(task));
  }
  /// On `reactor`: runs `task` to its end but waits only until `deadline`: false when that came first. The
  /// task then goes on and owns what it needs. Unavailable when Close was called.
  rt::Task<Result<bool>> RunUntil(rt::Reactor& reactor, base::TimePoint deadline, rt::Task<void> task) {
    if (deadline == base::kNever) {
      co_await std::move(task);
      co_return true;
    }
    auto done = std::make_shared<rt::Event>(reactor);  // shared: whoever is later frees it
    if (!Spawn(reactor, Signal(std::move(task), done))) co_return Status::Unavailable("the store is closing");
    co_return co_await done->Wait({.deadline = deadline});
  }
  /// On `reactor`: refuses newcomers and waits for the others.
  rt::Task<void> Close(rt::Reactor& reactor) { co_await Of(reactor).Close(); }

 private:
  static rt::Task<void> Signal(rt::Task<void> task, std::shared_ptr<rt::Event> done) {
    co_await std::move(task);
    done->Set();
  }
  rt::Gate& Of(rt::Reactor& reactor) {
    base::MutexLock lock(mutex_);
    std::unique_ptr<rt::Gate>& gate = gates_[&reactor];
    if (gate == nullptr) gate = std::make_unique<rt::Gate>(reactor);
    return *gate;
  }

  base::Mutex mutex_;
  std::map<rt::Reactor*, std::unique_ptr<rt::Gate>> gates_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::engine
