// SPDX-License-Identifier: Apache-2.0
// The one place that decides whether a Condition holds, used by every backend under whatever makes its
// decision atomic with the change (a mutex, a metadata batch). Thread-safe: pure functions.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "store/object_store.h"

namespace forebay::store {

/// `current_etag` is that of the current version, empty optional when the object does not exist. Ok when the
/// condition holds; AlreadyExists (if-absent), FailedPrecondition (if-match, another version), NotFound
/// (if-match, no object). Condition::None always holds: a read or delete reports a missing object itself
/// (NoSuchObject).
Status CheckCondition(const Condition& condition, std::optional<std::string_view> current_etag,
                      std::string_view bucket, std::string_view key);

}  // namespace forebay::store
