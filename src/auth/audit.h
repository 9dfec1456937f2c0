// SPDX-License-Identifier: Apache-2.0
// Audit: one log line for each thing that was refused to somebody and for each administrative act, in one form that
// can be searched:
//   audit: denied operation=data/Put by="capability 01..." tenant=7 target="models/x" peer="127.0.0.1:4711" reason="..."
// Refusals are bounded per second, so that who is refused cannot fill the disk; what was left out is counted. Names from outside
// are escaped. Thread-safe.
#pragma once

#include <string_view>

#include "auth/grant.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"

namespace forebay::auth {

constexpr unsigned kMaxAuditedRefusalsPerSecond = 100;

/// One act, as far as it is known. Views for the call.
struct Act {
  std::string_view operation;
  const Grant* grant = nullptr;  // null: nothing was proved
  Target target{};
  std::string_view peer;
};

class Audit {
 public:
  /// Both are borrowed for its life.
  Audit(base::Log& log, const base::Clock& clock) : log_(log), clock_(clock) {}

  void Denied(const Act& act, const Status& reason);
  /// An administrative act and how it ended.
  void Done(const Act& act, const Status& outcome);

 private:
  base::Log& log_;            // borrowed
  const base::Clock& clock_;  // borrowed
  base::Mutex mutex_;
  base::TimePoint second_ FB_GUARDED_BY(mutex_);
  unsigned refusals_ FB_GUARDED_BY(mutex_) = 0;  // in this second
};

}  // namespace forebay::auth
