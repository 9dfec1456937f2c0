// SPDX-License-Identifier: Apache-2.0
// Gates: one rt::Gate for each reactor that the engine was called on, for the coroutines that outlive the call that started
// them (device writes of a put, zeroing ahead).
// Thread-safe as far as said; each gate belongs to its reactor.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "rt/gate.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::engine {

class Gates {
 public:
  /// On `reactor`. False when Close was called for it: the task is destroyed without having run.
  bool Spawn(rt::Reactor& reactor, rt::Task<void> task) { return reactor.Spawn(Of(reactor), std::move(task)); }
  /// On `reactor`: refuses newcomers and waits for the others.
  rt::Task<void> Close(rt::Reactor& reactor) { co_await Of(reactor).Close(); }

 private:
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
