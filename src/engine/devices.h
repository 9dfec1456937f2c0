// SPDX-License-Identifier: Apache-2.0
// Devices: the data devices of a store by number, which of them have been written since their last flush, and
// counters. Thread-safe. Outlives the operations in flight.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::engine {

class Devices {
 public:
  explicit Devices(std::vector<std::unique_ptr<device::Device>> devices);

  size_t size() const { return slots_.size(); }
  device::Device& at(uint32_t id) const { return *slots_[id]->device; }

  rt::Task<Status> Read(rt::Reactor& reactor, uint32_t id, uint64_t offset,
                        std::span<const MutableByteView> buffers);
  /// The device counts as written from before this returns until the next TakeWritten.
  rt::Task<Status> Write(rt::Reactor& reactor, uint32_t id, uint64_t offset,
                         std::span<const ByteView> buffers);

  void MarkWritten(uint32_t id) { slots_[id]->written.store(true); }
  /// The devices written since they were last taken: whoever takes them flushes them.
  std::vector<uint32_t> TakeWritten();

  uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }
  uint64_t bytes_written() const { return bytes_written_.load(std::memory_order_relaxed); }

 private:
  struct Slot {
    std::unique_ptr<device::Device> device;
    std::atomic<bool> written{false};
  };
  std::vector<std::unique_ptr<Slot>> slots_;
  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<uint64_t> bytes_written_{0};
};

}  // namespace forebay::engine
