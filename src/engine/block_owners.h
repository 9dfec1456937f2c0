// SPDX-License-Identifier: Apache-2.0
// Whose bytes stand in some blocks: extents do not say who uses them, so all objects and parts of uploads are looked
// through, once for all blocks that are asked for. For those who found damage: copies and the scrub. Blocks on the
// metadata. Thread-safe: a function over a thread-safe store.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "meta/meta_store.h"

namespace forebay::engine {

/// A block of an extent, or another run of its bytes.
struct ExtentRange {
  uint64_t extent = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct BlockOwner {
  std::string name;      // "object `bucket/key` (version 7)", "part 3 of upload 1f"
  uint64_t offset = 0;   // in it, of the first byte that stands in the range
  friend bool operator==(const BlockOwner&, const BlockOwner&) = default;
};

/// The owners of each range, at most `most` of each; it ends early when all have so many. What does not decode is
/// passed over. The state is not that of one moment: whoever comes or goes meanwhile may be in it or not.
/// `go_on` is asked now and then: Cancelled when it says no.
Result<std::vector<std::vector<BlockOwner>>> FindOwners(meta::MetaStore& meta, const std::vector<ExtentRange>& ranges,
                                                        size_t most, const std::function<bool()>& go_on);

}  // namespace forebay::engine
