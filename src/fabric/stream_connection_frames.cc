// SPDX-License-Identifier: Apache-2.0
// What the peer's frames do. Nothing here trusts a field: limits were checked by DecodeHeader, meaning is checked here. A
// refused transfer is answered and the connection goes on; a lie about the protocol itself ends it.
#include <algorithm>
#include <utility>

#include "fabric/limits.h"
#include "fabric/stream_connection.h"

namespace forebay::fabric {

namespace {

/// Probes, credit and the like that may wait to be sent beside the answers to transfers.
constexpr size_t kControlSlack = 64;

/// A peer's text, for our messages and logs.
std::string Printable(ByteView bytes) {
  std::string text(AsText(bytes));
  std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

Status Lie(std::string_view what) { return Status::InvalidArgument("the peer broke the protocol: {}", what); }

}  // namespace

Status StreamConnection::OnHeader(const FrameHeader& header, MutableByteView* target) {
  switch (header.type) {
    case FrameType::kMessage:
      return OnMessageHeader(header, target);
    case FrameType::kWrite:
      return OnWriteHeader(header, target);
    case FrameType::kReadData:
      return OnReadDataHeader(header, target);
    case FrameType::kGoodbye:
      incoming_.bytes.resize(header.length);
      *target = incoming_.bytes;
      return Status();
    default:
      return Status();
  }
}

Status StreamConnection::OnFrame(const FrameHeader& header) {
  switch (header.type) {
    case FrameType::kMessage:
      return OnMessage();
    case FrameType::kCredit:
      return OnCredit(header);
    case FrameType::kWrite:
      return OnWritten(header);
    case FrameType::kWriteDone:
      return OnWriteDone(header);
    case FrameType::kLent:
    case FrameType::kLentAgain:
      return OnLent(header);
    case FrameType::kRead:
      return OnRead(header);
    case FrameType::kReadData:
      incoming_.transfer_id = 0;
      return Status();
    case FrameType::kReadDone:
      return OnReadDone(header);
    case FrameType::kProbe:
      queue_.PushControl({.type = FrameType::kProbeAnswer});
      Kick(false);
      return CheckConduct();
    case FrameType::kProbeAnswer:
      return Status();  // that it came is all
    case FrameType::kGoodbye:
      return Status::Unavailable("{} closed the connection: {}", peer_, Printable(incoming_.bytes));
  }
  return Lie("a frame of unknown type");
}

Status StreamConnection::OnMessageHeader(const FrameHeader& header, MutableByteView* target) {
  const size_t cost = header.length + kMessageOverheadBytes;
  if (cost > window_bytes_ - unreturned_) return Lie("more messages than it has room for");
  unreturned_ += cost;
  incoming_.bytes.resize(header.length);
  *target = incoming_.bytes;
  return Status();
}

Status StreamConnection::OnMessage() {
  ++stats_.messages_received;
  messages_.push_back(std::exchange(incoming_.bytes, {}));
  message_came_.Set();
  return Status();
}

Status StreamConnection::OnCredit(const FrameHeader& header) {
  if (header.count > window_used_) return Lie("credit for messages that were never sent");
  window_used_ -= header.count;
  liveness_.Unblocked(Liveness::kMessageWindow);
  window_.Release(header.count);
  if (window_waiters_ != 0) liveness_.Blocked(Liveness::kMessageWindow, reactor_.Now());
  return Status();
}

Status StreamConnection::OnWriteHeader(const FrameHeader& header, MutableByteView* target) {
  const auto access = regions_.Check(header.key, header.offset, header.length, Direction::kPeerWrites, reactor_.Now());
  incoming_.refusal = access.refusal;
  incoming_.region_key = access.refusal == Refusal::kNone ? header.key : 0;
  *target = access.memory;
  return CheckConduct();
}

Status StreamConnection::OnWritten(const FrameHeader& header) {
  incoming_.region_key = 0;
  return AnswerWrite(header.id, header.length, static_cast<uint16_t>(incoming_.refusal), true);
}

Status StreamConnection::AnswerWrite(uint64_t id, uint64_t length, uint16_t code, bool hurry) {
  if (code == 0) stats_.peer_bytes_written += length;
  queue_.PushControl({.type = FrameType::kWriteDone, .code = code, .id = id});
  if (hurry) Kick(false);
  return CheckConduct();
}

Status StreamConnection::OnLent(const FrameHeader& header) {
  if (borrower_.size() == Borrower::kMaxLoans)
    return Lie("more loans without waiting for answers than there may be");
  const auto access = regions_.Check(header.key, header.offset, header.count, Direction::kPeerWrites, reactor_.Now());
  borrower_.Add({.id = header.id,
                 .key = header.key,
                 .length = header.count,
                 .refusal = access.refusal,
                 .memory = access.memory,
                 .place = header.code,
                 .again = header.type == FrameType::kLentAgain});
  return CheckConduct();
}

Status StreamConnection::OnBorrowed(uint64_t id, uint64_t length, uint16_t code, bool hurry) {
  return AnswerWrite(id, length, code, hurry);
}

Status StreamConnection::OnRead(const FrameHeader& header) {
  const auto access = regions_.Check(header.key, header.offset, header.count, Direction::kPeerReads, reactor_.Now());
  if (access.refusal == Refusal::kNone) {
    queue_.Serve(header.id, header.key, access.memory);
  } else {
    queue_.PushControl(
        {.type = FrameType::kReadDone, .code = static_cast<uint16_t>(access.refusal), .id = header.id});
  }
  Kick(false);
  return CheckConduct();
}

void StreamConnection::OnServed(uint64_t id, uint64_t length, bool complete) {
  if (complete) {
    stats_.peer_bytes_read += length;
  } else {
    regions_.CountLost();
  }
  const Refusal refusal = complete ? Refusal::kNone : Refusal::kWithdrawn;
  queue_.PushControl({.type = FrameType::kReadDone, .code = static_cast<uint16_t>(refusal), .id = id});
  Kick(false);
}

Status StreamConnection::CheckConduct() const {
  if (regions_.abused()) {
    return Status::PermissionDenied("fenced: more than {} transfers broke the rules of the regions offered",
                                    RegionTable::kMaxViolations);
  }
  if (queue_.owed() + borrower_.size() > own_max_transfers_ + kControlSlack) {
    return Lie("more transfers and probes without waiting for answers than were agreed");
  }
  return Status();
}

Status StreamConnection::OnWriteDone(const FrameHeader& header) {
  Transfer* transfer = transfers_.Find(header.id);
  if (transfer == nullptr || transfer->kind != Transfer::Kind::kWrite) return Lie("an answer to a write that is not");
  auto lent = lent_.extract(header.id);
  if (header.code == kTakenBack) {
    if (lent.empty()) return Lie("the return of what was not lent");
    SendAfterAll(transfer, std::move(lent.mapped()));
    return Status();
  }
  const auto refusal = static_cast<Refusal>(header.code);
  if (refusal == Refusal::kNone) {
    ++stats_.writes;
    stats_.bytes_written += transfer->length;
    if (!lent.empty() && !lent.mapped().copied) uncopied_bytes_ += transfer->length;
  }
  transfers_.Answer(transfer, RefusalStatus(refusal, transfer->offset, transfer->length));
  return Status();
}

/// The memory that was lent is gone: the write goes the other way, unless nobody waits for it any more.
void StreamConnection::SendAfterAll(Transfer* transfer, Lent write) {
  if (transfer->abandoned) {
    transfers_.Answer(transfer, Status::DeadlineExceeded("the deadline passed"));
    return;
  }
  PushWrite(transfer->id, {}, std::move(write));
}

Status StreamConnection::OnReadDataHeader(const FrameHeader& header, MutableByteView* target) {
  Transfer* transfer = transfers_.Find(header.id);
  if (transfer == nullptr || transfer->kind != Transfer::Kind::kRead) return Lie("data for a read that is not");
  if (header.offset != transfer->received || header.length > transfer->length - transfer->received) {
    return Lie("data of a read out of order or beyond its end");
  }
  if (!transfer->abandoned) {
    *target = transfer->destination.subspan(transfer->received, header.length);
    incoming_.transfer_id = header.id;
  }
  transfer->received += header.length;
  return Status();
}

Status StreamConnection::OnReadDone(const FrameHeader& header) {
  Transfer* transfer = transfers_.Find(header.id);
  if (transfer == nullptr || transfer->kind != Transfer::Kind::kRead) return Lie("an answer to a read that is not");
  const auto refusal = static_cast<Refusal>(header.code);
  if (refusal == Refusal::kNone) {
    if (transfer->received != transfer->length) return Lie("the end of a read before all of its data");
    ++stats_.reads;
    stats_.bytes_read += transfer->length;
  }
  transfers_.Answer(transfer, RefusalStatus(refusal, transfer->offset, transfer->length));
  return Status();
}

}  // namespace forebay::fabric
