// SPDX-License-Identifier: Apache-2.0
#include "device/mirror_device.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "device/aligned_bytes.h"
#include "device/request_check.h"
#include "rt/when_all.h"

namespace forebay::device {
namespace {

/// What a resync copies at a time.
constexpr uint64_t kPieceBytes = base::kMiB;
/// Neighbouring reads go to the same side for so long, so that a large one is one read and two use both sides.
constexpr uint64_t kTurnBytes = base::kMiB;

MirrorRecord RecordOf(const MirrorIdentity& identity, uint32_t side, uint64_t generation, uint32_t current) {
  return {.store = identity.store,
          .device = identity.device,
          .side = side,
          .generation = generation,
          .current = current};
}

base::Duration PaceOf(uint64_t bytes, uint64_t bytes_per_second) {
  const std::chrono::duration<double> seconds(static_cast<double>(bytes) / static_cast<double>(bytes_per_second));
  return std::chrono::duration_cast<base::Duration>(seconds);
}

}  // namespace

/// Says to the resync which bytes are being written, from before the sides are chosen until it is over.
class MirrorDevice::Writing {
 public:
  Writing(MirrorDevice& mirror, Range range) : mirror_(mirror), range_(range) {
    base::MutexLock lock(mirror_.mutex_);
    mirror_.writing_.push_back(range_);
    Touch();
  }
  ~Writing() {
    base::MutexLock lock(mirror_.mutex_);
    const auto mine = std::ranges::find_if(mirror_.writing_, [&](const Range& range) {
      return range.begin == range_.begin && range.end == range_.end;
    });
    *mine = mirror_.writing_.back();
    mirror_.writing_.pop_back();
    Touch();
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  void Touch() FB_REQUIRES(mirror_.mutex_) {
    if (mirror_.copying_ && mirror_.copying_->Overlaps(range_)) mirror_.touched_ = true;
  }
  MirrorDevice& mirror_;
  const Range range_;
};

rt::Task<Status> MirrorDevice::Format(rt::Reactor& reactor, std::array<Device*, kMirrorSides> sides,
                                      MirrorIdentity identity) {
  for (uint32_t side = 0; side < kMirrorSides; ++side) {
    // What an earlier life left in the other slot is not of this one.
    const AlignedBytes zeros(kUnit);
    const ByteView view = zeros.view();
    FB_CO_TRY(co_await sides[side]->Write(reactor, kMirrorSlots[0], {&view, 1}));
    FB_CO_TRY(co_await WriteMirrorRecord(reactor, *sides[side], RecordOf(identity, side, 1, 0b11)));
    FB_CO_TRY(co_await sides[side]->Flush(reactor));
  }
  co_return Status();
}

MirrorDevice::MirrorDevice(Sides sides, std::array<std::string, kMirrorSides> names, MirrorIdentity identity,
                           std::function<Status(uint64_t)> keep_generation, base::Log& log)
    : identity_(identity), keep_generation_(std::move(keep_generation)), log_(log) {
  base::MutexLock lock(mutex_);
  for (uint32_t side = 0; side < kMirrorSides; ++side) {
    sides_[side].device = std::move(sides[side]);
    sides_[side].shown = {.name = std::move(names[side])};
  }
  Rename();
}

void MirrorDevice::Rename() {
  names_.push_back(sides_[0].shown.name + " + " + sides_[1].shown.name);
  name_.store(&names_.back(), std::memory_order_release);
}

Status MirrorDevice::Agree(std::array<std::optional<MirrorRecord>, kMirrorSides>& records,
                           const std::array<std::string, kMirrorSides>& names, uint64_t kept, MirrorRecord* newest) {
  const MirrorRecord* best = nullptr;
  for (uint32_t side = 0; side < kMirrorSides; ++side) {
    if (!records[side]) continue;
    if (records[side]->side != side)
      return Status::FailedPrecondition("{} is the other side of its mirror: list {} and {} in the other order",
                                        names[side], names[0], names[1]);
    if (best == nullptr || records[side]->generation > best->generation) best = &*records[side];
  }
  if (best == nullptr)
    return Status::DataLoss("neither {} nor {} says that it is a side of a mirror, or both are damaged", names[0],
                            names[1]);
  *newest = *best;
  for (std::optional<MirrorRecord>& record : records) {
    if (!record || (record->current & newest->current) != 0) continue;
    if (newest->generation == kept && record->generation < kept) {
      record.reset();  // a side that was left behind: what it says was overtaken
      continue;
    }
    return Status::FailedPrecondition(
          "{} and {} were written without each other: take the one away whose changes are to go (the other says what it "
          "has), start without it, and replace it then",
          names[0], names[1]);
  }
  return {};
}

rt::Task<Result<std::unique_ptr<MirrorDevice>>> MirrorDevice::Open(rt::Reactor& reactor, Sides sides,
                                                                   std::array<std::string, kMirrorSides> names,
                                                                   MirrorIdentity identity, MirrorMemory memory,
                                                                   base::Log& log) {
  std::array<std::optional<MirrorRecord>, kMirrorSides> records;
  std::array<std::string, kMirrorSides> reasons;
  uint64_t size = UINT64_MAX;
  for (uint32_t side = 0; side < kMirrorSides; ++side) {
    reasons[side] = "it is not there";
    if (sides[side] == nullptr) continue;
    Result<std::optional<MirrorRecord>> record =
        co_await ReadMirrorRecord(reactor, *sides[side], identity.store, identity.device);
    if (record.ok()) {
      records[side] = *record;
      if (records[side]) size = std::min(size, sides[side]->size_bytes());
      continue;
    }
    reasons[side] = record.error().message();
    sides[side].reset();
  }
  for (uint32_t side = 0; side < kMirrorSides; ++side) {
    if (sides[side] == nullptr || records[side] || sides[side]->size_bytes() >= size || size == UINT64_MAX) continue;
    reasons[side] = fmt::format("it has {} bytes, and {} are needed", sides[side]->size_bytes(), size);
    sides[side].reset();
  }
  MirrorRecord newest;
  FB_CO_TRY(Agree(records, names, memory.generation, &newest));
  auto mirror = std::unique_ptr<MirrorDevice>(
      new MirrorDevice(std::move(sides), names, identity, std::move(memory.keep), log));
  mirror->size_bytes_ = size;
  {
    base::MutexLock lock(mirror->mutex_);
    mirror->generation_ = newest.generation;
    // Each current side says so itself: it may be alone one day.
    const bool told = std::ranges::all_of(
        records, [&](const auto& record) { return record && record->generation == newest.generation; });
    mirror->recorded_mask_ = told ? newest.current : 0;
    for (uint32_t side = 0; side < kMirrorSides; ++side) {
      Side& one = mirror->sides_[side];
      if (one.device == nullptr)
        one.shown.reason = reasons[side];
      else
        one.shown.state = records[side] && (newest.current >> side & 1) != 0 ? SideState::kCurrent : SideState::kRebuilding;
    }
    if (mirror->CurrentMask() == 0 || newest.generation < memory.generation)
      co_return Status::Unavailable("the side of the mirror {} that has everything is not there: bring it back",
                                    mirror->name());
    for (const Side& one : mirror->sides_) {
      if (one.shown.state == SideState::kLost)
        log.Error("{} is not used ({}): its mirror has one side left; replace it with: forebay device replace",
                  one.shown.name, one.shown.reason);
      if (one.shown.state == SideState::kRebuilding)
        log.Warning("{} lacks what was written without it: it is brought up to date in the background",
                    one.shown.name);
    }
  }
  FB_CO_TRY(co_await mirror->Record(reactor));
  co_return mirror;
}

uint32_t MirrorDevice::CurrentMask() const {
  uint32_t mask = 0;
  for (uint32_t side = 0; side < kMirrorSides; ++side)
    if (sides_[side].shown.state == SideState::kCurrent) mask |= 1U << side;
  return mask;
}

std::vector<MirrorDevice::Used> MirrorDevice::Receiving() const {
  base::MutexLock lock(mutex_);
  std::vector<Used> used;
  for (uint32_t side = 0; side < kMirrorSides; ++side)
    if (sides_[side].shown.state != SideState::kLost)
      used.push_back({side, sides_[side].device, sides_[side].shown.state == SideState::kCurrent});
  return used;
}

std::vector<MirrorDevice::Used> MirrorDevice::Readable(uint64_t offset) const {
  base::MutexLock lock(mutex_);
  std::vector<Used> used;
  const auto first = static_cast<uint32_t>(offset / kTurnBytes % kMirrorSides);
  for (const uint32_t side : {first, 1 - first})
    if (sides_[side].shown.state == SideState::kCurrent) used.push_back({side, sides_[side].device, true});
  return used;
}

Result<std::shared_ptr<Device>> MirrorDevice::SideAt(uint32_t copy) const {
  base::MutexLock lock(mutex_);
  if (copy < kMirrorSides && sides_[copy].shown.state != SideState::kLost) return sides_[copy].device;
  return Status::Unavailable("copy {} of {} is not there", copy, name());
}

bool MirrorDevice::Lose(const Used& used, const Status& why) {
  std::shared_ptr<Device> closed;  // after the lock, or later, by the last operation that uses it
  base::MutexLock lock(mutex_);
  Side& side = sides_[used.index];
  // It may have been replaced meanwhile.
  if (side.device != used.device || side.shown.state == SideState::kLost) return true;
  // Another operation may have lost the other side at the same moment: one stays, whatever it is worth.
  if (CurrentMask() == 1U << used.index) return false;
  closed = std::move(side.device);
  side.shown.state = SideState::kLost;
  side.shown.reason = why.message();
  log_.Error("{} is used no more, its mirror goes on with one side ({}): replace it with: forebay device replace",
             side.shown.name, why.message());
  return true;
}

void MirrorDevice::CountFailedRead(const Used& used, const Status& why) {
  {
    base::MutexLock lock(mutex_);
    if (sides_[used.index].device == used.device) ++sides_[used.index].shown.failed_reads;
  }
  log_.Warning("a read is answered by the other side of the mirror: {}", why.message());
}

Status MirrorDevice::Settle(std::span<const Used> used, std::span<const Status> results, std::string_view what) {
  Status failure = Status::Unavailable("{}: {}: no side is left", name(), what);
  bool done = false;
  for (size_t i = 0; i < used.size(); ++i) {
    done |= used[i].current && results[i].ok();
    if (used[i].current && !results[i].ok()) failure = results[i];
  }
  // When all fail none is known to have more than the others: the caller stops writing.
  if (!done) return failure;
  for (size_t i = 0; i < used.size(); ++i)
    if (!results[i].ok() && !Lose(used[i], results[i])) return results[i];
  return {};
}

Status MirrorDevice::SettleFlush(std::span<const Used> used, std::span<const Status> results) {
  Status settled = Settle(used, results, "flush");
  base::MutexLock lock(mutex_);
  if (failed_flush_.ok()) failed_flush_ = settled;
  return failed_flush_;
}

rt::Task<Status> MirrorDevice::Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) {
  FB_CO_TRY(CheckRequest(name(), size_bytes_, "read", offset, buffers));
  Status failure = Status::Unavailable("{}: read: no side is left", name());
  std::vector<std::pair<Used, Status>> failed;
  for (const Used& used : Readable(offset)) {
    failure = co_await used.device->Read(reactor, offset, buffers);
    if (!failure.ok()) {
      failed.emplace_back(used, failure);
      continue;
    }
    for (const auto& [side, why] : failed) {
      CountFailedRead(side, why);
      if (why.code() == Code::kUnavailable) (void)Lose(side, why);
    }
    co_return Status();
  }
  co_return failure;
}

rt::Task<Status> MirrorDevice::Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) {
  FB_CO_ASSIGN(const uint64_t total, CheckRequest(name(), size_bytes_, "write", offset, buffers));
  const Writing writing(*this, {offset, offset + total});
  const std::vector<Used> used = Receiving();
  std::vector<rt::Task<Status>> writes;
  writes.reserve(used.size());
  for (const Used& side : used) writes.push_back(side.device->Write(reactor, offset, buffers));
  const std::vector<Status> results = co_await rt::WhenAll(std::move(writes));
  co_return Settle(used, results, "write");
}

rt::Task<Status> MirrorDevice::Flush(rt::Reactor& reactor) {
  const std::vector<Used> used = Receiving();
  std::vector<rt::Task<Status>> flushes;
  flushes.reserve(used.size());
  for (const Used& side : used) flushes.push_back(side.device->Flush(reactor));
  const std::vector<Status> results = co_await rt::WhenAll(std::move(flushes));
  FB_CO_TRY(SettleFlush(used, results));
  co_return co_await Record(reactor);
}

rt::Task<Status> MirrorDevice::ZeroAhead(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes) {
  // Both, whatever comes of the first: a side that cannot be zeroed is slower, not wrong.
  Status first;
  for (const Used& side : Receiving()) {
    const Status status = co_await side.device->ZeroAhead(reactor, begin_bytes, end_bytes);
    if (first.ok()) first = status;
  }
  co_return first;
}

rt::Task<Status> MirrorDevice::ReadCopy(rt::Reactor& reactor, uint32_t copy, uint64_t offset,
                                        std::span<const MutableByteView> buffers) {
  FB_CO_ASSIGN(const std::shared_ptr<Device> side, SideAt(copy));
  co_return co_await side->Read(reactor, offset, buffers);
}

rt::Task<Status> MirrorDevice::WriteCopy(rt::Reactor& reactor, uint32_t copy, uint64_t offset,
                                         std::span<const ByteView> buffers) {
  FB_CO_ASSIGN(const uint64_t total, CheckRequest(name(), size_bytes_, "write", offset, buffers));
  const Writing writing(*this, {offset, offset + total});
  FB_CO_ASSIGN(const std::shared_ptr<Device> side, SideAt(copy));
  co_return co_await side->Write(reactor, offset, buffers);
}

std::array<MirrorSide, kMirrorSides> MirrorDevice::sides() const {
  base::MutexLock lock(mutex_);
  return {sides_[0].shown, sides_[1].shown};
}

std::optional<uint32_t> MirrorDevice::rebuilding() const {
  base::MutexLock lock(mutex_);
  for (uint32_t side = 0; side < kMirrorSides; ++side)
    if (sides_[side].shown.state == SideState::kRebuilding) return side;
  return std::nullopt;
}

Status MirrorDevice::Replace(uint32_t side, std::unique_ptr<Device> device) {
  if (side >= kMirrorSides) return Status::InvalidArgument("{} has no side {}", name(), side);
  if (device->size_bytes() < size_bytes_)
    return Status::InvalidArgument("{} has {} bytes: a side of {} needs {}", device->name(), device->size_bytes(), name(),
                                   size_bytes_);
  base::MutexLock lock(mutex_);
  if (sides_[side].shown.state != SideState::kLost)
    return Status::FailedPrecondition("{} is in use: only a side that is lost can be replaced", sides_[side].shown.name);
  sides_[side].shown = {.name = device->name(), .state = SideState::kRebuilding};
  sides_[side].device = std::move(device);
  recorded_mask_ = 0;  // that the one before was current does not hold for this one
  Rename();
  return {};
}

// ---- records ----

rt::Task<std::optional<MirrorRecord>> MirrorDevice::BeginRecord(rt::Reactor& reactor) {
  while (true) {
    rt::Completion<bool> mine(reactor);
    {
      base::MutexLock lock(mutex_);
      if (!recording_) {
        if (CurrentMask() == recorded_mask_) co_return std::nullopt;
        recording_ = true;
        co_return RecordOf(identity_, 0, ++generation_, CurrentMask());
      }
      record_waiters_.push_back(&mine);
    }
    co_await mine.Wait();
  }
}

void MirrorDevice::EndRecord(const MirrorRecord& record, bool written) {
  std::vector<rt::Completion<bool>*> waiters;
  {
    base::MutexLock lock(mutex_);
    if (written) recorded_mask_ = record.current;
    recording_ = false;
    waiters.swap(record_waiters_);
  }
  for (rt::Completion<bool>* waiter : waiters) waiter->Fulfil(true);
}

rt::Task<Status> MirrorDevice::Record(rt::Reactor& reactor) {
  while (true) {
    std::optional<MirrorRecord> record = co_await BeginRecord(reactor);
    if (!record) co_return Status();
    // The sides that it calls current say so; on the other one an older record stands, or none.
    std::vector<Used> used = Receiving();
    std::erase_if(used, [&](const Used& side) { return (record->current >> side.index & 1) == 0; });
    std::vector<Status> results;
    for (const Used& side : used) {
      record->side = side.index;
      Status status = co_await WriteMirrorRecord(reactor, *side.device, *record);
      if (status.ok()) status = co_await side.device->Flush(reactor);
      results.push_back(std::move(status));
    }
    Status settled = SettleFlush(used, results);
    if (settled.ok()) settled = keep_generation_(record->generation);
    EndRecord(*record, settled.ok());
    FB_CO_TRY(settled);
  }
}

// ---- resync ----

rt::Task<Status> MirrorDevice::CopyUnits(rt::Reactor& reactor, Device& target, Range piece, MutableByteView memory) {
  uint64_t unread = 0;
  Status failure;
  for (uint64_t at = piece.begin; at < piece.end; at += kUnit) {
    const MutableByteView unit = memory.subspan(at - piece.begin, kUnit);
    if (Status read = co_await Read(reactor, at, {&unit, 1}); !read.ok()) {
      ++unread;  // what the target has is the best there is
      failure = std::move(read);
      continue;
    }
    const ByteView content = unit;
    FB_CO_TRY(co_await target.Write(reactor, at, {&content, 1}));
  }
  if (unread == 0) co_return Status();
  log_.Error("{} units of {} from {} on cannot be read, and are not copied to {}: {}", unread, name(), piece.begin / kUnit,
             target.name(), failure.message());
  // Some bad sectors are one thing, a drive that does not answer another.
  if (unread * kUnit == piece.end - piece.begin && unread > 1)
    co_return Status::Unavailable("{}: none of {} bytes at {} can be read: {}", name(), piece.end - piece.begin,
                                  piece.begin, failure.message());
  co_return Status();
}

rt::Task<Result<bool>> MirrorDevice::CopyPiece(rt::Reactor& reactor, uint32_t target, Range piece,
                                               MutableByteView memory) {
  {
    base::MutexLock lock(mutex_);
    copying_ = piece;
    touched_ = std::ranges::any_of(writing_, [&](const Range& range) { return range.Overlaps(piece); });
  }
  FB_CO_ASSIGN(const std::shared_ptr<Device> side, SideAt(target));
  const MutableByteView all = memory.first(piece.end - piece.begin);
  Status status = co_await Read(reactor, piece.begin, {&all, 1});
  if (status.ok()) {
    const ByteView content = all;
    status = co_await side->Write(reactor, piece.begin, {&content, 1});
  } else {
    status = co_await CopyUnits(reactor, *side, piece, memory);
    if (status.code() == Code::kUnavailable) status = Status::Aborted("{}", status.message());
  }
  base::MutexLock lock(mutex_);
  copying_.reset();
  if (!status.ok()) co_return status;
  co_return !touched_;
}

rt::Task<Status> MirrorDevice::CopyAll(rt::Reactor& reactor, uint32_t target, const ResyncOptions& options) {
  constexpr uint64_t kSlotsEnd = kMirrorSlots.back() + kUnit;
  AlignedBytes memory(kPieceBytes);
  // What is met by a write comes again at the end: by then most writes are over.
  std::deque<Range> left;
  const base::TimePoint begun = reactor.Now();
  uint64_t copied = 0;
  for (uint64_t at = 0; at < size_bytes_ || !left.empty();) {
    if (options.stopped()) co_return Status::Cancelled("bringing a side of {} up to date was stopped: it begins anew", name());
    Range piece;
    if (at < size_bytes_) {
      // The records are each side's own.
      const uint64_t end = at < kMirrorSlots[0] ? kMirrorSlots[0] : base::RoundDown(at, kPieceBytes) + kPieceBytes;
      piece = {at, std::min(end, size_bytes_)};
      at = piece.end == kMirrorSlots[0] ? kSlotsEnd : piece.end;
      if (options.progress) options.progress(std::min(at, size_bytes_), size_bytes_);
      if (piece.begin >= kPieceBytes && !options.in_use(piece.begin, piece.end - piece.begin)) continue;
    } else {
      piece = left.front();
      left.pop_front();
      co_await reactor.Yield();
    }
    FB_CO_ASSIGN(const bool complete, co_await CopyPiece(reactor, target, piece, memory.writable()));
    if (!complete) left.push_back(piece);
    copied += piece.end - piece.begin;
    if (options.bytes_per_second != UINT64_MAX)
      co_await reactor.SleepUntil(begun + PaceOf(copied, options.bytes_per_second));
  }
  co_return Status();
}

rt::Task<Status> MirrorDevice::Resync(rt::Reactor& reactor, const ResyncOptions& options) {
  const std::optional<uint32_t> target = rebuilding();
  if (!target) co_return Status();
  FB_CO_ASSIGN(const std::shared_ptr<Device> device, SideAt(*target));
  Status status = co_await CopyAll(reactor, *target, options);
  // Everything that was copied, and what went to both sides meanwhile, is durable before it counts.
  if (status.ok()) status = co_await device->Flush(reactor);
  if (status.code() == Code::kCancelled || status.code() == Code::kAborted) co_return status;
  if (!status.ok()) {
    (void)Lose({*target, device, false}, status);
    co_return status;
  }
  {
    base::MutexLock lock(mutex_);
    Side& side = sides_[*target];
    if (side.device != device || side.shown.state != SideState::kRebuilding)
      co_return Status::Unavailable("{} failed while it was brought up to date", side.shown.name);
    side.shown.state = SideState::kCurrent;
  }
  FB_CO_TRY(co_await Record(reactor));
  log_.Info("{} is up to date again: its mirror has two sides", device->name());
  co_return Status();
}

}  // namespace forebay::device
