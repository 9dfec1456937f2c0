// SPDX-License-Identifier: Apache-2.0
#include "engine/references.h"

#include <optional>
#include <string>

namespace forebay::engine {

using meta::Family;

Status ReferenceChanges::Plan(meta::View& view) {
  for (auto& [extent, change] : changes_) {
    const std::string key = NumberKey(extent);
    FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kExtents, key));
    if (!row) return Status::DataLoss("extent {} is referred to and has no row; run forebay fsck", extent);
    FB_ASSIGN(change.record, DecodeExtent(key, *row));
    if (change.by < 0 && change.record.references < static_cast<uint64_t>(-change.by))
      return Status::DataLoss("extent {} counts {} references and has {} more; run forebay fsck", extent,
                              change.record.references, static_cast<uint64_t>(-change.by));
    change.record.references += static_cast<uint64_t>(change.by);
  }
  return {};
}

uint64_t ReferenceChanges::RowBytes() const {
  uint64_t bytes = 0;
  for (const auto& [extent, change] : changes_)
    if (change.by != 0) bytes += kRowBytes + change.record.checksums.size() * sizeof(uint32_t);
  return bytes;
}

void ReferenceChanges::Apply(meta::Batch& batch, GroupCommit& commits) {
  for (const auto& [extent, change] : changes_) {
    if (change.by == 0) continue;
    const std::string key = NumberKey(extent);
    if (change.record.references != 0) {
      batch.Put(Family::kExtents, key, EncodeExtent(key, change.record));
      continue;
    }
    batch.Delete(Family::kExtents, key);
    const UnitRun run{.device = change.record.device,
                      .first_unit = change.record.first_unit,
                      .units = static_cast<uint32_t>(change.record.units())};
    commits.MarkFree(run);
    if (change.record.cache) commits.MarkCache(run, false);
    freed_.push_back(run);
  }
}

}  // namespace forebay::engine
