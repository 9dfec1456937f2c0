// SPDX-License-Identifier: Apache-2.0
#include "engine/group_commit.h"

#include <optional>
#include <utility>

#include <fmt/chrono.h>

#include "rt/when_all.h"

namespace forebay::engine {
namespace {

/// Sets or clears the run's bits; false when one of them was so already.
bool Apply(GroupBitmap& bitmap, const UnitRun& run, bool used) {
  bool changed_all = true;
  for (uint64_t unit = run.first_unit; unit < run.first_unit + run.units; ++unit) {
    uint64_t& word = bitmap[unit % kGroupUnits / 64];
    const uint64_t mask = uint64_t{1} << (unit % 64);
    changed_all &= ((word & mask) != 0) != used;
    word = used ? word | mask : word & ~mask;
  }
  return changed_all;
}

}  // namespace

Result<std::unique_ptr<GroupCommit>> GroupCommit::Create(Devices& devices, Uuid store, Witness witness,
                                                         const base::Clock& clock, base::Log& log) {
  FB_ASSIGN(std::unique_ptr<rt::Reactor> reactor, rt::Reactor::Create({.name = "fb-flush", .entries = 64}));
  return std::unique_ptr<GroupCommit>(
      new GroupCommit(devices, store, witness, clock, log, std::move(reactor)));
}

void GroupCommit::AddChange(const UnitRun& run, bool used) {
  changes_[{run.device, static_cast<uint32_t>(run.first_unit / kGroupUnits)}].push_back({run, used});
}

Status GroupCommit::FinishGroup(meta::View& view, meta::Batch& batch, bool* durable) {
  const auto changes = std::exchange(changes_, {});
  // After a failure here counts are of changes that did not take place; no group may write them, synced or not.
  FB_TRY(health());
  for (const auto& [group, list] : changes) {
    const std::string key = GroupKey(group.first, group.second);
    Result<std::optional<std::string>> row = view.Get(meta::Family::kGroups, key);
    if (!row.ok()) return Fail("reading a free-space row", row.error());
    GroupBitmap bitmap{};
    if (row->has_value()) {
      Result<GroupBitmap> decoded = DecodeGroup(key, **row);
      if (!decoded.ok()) return Fail("reading a free-space row", decoded.error());
      bitmap = *decoded;
    }
    for (const Change& change : list) {
      if (Apply(bitmap, change.run, change.used)) continue;
      return Fail("updating a free-space row",
                  Status::DataLoss("units {} to {} of {} are {} already; run forebay fsck",
                                   change.run.first_unit, change.run.first_unit + change.run.units - 1,
                                   devices_.at(change.run.device).name(), change.used ? "in use" : "free"));
    }
    batch.Put(meta::Family::kGroups, key, EncodeGroup(key, bitmap));
  }
  WriteCounters(batch, durable);
  if (std::exchange(cache_changed_, false)) {
    batch.Put(meta::Family::kSystem, kCacheTotalsKey, EncodeCacheTotals(cache_totals_));
    cache_bytes_.store(cache_totals_.device_bytes, std::memory_order_relaxed);
  }
  tenants_.WriteRows(batch);
  return {};
}

/// No number is given out twice, also when a power cut takes the group that used it: such groups take their numbers from
/// below what a durable row says.
void GroupCommit::WriteCounters(meta::Batch& batch, bool* durable) {
  constexpr uint64_t kAhead = uint64_t{1} << 20;
  const bool is_covered = counters_.next_extent <= written_counters_.next_extent &&
                          counters_.next_version <= written_counters_.next_version &&
                          counters_.next_bucket <= written_counters_.next_bucket;
  if (is_covered) return;
  const uint64_t ahead = *durable ? 0 : kAhead;
  *durable = true;
  written_counters_ = {.next_extent = std::max(written_counters_.next_extent, counters_.next_extent + ahead),
                       .next_version = std::max(written_counters_.next_version, counters_.next_version + ahead),
                       .next_bucket = std::max(written_counters_.next_bucket, counters_.next_bucket)};
  batch.Put(meta::Family::kSystem, kCountersKey, EncodeCounters(written_counters_));
}

Status GroupCommit::FlushData(uint64_t witness, bool /*data*/) {
  // Also a group without data is covered: otherwise the witness would stand still while only metadata is
  // written, and a damaged log could lose all of that without a word.
  return reactor_->BlockOn(Flush(*reactor_, witness));
}

rt::Task<Status> GroupCommit::WriteWitness(rt::Reactor& reactor, uint64_t commit) {
  if (commit == witness_.commit) co_return Status();
  co_return co_await Flush(reactor, commit);
}

rt::Task<Status> GroupCommit::Flush(rt::Reactor& reactor, uint64_t witness) {
  FB_CO_TRY(health());
  // The slot that holds the last witness stays as it is: a torn write spoils only the other one.
  const Witness next{.commit = witness, .slot = 1 - witness_.slot};
  const uint32_t first = witness_device_;
  const uint32_t second = second_witness_;
  FB_CO_TRY(co_await WriteWitnessTo(reactor, first, next));
  if (second != first) FB_CO_TRY(co_await WriteWitnessTo(reactor, second, next));
  witness_ = next;
  const std::vector<uint32_t> ids = devices_.TakeWritten();
  if (ids.size() == 1) co_return co_await FlushDevice(reactor, ids.front());
  std::vector<rt::Task<Status>> flushes;
  flushes.reserve(ids.size());
  for (const uint32_t id : ids) flushes.push_back(FlushDevice(reactor, id));
  for (const Status& status : co_await rt::WhenAll(std::move(flushes))) FB_CO_TRY(status);
  co_return Status();
}

rt::Task<Status> GroupCommit::WriteWitnessTo(rt::Reactor& reactor, uint32_t id, Witness next) {
  const Status written = co_await engine::WriteWitness(reactor, devices_.at(id), store_, next);
  if (!written.ok())
    co_return Fail(fmt::format("writing the commit witness to {}", devices_.at(id).name()), written);
  devices_.MarkWritten(id);
  co_return Status();
}

void GroupCommit::PutWitnessOn(uint32_t id, bool only) {
  second_witness_ = id;
  if (only) witness_device_ = id;
}

rt::Task<Status> GroupCommit::FlushDevice(rt::Reactor& reactor, uint32_t id) {
  flushes_.fetch_add(1, std::memory_order_relaxed);
  const Status status = co_await devices_.at(id).Flush(reactor);
  if (status.ok()) co_return Status();
  co_return Fail(fmt::format("flushing {}", devices_.at(id).name()), status);
}

Status GroupCommit::Fail(std::string_view what, const Status& status) {
  const auto now = std::chrono::time_point_cast<std::chrono::seconds>(clock_.WallNow());
  Status failure = Status::FailedPrecondition(
      "the store is read-only: {} failed at {:%Y-%m-%d %H:%M:%S} UTC ({}); restart the server to "
      "read the media again",
      what, fmt::gmtime(now.time_since_epoch().count()), status.ToString());
  {
    base::MutexLock lock(mutex_);
    if (!health_.ok()) return health_;
    health_ = failure;
  }
  log_.Error("{}", failure.message());
  return failure;
}

Status GroupCommit::health() const {
  base::MutexLock lock(mutex_);
  return health_;
}

}  // namespace forebay::engine
