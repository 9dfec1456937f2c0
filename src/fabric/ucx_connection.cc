// SPDX-License-Identifier: Apache-2.0
// The calls of the owner and what ends a connection; transfers are in ucx_transfers.cc, frames of the peer in
// ucx_connection_frames.cc.
#include "fabric/ucx_connection.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "fabric/limits.h"

namespace forebay::fabric {

namespace {
/// For the last words to a peer that may not be there any more.
constexpr base::Duration kGoodbyeTime = std::chrono::milliseconds(200);
}  // namespace

UcxConnection::UcxConnection(rt::Reactor& reactor, UcxGreeted greeted, const EndpointOptions& own,
                             base::Random& random)
    : reactor_(reactor),
      context_(greeted.context),
      channel_(std::move(greeted.channel)),
      peer_(channel_->peer()),
      limits_(greeted.limits),
      own_max_transfers_(own.max_transfers),
      window_bytes_(MessageWindow(limits_.max_message_bytes)),
      gate_(reactor),
      regions_(random, own.max_regions),
      offered_(reactor, context_),
      expiry_timer_(reactor),
      peer_regions_(greeted.peer_max_regions),
      transfers_(reactor, limits_.max_transfers, life_),
      device_room_(reactor, kUcxDeviceBytes),
      landed_(reactor),
      tally_sent_(reactor),
      window_(reactor, window_bytes_),
      message_came_(reactor),
      liveness_(own.dead_after, own.idle_dead_after, reactor.clock().Now()),
      liveness_timer_(reactor) {}

UcxConnection::~UcxConnection() { FB_CHECK(channel_ == nullptr && flights_.empty()); }

void UcxConnection::Start() {
  tally_sent_.Set();
  ArmLiveness(liveness_.first());
  channel_->Resume(reactor_, *this);
}

// ---- messages ----

rt::Task<Status> UcxConnection::Send(Bytes head, std::vector<base::Buffer> payload) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  const size_t size = head.size() + TotalSize(payload);
  FB_CO_TRY(CheckMessageSize(size, limits_));
  const size_t cost = size + kMessageOverheadBytes;
  if (!window_.TryAcquire(cost) && !co_await AcquireWindow(cost)) co_return state_;
  FB_CO_TRY(state_);
  window_used_ += cost;
  SendTally(true);
  rt::Event sent(reactor_);
  channel_->Send({.type = UcxFrameType::kMessage}, std::move(head), std::move(payload), &sent);
  Awaited();
  co_await sent.Wait();
  FB_CO_TRY(state_);
  ++stats_.messages_sent;
  co_return Status();
}

rt::Task<bool> UcxConnection::AcquireWindow(size_t cost) {
  liveness_.Blocked(Liveness::kMessageWindow, reactor_.Now());
  ++window_waiters_;
  const bool acquired = co_await window_.Acquire(cost, {&life_});
  --window_waiters_;
  co_return acquired;
}

rt::Task<Result<Bytes>> UcxConnection::Receive() {
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
    Post({.type = UcxFrameType::kCredit, .count = std::exchange(returnable_, 0)});
  }
  co_return message;
}

// ---- offers ----

Result<RegionToken> UcxConnection::Offer(MutableByteView memory, Direction direction,
                                         base::TimePoint expiry) {
  FB_TRY(state_);
  FB_ASSIGN(const RegionToken token, regions_.Offer(memory, direction, expiry));
  const auto added = offered_.Add(token.key, memory, expiry);
  if (!added.ok()) {
    regions_.Remove(token.key);
    return added.status();
  }
  const base::Duration lifetime = std::max(expiry - reactor_.Now(), base::Duration::zero());
  Post({.type = UcxFrameType::kOffer,
        .code = static_cast<uint16_t>(direction),
        .id = expiry == base::kNever ? kUcxNoEnd : static_cast<uint64_t>(lifetime.count()),
        .key = token.key,
        .offset = reinterpret_cast<uintptr_t>(memory.data()),
        .count = memory.size()},
       (*added)->mapping.packed);
  ArmExpiry(expiry);
  return token;
}

rt::Task<Status> UcxConnection::Withdraw(RegionToken region) {
  const auto holder = gate_.Enter();  // a closed gate is no obstacle: Fence has ended all registrations
  if (!regions_.Remove(region.key))
    co_return Status::NotFound("no region with this key is offered on this endpoint");
  OfferedRegions::Region* offered = offered_.Find(region.key);
  FB_CHECK(offered != nullptr);
  if (offered->revoking) {
    co_await offered->gone.Wait();  // its time was over
  } else {
    co_await Revoke(region.key);
  }
  offered_.Erase(region.key);
  co_return Status();
}

rt::Task<void> UcxConnection::Revoke(uint64_t key) {
  OfferedRegions::Region* offered = offered_.Find(key);
  if (offered == nullptr || offered->revoking) co_return;
  offered->revoking = true;
  if (state_.ok()) {
    Post({.type = UcxFrameType::kRevoke, .key = key});
    Awaited();
    (void)co_await offered->given_up.Wait(
        {&life_, base::DeadlineAfter(reactor_.Now(), limits_.dead_after / 5)});
  }
  offered_.Unmap(*offered);
}

void UcxConnection::ArmExpiry(base::TimePoint when) {
  if (when >= next_expiry_) return;
  next_expiry_ = when;
  expiry_timer_.Arm(when, [this] {
    for (uint64_t key : offered_.Expired(reactor_.Now())) reactor_.Spawn(gate_, Revoke(key));
    next_expiry_ = base::kNever;
    ArmExpiry(offered_.NextExpiry(reactor_.Now()));
  });
}

// ---- the end ----

rt::Task<void> UcxConnection::Fence(Status reason) {
  Break(FenceStatus(reason));
  co_await gate_.Close();
  messages_.clear();
}

void UcxConnection::Break(Status reason, bool say_goodbye) {
  if (!state_.ok()) return;
  state_ = std::move(reason);
  liveness_timer_.Cancel();
  expiry_timer_.Cancel();
  transfers_.AnswerAll(state_);
  life_.Cancel();
  reactor_.Spawn(gate_, TearDown(say_goodbye));
}

rt::Task<void> UcxConnection::TearDown(bool say_goodbye) {
  offered_.UnmapAll();
  if (say_goodbye) {
    const ByteView text = AsBytes(state_.message().substr(0, kMaxUcxGoodbyeBytes));
    channel_->Send({.type = UcxFrameType::kGoodbye}, Bytes(text.begin(), text.end()), {}, nullptr);
    (void)co_await channel_->Settle({nullptr, base::DeadlineAfter(reactor_.Now(), kGoodbyeTime)});
  }
  co_await channel_->Close([this] { peer_regions_.Clear(); });
  channel_.reset();
  flights_.clear();
  landed_.Set();
  landed_.Reset();
}

EndpointStats UcxConnection::stats() const {
  EndpointStats stats = stats_;
  stats.refused = regions_.refused();
  return stats;
}

// ---- liveness ----

void UcxConnection::Post(UcxFrame frame, Bytes payload) {
  channel_->Send(frame, std::move(payload), {}, nullptr);
}

void UcxConnection::Awaited() {
  if (liveness_.Sent(reactor_.Now())) ArmLiveness(reactor_.Now() + limits_.dead_after / 2);
}

void UcxConnection::CheckLiveness() {
  next_check_ = base::kNever;
  const base::TimePoint now = reactor_.Now();
  if (channel_->queued() == 0 || channel_->frames_sent() != sent_at_check_)
    liveness_.Unblocked(Liveness::kTransport);
  if (channel_->queued() != 0) liveness_.Blocked(Liveness::kTransport, now);
  sent_at_check_ = channel_->frames_sent();
  SendTally(false);
  const Liveness::Decision decision = liveness_.Check(now);
  if (decision.verdict == Liveness::Verdict::kSilent || decision.verdict == Liveness::Verdict::kStuck) {
    Break(DeadPeerStatus(decision.verdict, liveness_.silence(now), peer_), true);
    return;
  }
  if (decision.verdict == Liveness::Verdict::kProbe) Post({.type = UcxFrameType::kProbe});
  ArmLiveness(decision.next);
}

void UcxConnection::ArmLiveness(base::TimePoint when) {
  if (when >= next_check_ || !state_.ok()) return;
  next_check_ = when;
  liveness_timer_.Arm(when, [this] { CheckLiveness(); });
}

}  // namespace forebay::fabric
