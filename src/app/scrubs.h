// SPDX-License-Identifier: Apache-2.0
// Scrubs: the scrub of a server's store: started and stopped by whoever administers it, taken up again when the server
// starts, and begun by itself where a schedule says so. It has a thread and a ring of its own, which sleep while there
// is nothing to do. Thread-safe. Goes after the store: the store's threads answer to its ring.
#pragma once

#include <future>
#include <memory>
#include <optional>

#include "app/scrub_schedule.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "control/scrubs.h"
#include "engine/engine.h"
#include "engine/scrub.h"
#include "rt/reactor_thread.h"
#include "rt/sync.h"

namespace forebay::app {

class Scrubs final : public control::Scrubs {
 public:
  /// All are borrowed, the engine until Close. Goes on with a pass that was running when the store was closed.
  static Result<std::unique_ptr<Scrubs>> Open(engine::Engine& engine, const base::Clock& clock, base::Log& log,
                                              const ScrubSchedule& schedule);
  /// As Close.
  ~Scrubs() override { Close(); }

  Status Start(uint64_t bytes_per_second, bool anew) override FB_EXCLUDES(mutex_);
  Result<control::ScrubReport> Get() override FB_EXCLUDES(mutex_);
  Status Stop() override FB_EXCLUDES(mutex_);
  /// Ends what is running, which goes on at the next start, and refuses more. Waits for that.
  void Close() FB_EXCLUDES(mutex_);

 private:
  Scrubs(engine::Engine& engine, const base::Clock& clock, const ScrubSchedule& schedule)
      : engine_(engine), clock_(clock), schedule_(schedule) {}

  rt::Task<void> Serve();
  /// The pass to run now, if there is one.
  std::optional<engine::ScrubState> TakePass() FB_EXCLUDES(mutex_);
  /// When the schedule wants the next one.
  base::TimePoint Due() const FB_REQUIRES(mutex_);
  engine::ScrubOrder Watch(const engine::ScrubState& state) FB_EXCLUDES(mutex_);
  void Wake();

  engine::Engine& engine_;
  const base::Clock& clock_;
  const ScrubSchedule schedule_;
  std::unique_ptr<rt::Event> wake_;  // on the thread; made before it serves
  base::Mutex mutex_;
  bool closing_ FB_GUARDED_BY(mutex_) = false;
  bool wanted_ FB_GUARDED_BY(mutex_) = false;       // a pass is to run
  bool begin_anew_ FB_GUARDED_BY(mutex_) = false;   // the one that runs, if any, ends before
  uint64_t rate_ FB_GUARDED_BY(mutex_) = 0;         // of the pass that is wanted
  engine::ScrubState state_ FB_GUARDED_BY(mutex_);  // as of the last time that it was told
  std::future<void> served_;
  std::unique_ptr<rt::ReactorThread> thread_;  // last, so that it ends first
};

}  // namespace forebay::app
