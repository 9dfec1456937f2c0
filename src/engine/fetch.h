// SPDX-License-Identifier: Apache-2.0
// Fetching blocks of an open version: from the memory tier, or from a device and then verified against the
// checksum in their extent's record before anybody sees them. A block that does not match is read once more,
// then it is an error that names object, offset, device and unit. Reactor-local in each call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "engine/core.h"
#include "engine/object_state.h"

namespace forebay::engine {

/// What a reader and its fetches in progress share. While it lives the units of the version are not written
/// again.
struct OpenVersion {
  Core& core;  // borrowed: outlives all readers
  const std::string bucket_name;
  const ObjectStatePtr state;
  const EpochSet::Guard guard;  // entered before the state was looked up
};
using OpenVersionPtr = std::shared_ptr<const OpenVersion>;  // shared: a fetch may outlive its reader's call

/// A part of one block that a read wants, or of a hole.
struct BlockPart {
  uint32_t extent = 0;  // index into the state's extents, or kHoleIndex: then only length and object_offset count
  uint32_t block = 0;
  uint64_t begin = 0;  // in the block
  uint64_t length = 0;
  uint64_t object_offset = 0;
  base::Buffer content{};  // of the whole block, verified; empty while it is missing

  bool is_hole() const { return extent == kHoleIndex; }
};

/// The parts of [offset, offset + length), in order, each run of a hole in one. The range lies inside of the object and is not empty.
std::vector<BlockPart> PartsOf(const ObjectState& state, uint64_t offset, uint64_t length);

/// Fills in what the tier has; the number of parts that are missing.
size_t LookUp(const OpenVersion& version, std::vector<BlockPart>& parts);

/// One fetch of missing parts, which it owns. `status` says whether all are there.
struct Fetch {
  OpenVersionPtr version;
  std::vector<BlockPart> parts;
  base::TimePoint deadline;  // of the waits for memory and for other fetches
  Status status;
};
rt::Task<void> RunFetch(rt::Reactor& reactor, std::shared_ptr<Fetch> fetch);

}  // namespace forebay::engine
