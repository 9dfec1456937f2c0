// SPDX-License-Identifier: Apache-2.0
// MirrorDevice: a Device that keeps each byte on two sides. Writes and flushes go to both, a read to one of them and to the
// other when that fails. A side that fails a write or a flush is lost: nothing is read from it or written to it any more,
// and before the next Flush returns ok the other side says so durably (mirror_record.h), so that what is missing there is
// never taken for everything. A side that comes back, or takes the place of a lost one, gets all writes from then on and is
// current once Resync has copied the rest. The engine makes one for each device of a store that has a mirror.
// What a side returns is not verified here: who knows checksums reads the other copy (ReadCopy) and puts the block right
// (WriteCopy).
// Thread-safe. Outlives the operations in flight.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "device/device.h"
#include "device/mirror_record.h"
#include "rt/completion.h"

namespace forebay::device {

enum class SideState : uint8_t {
  kCurrent,     ///< has everything that was acknowledged
  kRebuilding,  ///< gets what is written, and lacks some of what was written before
  kLost,        ///< absent, or failed
};

struct MirrorSide {
  std::string name;
  SideState state = SideState::kLost;
  std::string reason{};       ///< why it is lost
  uint64_t failed_reads = 0;  ///< that the other side could answer
};

struct MirrorIdentity {
  Uuid store;
  uint32_t device = 0;  ///< of the store
};

/// Keeps the number of a mirror's last record somewhere else: a side that is alone cannot know that the other one had more.
struct MirrorMemory {
  uint64_t generation = 0;                         ///< as it was kept last; 0: it never was
  std::function<Status(uint64_t generation)> keep; ///< durably; may block on the disk. Called by one call at a time
};

/// What a resync does, and how far it is.
struct ResyncOptions {
  /// Whether [offset, offset + length) holds anything. What is taken into use later is written to both sides anyway.
  std::function<bool(uint64_t offset, uint64_t length)> in_use;
  uint64_t bytes_per_second = UINT64_MAX;
  std::function<bool()> stopped = [] { return false; };           ///< asked between two pieces
  std::function<void(uint64_t done, uint64_t total)> progress{};  ///< bytes of the device gone through
};

class MirrorDevice final : public Device {
 public:
  using Sides = std::array<std::unique_ptr<Device>, kMirrorSides>;

  /// Writes and flushes the records of a new mirror whose sides are equal.
  static rt::Task<Status> Format(rt::Reactor& reactor, std::array<Device*, kMirrorSides> sides, MirrorIdentity identity);
  /// Takes part of the sides that are there (null: absent; `names` says which). Borrows `log`. Unavailable when none of
  /// them is current, FailedPrecondition when both were written without each other, or when they are swapped; DataLoss
  /// when no side has a record.
  static rt::Task<Result<std::unique_ptr<MirrorDevice>>> Open(rt::Reactor& reactor, Sides sides,
                                                              std::array<std::string, kMirrorSides> names,
                                                              MirrorIdentity identity, MirrorMemory memory,
                                                              base::Log& log);

  /// "A + B"; stays valid after a side was replaced.
  const std::string& name() const override { return *name_.load(std::memory_order_acquire); }
  uint64_t size_bytes() const override { return size_bytes_; }

  rt::Task<Status> Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) override;
  rt::Task<Status> Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) override;
  rt::Task<Status> Flush(rt::Reactor& reactor) override;
  rt::Task<Status> ZeroAhead(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes) override;

  uint32_t copies() const override { return kMirrorSides; }
  rt::Task<Status> ReadCopy(rt::Reactor& reactor, uint32_t copy, uint64_t offset,
                            std::span<const MutableByteView> buffers) override;
  rt::Task<Status> WriteCopy(rt::Reactor& reactor, uint32_t copy, uint64_t offset,
                             std::span<const ByteView> buffers) override;

  std::array<MirrorSide, kMirrorSides> sides() const FB_EXCLUDES(mutex_);
  /// The side that waits for a Resync, if any.
  std::optional<uint32_t> rebuilding() const FB_EXCLUDES(mutex_);
  /// Puts `device` in the place of a side that is lost. FailedPrecondition when it is not lost, InvalidArgument when the
  /// device is too small.
  Status Replace(uint32_t side, std::unique_ptr<Device> device) FB_EXCLUDES(mutex_);
  /// Copies to the side that is being rebuilt whatever it may lack; then it is current. Units that cannot be read stay as
  /// they are there. Ok at once when no side needs it; Cancelled when it was stopped, Aborted when the other side does not
  /// answer: the side stays as it is; otherwise it is lost. One call at a time.
  rt::Task<Status> Resync(rt::Reactor& reactor, const ResyncOptions& options);

 private:
  struct Side {
    std::shared_ptr<Device> device;  // shared with the operations in flight; null while absent
    MirrorSide shown;
  };
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
    bool Overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
  };
  /// A side that an operation uses.
  struct Used {
    uint32_t index;
    std::shared_ptr<Device> device;
    bool current;
  };
  /// A write in progress, for the resync.
  class Writing;

  MirrorDevice(Sides sides, std::array<std::string, kMirrorSides> names, MirrorIdentity identity,
               std::function<Status(uint64_t)> keep_generation, base::Log& log);

  /// The record that counts; `kept` is the generation that is known from elsewhere. Takes records away that count no more.
  static Status Agree(std::array<std::optional<MirrorRecord>, kMirrorSides>& records,
                      const std::array<std::string, kMirrorSides>& names, uint64_t kept, MirrorRecord* newest);
  /// Those that get writes.
  std::vector<Used> Receiving() const FB_EXCLUDES(mutex_);
  /// For reads at `offset`: current ones, in the order to be asked.
  std::vector<Used> Readable(uint64_t offset) const FB_EXCLUDES(mutex_);
  Result<std::shared_ptr<Device>> SideAt(uint32_t copy) const FB_EXCLUDES(mutex_);
  /// Ok when it was done on a current side; those that failed are lost then.
  Status Settle(std::span<const Used> used, std::span<const Status> results, std::string_view what);
  /// The same of flushes: after one that failed on all sides each later one fails too. A kernel tells such a failure once
  /// only, and not to whom it concerns.
  Status SettleFlush(std::span<const Used> used, std::span<const Status> results) FB_EXCLUDES(mutex_);
  /// False when it is the last one that is current: it stays.
  bool Lose(const Used& used, const Status& why) FB_EXCLUDES(mutex_);
  void CountFailedRead(const Used& used, const Status& why) FB_EXCLUDES(mutex_);
  uint32_t CurrentMask() const FB_REQUIRES(mutex_);
  void Rename() FB_REQUIRES(mutex_);
  /// Makes durable which sides are current, when that changed.
  rt::Task<Status> Record(rt::Reactor& reactor);
  /// None when the record is as things are, after it may have waited for another call's.
  rt::Task<std::optional<MirrorRecord>> BeginRecord(rt::Reactor& reactor) FB_EXCLUDES(mutex_);
  void EndRecord(const MirrorRecord& record, bool written) FB_EXCLUDES(mutex_);

  /// Copies one piece; false when it was written meanwhile and has to be copied again.
  rt::Task<Result<bool>> CopyPiece(rt::Reactor& reactor, uint32_t target, Range piece, MutableByteView memory);
  rt::Task<Status> CopyUnits(rt::Reactor& reactor, Device& target, Range piece, MutableByteView memory);
  rt::Task<Status> CopyAll(rt::Reactor& reactor, uint32_t target, const ResyncOptions& options);

  const MirrorIdentity identity_;
  const std::function<Status(uint64_t)> keep_generation_;
  base::Log& log_;
  uint64_t size_bytes_ = 0;
  std::atomic<const std::string*> name_{nullptr};

  mutable base::Mutex mutex_;
  std::deque<std::string> names_ FB_GUARDED_BY(mutex_);  // all that it ever had: name() hands them out
  std::array<Side, kMirrorSides> sides_ FB_GUARDED_BY(mutex_);
  uint64_t generation_ FB_GUARDED_BY(mutex_) = 0;       // of the last record that was begun
  uint32_t recorded_mask_ FB_GUARDED_BY(mutex_) = 0;    // what the last durable record says; 0: one has to be written
  bool recording_ FB_GUARDED_BY(mutex_) = false;
  std::vector<rt::Completion<bool>*> record_waiters_ FB_GUARDED_BY(mutex_);
  std::vector<Range> writing_ FB_GUARDED_BY(mutex_);    // writes in progress
  std::optional<Range> copying_ FB_GUARDED_BY(mutex_);  // the piece that the resync copies
  bool touched_ FB_GUARDED_BY(mutex_) = false;          // a write met that piece
  Status failed_flush_ FB_GUARDED_BY(mutex_);           // what no flush gets past
};

}  // namespace forebay::device
