// SPDX-License-Identifier: Apache-2.0
// Listing over an ordered key cursor: prefix, delimiter, start-after and page limit, the same for every
// backend. A common prefix costs one seek, however many keys lie under it; a page costs at most one step or
// seek for each of its entries. Each page starts beyond the last one, prefixes that were given out included,
// so paging always comes to an end. Thread-safe: pure functions; the cursor belongs to the caller for the
// time of the call.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "store/object_store.h"

namespace forebay::store {

/// Walks the keys of one bucket in ascending order of their bytes. A cursor that meets an I/O error turns
/// invalid; its owner asks it for the error after ListKeys.
class KeyCursor {
 public:
  virtual ~KeyCursor() = default;
  /// To the first key at or after `key`, which is any run of bytes (UTF-8 with a last byte that may be one
  /// too high).
  virtual void Seek(std::string_view key) = 0;
  /// To the following key; only while Valid.
  virtual void Next() = 0;
  virtual bool Valid() const = 0;
  /// Only while Valid; the view lasts until the next Seek or Next.
  virtual std::string_view key() const = 0;
};

/// Gives what is known of the entry that the cursor stands on. NotFound leaves it out (it was deleted
/// meanwhile); any other error ends the listing with that error.
using ReadEntry = std::function<Result<ObjectInfo>(std::string_view key)>;

/// One page. InvalidArgument as CheckListOptions says.
Result<ListPage> ListKeys(KeyCursor& cursor, const ListOptions& options, const ReadEntry& read);

/// The common prefix that `key` is rolled up into: up to the end of the first delimiter after the prefix.
/// Empty when there is none, that is, when the key is listed itself. A view into `key`, which starts with
/// `prefix`.
std::string_view RolledUpPrefix(std::string_view key, std::string_view prefix, std::string_view delimiter);

/// The smallest run of bytes that is greater than everything that starts with `prefix`; empty optional when
/// there is none.
std::optional<std::string> AfterPrefix(std::string_view prefix);

}  // namespace forebay::store
