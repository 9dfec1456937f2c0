// SPDX-License-Identifier: Apache-2.0
// The change that replaces a run of an object: its new version shares everything else with the old one. Of a large object
// only the rows of the segments that the run reaches into are written. Belongs to the committer's thread between Commit
// and its answer.
#pragma once

#include <memory>

#include "engine/core.h"
#include "engine/transactions.h"
#include "meta/meta_store.h"

namespace forebay::engine {

/// `request.replaces` says what; size, checksum, content and runs are those of what takes its place. Without runs and
/// extents the inline content becomes all of the object. Aborted when the run is not what was found any more; the errors
/// of ObjectStore::Overwrite.
std::unique_ptr<meta::Transaction> MakeReplace(Core& core, PublishRequest request, PublishOutcome* outcome);

/// The pieces of [begin, end) of a map whose first piece begins at `map_begin`, cut where the range cuts them; what goes
/// on in the same extent, or is a hole too, is one piece.
std::vector<Piece> PiecesOf(const std::vector<Piece>& map, uint64_t map_begin, uint64_t begin, uint64_t end);

}  // namespace forebay::engine
