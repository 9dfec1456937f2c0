// SPDX-License-Identifier: Apache-2.0
// Upkeep: brings sides of an open store's mirrors up to date, and empties devices that leave, on a thread of its own that is
// there only while there is something to do.
// Owned by StoreDirectory. Thread-safe. Goes before the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "engine/engine.h"

namespace forebay::engine {

class Upkeep {
 public:
  /// So that clients get their share of the drives.
  static constexpr uint64_t kBytesPerSecond = 512 * base::kMiB;

  /// Both are borrowed.
  Upkeep(Engine& engine, base::Log& log) : engine_(engine), log_(log) {}
  /// Stops: a side that is not up to date begins anew when the store is opened again; what is moved stays moved.
  ~Upkeep();
  Upkeep(const Upkeep&) = delete;
  Upkeep& operator=(const Upkeep&) = delete;

  /// Begins, if there is something to do and nothing is on its way.
  void Wake() FB_EXCLUDES(mutex_);

 private:
  void Run() FB_EXCLUDES(mutex_);
  void RunOnce(rt::Reactor& reactor);

  Engine& engine_;
  base::Log& log_;
  std::atomic<bool> stopping_{false};
  base::Mutex mutex_;
  bool running_ FB_GUARDED_BY(mutex_) = false;
  bool again_ FB_GUARDED_BY(mutex_) = false;  // woken while running
  std::thread thread_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::engine
