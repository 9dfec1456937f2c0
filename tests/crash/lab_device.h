// SPDX-License-Identifier: Apache-2.0
// LabDevice: lends a device of the laboratory to an engine, which owns and destroys its devices while the media live on. Like a
// file it really writes when it is to zero ahead, so that zeros in a wrong place or at a wrong time would be noticed.
// Where a mutant asks for it, it lies: a Flush that does nothing, or writes of the commit witness that never happen.
// DroppingDevice: a drive (or kernel) whose cache is gone once a flush has failed.
// Thread-safe. The device outlives them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "device/aligned_bytes.h"
#include "device/device.h"
#include "device/memory_device.h"
#include "engine/superblock.h"

namespace forebay::crash {

class LabDevice final : public device::Device {
 public:
  struct Lies {
    bool flush = false;    ///< answered ok, does nothing
    bool witness = false;  ///< a write to a witness slot is answered ok and does nothing
  };
  LabDevice(device::Device& device, Lies lies) : device_(device), lies_(lies) {}

  const std::string& name() const override { return device_.name(); }
  uint64_t size_bytes() const override { return device_.size_bytes(); }
  rt::Task<Status> Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) override {
    return device_.Read(reactor, offset, buffers);
  }
  rt::Task<Status> Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) override {
    if (lies_.witness && std::ranges::count(engine::kWitnessOffsets, offset) != 0) co_return Status();
    co_return co_await device_.Write(reactor, offset, buffers);
  }
  rt::Task<Status> Flush(rt::Reactor& reactor) override {
    if (lies_.flush) co_return Status();
    co_return co_await device_.Flush(reactor);
  }
  rt::Task<Status> ZeroAhead(rt::Reactor& reactor, uint64_t begin, uint64_t end) override {
    constexpr uint64_t kPiece = 512 * base::kKiB;
    const device::AlignedBytes zeros(kPiece);
    for (uint64_t at = std::max(begin, zeroed_to_.load()); at < end; at += kPiece) {
      const ByteView piece = zeros.view().first(std::min(kPiece, end - at));
      FB_CO_TRY(co_await device_.Write(reactor, at, {&piece, 1}));
      zeroed_to_ = at + piece.size();
    }
    co_return Status();
  }

 private:
  std::atomic<uint64_t> zeroed_to_{0};
  device::Device& device_;
  const Lies lies_;
};

class DroppingDevice final : public device::Device {
 public:
  /// `base` ends in `memory`, which is borrowed.
  DroppingDevice(std::unique_ptr<device::Device> base, device::MemoryDevice& memory)
      : base_(std::move(base)), memory_(memory) {}

  const std::string& name() const override { return base_->name(); }
  uint64_t size_bytes() const override { return base_->size_bytes(); }
  rt::Task<Status> Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) override {
    return base_->Read(reactor, offset, buffers);
  }
  rt::Task<Status> Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) override {
    return base_->Write(reactor, offset, buffers);
  }
  rt::Task<Status> Flush(rt::Reactor& reactor) override {
    const Status status = co_await base_->Flush(reactor);
    if (!status.ok()) memory_.DropUnflushed();
    co_return status;
  }
  rt::Task<Status> ZeroAhead(rt::Reactor& reactor, uint64_t begin, uint64_t end) override {
    return base_->ZeroAhead(reactor, begin, end);
  }

 private:
  const std::unique_ptr<device::Device> base_;
  device::MemoryDevice& memory_;
};

}  // namespace forebay::crash
