// SPDX-License-Identifier: Apache-2.0
// OfiSendQueue: what an ofi endpoint has to say, as frames that fit into the peer's receive buffers, without
// doing any output itself. Frames without payload go first, in order; messages follow in order, cut into
// pieces. Payload is given out in place where the provider takes it so, and copied into the slot where it
// does not. Reactor-local. Invariant: what Next gave out stays put until Sent.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/arena.h"
#include "base/bytes.h"
#include "fabric/ofi_frames.h"
#include "fabric/ofi_link.h"
#include "rt/sync.h"

namespace forebay::fabric {

class OfiSendQueue {
 public:
  /// How `memory` can be sent from where it is; nothing when it must be copied.
  struct Placement {
    bool in_place = false;
    void* descriptor = nullptr;
  };
  using Place = std::function<Placement(ByteView memory)>;

  /// `slots` is how many frames are under way at most.
  OfiSendQueue(size_t slots, Place place) : under_way_(slots), place_(std::move(place)) {}

  void PushControl(const OfiFrame& frame) { control_.push_back(frame); }
  /// `sent`, borrowed, is set when the last piece was sent, or by Clear.
  void PushMessage(Bytes head, std::vector<base::Buffer> payload, rt::Event* sent);

  bool empty() const { return control_.empty() && next_message_ == messages_.size(); }
  size_t control() const { return control_.size(); }

  struct Packet {
    OfiFrame frame;   // the header's place in the slot is left free
    size_t size = 0;  // of the slot that is used, header included
    OfiLink::Pieces more;
  };
  /// The next frame, written to `slot` behind its header; at most `max_pieces` further pieces. Not when
  /// empty.
  Packet Next(uint16_t slot, MutableByteView memory, size_t max_pieces);
  /// What was given out for `slot` is sent.
  void Sent(uint16_t slot);
  /// Drops everything and sets all `sent` events.
  void Clear();

  /// Bytes of payload that were copied by us.
  uint64_t copied() const { return copied_; }

 private:
  struct Message {
    Bytes head;
    std::vector<base::Buffer> payload;
    size_t size = 0;
    size_t given = 0;   // in frames
    size_t buffer = 0;  // the first one of payload that is not all given
    size_t buffer_given = 0;
    size_t under_way = 0;  // frames
    rt::Event* sent = nullptr;
  };

  void FillSlot(Message& message, MutableByteView memory, size_t max_pieces, Packet& packet);
  void EndFront();

  std::deque<OfiFrame> control_;
  std::deque<std::unique_ptr<Message>> messages_;  // those that are not all sent
  size_t next_message_ = 0;                        // the first that is not all given
  std::vector<Message*> under_way_;                // by slot; null: a frame without payload, or nothing
  const Place place_;
  uint64_t copied_ = 0;
};

}  // namespace forebay::fabric
