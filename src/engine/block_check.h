// SPDX-License-Identifier: Apache-2.0
// Reading blocks from a device, never from the memory tier, and comparing them with their checksums: what the scrub
// does with each block of the store. One place knows how often a block is read and on how many sides of its device it
// stands. Reactor-local in each call. Invariant: a block is called damaged only after it was read twice.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "engine/block_copies.h"
#include "engine/devices.h"
#include "engine/rows.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::engine {

/// Some blocks of an extent, one after the other.
struct BlockRun {
  uint64_t extent = 0;
  uint64_t begin = 0;  // in the extent
  uint64_t length = 0;
  uint32_t device = 0;
  uint64_t offset = 0;  // on the device
  uint64_t block_bytes = 0;
  std::vector<uint32_t> checksums;  // one for each block; the last block may be short

  uint64_t device_bytes() const { return base::RoundUp(length, device::kUnit); }
};

/// Cuts an extent into runs of at most `most_bytes`, a multiple of every block's size.
void AddRuns(uint64_t extent, const ExtentRecord& record, uint64_t most_bytes, std::vector<BlockRun>& runs);

struct BadBlock {
  size_t block = 0;         // of the run
  bool unreadable = false;  // the device gave an error; else the content is not what was written
  friend bool operator==(const BadBlock&, const BadBlock&) = default;
};

struct RunCheck {
  std::vector<BadBlock> damaged;  // that no side has; ascending
  std::vector<size_t> repaired;   // that one side had not, and were written again from the other; ascending
};

/// Reads the run, every copy of it, into `memory`, which has device_bytes() bytes. Does not fail: what cannot be read is damaged.
rt::Task<RunCheck> CheckRun(rt::Reactor& reactor, Devices& devices, const BlockRun& run, MutableByteView memory,
                            Mending mending = Mending::kYes);

}  // namespace forebay::engine
