// SPDX-License-Identifier: Apache-2.0
// The rows of operations: one for each result that is kept, in the order of the ids' times, and one about all
// of them. docs/formats/metadata.md has the grammar. Decoders take hostile bytes, as those of rows.h do.
// Thread-safe: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/status.h"
#include "store/operations.h"

namespace forebay::engine {

/// In Family::kSystem.
constexpr std::string_view kOperationPrefix = "operation/";
constexpr std::string_view kOperationsKey = "engine/operations";

struct OperationKey {
  OperationId id;
  TenantId tenant = TenantId::kNone;
};

std::string EncodeOperationKey(const OperationId& id, TenantId tenant);
/// Rows of ids of that time and later ones are at or above it, those of earlier ids below.
std::string OperationRowsFrom(uint64_t unix_ms);
Result<OperationKey> DecodeOperationKey(std::string_view row_key);

std::string EncodeOperation(std::string_view row_key, const store::OperationRecord& record);
Result<store::OperationRecord> DecodeOperation(std::string_view row_key, std::string_view value);

/// About all operations; written with each group that kept a result or let one go.
struct OperationsState {
  uint64_t count = 0;     // of results that are kept
  uint64_t floor_ms = 0;  // no result was let go of an id that is later
  uint64_t clock_ms = 0;  // the store's time when this was written
  friend bool operator==(const OperationsState&, const OperationsState&) = default;
};

std::string EncodeOperations(const OperationsState& state);
Result<OperationsState> DecodeOperations(std::string_view value);

}  // namespace forebay::engine
