// SPDX-License-Identifier: Apache-2.0
// What the peer's frames do. Nothing here trusts a field: shape and ranges were checked by DecodeOfiFrame,
// meaning is checked here. A lie about the protocol ends the connection.
#include <algorithm>
#include <utility>

#include "fabric/limits.h"
#include "fabric/ofi_connection.h"
#include "fabric/ofi_limits.h"

namespace forebay::fabric {

namespace {

/// Answers that may wait to be sent beside those to transfers and regions.
constexpr size_t kControlSlack = 64;

Status Lie(std::string_view what) { return Status::InvalidArgument("{}", what); }

}  // namespace

void OfiConnection::OnReceived(ByteView bytes) {
  if (!state_.ok()) return;
  liveness_.Arrived(reactor_.Now(), transfers_.unanswered() != 0);
  ++slots_owed_;
  Status status;
  const auto received = DecodeOfiFrame(bytes, limits_.max_message_bytes);
  if (!received.ok()) {
    status = received.status();
  } else if (received->frame.slots > peer_slots_ - slots_left_) {
    status = Lie("more buffers given back than were used");
  } else {
    slots_left_ = static_cast<uint16_t>(slots_left_ + received->frame.slots);
    stats_.peer_bytes_written = std::max(stats_.peer_bytes_written, received->frame.written);
    stats_.peer_bytes_read = std::max(stats_.peer_bytes_read, received->frame.read);
    status = OnFrame(received->frame, received->payload);
  }
  if (status.ok()) status = CheckConduct();
  if (status.ok()) return;
  if (status.code() == Code::kInvalidArgument) {
    Break(Status::Unavailable("{} broke the protocol: {}", peer_, status.message()));
  } else {
    Break(Status::Unavailable("{}", status.message()));
  }
}

Status OfiConnection::OnFrame(const OfiFrame& frame, ByteView payload) {
  switch (frame.type) {
    case OfiFrameType::kMessage:
      return OnMessage(frame, payload);
    case OfiFrameType::kCredit:
      return OnCredit(frame);
    case OfiFrameType::kSlots:
      return Status();
    case OfiFrameType::kOffer:
      return peer_regions_.Add(frame, reactor_.Now());
    case OfiFrameType::kAsk:
      return OnAsk(frame);
    case OfiFrameType::kAnswer:
      return OnAnswer(frame);
    case OfiFrameType::kWithdraw:
      return OnWithdraw(frame);
    case OfiFrameType::kWithdrawn:
      return OnWithdrawn(frame);
    case OfiFrameType::kProbe:
      PushControl({.type = OfiFrameType::kProbeAnswer, .id = frame.id}, false);
      return Status();
    case OfiFrameType::kProbeAnswer:
      return OnProbeAnswer(frame);
  }
  return Lie("a frame of unknown type");
}

Status OfiConnection::OnMessage(const OfiFrame& frame, ByteView payload) {
  if (!in_message_) {
    const size_t cost = frame.length + kMessageOverheadBytes;
    if (cost > window_bytes_ - unreturned_) return Lie("more messages than it has room for");
    unreturned_ += cost;
    incoming_.clear();
    incoming_.reserve(frame.length);
    in_message_ = true;
    incoming_length_ = frame.length;
  }
  if (frame.offset != incoming_.size() || frame.length != incoming_length_)
    return Lie("pieces of a message out of order");
  incoming_.insert(incoming_.end(), payload.begin(), payload.end());
  if (incoming_.size() != incoming_length_) return Status();
  in_message_ = false;
  ++stats_.messages_received;
  messages_.push_back(std::exchange(incoming_, {}));
  message_came_.Set();
  return Status();
}

Status OfiConnection::OnCredit(const OfiFrame& frame) {
  if (frame.length > window_used_) return Lie("credit for messages that were never sent");
  window_used_ -= frame.length;
  liveness_.Unblocked(Liveness::kMessageWindow);
  window_.Release(frame.length);
  if (window_waiters_ != 0) liveness_.Blocked(Liveness::kMessageWindow, reactor_.Now());
  return Status();
}

// The rules are the device's to enforce; this only tells an honest peer what would become of its transfer,
// and counts.
Status OfiConnection::OnAsk(const OfiFrame& frame) {
  const auto access = offers_.rules().Check(frame.key, frame.offset, frame.length,
                                            static_cast<Direction>(frame.direction), reactor_.Now());
  PushControl({.type = OfiFrameType::kAnswer, .code = static_cast<uint16_t>(access.refusal), .id = frame.id},
              false);
  if (!offers_.rules().abused()) return Status();
  return Status::PermissionDenied("fenced: more than {} transfers broke the rules of the regions offered",
                                  RegionTable::kMaxViolations);
}

Status OfiConnection::OnAnswer(const OfiFrame& frame) {
  const auto found = jobs_.find(frame.id);
  if (found == jobs_.end() || !found->second.asked) return Lie("an answer to what was not asked");
  Job& job = found->second;
  job.asked = false;
  auto refusal = static_cast<Refusal>(frame.code);
  // Our own view has the last word: what the owner allows may have ended here already.
  if (refusal == Refusal::kNone) {
    refusal = peer_regions_.Judge(job.remote.key, job.offset, job.length, job.direction, reactor_.Now());
    if (refusal == Refusal::kUnknownKey) refusal = Refusal::kWithdrawn;
  }
  if (refusal != Refusal::kNone && job.failure.ok())
    job.failure = RefusalStatus(refusal, job.offset, job.length);
  StartJob(frame.id, job);
  return Status();
}

Status OfiConnection::OnWithdraw(const OfiFrame& frame) {
  OfiPeerRegion* const region = peer_regions_.Find(frame.key);
  if (region == nullptr || region->ending) return Lie("the withdrawal of a region that it does not offer");
  region->ending = true;
  LetGoIfIdle(frame.key);
  return Status();
}

Status OfiConnection::OnWithdrawn(const OfiFrame& frame) {
  OfiOffered* const offered = offers_.Find(frame.key);
  if (offered == nullptr || !offered->ending || offered->let_go.is_set()) {
    return Lie("it lets go of a region that was not asked back");
  }
  offered->let_go.Set();
  return Status();
}

Status OfiConnection::OnProbeAnswer(const OfiFrame& frame) {
  if (frame.id == 0) return Status();  // that it came is all
  const auto found = barriers_.find(frame.id);
  if (found == barriers_.end()) return Lie("an answer to a probe that was not sent");
  found->second->Set();
  return Status();
}

Status OfiConnection::CheckConduct() const {
  if (queue_.control() > size_t{own_max_transfers_} + 2 * kMaxPeerRegions + kControlSlack) {
    return Lie("more questions without waiting for answers than were agreed");
  }
  return Status();
}

}  // namespace forebay::fabric
