// SPDX-License-Identifier: Apache-2.0
// Scrubber: reads every block of an open store from its device and compares it with its checksum, at a bounded rate,
// so that damage is found while there are copies elsewhere. Extents are taken in the order of their numbers, some at a
// time: each time an epoch is entered, which keeps their space from being written again, and left before the pause
// that the rate wants. So it holds no space back for longer than a read takes. What it found, and how far it is, is a
// row of the metadata. Reactor-local: it blocks on the metadata, so on a reactor and a thread of its own, which
// outlive the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "engine/block_check.h"
#include "engine/devices.h"
#include "engine/epochs.h"
#include "engine/scrub_row.h"
#include "meta/meta_store.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::engine {

/// Of an open engine, from which all is borrowed.
struct ScrubSource {
  Devices& devices;
  EpochSet& epochs;
  meta::MetaStore& meta;
  const base::Clock& clock;
  base::Log& log;
  std::function<uint64_t()> used_bytes;                         // of the devices, now
  std::function<void(uint64_t blocks)> count_damage = nullptr;  // for the engine's numbers; may be null
};

enum class ScrubOrder : uint8_t {
  kGoOn,
  kStop,   // the pass is stopped until somebody starts it again
  kLeave,  // the store closes: the pass goes on when it is open again
};

/// How often a pass that goes on writes its row.
constexpr base::Duration kScrubSavesEvery = std::chrono::seconds(10);

class Scrubber {
 public:
  /// Asked after each piece of work, and several times a second while it waits for its rate.
  using Watch = std::function<ScrubOrder(const ScrubState&)>;

  /// `reactor` is borrowed.
  Scrubber(rt::Reactor& reactor, ScrubSource source, Watch watch)
      : reactor_(reactor), source_(std::move(source)), watch_(std::move(watch)) {}

  /// What the row says; the phase is kNever when there is none. DataLoss when it is damaged.
  static Result<ScrubState> Load(meta::MetaStore& meta);
  /// The state of a pass that begins.
  static ScrubState NewPass(uint64_t bytes_per_second, const base::Clock& clock);

  /// Goes on with a pass until its end, an order, or an error of the metadata; `state.phase` says which. Writes the row
  /// at the beginning, now and then, and at the end. Damage is no error: it is counted, and logged with the names of the
  /// objects.
  rt::Task<void> Run(ScrubState& state);

 private:
  rt::Task<Status> Walk(ScrubState& state);
  Status Begin(ScrubState& state);
  /// Some extents, checked within one epoch; the device bytes read.
  rt::Task<Result<uint64_t>> CheckSome(ScrubState& state);
  Result<std::vector<BlockRun>> NextRuns(ScrubState& state);
  rt::Task<void> CheckRuns(const std::vector<BlockRun>& runs, ScrubState& state);
  void Note(const BlockRun& run, const RunCheck& check, ScrubState& state);
  Status NameOwners(ScrubState& state);
  void LogDamage(const ScrubState& state) const;
  rt::Task<Status> Pace(uint64_t bytes, const ScrubState& state);
  rt::Task<void> Save(const ScrubState& state);
  /// Cancelled with the order in `order_`.
  Status Ask(const ScrubState& state);

  rt::Reactor& reactor_;
  const ScrubSource source_;
  const Watch watch_;
  ScrubOrder order_ = ScrubOrder::kGoOn;
  base::TimePoint next_{};   // when the rate allows to go on
  base::TimePoint saved_{};  // when the row was written last
  bool save_failed_ = false;
};

/// "unit 300 of /dev/nvme1n1 (extent 7) does not match its checksum".
std::string DescribeBlock(const DamagedBlock& block, const Devices& devices);

}  // namespace forebay::engine
