// SPDX-License-Identifier: Apache-2.0
// FaultyDevice: a decorator that does what a bad drive does, when a FaultPlan says so. A plan counts the operations of each
// kind from its own beginning, so that a test can let the nth of them go wrong; it may be changed while in use.
// Thread-safe. The plan outlives the device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "device/device.h"

namespace forebay::device {

enum class FaultKind : uint8_t {
  kIoError,      ///< DataLoss, as from EIO; nothing happens on the media
  kNoSpace,      ///< ResourceExhausted, as from ENOSPC; nothing happens on the media
  kDropCache,    ///< DataLoss, and a MemoryDevice below forgets all that was not flushed: a failed flush
  kTorn,         ///< a write: DataLoss, and only the first `amount` bytes (rounded down to kUnit) are written
  kLost,         ///< a write or flush: ok, but nothing happens
  kMisdirected,  ///< a write: ok, but `amount` bytes further on (modulo the size of the device)
  kFlipped,      ///< a read: ok, but bit `amount` of what was read is inverted in memory; a write: inverted on the media
  kDelayed,      ///< takes `delay` longer, then happens as if nothing were wrong
};

enum class FaultOn : uint8_t { kRead, kWrite, kFlush };

struct Fault {
  static constexpr uint64_t kForever = UINT64_MAX;

  FaultOn on = FaultOn::kWrite;
  uint64_t nth = 0;    ///< the first operation of that kind that it hits; the first of all is number 0
  uint64_t count = 1;  ///< how many operations it hits from there
  FaultKind kind = FaultKind::kIoError;
  uint64_t amount = 0;
  base::Duration delay{};
};

class FaultPlan {
 public:
  FaultPlan() = default;
  explicit FaultPlan(std::vector<Fault> faults) : faults_(std::move(faults)) {}

  void Add(const Fault& fault);
  /// No further faults; operations go on being counted.
  void Clear();
  /// Operations of that kind so far: run a scenario without faults first to learn how many indexes there are.
  uint64_t operations(FaultOn on) const;
  /// Faults that have happened.
  uint64_t hits() const;

 private:
  friend class FaultyDevice;
  /// Counts an operation; what is to go wrong with it, if anything. The first fault that matches counts.
  std::optional<Fault> Next(FaultOn on);

  mutable base::Mutex mutex_;
  std::vector<Fault> faults_ FB_GUARDED_BY(mutex_);
  uint64_t operations_[3] FB_GUARDED_BY(mutex_) = {};
  uint64_t hits_ FB_GUARDED_BY(mutex_) = 0;
};

class FaultyDevice final : public Device {
 public:
  /// Borrows `plan`.
  FaultyDevice(std::unique_ptr<Device> base, FaultPlan& plan) : base_(std::move(base)), plan_(plan) {}

  const std::string& name() const override { return base_->name(); }
  uint64_t size_bytes() const override { return base_->size_bytes(); }
  Device& base() { return *base_; }

  rt::Task<Status> Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) override;
  rt::Task<Status> Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) override;
  rt::Task<Status> Flush(rt::Reactor& reactor) override;
  /// Never fails by plan: its writes are not operations of the plan.
  rt::Task<Status> ZeroAhead(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes) override;

 private:
  rt::Task<Status> WriteWith(rt::Reactor& reactor, Fault fault, uint64_t offset, Bytes data);
  Status ErrorOf(const Fault& fault, std::string_view verb, uint64_t offset) const;

  const std::unique_ptr<Device> base_;
  FaultPlan& plan_;  // borrowed
};

}  // namespace forebay::device
