// SPDX-License-Identifier: Apache-2.0
// SendQueue: what a tcp endpoint has to send, as frames in order, without doing any output itself: Gather gives the next
// bytes as one vectored send, Sent says how many went out. Small frames without payload (answers, credit, probes) go in one
// block ahead of the rest, at the next frame boundary.
// Reactor-local. Invariant: what Gather gave out stays put until Sent.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/bytes.h"
#include "fabric/tcp_frames.h"
#include "rt/sync.h"

namespace forebay::fabric {

/// Told when a peer's read of our memory has been served or was cut off.
class ServedSink {
 public:
  virtual ~ServedSink() = default;
  /// `complete` is false when its region was withdrawn on the way.
  virtual void OnServed(uint64_t id, uint64_t length, bool complete) = 0;
};

class SendQueue {
 public:
  static constexpr size_t kMaxPieces = 64;                      // of one send
  static constexpr size_t kMaxGatherBytes = 2 * base::kMiB;

  /// `served` is borrowed for the queue's life.
  explicit SendQueue(ServedSink& served) : served_(served) {}

  /// A frame with its payload: `head`, then `buffers`. `sent`, which may be null, is set once all of it went out, or by
  /// Clear. `header.length` is filled in.
  void Push(FrameHeader header, Bytes head, std::vector<base::Buffer> buffers, rt::Event* sent);
  /// A frame without payload that may overtake the others.
  void PushControl(const FrameHeader& header);
  /// Sends `memory`, which belongs to the region `key`, as READ_DATA for the peer's transfer `id`; tells OnServed at the end.
  void Serve(uint64_t id, uint64_t key, ByteView memory);

  /// Takes back the WRITE or READ of transfer `id`, if nothing of it has been given out yet.
  bool TakeBack(uint64_t id);
  /// Stops serving from region `key`. A piece whose header went out is completed with zeros. True while the send that is
  /// under way still reads the region: end it and call Sent.
  bool Withdraw(uint64_t key);
  bool Reading(uint64_t key) const;

  bool empty() const { return frames_.empty() && block_.empty() && next_block_.empty(); }
  /// True when the peer has got a part of a frame: nothing else may come in between.
  bool in_frame() const;
  /// Answers not yet given out, and reads being served: bounded by what a rightful peer may have unanswered.
  size_t owed() const { return next_block_.size() / kHeaderBytes + serving_; }

  size_t Gather(std::span<iovec, kMaxPieces> out);
  void Sent(size_t size);
  /// Drops everything and sets all `sent` events. Not between Gather and Sent.
  void Clear();

 private:
  struct Frame {
    HeaderBytes header;
    Bytes head;
    std::vector<base::Buffer> buffers;
    rt::Event* sent_event = nullptr;  // borrowed from the coroutine that waits
    uint64_t id = 0;
    size_t size = kHeaderBytes;  // header and payload
    size_t sent = 0;
    bool given_out = false;  // a part of it is in the send under way
    // Serving a read:
    bool serves = false;
    bool withdrawn = false;
    bool reads_region = false;  // the send under way points into the region
    uint64_t key = 0;
    ByteView memory;    // all of the transfer; borrowed from the region until it is withdrawn
    size_t piece_at = 0;
    size_t piece_size = 0;
  };
  class Pieces;

  void StartPiece(Frame& frame);
  static void GatherFrame(Frame& frame, Pieces& pieces);
  /// Counts `size` sent bytes against the frame at the front.
  size_t SentOfFront(size_t size);
  void EndFront();
  size_t SentOfBlock(size_t size);

  ServedSink& served_;
  std::deque<std::unique_ptr<Frame>> frames_;
  Bytes block_;        // control frames being sent, ahead of all frames that were not begun
  size_t block_sent_ = 0;
  Bytes next_block_;   // gathered meanwhile
  size_t serving_ = 0;
  bool front_first_ = false;  // in the send under way the rest of the front frame stands before the block
};

}  // namespace forebay::fabric
