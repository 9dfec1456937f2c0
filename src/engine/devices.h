// SPDX-License-Identifier: Apache-2.0
// Devices: the data devices of a store by number, which of them have been written since their last flush, which
// are on their way out, and counters. Thread-safe. Outlives the operations in flight.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"
#include "device/mirror_device.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::engine {

/// How far a device is on its way out of the store.
struct Departure {
  bool leaving = false;  // nothing new is put there; what is there is moved to the others
  Status failure{};      // why it does not go on
};

class Devices {
 public:
  static constexpr size_t kMaxDevices = 1024;

  explicit Devices(std::vector<std::unique_ptr<device::Device>> devices);

  size_t size() const { return count_.load(std::memory_order_acquire); }
  /// The number of the new one, which is the next. One call at a time, at most kMaxDevices in all (checked).
  uint32_t Add(std::unique_ptr<device::Device> device);
  /// True for one that was removed: nothing is there, and nothing can be put there.
  bool absent(uint32_t id) const { return slots_[id]->absent; }
  /// Nothing is on it, and nothing uses it any more. It is closed with the store.
  void MarkAbsent(uint32_t id) { slots_[id]->absent = true; }
  /// The device that the commit witness is on: the first that is there.
  uint32_t witness_device() const { return FirstBut(UINT32_MAX); }
  /// The same if `id` were not there.
  uint32_t FirstBut(uint32_t id) const;
  Departure departure(uint32_t id) const FB_EXCLUDES(mutex_);
  void SetDeparture(uint32_t id, Departure departure) FB_EXCLUDES(mutex_);
  /// Why a device that leaves cannot be emptied; nothing when it stays by now.
  void FailDeparture(uint32_t id, const Status& failure) FB_EXCLUDES(mutex_);
  device::Device& at(uint32_t id) const { return *slots_[id]->device; }
  /// The same device when it is a mirror; else null.
  device::MirrorDevice* mirror(uint32_t id) const { return slots_[id]->mirror; }
  /// Whether that copy of the device should have everything: not when its side is lost or being brought up to date.
  bool IsCurrent(uint32_t id, uint32_t copy) const;
  /// Bytes that the resync of that mirror went through.
  std::atomic<uint64_t>& resynced(uint32_t id) const { return slots_[id]->resynced; }

  rt::Task<Status> Read(rt::Reactor& reactor, uint32_t id, uint64_t offset,
                        std::span<const MutableByteView> buffers);
  /// The device counts as written from before this returns until the next TakeWritten.
  rt::Task<Status> Write(rt::Reactor& reactor, uint32_t id, uint64_t offset,
                         std::span<const ByteView> buffers);

  /// The same of one copy of a device that has several.
  rt::Task<Status> ReadCopy(rt::Reactor& reactor, uint32_t id, uint32_t copy, uint64_t offset,
                            std::span<const MutableByteView> buffers);
  rt::Task<Status> WriteCopy(rt::Reactor& reactor, uint32_t id, uint32_t copy, uint64_t offset,
                             std::span<const ByteView> buffers);

  void MarkWritten(uint32_t id) { slots_[id]->written.store(true); }
  /// The devices written since they were last taken: whoever takes them flushes them.
  std::vector<uint32_t> TakeWritten();

  /// Of one device; a write to both sides of a mirror counts once.
  uint64_t bytes_read(uint32_t id) const { return slots_[id]->bytes_read.load(std::memory_order_relaxed); }
  uint64_t bytes_written(uint32_t id) const { return slots_[id]->bytes_written.load(std::memory_order_relaxed); }
  /// Of all.
  uint64_t bytes_read() const;
  uint64_t bytes_written() const;

 private:
  struct Slot {
    std::unique_ptr<device::Device> device;
    std::atomic<bool> absent{false};
    device::MirrorDevice* mirror = nullptr;  // the same, or null
    std::atomic<bool> written{false};
    std::atomic<uint64_t> resynced{0};
    std::atomic<uint64_t> bytes_read{0};
    std::atomic<uint64_t> bytes_written{0};
  };
  std::vector<std::unique_ptr<Slot>> slots_;  // room for all that there may be, so that it stays where it is
  std::atomic<size_t> count_{0};
  mutable base::Mutex mutex_;
  std::map<uint32_t, Departure> departures_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::engine
