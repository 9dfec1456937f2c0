// SPDX-License-Identifier: Apache-2.0
// The calls of the owner and the two loops; what frames of the peer do is in tcp_connection_frames.cc.
#include "fabric/tcp_connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "fabric/limits.h"

namespace forebay::fabric {

namespace {
FrameLimits FrameLimitsOf(const EndpointOptions& limits) {
  return {.max_message_bytes = limits.max_message_bytes, .max_transfer_bytes = limits.max_transfer_bytes};
}
}  // namespace

TcpConnection::TcpConnection(rt::Reactor& reactor, TcpGreeted greeted, const EndpointOptions& own, base::Random& random)
    : reactor_(reactor),
      socket_(std::move(greeted.socket)),
      peer_(std::move(greeted.peer)),
      limits_(greeted.limits),
      own_max_transfers_(own.max_transfers),
      window_bytes_(MessageWindow(limits_.max_message_bytes)),
      gate_(reactor),
      operation_ended_(reactor),
      regions_(random, own.max_regions),
      transfers_(reactor, limits_.max_transfers, life_),
      reader_(FrameLimitsOf(limits_), *this),
      queue_(*this),
      queued_(reactor),
      window_(reactor, window_bytes_),
      message_came_(reactor),
      liveness_(own.dead_after, own.idle_dead_after, reactor.clock().Now()),
      liveness_timer_(reactor) {}

TcpConnection::~TcpConnection() { FB_CHECK(receive_op_ == nullptr && send_op_ == nullptr); }

void TcpConnection::Start() {
  reactor_.Spawn(gate_, ReceiveLoop());
  reactor_.Spawn(gate_, SendLoop());
  ArmLiveness(liveness_.first());
}

// ---- the owner's calls ----

rt::Task<Status> TcpConnection::Send(Bytes head, std::vector<base::Buffer> payload) {
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

rt::Task<bool> TcpConnection::AcquireWindow(size_t cost) {
  liveness_.Blocked(Liveness::kMessageWindow, reactor_.Now());
  ++window_waiters_;
  const bool acquired = co_await window_.Acquire(cost, {&life_});
  --window_waiters_;
  co_return acquired;
}

rt::Task<Result<Bytes>> TcpConnection::Receive() {
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
    queue_.PushControl({.type = FrameType::kCredit, .count = static_cast<uint32_t>(std::exchange(returnable_, 0))});
    Kick(false);
  }
  co_return message;
}

Result<RegionToken> TcpConnection::Offer(MutableByteView memory, Direction direction, base::TimePoint expiry) {
  FB_TRY(state_);
  return regions_.Offer(memory, direction, expiry);
}

rt::Task<Status> TcpConnection::Withdraw(RegionToken region) {
  const auto holder = gate_.Enter();  // a closed gate is no obstacle: Fence waits for the same
  if (!regions_.Remove(region.key)) co_return Status::NotFound("no region with this key is offered on this endpoint");
  if (incoming_.region_key == region.key) {
    incoming_.region_key = 0;
    incoming_.refusal = Refusal::kWithdrawn;
    regions_.CountLost();
    co_await StopLanding();
  }
  if (queue_.Withdraw(region.key)) {
    send_op_->Cancel();
    while (queue_.Reading(region.key)) co_await operation_ended_.Wait();
  }
  co_return Status();
}

rt::Task<Status> TcpConnection::Write(RegionToken remote, uint64_t offset, std::vector<base::Buffer> data,
                                      base::TimePoint deadline) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  const uint64_t length = TotalSize(data);
  FB_CO_TRY(CheckTransferSize(length, limits_));
  auto begun = co_await transfers_.Begin(Transfer::Kind::kWrite, offset, length, deadline);
  if (!state_.ok()) co_return state_;
  FB_CO_ASSIGN(Transfer * transfer, std::move(begun));
  const uint64_t id = transfer->id;
  queue_.Push({.type = FrameType::kWrite, .id = id, .key = remote.key, .offset = offset}, {}, std::move(data), nullptr);
  Kick(true);
  const Status status = co_await transfers_.Finish(transfer, deadline);
  if (status.code() == Code::kDeadlineExceeded && queue_.TakeBack(id)) transfers_.Answer(transfers_.Find(id), status);
  co_return status;
}

rt::Task<Status> TcpConnection::Read(RegionToken remote, uint64_t offset, MutableByteView data,
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
  if (status.code() == Code::kDeadlineExceeded && queue_.TakeBack(id)) transfers_.Answer(transfers_.Find(id), status);
  if (incoming_.transfer_id == id) {
    incoming_.transfer_id = 0;
    co_await StopLanding();
  }
  co_return status;
}

rt::Task<void> TcpConnection::StopLanding() {
  reader_.Divert();
  if (receive_op_ == nullptr || !reader_.landing()) co_return;
  receive_op_->Cancel();
  for (const uint64_t until = receives_ + 1; receives_ < until;) co_await operation_ended_.Wait();
}

rt::Task<void> TcpConnection::Fence(Status reason) {
  Break(FenceStatus(reason));
  co_await gate_.Close();
  messages_.clear();
  socket_.Close();
}

void TcpConnection::Break(Status reason) {
  if (!state_.ok()) return;
  state_ = std::move(reason);
  liveness_timer_.Cancel();
  transfers_.AnswerAll(state_);
  life_.Cancel();
  queued_.Set();
}

EndpointStats TcpConnection::stats() const {
  EndpointStats stats = stats_;
  stats.refused = regions_.refused();
  stats.copied_bytes = stats.bytes_written + stats.bytes_read;  // the kernel, into and out of the socket
  return stats;
}

// ---- the loops ----

rt::Task<void> TcpConnection::ReceiveLoop() {
  while (state_.ok()) {
    iovec places[2];
    msghdr message{};
    message.msg_iov = places;
    message.msg_iovlen = reader_.Buffers(places);
    int got = 0;
    {
      rt::CancelToken operation(&life_);
      receive_op_ = &operation;
      got = co_await reactor_.Recvmsg(socket_.fd(), &message, 0, {&operation});
      receive_op_ = nullptr;
      ++receives_;
    }
    OperationEnded();
    if (!state_.ok()) break;
    Status status;
    if (got > 0) {
      status = reader_.Received(static_cast<size_t>(got));
      liveness_.Arrived(reactor_.Now(), transfers_.unanswered() != 0);
    } else if (got == 0) {
      status = Status::Unavailable("{} closed the connection", peer_);
    } else if (got == -ECANCELED) {
      status = reader_.Received(0);  // a withdraw; nothing came
    } else {
      status = Status::Unavailable("receive from {}: {}", peer_, std::generic_category().message(-got));
    }
    if (!status.ok()) Break(Status::Unavailable("{}", status.message()));
  }
}

rt::Task<void> TcpConnection::SendLoop() {
  std::array<iovec, SendQueue::kMaxPieces> pieces;
  while (state_.ok()) {
    if (queue_.empty()) {
      queued_.Reset();
      co_await queued_.Wait();
      continue;
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = queue_.Gather(pieces);
    liveness_.Blocked(Liveness::kTransport, reactor_.Now());
    int sent = 0;
    {
      rt::CancelToken operation(&life_);
      send_op_ = &operation;
      sent = co_await reactor_.Sendmsg(socket_.fd(), &message, 0, {&operation});
      send_op_ = nullptr;
    }
    if (sent >= 0) liveness_.Unblocked(Liveness::kTransport);
    queue_.Sent(sent > 0 ? static_cast<size_t>(sent) : 0);
    OperationEnded();
    if (sent < 0 && sent != -ECANCELED) {
      Break(Status::Unavailable("send to {}: {}", peer_, std::generic_category().message(-sent)));
    }
  }
  SayGoodbye();
  queue_.Clear();
}

// A last word, if the peer is not in the middle of a frame and the socket takes it at once.
void TcpConnection::SayGoodbye() {
  if (!queue_.in_frame()) {
    const std::string_view text = state_.message().substr(0, kMaxGoodbyeBytes);
    const HeaderBytes header = EncodeHeader({.type = FrameType::kGoodbye, .length = static_cast<uint32_t>(text.size())});
    std::string goodbye(AsText(header));
    goodbye += text;
    (void)!send(socket_.fd(), goodbye.data(), goodbye.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  shutdown(socket_.fd(), SHUT_WR);
}

void TcpConnection::OperationEnded() {
  operation_ended_.Set();
  operation_ended_.Reset();
}

void TcpConnection::Kick(bool awaits) {
  if (awaits && liveness_.Sent(reactor_.Now())) ArmLiveness(reactor_.Now() + limits_.dead_after / 2);
  queued_.Set();
}

void TcpConnection::CheckLiveness() {
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

void TcpConnection::ArmLiveness(base::TimePoint when) {
  if (when >= next_check_ || !state_.ok()) return;
  next_check_ = when;
  liveness_timer_.Arm(when, [this] { CheckLiveness(); });
}

}  // namespace forebay::fabric
