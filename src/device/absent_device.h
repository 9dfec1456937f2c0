// SPDX-License-Identifier: Apache-2.0
// AbsentDevice: the place of a device that is not there any more: it was removed from its store. Everything fails with
// Unavailable, and by name.
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "device/device.h"

namespace forebay::device {

class AbsentDevice final : public Device {
 public:
  AbsentDevice(std::string name, uint64_t size_bytes) : name_(std::move(name)), size_bytes_(size_bytes) {}

  const std::string& name() const override { return name_; }
  uint64_t size_bytes() const override { return size_bytes_; }

  rt::Task<Status> Read(rt::Reactor& /*reactor*/, uint64_t /*offset*/,
                        std::span<const MutableByteView> /*buffers*/) override {
    co_return Absent();
  }
  rt::Task<Status> Write(rt::Reactor& /*reactor*/, uint64_t /*offset*/, std::span<const ByteView> /*buffers*/) override {
    co_return Absent();
  }
  rt::Task<Status> Flush(rt::Reactor& /*reactor*/) override { co_return Absent(); }
  rt::Task<Status> ZeroAhead(rt::Reactor& /*reactor*/, uint64_t /*begin_bytes*/, uint64_t /*end_bytes*/) override {
    co_return Absent();
  }

 private:
  Status Absent() const { return Status::Unavailable("{} was removed from the store", name_); }

  const std::string name_;
  const uint64_t size_bytes_;
};

}  // namespace forebay::device
