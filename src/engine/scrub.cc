// SPDX-License-Identifier: Apache-2.0
#include "engine/scrub.h"

#include <algorithm>
#include <memory>
#include <string>

#include "device/aligned_bytes.h"
#include "engine/loader.h"
#include "engine/rows.h"
#include "rt/when_all.h"

namespace forebay::engine {
namespace {

using meta::Family;

/// One device read; a multiple of every block's size.
constexpr uint64_t kRunBytes = uint64_t{1} << kMaxBlockShift;
/// Content on its way, and how many pieces it may be in.
constexpr uint64_t kOnTheWayBytes = 4 * base::kMiB;
constexpr size_t kMaxRunsOnTheWay = 32;
/// Extents of one epoch: as much as the rate allows in this time, within these bounds, and at least one.
constexpr uint64_t kLeastAtOnceBytes = base::kMiB;
constexpr uint64_t kMostAtOnceBytes = 32 * base::kMiB;
constexpr size_t kMostExtentsAtOnce = 1024;
constexpr base::Duration kLongestPause = std::chrono::milliseconds(100);

int64_t Nanoseconds(base::WallTime time) { return time.time_since_epoch().count(); }

class SaveTransaction final : public meta::Transaction {
 public:
  explicit SaveTransaction(std::string row) : row_(std::move(row)) {}
  Status Prepare(meta::View& /*view*/, meta::Batch& batch) override {
    batch.Put(Family::kSystem, kScrubKey, row_);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  /// No, but it is one small row, and a store that is full is to be scrubbed too.
  bool frees_space() const override { return true; }
  void Done(const Status& /*outcome*/) override {}

 private:
  const std::string row_;
};

uint64_t AtOnceBytes(const ScrubState& state) {
  if (state.bytes_per_second == 0) return kMostAtOnceBytes;
  return std::clamp(state.bytes_per_second / 4, kLeastAtOnceBytes, kMostAtOnceBytes);
}

}  // namespace

Result<ScrubState> Scrubber::Load(meta::MetaStore& meta) {
  FB_ASSIGN(const std::optional<std::string> row, meta.Get(Family::kSystem, kScrubKey));
  if (!row) return ScrubState{};
  return DecodeScrub(*row);
}

ScrubState Scrubber::NewPass(uint64_t bytes_per_second, const base::Clock& clock) {
  return {.phase = ScrubPhase::kRunning,
          .started_ns = Nanoseconds(clock.WallNow()),
          .bytes_per_second = bytes_per_second};
}

rt::Task<void> Scrubber::Run(ScrubState& state) {
  order_ = ScrubOrder::kGoOn;
  next_ = reactor_.Now();
  state.phase = ScrubPhase::kRunning;
  state.reason.clear();
  const Status walked = co_await Walk(state);
  if (walked.ok()) {
    state.phase = ScrubPhase::kFinished;
  } else if (order_ == ScrubOrder::kStop) {
    state.phase = ScrubPhase::kStopped;
  } else if (order_ == ScrubOrder::kGoOn) {
    state.phase = ScrubPhase::kFailed;
    state.reason = walked.ToString();
    source_.log.Error("the scrub failed: {}", state.reason);
  }
  if (state.phase == ScrubPhase::kFinished || state.phase == ScrubPhase::kFailed)
    state.ended_ns = Nanoseconds(source_.clock.WallNow());
  co_await Save(state);
}

rt::Task<Status> Scrubber::Walk(ScrubState& state) {
  FB_CO_TRY(Begin(state));
  co_await Save(state);
  while (state.next_extent < state.end_extent) {
    FB_CO_TRY(Ask(state));
    FB_CO_ASSIGN(const uint64_t bytes, co_await CheckSome(state));
    if (reactor_.Now() - saved_ >= kScrubSavesEvery) co_await Save(state);
    FB_CO_TRY(co_await Pace(bytes, state));
  }
  FB_CO_TRY(NameOwners(state));
  LogDamage(state);
  co_return Status();
}

Status Scrubber::Begin(ScrubState& state) {
  if (state.end_extent != 0) return {};
  // Extents that come later are of content that was just written: they are for the next pass.
  FB_ASSIGN(const std::optional<std::string> row, source_.meta.Get(Family::kSystem, kCountersKey));
  const Counters counters;
  FB_ASSIGN(const Counters now, row ? DecodeCounters(*row) : Result<Counters>(counters));
  state.end_extent = now.next_extent;
  state.total_bytes = source_.used_bytes();
  return {};
}

rt::Task<Result<uint64_t>> Scrubber::CheckSome(ScrubState& state) {
  // Before the rows are read: what they name stays where it is until this is left.
  const EpochSet::Guard guard = source_.epochs.Enter();
  FB_CO_ASSIGN(const std::vector<BlockRun> runs, NextRuns(state));
  co_await CheckRuns(runs, state);
  uint64_t bytes = 0;
  for (const BlockRun& run : runs) bytes += run.device_bytes();
  co_return bytes;
}

Result<std::vector<BlockRun>> Scrubber::NextRuns(ScrubState& state) {
  std::vector<BlockRun> runs;
  uint64_t bytes = 0;
  size_t extents = 0;
  const std::unique_ptr<meta::Scan> scan = source_.meta.NewScan(Family::kExtents, NumberKey(state.end_extent));
  scan->Seek(NumberKey(state.next_extent));
  for (; scan->Valid() && bytes < AtOnceBytes(state) && extents < kMostExtentsAtOnce; scan->Next(), ++extents) {
    const Result<uint64_t> id = DecodeNumberKey(scan->key());
    if (id.ok()) state.next_extent = *id + 1;
    const Result<ExtentRecord> record = DecodeExtent(scan->key(), scan->value());
    Status sane = id.ok() ? record.status() : id.status();
    if (sane.ok()) sane = CheckPlace(*id, *record, source_.devices);
    if (!sane.ok()) {
      ++state.damaged_rows;
      source_.log.Error("the scrub passed over a damaged row: {}", sane.message());
      continue;
    }
    if (record->cache) {
      // Nobody promised that it is there; a read finds out.
      state.passed_bytes += record->units() * device::kUnit;
      continue;
    }
    AddRuns(*id, *record, kRunBytes, runs);
    bytes += record->length_bytes;
  }
  FB_TRY(scan->status());
  if (!scan->Valid()) state.next_extent = state.end_extent;
  return runs;
}

rt::Task<void> Scrubber::CheckRuns(const std::vector<BlockRun>& runs, ScrubState& state) {
  if (runs.empty()) co_return;
  device::AlignedBytes memory(kOnTheWayBytes);
  for (size_t begin = 0; begin < runs.size();) {
    std::vector<rt::Task<RunCheck>> checks;
    uint64_t used = 0;
    size_t end = begin;
    for (; end < runs.size() && end - begin < kMaxRunsOnTheWay; ++end) {
      const uint64_t bytes = runs[end].device_bytes();
      if (used + bytes > memory.size()) break;
      checks.push_back(CheckRun(reactor_, source_.devices, runs[end], memory.writable().subspan(used, bytes)));
      used += bytes;
    }
    const std::vector<RunCheck> outcomes = co_await rt::WhenAll(std::move(checks));
    for (size_t i = 0; i < outcomes.size(); ++i) Note(runs[begin + i], outcomes[i], state);
    begin = end;
  }
}

void Scrubber::Note(const BlockRun& run, const RunCheck& check, ScrubState& state) {
  state.passed_bytes += run.device_bytes();
  state.verified_bytes += run.length;
  state.repaired_blocks += check.repaired.size();
  state.damaged_blocks += check.damaged.size();
  if (source_.count_damage != nullptr && !check.damaged.empty()) source_.count_damage(check.damaged.size());
  const auto block_at = [&](size_t block) {
    const uint64_t at = block * run.block_bytes;
    return DamagedBlock{.extent = run.extent,
                        .begin = run.begin + at,
                        .length = std::min(run.block_bytes, run.length - at),
                        .device = run.device,
                        .unit = (run.offset + at) / device::kUnit};
  };
  const auto keep = [&](DamagedBlock block) {
    if (state.damage.size() < kMaxDamageKept) state.damage.push_back(std::move(block));
  };
  for (const BadBlock& bad : check.damaged) {
    DamagedBlock block = block_at(bad.block);
    block.unreadable = bad.unreadable;
    state.verified_bytes -= block.length;
    source_.log.Error("scrub: {}", DescribeBlock(block, source_.devices));
    keep(std::move(block));
  }
  for (const size_t repaired : check.repaired) {
    DamagedBlock block = block_at(repaired);
    block.repaired = true;
    source_.log.Warning("scrub: {}", DescribeBlock(block, source_.devices));
    keep(std::move(block));
  }
}

Status Scrubber::NameOwners(ScrubState& state) {
  if (state.damage.empty()) return {};
  std::vector<ExtentRange> ranges;
  ranges.reserve(state.damage.size());
  for (const DamagedBlock& block : state.damage)
    ranges.push_back({.extent = block.extent, .begin = block.begin, .end = block.begin + block.length});
  Status asked;
  Result<std::vector<std::vector<BlockOwner>>> owners = FindOwners(source_.meta, ranges, kMaxOwnersKept, [&] {
    asked = Ask(state);
    return asked.ok();
  });
  FB_TRY(asked);
  FB_TRY(owners.status());
  for (size_t i = 0; i < ranges.size(); ++i) state.damage[i].owners = std::move((*owners)[i]);
  return {};
}

void Scrubber::LogDamage(const ScrubState& state) const {
  for (const DamagedBlock& block : state.damage)
    for (size_t i = 0; !block.repaired && i < block.owners.size(); ++i) {
      const BlockOwner& owner = block.owners[i];
      source_.log.Error("scrub: {} is damaged at offset {}: {}", owner.name, owner.offset,
                        DescribeBlock(block, source_.devices));
    }
  source_.log.Info("the scrub is finished: {} verified, {} damaged blocks, {} repaired",
                   base::FormatSize(state.verified_bytes), state.damaged_blocks, state.repaired_blocks);
}

rt::Task<Status> Scrubber::Pace(uint64_t bytes, const ScrubState& state) {
  if (state.bytes_per_second == 0) co_return Ask(state);
  const double seconds = static_cast<double>(bytes) / static_cast<double>(state.bytes_per_second);
  next_ = base::DeadlineAfter(
      std::max(next_, reactor_.Now()),
      std::chrono::duration_cast<base::Duration>(std::chrono::duration<double>(std::min(seconds, 3600.0))));
  FB_CO_TRY(Ask(state));
  while (reactor_.Now() < next_) {
    (void)co_await reactor_.SleepUntil(std::min(next_, reactor_.Now() + kLongestPause));
    FB_CO_TRY(Ask(state));
  }
  co_return Status();
}

rt::Task<void> Scrubber::Save(const ScrubState& state) {
  saved_ = reactor_.Now();
  const Status saved =
      co_await source_.meta.Commit(reactor_, std::make_unique<SaveTransaction>(EncodeScrub(state)));
  if (!saved.ok() && !std::exchange(save_failed_, true))
    source_.log.Warning("how far the scrub is cannot be written down, so a restart begins where it was last: {}",
                        saved.message());
}

Status Scrubber::Ask(const ScrubState& state) {
  order_ = watch_(state);
  return order_ == ScrubOrder::kGoOn ? Status() : Status::Cancelled("the scrub was stopped");
}

std::string DescribeBlock(const DamagedBlock& block, const Devices& devices) {
  const std::string device =
      block.device < devices.size() ? devices.at(block.device).name() : fmt::format("device {}", block.device + 1);
  return fmt::format("unit {} of {} (extent {}) {}", block.unit, device, block.extent,
                     block.repaired     ? "was wrong on one side, and was written again"
                     : block.unreadable ? "cannot be read"
                                        : "does not match its checksum");
}

}  // namespace forebay::engine
