// SPDX-License-Identifier: Apache-2.0
#include "fabric/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace forebay::fabric {

size_t FrameReader::Buffers(iovec out[2]) {
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ != 0) {
    // A part of a header: payload is always consumed at once.
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  size_t count = 0;
  landing_ = in_frame_ ? target_.size() : 0;
  if (landing_ != 0) out[count++] = {target_.data(), target_.size()};
  out[count++] = {buffer_.get() + end_, kBufferBytes - end_};
  return count;
}

Status FrameReader::Received(size_t size) {
  const size_t landed = std::min(size, std::exchange(landing_, 0));
  if (landed != 0) {
    // Even when it was diverted meanwhile, this much of the payload has gone by.
    missing_ -= landed;
    if (!target_.empty()) target_ = target_.subspan(landed);
  }
  end_ += size - landed;
  FB_CHECK(end_ <= kBufferBytes);
  return Consume();
}

Status FrameReader::Consume() {
  while (true) {
    if (in_frame_) {
      const size_t step = std::min(missing_, end_ - begin_);
      if (step != 0 && !target_.empty()) {
        std::memcpy(target_.data(), buffer_.get() + begin_, step);
        target_ = target_.subspan(step);
      }
      begin_ += step;
      missing_ -= step;
      if (missing_ != 0) return Status();
      FB_TRY(EndFrame());
    }
    if (end_ - begin_ < kHeaderBytes) return Status();
    FB_ASSIGN(header_, DecodeHeader({buffer_.get() + begin_, kHeaderBytes}, limits_));
    begin_ += kHeaderBytes;
    in_frame_ = true;
    missing_ = header_.length;
    target_ = {};
    FB_TRY(sink_.OnHeader(header_, &target_));
    FB_CHECK(target_.empty() || target_.size() == missing_);
  }
}

Status FrameReader::EndFrame() {
  in_frame_ = false;
  target_ = {};
  return sink_.OnFrame(header_);
}

}  // namespace forebay::fabric
