// SPDX-License-Identifier: Apache-2.0
// TransferTable: the one-sided operations that this endpoint started and whose answer is still owed. A call that gave up
// at its deadline leaves its entry behind, abandoned, until the answer comes: so an answer without an entry is a lie.
// Reactor-local. Outlives whoever waits in it.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "rt/cancel.h"
#include "rt/reactor.h"
#include "rt/sync.h"
#include "rt/task.h"

namespace forebay::fabric {

struct Transfer {
  explicit Transfer(rt::Reactor& reactor) : done(reactor) {}

  enum class Kind : uint8_t { kWrite, kRead };

  uint64_t id = 0;
  Kind kind = Kind::kWrite;
  uint64_t offset = 0;
  uint64_t length = 0;
  MutableByteView destination;  // kRead: borrowed from the caller until it is answered or abandoned
  uint64_t received = 0;        // kRead: of length
  bool abandoned = false;       // nobody waits any more; destination must not be touched
  Status result;                // once done is set
  rt::Event done;
};

class TransferTable {
 public:
  /// At most `limit` entries. `life`, borrowed, is cancelled when the endpoint is fenced.
  TransferTable(rt::Reactor& reactor, uint32_t limit, rt::CancelToken& life);

  /// Waits for room until the deadline (DeadlineExceeded) or the fence (Cancelled).
  rt::Task<Result<Transfer*>> Begin(Transfer::Kind kind, uint64_t offset, uint64_t length, base::TimePoint deadline);
  /// Suspends until the answer is there, or gives DeadlineExceeded and leaves the transfer abandoned. `transfer` is gone
  /// afterwards, or no longer the caller's.
  rt::Task<Status> Finish(Transfer* transfer, base::TimePoint deadline);
  /// Null when no transfer has this id.
  Transfer* Find(uint64_t id);
  /// The answer came.
  void Answer(Transfer* transfer, Status result);
  /// No answer will ever come: the connection is gone.
  void AnswerAll(const Status& result);

  /// Entries, those included whose answer waits for its caller.
  size_t size() const { return transfers_.size(); }
  /// Entries whose answer is owed.
  size_t unanswered() const { return unanswered_; }

 private:
  void Erase(Transfer* transfer);

  rt::Reactor& reactor_;
  const uint32_t limit_;
  rt::CancelToken& life_;
  rt::Semaphore slots_;
  std::unordered_map<uint64_t, Transfer> transfers_;
  uint64_t next_id_ = 1;
  size_t unanswered_ = 0;
};

}  // namespace forebay::fabric
