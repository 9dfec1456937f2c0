// SPDX-License-Identifier: Apache-2.0
#include "auth/trusted_clock.h"

namespace forebay::auth {

base::WallTime TrustedClock::WallNow() const {
  const base::MutexLock lock(mutex_);
  const base::WallTime wall = clock_.WallNow();
  const base::TimePoint now = clock_.Now();
  if (wall_ == base::WallTime::min() || wall >= wall_ + (now - at_)) {
    wall_ = wall;
    at_ = now;
  }
  return wall_ + (now - at_);
}

void TrustedClock::Advance(base::WallTime seen) {
  (void)WallNow();
  const base::MutexLock lock(mutex_);
  const base::TimePoint now = clock_.Now();
  if (seen > wall_ + (now - at_)) {
    wall_ = seen;
    at_ = now;
  }
}

}  // namespace forebay::auth
