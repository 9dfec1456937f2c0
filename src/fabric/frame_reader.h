// SPDX-License-Identifier: Apache-2.0
// FrameReader: turns the bytes of a tcp connection into frames, without doing any input itself: it says where the next bytes
// should be received to, and is told how many came. Large payload thus lands where it belongs without a copy; headers and
// what is small come through a buffer of 16 KiB, which also swallows payload that nobody wants.
// Reactor-local. Invariant: between Buffers and Received the memory given out must stay.
#pragma once

#include <sys/uio.h>

#include <memory>

#include "base/bytes.h"
#include "base/status.h"
#include "fabric/tcp_frames.h"

namespace forebay::fabric {

/// Told of each frame, in order. An error ends the connection.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// A header came. `target` (empty at the call) may be set to header.length bytes that the payload goes to; left empty
  /// the payload is dropped.
  virtual Status OnHeader(const FrameHeader& header, MutableByteView* target) = 0;
  /// The frame is complete.
  virtual Status OnFrame(const FrameHeader& header) = 0;
};

class FrameReader {
 public:
  static constexpr size_t kBufferBytes = 16 * base::kKiB;

  /// `sink` is borrowed for the reader's life.
  FrameReader(const FrameLimits& limits, FrameSink& sink)
      : limits_(limits), sink_(sink), buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

  /// Fills in one or two places for the next bytes, and says how many.
  size_t Buffers(iovec out[2]);
  /// `size` bytes came into them. Calls the sink for what is complete.
  Status Received(size_t size);

  /// True when what Buffers gave last includes memory of the sink's.
  bool landing() const { return landing_ != 0; }
  /// Drops the rest of the payload of the frame that is under way. What Buffers gave out stays valid until Received.
  void Divert() { target_ = {}; }

 private:
  Status Consume();
  Status EndFrame();

  const FrameLimits limits_;
  FrameSink& sink_;
  std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0;  // unread bytes are buffer_[begin_, end_)
  size_t end_ = 0;
  FrameHeader header_;
  bool in_frame_ = false;
  size_t missing_ = 0;      // payload bytes still to come, when in_frame_
  MutableByteView target_;  // where they go; empty: nowhere
  size_t landing_ = 0;      // bytes of the sink's memory given out
};

}  // namespace forebay::fabric
