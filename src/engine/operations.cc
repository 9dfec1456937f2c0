// SPDX-License-Identifier: Apache-2.0
#include "engine/operations.h"

#include <algorithm>
#include <utility>

#include "engine/cache_rows.h"
#include "engine/core.h"
#include "engine/rows.h"

namespace forebay::engine {
namespace {

using meta::Family;

/// Rows that one sweep lets go, and looks at.
constexpr size_t kLetGoAtOnce = 4096;
constexpr size_t kRowsOfASweep = 4 * kLetGoAtOnce;
/// Between two walks over all rows that may be over.
constexpr uint64_t kSweepEveryMs = 1000;

Result<std::optional<store::OperationRecord>> Decode(const store::Operation& operation,
                                                     const std::string& key,
                                                     const std::optional<std::string>& row) {
  if (!row) return std::optional<store::OperationRecord>();
  FB_ASSIGN(store::OperationRecord record, DecodeOperation(key, *row));
  FB_TRY(store::CheckSameRequest(record, operation));
  return std::optional(std::move(record));
}

class OnceTransaction final : public meta::Transaction {
 public:
  OnceTransaction(Operations& operations, store::Operation operation,
                  std::unique_ptr<meta::Transaction> change, std::shared_ptr<const store::ObjectInfo> stored,
                  std::shared_ptr<OnceOutcome> outcome)
      : operations_(operations),
        operation_(operation),
        change_(std::move(change)),
        stored_(std::move(stored)),
        outcome_(std::move(outcome)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(outcome_->earlier, operations_.Begin(view, operation_));
    if (outcome_->earlier) return {};
    Status decided = change_->Prepare(view, batch);
    if (!store::IsResult(decided.code())) return decided;
    // A change that is refused has written nothing: its result stands alone in the batch.
    outcome_->refusal = decided;
    changes_ = decided.ok();
    operations_.Keep(batch, operation_, decided, changes_ ? stored_.get() : nullptr);
    return {};
  }
  bool needs_data_flush() const override { return changes_ && change_->needs_data_flush(); }
  bool frees_space() const override { return change_->frees_space(); }
  bool durable() const override { return change_->durable(); }
  void Done(const Status& outcome) override { change_->Done(outcome); }

 private:
  Operations& operations_;
  const store::Operation operation_;
  const std::unique_ptr<meta::Transaction> change_;
  const std::shared_ptr<const store::ObjectInfo> stored_;
  const std::shared_ptr<OnceOutcome>
      outcome_;  // shared with whoever waits, maybe no longer than its deadline
  bool changes_ = false;
};

class RefusalTransaction final : public meta::Transaction {
 public:
  explicit RefusalTransaction(Status why) : why_(std::move(why)) {}
  Status Prepare(meta::View& /*view*/, meta::Batch& /*batch*/) override { return why_; }
  bool needs_data_flush() const override { return false; }
  void Done(const Status& /*outcome*/) override {}

 private:
  const Status why_;
};

class LetGoTransaction final : public meta::Transaction {
 public:
  LetGoTransaction(Operations& operations, std::vector<std::string> row_keys)
      : operations_(operations), row_keys_(std::move(row_keys)) {}
  Status Prepare(meta::View& /*view*/, meta::Batch& batch) override {
    operations_.LetGo(batch, row_keys_);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }
  void Done(const Status& /*outcome*/) override {}

 private:
  Operations& operations_;
  const std::vector<std::string> row_keys_;
};

rt::Task<void> SweepOnce(Core& core, rt::Reactor& reactor) {
  Result<std::vector<std::string>> over =
      co_await rt::Offload(reactor, *core.pool, [&core] { return core.operations.Sweep(*core.meta); });
  Status status = over.status();
  if (over.ok() && !over->empty())
    status = co_await core.meta->Commit(
        reactor, std::make_unique<LetGoTransaction>(core.operations, *std::move(over)));
  // Nothing is lost: they are let go another time.
  if (!status.ok()) core.log.Warning("results of operations could not be let go: {}", status.ToString());
  core.operations.EndSweep(status.ok());
}

}  // namespace

Status Operations::Load(meta::MetaStore& meta) {
  FB_ASSIGN(const std::optional<std::string> row, meta.Get(Family::kSystem, kOperationsKey));
  OperationsState state;
  if (row) {
    FB_ASSIGN(state, DecodeOperations(*row));
  }
  FB_ASSIGN(const std::optional<std::string> cache_row, meta.Get(Family::kSystem, kCacheTotalsKey));
  CacheTotals cache;  // its clock goes on, too: what has expired stays so
  if (cache_row) {
    FB_ASSIGN(cache, DecodeCacheTotals(*cache_row));
  }
  clock_.emplace(base_clock_, std::max(state.clock_ms, cache.clock_ms));
  count_ = state.count;
  floor_ms_ = state.floor_ms;
  return {};
}

Result<std::optional<store::OperationRecord>> Operations::Find(meta::MetaStore& meta,
                                                               const store::Operation& operation) {
  const std::string key = EncodeOperationKey(operation.id, operation.tenant);
  FB_ASSIGN(const std::optional<std::string> row, meta.Get(Family::kSystem, key));
  return Decode(operation, key, row);
}

Result<std::optional<store::OperationRecord>> Operations::Begin(meta::View& view,
                                                                const store::Operation& operation) const {
  const std::string key = EncodeOperationKey(operation.id, operation.tenant);
  FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kSystem, key));
  if (row) return Decode(operation, key, row);
  FB_TRY(store::CheckOperationTime(operation, floor_ms()));
  if (count() >= limit_) return store::TooManyOperations(count());
  return std::optional<store::OperationRecord>();
}

void Operations::Keep(meta::Batch& batch, const store::Operation& operation, const Status& outcome,
                      const store::ObjectInfo* stored) {
  const uint64_t now_ms = NowMs();
  const std::string key = EncodeOperationKey(operation.id, operation.tenant);
  batch.Put(Family::kSystem, key, EncodeOperation(key, store::RecordOf(operation, outcome, stored, now_ms)));
  // When the group fails nothing is written any more: the number need not go back.
  count_.fetch_add(1, std::memory_order_relaxed);
  batch.Put(Family::kSystem, kOperationsKey, EncodeOperations(state(now_ms)));
}

void Operations::LetGo(meta::Batch& batch, const std::vector<std::string>& row_keys) {
  uint64_t floor = floor_ms();
  for (const std::string& key : row_keys) {
    batch.Delete(Family::kSystem, key);
    if (const Result<OperationKey> name = DecodeOperationKey(key); name.ok())
      floor = std::max(floor, name->id.unix_ms());
  }
  floor_ms_.store(floor, std::memory_order_relaxed);
  count_.store(count() - std::min<uint64_t>(count(), row_keys.size()), std::memory_order_relaxed);
  batch.Put(Family::kSystem, kOperationsKey, EncodeOperations(state(NowMs())));
}

// ---- letting go ----

bool Operations::BeginSweep() {
  if (count() == 0 || NowMs() < next_sweep_ms_.load(std::memory_order_relaxed)) return false;
  return !sweeping_.exchange(true, std::memory_order_acquire);
}

Result<std::vector<std::string>> Operations::Sweep(meta::MetaStore& meta) {
  const uint64_t now_ms = NowMs();
  const std::unique_ptr<meta::Scan> scan = meta.NewScan(Family::kSystem, PrefixEnd(kOperationPrefix));
  std::vector<std::string> over;
  size_t rows = 0;
  bool young = false;  // as are all behind it, for they are in the order of their times
  for (scan->Seek(next_row_); scan->Valid(); scan->Next()) {
    next_row_ = scan->key();
    if (++rows > kRowsOfASweep || over.size() == kLetGoAtOnce) break;
    const Result<OperationKey> name = DecodeOperationKey(scan->key());
    const Result<store::OperationRecord> record = DecodeOperation(scan->key(), scan->value());
    young = name.ok() && !store::IsOver(name->id, {}, now_ms);
    if (young) break;
    // A damaged row stays where it is, for fsck to find.
    if (name.ok() && record.ok() && store::IsOver(name->id, *record, now_ms)) {
      over.push_back(next_row_);
    } else if (passed_row_.empty()) {
      passed_row_ = next_row_;
    }
  }
  FB_TRY(scan->status());
  const bool again = !young && scan->Valid();
  if (!again) {
    // The next walk begins where a row can be: new ones are later than the floor, old ones are those that
    // were left.
    next_row_ = OperationRowsFrom(floor_ms());
    if (!passed_row_.empty()) next_row_ = std::min(next_row_, std::exchange(passed_row_, {}));
  }
  next_sweep_ms_.store(again ? 0 : now_ms + kSweepEveryMs, std::memory_order_relaxed);
  return over;
}

void Operations::EndSweep(bool let_go) {
  if (!let_go) {
    next_row_ = kOperationPrefix;
    passed_row_.clear();
  }
  sweeping_.store(false, std::memory_order_release);
}

void LetGoOfOperations(Core& core, rt::Reactor& reactor) {
  if (!core.operations.BeginSweep()) return;
  if (!core.gates.Spawn(reactor, SweepOnce(core, reactor))) core.operations.EndSweep(false);
}

// ---- changes ----

std::unique_ptr<meta::Transaction> MakeOnce(Operations& operations, store::Operation operation,
                                            std::unique_ptr<meta::Transaction> change,
                                            std::shared_ptr<const store::ObjectInfo> stored,
                                            std::shared_ptr<OnceOutcome> outcome) {
  return std::make_unique<OnceTransaction>(operations, operation, std::move(change), std::move(stored),
                                           std::move(outcome));
}

std::unique_ptr<meta::Transaction> MakeRefusal(Status why) {
  return std::make_unique<RefusalTransaction>(std::move(why));
}

rt::Task<Status> CommitOnce(Core& core, const store::Context& context, store::Operation operation,
                            std::unique_ptr<meta::Transaction> change) {
  const auto earlier = co_await CommitOnce(core, context, operation, std::move(change), nullptr);
  co_return earlier.status();
}

rt::Task<Result<std::optional<store::OperationRecord>>> CommitOnce(Core& core, const store::Context& context,
                                                                   store::Operation operation,
                                                                   std::unique_ptr<meta::Transaction> change,
                                                                   std::shared_ptr<store::ObjectInfo> stored) {
  using Record = std::optional<store::OperationRecord>;
  if (operation.id.IsNone()) {
    FB_CO_TRY(co_await Commit(core, context, std::move(change)));
    co_return Record();
  }
  auto outcome = std::make_shared<OnceOutcome>();
  const Status status = co_await Commit(
      core, context, MakeOnce(core.operations, operation, std::move(change), std::move(stored), outcome));
  LetGoOfOperations(core, context.reactor);  // also when it was refused: because the table is full, say
  FB_CO_TRY(status);
  FB_CO_TRY(outcome->earlier ? outcome->earlier->refusal : outcome->refusal);
  co_return std::move(outcome->earlier);
}

rt::Task<Result<std::optional<store::OperationRecord>>> BeginPut(Core& core, const store::Context& context,
                                                                 store::Operation operation, Status refused,
                                                                 bool look) {
  using Record = std::optional<store::OperationRecord>;
  if (operation.id.IsNone()) {
    FB_CO_TRY(refused);
    co_return Record();
  }
  const Status in_time = store::CheckOperationTime(operation, core.operations.floor_ms());
  if (refused.ok() && in_time.ok() && !look) co_return Record();
  FB_CO_ASSIGN(Record earlier, co_await rt::Offload(context.reactor, *core.pool, [&core, operation] {
                 return Operations::Find(*core.meta, operation);
               }));
  if (!earlier) {
    FB_CO_TRY(in_time);
    if (refused.ok()) co_return Record();
    auto outcome = std::make_shared<OnceOutcome>();
    const Status status =
        co_await Commit(core, context,
                        MakeOnce(core.operations, operation, MakeRefusal(refused), nullptr, outcome));
    LetGoOfOperations(core, context.reactor);
    FB_CO_TRY(status);
    earlier = outcome->earlier;  // another one was first
    if (!earlier) co_return outcome->refusal;
  }
  FB_CO_TRY(earlier->refusal);
  co_return earlier;
}

}  // namespace forebay::engine
