// SPDX-License-Identifier: Apache-2.0
// CheckRequest: what every Device refuses before it touches the media, so that all of them refuse the same things in the
// same words. SpanCursor: walks a list of buffers in pieces that one vectored kernel call can take.
// Private to device. CheckRequest is thread-safe; SpanCursor is reactor-local.
#pragma once

#include <limits.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "device/device.h"

namespace forebay::device {

/// The number of bytes in `buffers`. InvalidArgument when offset, a length or an address is not a multiple of kUnit;
/// OutOfRange when the range does not lie inside of `size_bytes`. `verb` is for the message ("read", "write").
template <typename View>
Result<uint64_t> CheckRequest(std::string_view name, uint64_t size_bytes, std::string_view verb, uint64_t offset,
                              std::span<const View> buffers) {
  if (offset % kUnit != 0)
    return Status::InvalidArgument("{}: {} at offset {}: not a multiple of {}", name, verb, offset, kUnit);
  uint64_t total = 0;
  for (const View& buffer : buffers) {
    if (buffer.size() % kUnit != 0)
      return Status::InvalidArgument("{}: {} of a buffer of {} bytes at offset {}: not a multiple of {}", name, verb,
                                     buffer.size(), offset, kUnit);
    if (!buffer.empty() && reinterpret_cast<uintptr_t>(buffer.data()) % kUnit != 0)
      return Status::InvalidArgument("{}: {} at offset {}: a buffer's address is not a multiple of {}", name, verb,
                                     offset, kUnit);
    // A sum of lengths of real memory cannot wrap, but repeated views of the same memory could.
    if (!base::RangeFits(total, buffer.size(), size_bytes))
      return Status::OutOfRange("{}: {} of more than {} bytes at offset {}: the device has {}", name, verb, total, offset,
                                size_bytes);
    total += buffer.size();
  }
  if (!base::RangeFits(offset, total, size_bytes))
    return Status::OutOfRange("{}: {} of {} bytes at offset {}: the device has {}", name, verb, total, offset,
                              size_bytes);
  return total;
}

template <typename View>
class SpanCursor {
 public:
  /// One kernel call transfers less than 2 GiB and counts in 32 bits.
  static constexpr uint64_t kMaxPiece = base::kGiB;

  /// Borrows `buffers` for its life.
  explicit SpanCursor(std::span<const View> buffers) : buffers_(buffers) { SkipEmpty(); }

  bool done() const { return next_ == buffers_.size(); }

  /// The next pieces: at most IOV_MAX of them and kMaxPiece bytes. Valid until the next call.
  std::span<const iovec> Pieces() {
    pieces_.clear();
    pieces_.reserve(std::min<size_t>(buffers_.size() - next_, IOV_MAX));
    uint64_t room = kMaxPiece;
    size_t skip = skip_;
    for (size_t i = next_; i < buffers_.size() && pieces_.size() < IOV_MAX && room > 0; ++i) {
      const uint64_t length = std::min<uint64_t>(buffers_[i].size() - skip, room);
      if (length > 0) {
        pieces_.push_back({const_cast<std::byte*>(buffers_[i].data()) + skip, static_cast<size_t>(length)});
      }
      room -= length;
      skip = 0;
    }
    return pieces_;
  }

  /// Moves on by `bytes`, at most what Pieces offered.
  void Advance(uint64_t bytes) {
    while (bytes > 0) {
      const uint64_t step = std::min<uint64_t>(buffers_[next_].size() - skip_, bytes);
      skip_ += step;
      bytes -= step;
      SkipEmpty();
    }
  }

 private:
  void SkipEmpty() {
    while (next_ < buffers_.size() && skip_ == buffers_[next_].size()) {
      ++next_;
      skip_ = 0;
    }
  }

  const std::span<const View> buffers_;
  size_t next_ = 0;
  size_t skip_ = 0;  // bytes of buffers_[next_] that are done
  std::vector<iovec> pieces_;
};

}  // namespace forebay::device
