// SPDX-License-Identifier: Apache-2.0
// Liveness: the rules by which an endpoint decides that its peer is gone, as plain arithmetic on time points. The kernel is
// of no help here: a stopped process keeps its sockets open and acknowledged.
// Silence counts. It is death after `dead_after` when something of ours went out that nothing answered, after
// `idle_dead_after` in any case; a probe has asked before. A peer that talks but takes nothing is gone after
// `idle_dead_after` too.
// Reactor-local.
#pragma once

#include "base/clock.h"

namespace forebay::fabric {

class Liveness {
 public:
  Liveness(base::Duration dead_after, base::Duration idle_dead_after, base::TimePoint now)
      : dead_after_(dead_after), idle_dead_after_(idle_dead_after), last_arrival_(now) {}

  /// Anything came. `outstanding`: answers to transfers of ours are still owed.
  void Arrived(base::TimePoint now, bool outstanding);
  /// A transfer of ours was carried out, by the peer's device: whatever its program owes us may still be on its way behind
  /// others, so its time begins anew.
  void Moved(base::TimePoint now);
  /// Something that the peer should react to goes out (not: probes and answers to them). True when Check is now due
  /// earlier than it said.
  bool Sent(base::TimePoint now);
  /// What the peer makes room in by taking things.
  enum Room : int { kTransport = 0, kMessageWindow = 1 };
  /// Something of ours waits for room, or (also: there was some) no longer does.
  void Blocked(Room room, base::TimePoint now);
  void Unblocked(Room room) { blocked_since_[room] = base::kNever; }

  enum class Verdict { kAlive, kProbe, kSilent, kStuck };
  struct Decision {
    Verdict verdict;
    base::TimePoint next;  ///< when to look again, if it lives
  };
  /// kProbe: send a probe now; it counts as sent.
  Decision Check(base::TimePoint now);
  /// When to look first.
  base::TimePoint first() const { return last_arrival_ + idle_dead_after_ / 3; }

  base::Duration silence(base::TimePoint now) const { return now - last_arrival_; }

 private:
  const base::Duration dead_after_;
  const base::Duration idle_dead_after_;
  base::TimePoint last_arrival_;
  base::TimePoint last_probe_ = base::TimePoint::min();
  base::TimePoint waiting_since_ = base::kNever;  // kNever: nothing of ours is unanswered
  base::TimePoint blocked_since_[2] = {base::kNever, base::kNever};  // kNever: nothing waits for room
};

}  // namespace forebay::fabric
