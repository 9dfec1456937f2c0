// SPDX-License-Identifier: Apache-2.0
// The calls of the owner and the two loops; what frames of the peer do is in stream_connection_frames.cc.
#include "fabric/stream_connection.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "fabric/limits.h"

namespace forebay::fabric {

namespace {
FrameLimits FrameLimitsOf(const EndpointOptions& limits, const ByteStream& stream, uint16_t keeps) {
  return {.max_message_bytes = limits.max_message_bytes,
          .max_transfer_bytes = limits.max_transfer_bytes,
          .borrows = stream.takes_descriptors(),
          .keeps = keeps,
          .lends = stream.passes_descriptors()};
}
}  // namespace

StreamConnection::StreamConnection(rt::Reactor& reactor, Greeted greeted, const EndpointOptions& own,
                                   base::Random& random)
    : reactor_(reactor),
      stream_(std::move(greeted.stream)),
      peer_(std::move(greeted.peer)),
      limits_(greeted.limits),
      own_max_transfers_(own.max_transfers),
      window_bytes_(MessageWindow(limits_.max_message_bytes)),
      lent_blocks_(std::move(greeted.lent)),
      gate_(reactor),
      operation_ended_(reactor),
      regions_(random, own.max_regions),
      transfers_(reactor, limits_.max_transfers, life_),
      reader_(FrameLimitsOf(limits_, *stream_, greeted.kept.places()), *this),
      queue_(*this),
      borrower_(reactor, *stream_, *this, std::move(greeted.kept)),
      lent_places_(greeted.peer_keeps),
      queued_(reactor),
      window_(reactor, window_bytes_),
      message_came_(reactor),
      liveness_(own.dead_after, own.idle_dead_after, reactor.clock().Now()),
      liveness_timer_(reactor) {}

StreamConnection::~StreamConnection() { FB_CHECK(receive_op_ == nullptr && send_op_ == nullptr); }

void StreamConnection::Start() {
  stream_->Start(reactor_, gate_, life_);
  reactor_.Spawn(gate_, ReceiveLoop());
  reactor_.Spawn(gate_, SendLoop());
  if (stream_->takes_descriptors()) reactor_.Spawn(gate_, BorrowLoop());
  ArmLiveness(liveness_.first());
}

// ---- the owner's calls ----

rt::Task<Status> StreamConnection::Send(Bytes head, std::vector<base::Buffer> payload) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  const size_t size = head.size() + TotalSize(payload);
  FB_CO_TRY(CheckMessageSize(size, limits_));
  const size_t cost = size + kMessageOverheadBytes;
  if (!window_.TryAcquire(cost) && !co_await AcquireWindow(cost)) co_return state_;
  FB_CO_TRY(state_);
  window_used_ += cost;
  rt::Event sent(reactor_);
  queue_.Push({.type = FrameType::kMessage}, std::move(head), std::move(payload), &sent);
  Kick(true);
  co_await sent.Wait();
  FB_CO_TRY(state_);
  ++stats_.messages_sent;
  co_return Status();
}

rt::Task<bool> StreamConnection::AcquireWindow(size_t cost) {
  liveness_.Blocked(Liveness::kMessageWindow, reactor_.Now());
  ++window_waiters_;
  const bool acquired = co_await window_.Acquire(cost, {&life_});
  --window_waiters_;
  co_return acquired;
}

rt::Task<Result<Bytes>> StreamConnection::Receive() {
  const auto holder = gate_.Enter();
  if (!holder.ok()) co_return state_;
  FB_CHECK(!receiving_);
  receiving_ = true;
  while (messages_.empty() && state_.ok()) {
    message_came_.Reset();
    co_await message_came_.Wait({&life_});
  }
  receiving_ = false;
  if (messages_.empty()) co_return state_;
  Bytes message = std::move(messages_.front());
  messages_.pop_front();
  returnable_ += message.size() + kMessageOverheadBytes;
  // Not for each message: a quarter of the window leaves more than the largest message needs.
  if (returnable_ >= window_bytes_ / 4 && state_.ok()) {
    unreturned_ -= returnable_;
    queue_.PushControl(
        {.type = FrameType::kCredit, .count = static_cast<uint32_t>(std::exchange(returnable_, 0))});
    Kick(false);
  }
  co_return message;
}

Result<RegionToken> StreamConnection::Offer(MutableByteView memory, Direction direction,
                                            base::TimePoint expiry) {
  FB_TRY(state_);
  return regions_.Offer(memory, direction, expiry);
}

rt::Task<Status> StreamConnection::Withdraw(RegionToken region) {
  const auto holder = gate_.Enter();  // a closed gate is no obstacle: Fence waits for the same
  if (!regions_.Remove(region.key))
    co_return Status::NotFound("no region with this key is offered on this endpoint");
  if (incoming_.region_key == region.key) {
    incoming_.region_key = 0;
    incoming_.refusal = Refusal::kWithdrawn;
    regions_.CountLost();
    co_await StopLanding();
  }
  for (size_t lost = borrower_.Withdraw(region.key); lost != 0; --lost) regions_.CountLost();
  if (queue_.Withdraw(region.key)) {
    send_op_->Cancel();
    while (queue_.Reading(region.key)) co_await operation_ended_.Wait();
  }
  co_return Status();
}

rt::Task<Status> StreamConnection::Write(RegionToken remote, uint64_t offset, std::vector<base::Buffer> data,
                                         base::TimePoint deadline) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  const uint64_t length = TotalSize(data);
  FB_CO_TRY(CheckTransferSize(length, limits_));
  auto begun = co_await transfers_.Begin(Transfer::Kind::kWrite, offset, length, deadline);
  if (!state_.ok()) co_return state_;
  FB_CO_ASSIGN(Transfer * transfer, std::move(begun));
  const uint64_t id = transfer->id;
  LentBlocks::Loan loan;
  if (lent_blocks_ != nullptr) loan = co_await lent_blocks_->Lend(reactor_, data);
  // A peer that answered what it was not told of yet has ended the transfer.
  if (state_.ok() && transfers_.Find(id) != nullptr)
    PushWrite(id, loan, {.key = remote.key, .offset = offset, .data = std::move(data), .copied = loan.copied});
  loan = {};
  const Status status = co_await transfers_.Finish(transfer, deadline);
  // A loan is not taken back: its descriptor is on its way.
  if (status.code() == Code::kDeadlineExceeded && !lent_.contains(id) && queue_.TakeBack(id))
    transfers_.Answer(transfers_.Find(id), status);
  co_return status;
}

void StreamConnection::PushWrite(uint64_t id, const LentBlocks::Loan& loan, Lent write) {
  FrameHeader header{.type = FrameType::kWrite, .id = id, .key = write.key, .offset = write.offset};
  if (loan.block != nullptr && lent_.size() < Borrower::kMaxLoans && Lend(*loan.block, &header)) {
    header.count = static_cast<uint32_t>(TotalSize(write.data));
    queue_.Push(header, {}, {}, nullptr);
    lent_.emplace(id, std::move(write));
  } else {
    queue_.Push(header, {}, std::move(write.data), nullptr);
  }
  Kick(true);
}

bool StreamConnection::Lend(const LentBlock& block, FrameHeader* header) {
  const uint16_t place = lent_places_.Find(block.number());
  if (place == 0 && !stream_->PassDescriptor(block.descriptor())) return false;
  header->type = place == 0 ? FrameType::kLent : FrameType::kLentAgain;
  header->code = place == 0 ? lent_places_.Assign(block.number()) : place;
  return true;
}

rt::Task<Status> StreamConnection::Read(RegionToken remote, uint64_t offset, MutableByteView data,
                                        base::TimePoint deadline) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  FB_CO_TRY(CheckTransferSize(data.size(), limits_));
  auto begun = co_await transfers_.Begin(Transfer::Kind::kRead, offset, data.size(), deadline);
  if (!state_.ok()) co_return state_;
  FB_CO_ASSIGN(Transfer * transfer, std::move(begun));
  const uint64_t id = transfer->id;
  transfer->destination = data;
  queue_.Push({.type = FrameType::kRead,
               .id = id,
               .key = remote.key,
               .offset = offset,
               .count = static_cast<uint32_t>(data.size())},
              {}, {}, nullptr);
  Kick(true);
  const Status status = co_await transfers_.Finish(transfer, deadline);
  if (status.ok()) co_return status;
  if (status.code() == Code::kDeadlineExceeded && queue_.TakeBack(id))
    transfers_.Answer(transfers_.Find(id), status);
  if (incoming_.transfer_id == id) {
    incoming_.transfer_id = 0;
    co_await StopLanding();
  }
  co_return status;
}

rt::Task<void> StreamConnection::StopLanding() {
  reader_.Divert();
  if (receive_op_ == nullptr || !reader_.landing()) co_return;
  receive_op_->Cancel();
  for (const uint64_t until = receives_ + 1; receives_ < until;) co_await operation_ended_.Wait();
}

rt::Task<void> StreamConnection::Fence(Status reason) {
  Break(FenceStatus(reason));
  co_await gate_.Close();
  messages_.clear();
  stream_->Close();
}

void StreamConnection::Break(Status reason) {
  if (!state_.ok()) return;
  state_ = std::move(reason);
  liveness_timer_.Cancel();
  transfers_.AnswerAll(state_);
  lent_.clear();
  life_.Cancel();
  queued_.Set();
}

EndpointStats StreamConnection::stats() const {
  EndpointStats stats = stats_;
  stats.refused = regions_.refused();
  // Into and out of the socket by the kernel, or the rings by us.
  stats.copied_bytes = stats.bytes_written - uncopied_bytes_ + stats.bytes_read;
  return stats;
}

// ---- the loops ----

rt::Task<void> StreamConnection::ReceiveLoop() {
  while (state_.ok()) {
    iovec places[2];
    const size_t count = reader_.Buffers(places);
    Result<size_t> got = 0;
    {
      rt::CancelToken operation(&life_);
      receive_op_ = &operation;
      got = co_await stream_->Receive({places, count}, operation);
      receive_op_ = nullptr;
      ++receives_;
    }
    OperationEnded();
    if (!state_.ok()) break;
    Status status;
    if (!got.ok()) {
      status = got.status();
      if (status.code() == Code::kCancelled) status = reader_.Received(0);  // a withdraw; nothing came
    } else if (*got != 0) {
      status = reader_.Received(*got);
      liveness_.Arrived(reactor_.Now(), transfers_.unanswered() != 0);
    } else {
      status = Status::Unavailable("{} closed the connection", peer_);
    }
    if (!status.ok()) Break(Status::Unavailable("{}", status.message()));
  }
}

rt::Task<void> StreamConnection::SendLoop() {
  std::array<iovec, SendQueue::kMaxPieces> pieces;
  while (state_.ok()) {
    if (queue_.empty()) {
      queued_.Reset();
      co_await queued_.Wait();
      continue;
    }
    const size_t count = queue_.Gather(pieces);
    liveness_.Blocked(Liveness::kTransport, reactor_.Now());
    Result<size_t> sent = 0;
    {
      rt::CancelToken operation(&life_);
      send_op_ = &operation;
      sent = co_await stream_->Send({pieces.data(), count}, operation);
      send_op_ = nullptr;
    }
    if (sent.ok()) liveness_.Unblocked(Liveness::kTransport);
    queue_.Sent(sent.ok() ? *sent : 0);
    OperationEnded();
    if (!sent.ok() && sent.status().code() != Code::kCancelled) {
      Break(Status::Unavailable("{}", sent.status().message()));
    }
  }
  SayGoodbye();
  queue_.Clear();
}

rt::Task<void> StreamConnection::BorrowLoop() {
  const Status status = co_await borrower_.Run(life_);
  borrower_.LetGo();
  if (!status.ok()) Break(Status::Unavailable("{}", status.message()));
}

// A last word, if the peer is not in the middle of a frame and the stream takes it at once.
void StreamConnection::SayGoodbye() {
  std::string goodbye;
  if (!queue_.in_frame()) {
    const std::string_view text = state_.message().substr(0, kMaxGoodbyeBytes);
    const HeaderBytes header =
        EncodeHeader({.type = FrameType::kGoodbye, .length = static_cast<uint32_t>(text.size())});
    goodbye = AsText(header);
    goodbye += text;
  }
  stream_->Finish(AsBytes(goodbye));
}

void StreamConnection::OperationEnded() {
  operation_ended_.Set();
  operation_ended_.Reset();
}

void StreamConnection::Kick(bool awaits) {
  if (awaits && liveness_.Sent(reactor_.Now())) ArmLiveness(reactor_.Now() + limits_.dead_after / 2);
  queued_.Set();
}

void StreamConnection::CheckLiveness() {
  next_check_ = base::kNever;
  const base::TimePoint now = reactor_.Now();
  const Liveness::Decision decision = liveness_.Check(now);
  if (decision.verdict == Liveness::Verdict::kSilent || decision.verdict == Liveness::Verdict::kStuck) {
    Break(DeadPeerStatus(decision.verdict, liveness_.silence(now), peer_));
    return;
  }
  if (decision.verdict == Liveness::Verdict::kProbe) {
    queue_.PushControl({.type = FrameType::kProbe});
    Kick(false);
  }
  ArmLiveness(decision.next);
}

void StreamConnection::ArmLiveness(base::TimePoint when) {
  if (when >= next_check_ || !state_.ok()) return;
  next_check_ = when;
  liveness_timer_.Arm(when, [this] { CheckLiveness(); });
}

}  // namespace forebay::fabric
