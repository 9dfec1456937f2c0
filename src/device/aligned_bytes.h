// SPDX-License-Identifier: Apache-2.0
// AlignedBytes: an owned run of zeros whose address and size suit a Device, for tests, tools and superblocks; payload on
// its way lives in a base::Arena instead.
// Reactor-local.
#pragma once

#include <cstdlib>
#include <memory>

#include "base/bytes.h"
#include "base/check.h"
#include "device/device.h"

namespace forebay::device {

class AlignedBytes {
 public:
  /// `size` is rounded up to kUnit.
  explicit AlignedBytes(size_t size)
      : size_(base::RoundUp(size, kUnit)),
        data_(size_ == 0 ? nullptr : static_cast<std::byte*>(std::aligned_alloc(kUnit, size_))) {
    FB_CHECK(size_ == 0 || data_ != nullptr);
    if (size_ != 0) std::memset(data_.get(), 0, size_);
  }

  size_t size() const { return size_; }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  ByteView view() const { return {data_.get(), size_}; }
  MutableByteView writable() { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  size_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace forebay::device
