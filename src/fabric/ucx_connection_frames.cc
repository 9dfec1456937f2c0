// SPDX-License-Identifier: Apache-2.0
// UcxConnection: what the peer's frames do. Nothing here trusts a field: form and limits were checked by
// DecodeUcxFrame, meaning is checked here. A refused transfer is answered and the connection goes on; a lie
// about the protocol itself ends it.
#include <algorithm>
#include <utility>

#include "fabric/limits.h"
#include "fabric/ucx_connection.h"

namespace forebay::fabric {

namespace {

/// Answers of ours to probes that may wait beside those to transfers and to regions wanted back.
constexpr size_t kControlSlack = 64;

/// A peer's text, for our messages and logs.
std::string Printable(ByteView bytes) {
  std::string text(AsText(bytes));
  std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

Status Lie(std::string_view what) { return Status::InvalidArgument("the peer broke the protocol: {}", what); }

}  // namespace

void UcxConnection::OnFrame(ByteView header, ByteView payload) {
  if (!state_.ok()) return;
  const auto frame = DecodeUcxFrame(header, payload.size(), limits_.max_message_bytes);
  Status status = frame.status();
  if (status.ok() && frame->sequence != next_sequence_++) status = Lie("a frame out of order");
  if (status.ok()) status = Act(*frame, payload);
  if (!status.ok()) {
    Break(Status::Unavailable("{}", status.message()));
    return;
  }
  liveness_.Arrived(reactor_.Now(), transfers_.unanswered() != 0);
}

void UcxConnection::OnBroken(Status why) { Break(std::move(why), false); }

Status UcxConnection::Act(const UcxFrame& frame, ByteView payload) {
  switch (frame.type) {
    case UcxFrameType::kMessage:
      return OnMessage(frame, payload);
    case UcxFrameType::kCredit:
      return OnCredit(frame);
    case UcxFrameType::kOffer:
      return OnOffer(frame, payload);
    case UcxFrameType::kRevoke:
      return OnRevoke(frame);
    case UcxFrameType::kRevoked:
      // An answer that comes after its time finds nobody.
      if (OfferedRegions::Region* region = offered_.Find(frame.key); region != nullptr)
        region->given_up.Set();
      return Status();
    case UcxFrameType::kAsk:
      return OnAsk(frame);
    case UcxFrameType::kAnswer:
      return OnAnswer(frame);
    case UcxFrameType::kTally:
      stats_.peer_bytes_written += frame.offset;
      stats_.peer_bytes_read += frame.count;
      return Status();
    case UcxFrameType::kProbe:
      Post({.type = UcxFrameType::kProbeAnswer});
      return CheckConduct();
    case UcxFrameType::kProbeAnswer:
      return Status();  // that it came is all
    case UcxFrameType::kGoodbye:
      return Status::Unavailable("{} closed the connection: {}", peer_, Printable(payload));
    case UcxFrameType::kHello:
      return Lie("a second HELLO");
  }
  return Lie("a frame of unknown type");
}

Status UcxConnection::OnMessage(const UcxFrame& frame, ByteView payload) {
  const size_t cost = frame.length + kMessageOverheadBytes;
  if (cost > window_bytes_ - unreturned_) return Lie("more messages than it has room for");
  unreturned_ += cost;
  ++stats_.messages_received;
  messages_.emplace_back(payload.begin(), payload.end());
  message_came_.Set();
  return Status();
}

Status UcxConnection::OnCredit(const UcxFrame& frame) {
  if (frame.count > window_used_) return Lie("credit for messages that were never sent");
  window_used_ -= frame.count;
  liveness_.Unblocked(Liveness::kMessageWindow);
  window_.Release(frame.count);
  if (window_waiters_ != 0) liveness_.Blocked(Liveness::kMessageWindow, reactor_.Now());
  return Status();
}

Status UcxConnection::OnOffer(const UcxFrame& frame, ByteView payload) {
  PeerRegions::Region region;
  region.base = frame.offset;
  region.length = frame.count;
  region.direction = static_cast<Direction>(frame.code);
  region.until = base::kNever;
  if (frame.id < static_cast<uint64_t>(base::kMaxWait.count())) {
    region.until = base::DeadlineAfter(reactor_.Now(), base::Duration(static_cast<int64_t>(frame.id)));
  }
  if (frame.count != 0) {
    FB_TRY(CheckUcxRkey(payload));
    FB_ASSIGN(region.key, channel_->Unpack(payload));
  } else if (!payload.empty()) {
    return Lie("a key for a region without bytes");
  }
  const Status added = peer_regions_.Add(frame.key, region);
  if (!added.ok()) {
    if (region.key != nullptr) ucp_rkey_destroy(region.key);
    return Lie(added.message());
  }
  return Status();
}

Status UcxConnection::OnRevoke(const UcxFrame& frame) {
  const PeerRegions::Region* region = peer_regions_.Find(frame.key);
  if (region == nullptr || region->revoked) return Lie("it wants a region back that it did not offer");
  if (peer_regions_.Revoke(frame.key)) GiveUp(frame.key);
  return CheckConduct();
}

void UcxConnection::GiveUp(uint64_t key) {
  peer_regions_.Erase(key);
  SendTally(true);
  Post({.type = UcxFrameType::kRevoked, .key = key});
}

Status UcxConnection::OnAsk(const UcxFrame& frame) {
  const auto access = regions_.Check(frame.key, frame.offset, frame.count, static_cast<Direction>(frame.code),
                                     reactor_.Now());
  Post({.type = UcxFrameType::kAnswer, .code = static_cast<uint16_t>(access.refusal), .id = frame.id});
  return CheckConduct();
}

Status UcxConnection::CheckConduct() const {
  if (regions_.abused()) {
    return Status::PermissionDenied("fenced: more than {} transfers broke the rules of the regions offered",
                                    RegionTable::kMaxViolations);
  }
  if (channel_->owed() > own_max_transfers_ + kMaxUcxRegions + kControlSlack) {
    return Lie("more questions without waiting for answers than were agreed");
  }
  return Status();
}

Status UcxConnection::OnAnswer(const UcxFrame& frame) {
  Transfer* transfer = transfers_.Find(frame.id);
  if (transfer == nullptr || flights_.contains(frame.id))
    return Lie("an answer to a question that was not asked");
  const auto refusal = static_cast<Refusal>(frame.code);
  transfers_.Answer(transfer, RefusalStatus(refusal, transfer->offset, transfer->length));
  return Status();
}

}  // namespace forebay::fabric
