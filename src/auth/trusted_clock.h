// SPDX-License-Identifier: Apache-2.0
// TrustedClock: the time by which capabilities expire. The wall clock may jump; this one never goes back, so that what has expired
// stays expired: after a jump back it goes on at the pace of the monotonic clock until the wall clock has caught
// up, and a jump forward is believed, so that it errs by letting things expire too early. `Advance` carries it over
// restarts. Thread-safe.
#pragma once

#include "base/clock.h"
#include "base/mutex.h"

namespace forebay::auth {

class TrustedClock final : public base::Clock {
 public:
  /// `clock` is borrowed for this one's life.
  explicit TrustedClock(const base::Clock& clock) : clock_(clock) {}

  base::TimePoint Now() const override { return clock_.Now(); }
  base::WallTime WallNow() const override;
  /// It is at least `seen`: a time that this clock gave before a restart.
  void Advance(base::WallTime seen);

 private:
  const base::Clock& clock_;  // borrowed
  mutable base::Mutex mutex_;
  /// The wall time that was last ahead of all others, and the monotonic time of that moment.
  mutable base::WallTime wall_ FB_GUARDED_BY(mutex_) = base::WallTime::min();
  mutable base::TimePoint at_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::auth
