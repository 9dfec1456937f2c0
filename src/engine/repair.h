// SPDX-License-Identifier: Apache-2.0
// Repair: what to do about a closed store that fsck finds wrong. A plan is made by looking at every row, as fsck does,
// and says in words and rows what it would change; nothing is written. Applying it writes content first, then the rows
// in synced commits, so that a repair that was cut is planned anew and ends at the same. No byte that can be read is
// given up: what was lost becomes a block that fails by name, and each row that goes is in the plan, to be kept
// elsewhere. Reactor-local in the call; memory as fsck's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/devices.h"
#include "engine/rows.h"
#include "meta/meta_store.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::engine {

struct RepairOptions {
  uint64_t now_ms = 0;          // since 1970, when the store's own clock is lost
  bool verify_data = false;     // read every block; needed to find objects with damaged ones
  bool remove_damaged = false;  // implies verify_data: objects and parts with a lost or damaged block go
};

struct RepairPlan {
  /// Put, or removed when there is no value.
  struct Row {
    meta::Family family;
    std::string key;
    std::optional<std::string> value;
  };
  /// A row that goes and is not derived from others.
  struct LostRow {
    meta::Family family;
    std::string key;
    std::string value;
    std::string what;
  };
  /// Units to write before any row: a copy of others, or zeros, which stand for what was lost.
  struct Fill {
    uint32_t device = 0;
    uint64_t offset = 0;
    uint64_t length = 0;
    bool copy = false;
    uint32_t from_device = 0;
    uint64_t from_offset = 0;
  };
  /// The order in which rows are written when they do not fit one commit: what is referred to before who refers to
  /// it, and the other way round for what goes. Space is given back at the end.
  enum Stage : uint8_t { kReserve, kAdd, kRefer, kRemove, kForget, kRelease, kStages };

  std::vector<std::string> actions;     // in words
  std::vector<std::string> unrepaired;  // what it can do nothing about, and what to do
  std::vector<LostRow> lost;
  std::vector<Fill> fills;
  std::array<std::vector<Row>, kStages> rows;

  bool empty() const;
};

/// Blocks on the metadata between device reads. Fails only when it cannot go on at all.
rt::Task<Result<RepairPlan>> PlanRepair(rt::Reactor& reactor, Devices& devices, meta::MetaStore& meta,
                                        RepairOptions options);

/// The most that one commit writes.
constexpr size_t kRepairBatchBytes = 32 * base::kMiB;

/// Acts. After an error, and after a power cut, plan again.
rt::Task<Status> ApplyRepair(rt::Reactor& reactor, Devices& devices, meta::MetaStore& meta, const RepairPlan& plan,
                             size_t batch_bytes = kRepairBatchBytes);

/// The plan in words with each lost row in hexadecimal, for a file.
std::string FormatRepair(const RepairPlan& plan);

}  // namespace forebay::engine
