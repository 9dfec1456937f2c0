// SPDX-License-Identifier: Apache-2.0
// The row of the scrub: how far it is and what it found, so that it goes on after a restart. docs/formats/metadata.md
// has the grammar. Decoders take hostile bytes, as those of rows.h do. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/block_owners.h"

namespace forebay::engine {

/// In Family::kSystem. It is no part of a copy of the store.
constexpr std::string_view kScrubKey = "engine/scrub";

/// Damaged and repaired blocks that are kept by name, and owners of each; all are counted.
constexpr size_t kMaxDamageKept = 5000;
constexpr size_t kMaxOwnersKept = 4;

enum class ScrubPhase : uint8_t {
  kNever = 0,  // there is no row
  kRunning = 1,
  kStopped = 2,  // by somebody; it goes on where it was
  kFinished = 3,
  kFailed = 4,  // `reason` says why
};

struct DamagedBlock {
  uint64_t extent = 0;
  uint64_t begin = 0;  // in the extent
  uint64_t length = 0;
  uint32_t device = 0;
  uint64_t unit = 0;        // of the device
  bool unreadable = false;  // the device gave an error; else the content is not what was written
  bool repaired = false;    // it was wrong on one side, and was written again from the other
  std::vector<BlockOwner> owners{};  // found at the end of the pass; none: nothing uses it any more
  friend bool operator==(const DamagedBlock&, const DamagedBlock&) = default;
};

/// One pass over the extents with numbers below `end_extent`.
struct ScrubState {
  ScrubPhase phase = ScrubPhase::kNever;
  int64_t started_ns = 0;  // wall time
  int64_t ended_ns = 0;    // 0 while it has not ended
  uint64_t bytes_per_second = 0;  // 0: no limit
  uint64_t end_extent = 0;   // 0: not known yet
  uint64_t next_extent = 0;  // all below were read
  uint64_t total_bytes = 0;  // of the devices in use at the beginning
  uint64_t passed_bytes = 0;  // of them, read or found damaged
  uint64_t verified_bytes = 0;  // of content
  uint64_t damaged_blocks = 0;
  uint64_t repaired_blocks = 0;
  uint64_t damaged_rows = 0;  // of extents, whose blocks nobody can compare
  std::string reason{};
  std::vector<DamagedBlock> damage{};  // the first of them
  friend bool operator==(const ScrubState&, const ScrubState&) = default;
};

std::string EncodeScrub(const ScrubState& state);
Result<ScrubState> DecodeScrub(std::string_view value);

}  // namespace forebay::engine
