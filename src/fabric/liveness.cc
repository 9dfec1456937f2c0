// SPDX-License-Identifier: Apache-2.0
#include "fabric/liveness.h"

#include <algorithm>

namespace forebay::fabric {

void Liveness::Arrived(base::TimePoint now, bool outstanding) {
  last_arrival_ = now;
  waiting_since_ = outstanding ? now : base::kNever;
}

void Liveness::Moved(base::TimePoint now) {
  last_arrival_ = now;
  if (waiting_since_ != base::kNever) waiting_since_ = now;
}

bool Liveness::Sent(base::TimePoint now) {
  if (waiting_since_ != base::kNever) return false;
  waiting_since_ = now;
  return true;
}

void Liveness::Blocked(Room room, base::TimePoint now) {
  if (blocked_since_[room] == base::kNever) blocked_since_[room] = now;
}

Liveness::Decision Liveness::Check(base::TimePoint now) {
  const bool waiting = waiting_since_ != base::kNever;
  const bool asked = waiting && last_probe_ >= waiting_since_;
  // Nobody is dead who was not asked: when it was us who did not run for a while, the answer may be in the socket.
  base::TimePoint dead_at = base::kNever;
  if (last_probe_ >= last_arrival_) dead_at = std::max(last_arrival_ + idle_dead_after_, last_probe_ + idle_dead_after_ / 3);
  if (asked) dead_at = std::min(dead_at, std::max(waiting_since_ + dead_after_, last_probe_ + dead_after_ / 2));
  if (now >= dead_at) return {Verdict::kSilent, now};
  const base::TimePoint blocked_since = std::min(blocked_since_[kTransport], blocked_since_[kMessageWindow]);
  const base::TimePoint stuck_at = blocked_since == base::kNever ? base::kNever : blocked_since + idle_dead_after_;
  if (now >= stuck_at) return {Verdict::kStuck, now};

  base::TimePoint probe_at = std::max(last_arrival_, last_probe_) + idle_dead_after_ / 3;
  if (waiting && !asked) probe_at = std::min(probe_at, waiting_since_ + dead_after_ / 2);
  if (now < probe_at) return {Verdict::kAlive, std::min({dead_at, stuck_at, probe_at})};
  last_probe_ = now;
  return {Verdict::kProbe, Check(now).next};
}

}  // namespace forebay::fabric
