// SPDX-License-Identifier: Apache-2.0
#include "engine/relocation.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/checksum.h"
#include "device/aligned_bytes.h"
#include "engine/block_copies.h"
#include "engine/eviction.h"
#include "engine/new_content.h"

namespace forebay::engine {
namespace {

using meta::Family;

/// Moved by one commit: its memory, and what readers may hold back twice.
constexpr uint64_t kCommitBytes = 16 * base::kMiB;
constexpr size_t kCommitExtents = 256;
constexpr uint64_t kReadBytes = base::kMiB;
/// What was evicted is free when readers have left.
constexpr int kMostEvictions = 200;
constexpr base::Duration kEvictionPause = std::chrono::milliseconds(50);
/// Between two passes for what was on its way when the first began; twice as long each time that nothing was found.
constexpr base::Duration kFirstPause = std::chrono::milliseconds(5);
constexpr base::Duration kLongestPause = std::chrono::seconds(1);

UnitRun PlaceOf(const ExtentRecord& record) {
  return {.device = record.device, .first_unit = record.first_unit, .units = static_cast<uint32_t>(record.units())};
}

/// An extent whose content stands at another place too.
struct Moved {
  uint64_t extent = 0;
  UnitRun from;
  UnitRun to;
  std::shared_ptr<ReservedUnits> units;  // of `to`; shared with nobody, but cannot be moved
};

class RelocateTransaction final : public meta::Transaction {
 public:
  RelocateTransaction(Core& core, std::vector<Moved> moved) : core_(core), moved_(std::move(moved)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    std::vector<std::pair<size_t, ExtentRecord>> still;
    for (size_t i = 0; i < moved_.size(); ++i) {
      const std::string key = NumberKey(moved_[i].extent);
      FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kExtents, key));
      if (!row) continue;  // nothing refers to it any more
      FB_ASSIGN(ExtentRecord record, DecodeExtent(key, *row));
      if (PlaceOf(record) == moved_[i].from) still.emplace_back(i, std::move(record));
    }
    core_.cache.BeginChangeOfAll();
    changing_ = true;
    for (auto& [i, record] : still) {
      const Moved& move = moved_[i];
      record.device = move.to.device;
      record.first_unit = move.to.first_unit;
      const std::string key = NumberKey(move.extent);
      batch.Put(Family::kExtents, key, EncodeExtent(key, record));
      core_.commits->MarkUsed(move.to);
      core_.commits->MarkFree(move.from);
      move.units->Keep();  // rows may refer to them, whatever the commit answers
      freed_.push_back(move.from);
    }
    return {};
  }
  bool needs_data_flush() const override { return true; }
  /// It does not, but it is small, and a device may be taken out because the store is to be smaller.
  bool frees_space() const override { return true; }
  void Done(const Status& outcome) override {
    if (!changing_) return;
    core_.cache.EndChangeOfAll();
    if (outcome.ok()) core_.epochs.Retire(std::move(freed_));
  }

 private:
  Core& core_;
  const std::vector<Moved> moved_;
  std::vector<UnitRun> freed_;
  bool changing_ = false;
};

}  // namespace

Result<std::vector<Relocation::Found>> Relocation::FindSome() {
  std::vector<Found> found;
  uint64_t bytes = 0;
  const std::unique_ptr<meta::Scan> scan = core_.meta->NewScan(Family::kExtents, {});
  for (scan->Seek(NumberKey(next_)); scan->Valid(); scan->Next()) {
    if (options_.stopped()) return Status::Cancelled("it was stopped");
    FB_ASSIGN(const uint64_t extent, DecodeNumberKey(scan->key()));
    FB_ASSIGN(ExtentRecord record, DecodeExtent(scan->key(), scan->value()));
    next_ = extent + 1;
    if (record.device != device_) continue;
    bytes += record.units() * device::kUnit;
    found.push_back({extent, std::move(record)});
    if (bytes >= kCommitBytes || found.size() == kCommitExtents) break;
  }
  FB_TRY(scan->status());
  return found;
}

rt::Task<Result<bool>> Relocation::ReadExtent(const ExtentRecord& record, MutableByteView memory) {
  const uint64_t place = record.first_unit * device::kUnit;
  bool was_read = true;
  for (uint64_t at = 0; at < memory.size(); at += kReadBytes) {
    const MutableByteView part = memory.subspan(at, std::min<uint64_t>(kReadBytes, memory.size() - at));
    was_read &= (co_await core_.devices.Read(reactor_, device_, place + at, {&part, 1})).ok();
  }
  const uint64_t block_bytes = uint64_t{1} << record.block_shift;
  for (size_t block = 0; block < record.checksums.size(); ++block) {
    const uint64_t begin = block * block_bytes;
    const uint64_t length = std::min(block_bytes, record.length_bytes - begin);
    const auto matches = [&](ByteView content) {
      return base::Crc32c(content.first(length)) == record.checksums[block];
    };
    const MutableByteView content = memory.subspan(begin, base::RoundUp(length, device::kUnit));
    if (was_read && matches(content)) continue;
    const BlockCopies copies =
        co_await CheckCopies(reactor_, core_.devices, device_, place + begin, content, matches);
    if (!copies.right) co_return false;
  }
  co_return true;
}

rt::Task<Status> Relocation::MoveSome(const std::vector<Found>& found) {
  std::vector<Moved> moved;
  Status full;
  for (const Found& one : found) {
    if (options_.stopped()) co_return Status::Cancelled("it was stopped");
    const auto units = static_cast<uint32_t>(one.record.units());
    device::AlignedBytes memory(units * device::kUnit);
    FB_CO_ASSIGN(const bool right, co_await ReadExtent(one.record, memory.writable()));
    if (!right && !one.record.cache) {  // a cache's content may be gone, and moves as it is
      ++unreadable_;
      continue;
    }
    const Result<UnitRun> to_run = core_.allocator.Reserve(units);
    full = to_run.status();
    if (!full.ok()) break;
    const UnitRun to = *to_run;
    auto reserved = std::make_shared<ReservedUnits>(core_.allocator);
    reserved->Add(to);
    if (to.units != units)
      full = Status::ResourceExhausted("the other devices have no {} in one piece: delete objects, or add a device",
                                       base::FormatSize(units * device::kUnit));
    if (!full.ok()) break;
    const ByteView content = memory.view();
    FB_CO_TRY(co_await core_.devices.Write(reactor_, to.device, to.offset_bytes(), {&content, 1}));
    moved.push_back({.extent = one.extent, .from = PlaceOf(one.record), .to = to, .units = std::move(reserved)});
    moved_bytes_ += memory.size();
  }
  if (moved.empty()) co_return full;
  FB_CO_TRY(co_await core_.meta->Commit(reactor_, std::make_unique<RelocateTransaction>(core_, std::move(moved))));
  if (options_.bytes_per_second != UINT64_MAX) {
    const std::chrono::duration<double> pace(static_cast<double>(moved_bytes_) /
                                             static_cast<double>(options_.bytes_per_second));
    co_await reactor_.SleepUntil(begun_ + std::chrono::duration_cast<base::Duration>(pace));
  }
  co_return full;
}

rt::Task<Status> Relocation::Run() {
  begun_ = reactor_.Now();
  base::Duration pause = kFirstPause;
  bool found_any = false;
  int evicted = 0;  // times in a row
  while (true) {
    std::vector<Found> found;
    Status moved;
    {
      // What is found stays where it is until it was read.
      const EpochSet::Guard guard = core_.epochs.Enter();
      FB_CO_ASSIGN(found, FindSome());
      if (!found.empty()) moved = co_await MoveSome(found);
    }
    if (moved.code() == Code::kResourceExhausted && ++evicted < kMostEvictions &&
        co_await EvictFor(core_, reactor_, core_.allocator.free_bytes() + kCommitBytes)) {
      next_ = found.front().extent;  // caches make room; some of these were moved, and are not found again
      co_await reactor_.Sleep(kEvictionPause);
      continue;
    }
    FB_CO_TRY(moved);
    evicted = 0;
    found_any |= !found.empty();
    if (!found.empty()) continue;
    // The end of a pass. Puts that had begun before may have come since.
    if (core_.allocator.devices()[device_].used_bytes == 0) co_return Status();
    if (unreadable_ != 0)
      co_return Status::DataLoss(
          "{} extents on {} cannot be read, and stay there: `forebay scrub` says whose they are; delete these objects",
          unreadable_, core_.devices.at(device_).name());
    if (options_.stopped()) co_return Status::Cancelled("it was stopped");
    next_ = 0;
    core_.epochs.Collect();
    pause = found_any ? kFirstPause : std::min<base::Duration>(2 * pause, kLongestPause);
    found_any = false;
    co_await reactor_.Sleep(pause);
  }
}

}  // namespace forebay::engine
