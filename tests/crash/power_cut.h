// SPDX-License-Identifier: Apache-2.0
// One power-cut run: some lives of a store under the stream, each ended by a power cut at a random operation, some cuts inside
// of the recovery from the one before, up to three deep; after each the oracle looks at everything.
// RunPowerCut is thread-safe: runs side by side share nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab.h"

namespace forebay::crash {

/// What happens to RocksDB's log before the last opening. Then the store may refuse to open, saying that metadata is damaged;
/// opened with less than was acknowledged it is wrong.
enum class LogDamage : uint8_t {
  kNone,
  kBit,  ///< one bit, anywhere: the record that has it shows that it is damaged
  kCut,  ///< the end is gone, more than a group of it: looks like a torn log, and only the witness knows better
};

struct PowerCutOptions {
  uint64_t seed = 0;
  size_t devices = 1;
  bool moves = false;  ///< devices are emptied meanwhile
  Mutant mutant = Mutant::kNone;
  LogDamage log_damage = LogDamage::kNone;
};

struct PowerCutReport {
  std::vector<std::string> violations;
  uint64_t cuts = 0;
  uint64_t recovery_cuts = 0;  ///< of these, before the store was open again
  uint64_t states = 0;         ///< stores found after a cut, opened and compared
  uint64_t objects = 0;        ///< read and compared
  uint64_t acknowledged = 0;   ///< operations
  uint64_t refusals = 0;       ///< damaged logs that were noticed
  void Add(const PowerCutReport& other);
};

PowerCutReport RunPowerCut(const PowerCutOptions& options);

/// Runs seeds [first, first + count) side by side, as many at a time as is good for this machine. Violations are prefixed
/// with their seed.
struct PowerCutSeeds {
  PowerCutReport total;
  uint64_t seeds = 0;
  uint64_t failed_seeds = 0;
};
PowerCutSeeds RunPowerCuts(PowerCutOptions options, uint64_t first, uint64_t count);

}  // namespace forebay::crash
