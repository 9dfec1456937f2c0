// SPDX-License-Identifier: Apache-2.0
// ReferenceChanges: how often a change makes extents be referred to, more or less, all together. An extent that nothing
// refers to any more goes with the change. Belongs to the committer's thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/group_commit.h"
#include "engine/rows.h"
#include "meta/meta_store.h"

namespace forebay::engine {

class ReferenceChanges {
 public:
  /// Of a hole nothing is counted.
  void Add(uint64_t extent) {
    if (extent != kHole) ++changes_[extent].by;
  }
  void Remove(uint64_t extent) {
    if (extent != kHole) --changes_[extent].by;
  }
  void Remove(std::span<const Piece> pieces) {
    for (const Piece& piece : pieces) Remove(piece.extent);
  }

  /// Forgets the extents that are referred to as often as before: they are not read.
  void DropUnchanged() {
    std::erase_if(changes_, [](const auto& change) { return change.second.by == 0; });
  }
  /// Reads all that is needed; DataLoss for an extent that is not there, or is referred to less often than is taken.
  Status Plan(meta::View& view);
  /// Roughly the bytes of the rows that it writes; once it is planned.
  static constexpr uint64_t kRowBytes = 64;
  uint64_t RowBytes() const;
  /// As planned, with the references that it will have; it is one that was added or removed.
  const ExtentRecord& record(uint64_t extent) const { return changes_.at(extent).record; }
  /// Cannot fail.
  void Apply(meta::Batch& batch, GroupCommit& commits);
  /// What nothing refers to any more once the change is durable.
  std::vector<UnitRun> TakeFreed() { return std::exchange(freed_, {}); }

 private:
  struct Change {
    int64_t by = 0;
    ExtentRecord record{};
  };
  std::map<uint64_t, Change> changes_;
  std::vector<UnitRun> freed_;
};

}  // namespace forebay::engine
