// SPDX-License-Identifier: Apache-2.0
// ObjectState: one version of an object, resolved: what its record says, and where its bytes are with their
// checksums, so that a read of it needs no metadata. Shared by the cache and the readers that have it open.
// Immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/rows.h"
#include "store/object_store.h"

namespace forebay::engine {

struct MappedExtent {
  uint64_t id = 0;
  ExtentRecord record;
};

/// Instead of an index: a hole, whose bytes are zero.
constexpr uint32_t kHoleIndex = UINT32_MAX;

/// A run of the object's bytes.
struct MappedPiece {
  uint64_t begin = 0;  // in the object
  uint64_t length = 0;
  uint32_t extent = 0;  // index into ObjectState::extents, or kHoleIndex
  uint64_t offset = 0;  // in the extent
};

struct ObjectState {
  uint64_t bucket = 0;
  store::ObjectInfo info;
  std::string inline_content;       // all of it when there are no pieces
  std::vector<MappedPiece> pieces;  // in order, one after the other, info.size_bytes in all; fewer where it says so
  std::vector<MappedExtent> extents;

  /// Roughly what it takes of the heap.
  uint64_t footprint() const;
};
using ObjectStatePtr =
    std::shared_ptr<const ObjectState>;  // shared: the cache may drop it while readers go on

store::ObjectInfo InfoOf(std::string_view key, uint64_t version, const ObjectRecord& record);

}  // namespace forebay::engine
