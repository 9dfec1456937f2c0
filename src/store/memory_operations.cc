// SPDX-License-Identifier: Apache-2.0
#include "store/memory_operations.h"

#include <algorithm>

namespace forebay::store {
namespace {

constexpr int kLetGoPerChange = 2;

}  // namespace

Result<std::optional<OperationRecord>> MemoryOperations::Find(const Operation& operation) const {
  const auto found = records_.find({operation.id, operation.tenant});
  if (found == records_.end()) return std::optional<OperationRecord>();
  FB_TRY(CheckSameRequest(found->second, operation));
  return std::optional(found->second);
}

Result<std::optional<OperationRecord>> MemoryOperations::Begin(const Operation& operation) {
  if (operation.id.IsNone()) return std::optional<OperationRecord>();
  FB_ASSIGN(std::optional<OperationRecord> earlier, Find(operation));
  if (earlier) return earlier;
  LetGo();
  FB_TRY(CheckOperationTime(operation, floor_ms_));
  if (records_.size() >= limit_) return TooManyOperations(records_.size());
  return earlier;
}

Status MemoryOperations::End(const Operation& operation, Status outcome) {
  Keep(operation, outcome, nullptr);
  return outcome;
}

Result<ObjectInfo> MemoryOperations::End(const Operation& operation, Result<ObjectInfo> stored) {
  Keep(operation, stored.status(), stored.ok() ? &*stored : nullptr);
  return stored;
}

void MemoryOperations::Keep(const Operation& operation, const Status& outcome, const ObjectInfo* stored) {
  if (operation.id.IsNone() || !IsResult(outcome.code())) return;
  records_.emplace(Key(operation.id, operation.tenant), RecordOf(operation, outcome, stored, clock_.NowMs()));
}

void MemoryOperations::LetGo() {
  for (int i = 0; i < kLetGoPerChange && !records_.empty(); ++i) {
    const auto oldest = records_.begin();
    const OperationId& id = oldest->first.first;
    if (!IsOver(id, oldest->second, clock_.NowMs())) return;
    floor_ms_ = std::max(floor_ms_, id.unix_ms());
    records_.erase(oldest);
  }
}

}  // namespace forebay::store
