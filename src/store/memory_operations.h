// SPDX-License-Identifier: Apache-2.0
// MemoryOperations: the results of operations of the memory store, which guards it with its mutex. Each
// change lets go of two records that are over, as far as there are any, so the table does not outgrow its
// limit for long. Not thread-safe: see above.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "store/operations.h"

namespace forebay::store {

class MemoryOperations {
 public:
  /// Borrows the clock.
  MemoryOperations(const OperationClock& clock, uint64_t limit) : clock_(clock), limit_(limit) {}

  /// The record of `operation`, nothing when there is none; InvalidArgument when it is of another request.
  Result<std::optional<OperationRecord>> Find(const Operation& operation) const;
  /// The same before a change, which may be made when there is none; the errors of CheckOperationTime and
  /// TooManyOperations when it may not. Without an id: nothing.
  Result<std::optional<OperationRecord>> Begin(const Operation& operation);
  /// Keeps what became of the change, when it is a result, and gives it.
  Status End(const Operation& operation, Status outcome);
  Result<ObjectInfo> End(const Operation& operation, Result<ObjectInfo> stored);

 private:
  using Key = std::pair<OperationId, TenantId>;  // in the order of time

  void Keep(const Operation& operation, const Status& outcome, const ObjectInfo* stored);
  void LetGo();

  const OperationClock& clock_;
  const uint64_t limit_;
  std::map<Key, OperationRecord> records_;
  uint64_t floor_ms_ = 0;
};

}  // namespace forebay::store
