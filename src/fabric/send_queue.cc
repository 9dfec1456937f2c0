// SPDX-License-Identifier: Apache-2.0
#include "fabric/send_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace forebay::fabric {

namespace {
// Stands in for memory that was withdrawn when a frame's length had been said already.
constexpr std::array<std::byte, 16 * base::kKiB> kZeros{};
/// A block of control frames larger than this is not kept for the next one: an idle endpoint holds little.
constexpr size_t kKeptBlockBytes = 1024;
}  // namespace

/// Collects the pieces of one send, up to its limits.
class SendQueue::Pieces {
 public:
  explicit Pieces(std::span<iovec, kMaxPieces> out) : out_(out) {}

  bool full() const { return count_ == kMaxPieces || bytes_ >= kMaxGatherBytes; }
  size_t count() const { return count_; }

  /// Adds what is left of `part` after the first `skip` bytes; takes the skipped ones off `skip`. False when it is full.
  bool Add(ByteView part, size_t& skip) {
    const size_t skipped = std::min(skip, part.size());
    skip -= skipped;
    if (skipped == part.size()) return true;
    if (full()) return false;
    out_[count_++] = {const_cast<std::byte*>(part.data() + skipped), part.size() - skipped};
    bytes_ += part.size() - skipped;
    return true;
  }

 private:
  std::span<iovec, kMaxPieces> out_;
  size_t count_ = 0;
  size_t bytes_ = 0;
};

void SendQueue::Push(FrameHeader header, Bytes head, std::vector<base::Buffer> buffers, rt::Event* sent) {
  auto frame = std::make_unique<Frame>();
  size_t payload = head.size();
  for (const base::Buffer& buffer : buffers) payload += buffer.size();
  header.length = static_cast<uint32_t>(payload);
  frame->header = EncodeHeader(header);
  frame->head = std::move(head);
  frame->buffers = std::move(buffers);
  frame->sent_event = sent;
  frame->id = header.id;
  frame->size = kHeaderBytes + payload;
  frames_.push_back(std::move(frame));
}

void SendQueue::PushControl(const FrameHeader& header) {
  const HeaderBytes bytes = EncodeHeader(header);
  next_block_.insert(next_block_.end(), bytes.begin(), bytes.end());
}

void SendQueue::Serve(uint64_t id, uint64_t key, ByteView memory) {
  if (memory.empty()) {
    served_.OnServed(id, 0, true);
    return;
  }
  auto frame = std::make_unique<Frame>();
  frame->serves = true;
  frame->id = id;
  frame->key = key;
  frame->memory = memory;
  StartPiece(*frame);
  ++serving_;
  frames_.push_back(std::move(frame));
}

void SendQueue::StartPiece(Frame& frame) {
  frame.piece_at += frame.piece_size;
  frame.piece_size = std::min(frame.memory.size() - frame.piece_at, kMaxPieceBytes);
  frame.header = EncodeHeader({.type = FrameType::kReadData,
                               .length = static_cast<uint32_t>(frame.piece_size),
                               .id = frame.id,
                               .offset = frame.piece_at});
  frame.size = kHeaderBytes + frame.piece_size;
  frame.sent = 0;
  frame.given_out = false;
}

bool SendQueue::TakeBack(uint64_t id) {
  const auto found = std::find_if(frames_.begin(), frames_.end(), [id](const auto& frame) {
    return frame->id == id && !frame->serves && !frame->given_out && frame->sent == 0 && frame->sent_event == nullptr;
  });
  if (found == frames_.end()) return false;
  frames_.erase(found);
  return true;
}

bool SendQueue::Withdraw(uint64_t key) {
  bool reading = false;
  for (auto at = frames_.begin(); at != frames_.end();) {
    Frame& frame = **at;
    if (!frame.serves || frame.key != key) {
      ++at;
      continue;
    }
    frame.withdrawn = true;
    reading |= frame.reads_region;
    if (frame.given_out || frame.sent != 0) {
      ++at;
      continue;
    }
    const uint64_t id = frame.id;
    const size_t length = frame.memory.size();
    at = frames_.erase(at);
    --serving_;
    served_.OnServed(id, length, false);
  }
  return reading;
}

bool SendQueue::Reading(uint64_t key) const {
  return std::any_of(frames_.begin(), frames_.end(),
                     [key](const auto& frame) { return frame->reads_region && frame->key == key; });
}

bool SendQueue::in_frame() const {
  return block_sent_ % kHeaderBytes != 0 || (!frames_.empty() && frames_.front()->sent != 0);
}

void SendQueue::GatherFrame(Frame& frame, Pieces& pieces) {
  frame.given_out = true;
  size_t skip = frame.sent;
  if (!pieces.Add(frame.header, skip)) return;
  if (frame.serves && !frame.withdrawn) {
    frame.reads_region = pieces.Add(frame.memory.subspan(frame.piece_at, frame.piece_size), skip);
    return;
  }
  for (size_t left = frame.withdrawn ? frame.piece_size : 0; left != 0;) {
    const size_t step = std::min(left, kZeros.size());
    if (!pieces.Add(ByteView(kZeros).first(step), skip)) return;
    left -= step;
  }
  if (!pieces.Add(frame.head, skip)) return;
  for (const base::Buffer& buffer : frame.buffers) {
    if (!pieces.Add(buffer.view(), skip)) return;
  }
}

size_t SendQueue::Gather(std::span<iovec, kMaxPieces> out) {
  Pieces pieces(out);
  auto at = frames_.begin();
  front_first_ = at != frames_.end() && (*at)->sent != 0;
  if (front_first_) GatherFrame(**at++, pieces);
  if (block_.empty()) {
    block_.swap(next_block_);
    block_sent_ = 0;
  }
  size_t skip = block_sent_;
  pieces.Add(block_, skip);
  for (; at != frames_.end() && !pieces.full(); ++at) GatherFrame(**at, pieces);
  return pieces.count();
}

size_t SendQueue::SentOfBlock(size_t size) {
  const size_t step = std::min(size, block_.size() - block_sent_);
  block_sent_ += step;
  if (block_sent_ == block_.size()) {
    if (block_.capacity() > kKeptBlockBytes) block_ = Bytes();
    block_.clear();
    block_sent_ = 0;
  }
  return size - step;
}

size_t SendQueue::SentOfFront(size_t size) {
  Frame& frame = *frames_.front();
  const size_t step = std::min(size, frame.size - frame.sent);
  frame.sent += step;
  if (frame.sent == frame.size) EndFront();
  return size - step;
}

void SendQueue::EndFront() {
  std::unique_ptr<Frame> frame = std::move(frames_.front());
  frames_.pop_front();
  if (frame->sent_event != nullptr) frame->sent_event->Set();
  if (!frame->serves) return;
  const bool last = frame->piece_at + frame->piece_size == frame->memory.size();
  if (frame->withdrawn || last) {
    --serving_;
    served_.OnServed(frame->id, frame->memory.size(), !frame->withdrawn);
    return;
  }
  StartPiece(*frame);
  frames_.push_back(std::move(frame));  // behind the others: they all get their turn
}

void SendQueue::Sent(size_t size) {
  for (const auto& frame : frames_) {
    if (!frame->given_out) break;
    frame->given_out = false;
    frame->reads_region = false;
  }
  if (front_first_ && size != 0) size = SentOfFront(size);
  // Only when the front frame is through may the block have gone out.
  size = SentOfBlock(size);
  while (size != 0) size = SentOfFront(size);
}

void SendQueue::Clear() {
  for (const auto& frame : frames_) {
    if (frame->sent_event != nullptr) frame->sent_event->Set();
  }
  frames_.clear();
  block_.clear();
  next_block_.clear();
  block_sent_ = 0;
  serving_ = 0;
}

}  // namespace forebay::fabric
