// SPDX-License-Identifier: Apache-2.0
// RecordingDevice: a decorator that notes every write and flush, with data, in an OperationLog.
// Thread-safe. The log outlives the device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "device/device.h"
#include "device/operation_log.h"

namespace forebay::device {

class RecordingDevice final : public Device {
 public:
  /// Borrows `log`. Entries carry the name of `base`.
  RecordingDevice(std::unique_ptr<Device> base, OperationLog& log) : base_(std::move(base)), log_(log) {}

  const std::string& name() const override { return base_->name(); }
  uint64_t size_bytes() const override { return base_->size_bytes(); }
  Device& base() { return *base_; }

  rt::Task<Status> Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) override {
    return base_->Read(reactor, offset, buffers);
  }
  rt::Task<Status> Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) override;
  rt::Task<Status> Flush(rt::Reactor& reactor) override;
  /// Not noted: the log's images begin with zeros there anyway.
  rt::Task<Status> ZeroAhead(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes) override {
    return base_->ZeroAhead(reactor, begin_bytes, end_bytes);
  }

 private:
  const std::unique_ptr<Device> base_;
  OperationLog& log_;  // borrowed
};

}  // namespace forebay::device
