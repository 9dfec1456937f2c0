// SPDX-License-Identifier: Apache-2.0
// Operations: the results that a store keeps, and the changes that take place once because of them. A change
// with an operation id is wrapped (MakeOnce): its transaction looks for the result first, under the
// committer, which does one thing after the other; effect and result are in one batch. Results that are over
// are let go in the background, some thousand at a time, started by the changes that come after. Invariant:
// floor_ms is at least the time of every id whose result was let go, and becomes durable with the letting go.
// Thread-safe where not said to be the committer's.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/operation_rows.h"
#include "meta/meta_store.h"
#include "rt/task.h"
#include "store/object_store.h"
#include "store/operations.h"

namespace forebay::engine {

struct Core;

class Operations {
 public:
  Operations(const base::Clock& clock, uint64_t limit) : base_clock_(clock), limit_(limit) {}

  /// Before the first group.
  Status Load(meta::MetaStore& meta);
  uint64_t NowMs() const { return clock_->NowMs(); }
  uint64_t floor_ms() const { return floor_ms_.load(std::memory_order_relaxed); }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

  /// The committed record; InvalidArgument when it is of another request. May block on the disk.
  static Result<std::optional<store::OperationRecord>> Find(meta::MetaStore& meta,
                                                            const store::Operation& operation);

  // ---- on the committer's thread ----

  /// The record; without one, the reason why the operation may not be acted on.
  Result<std::optional<store::OperationRecord>> Begin(meta::View& view,
                                                      const store::Operation& operation) const;
  void Keep(meta::Batch& batch, const store::Operation& operation, const Status& outcome,
            const store::ObjectInfo* stored);
  void LetGo(meta::Batch& batch, const std::vector<std::string>& row_keys);

  // ---- letting go; one at a time ----

  /// True when there may be something to let go; then EndSweep follows.
  bool BeginSweep();
  /// Keys of rows that are over. May block on the disk.
  Result<std::vector<std::string>> Sweep(meta::MetaStore& meta);
  /// `let_go` is false when what it found is still there.
  void EndSweep(bool let_go);

 private:
  OperationsState state(uint64_t now_ms) const {
    return {.count = count(), .floor_ms = floor_ms(), .clock_ms = now_ms};
  }

  const base::Clock& base_clock_;  // borrowed
  const uint64_t limit_;
  std::optional<store::OperationClock> clock_;  // since Load
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> floor_ms_{0};
  std::atomic<bool> sweeping_{false};
  std::atomic<uint64_t> next_sweep_ms_{0};
  // Of the sweep, which walks over the rows in several steps.
  std::string next_row_{kOperationPrefix};  // where the next step goes on
  std::string passed_row_;                  // the first that this walk left; empty: none so far
};

/// What a change that is wrapped came to.
struct OnceOutcome {
  std::optional<store::OperationRecord> earlier;  // it took place, or was refused, before
  Status refusal;                                 // which is its result; ok when it took place now
};

/// `change`, unless `operation` has its result. `stored` is what it fills in when its kind HasResult, null for others;
/// shared with whoever waits, maybe no longer than its deadline.
std::unique_ptr<meta::Transaction> MakeOnce(Operations& operations, store::Operation operation,
                                            std::unique_ptr<meta::Transaction> change,
                                            std::shared_ptr<const store::ObjectInfo> stored,
                                            std::shared_ptr<OnceOutcome> outcome);
/// A change that is refused for `why`, for MakeOnce: so that the refusal is kept.
std::unique_ptr<meta::Transaction> MakeRefusal(Status why);

/// Commits a change that gives nothing but ok; once, when it has an id.
rt::Task<Status> CommitOnce(Core& core, const store::Context& context, store::Operation operation,
                            std::unique_ptr<meta::Transaction> change);
/// The same of one that fills `stored` in: gives the record of the first time, nothing when it took place now.
rt::Task<Result<std::optional<store::OperationRecord>>> CommitOnce(Core& core, const store::Context& context,
                                                                   store::Operation operation,
                                                                   std::unique_ptr<meta::Transaction> change,
                                                                   std::shared_ptr<store::ObjectInfo> stored);

/// What is known of a put before its content comes. `refused` is why it cannot take place as things are, or
/// ok; with `look` its record is looked for even so. Gives the record of a put that took place, nothing when
/// it is to take place now, or the refusal.
rt::Task<Result<std::optional<store::OperationRecord>>> BeginPut(Core& core, const store::Context& context,
                                                                 store::Operation operation, Status refused,
                                                                 bool look);

/// On `reactor`: starts to let go of results that are over, when there may be some.
void LetGoOfOperations(Core& core, rt::Reactor& reactor);

}  // namespace forebay::engine
