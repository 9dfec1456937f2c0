// SPDX-License-Identifier: Apache-2.0
// Messages, offers and the end of the connection; transfers are in ofi_connection_transfers.cc, what frames
// of the peer do in ofi_connection_frames.cc.
#include "fabric/ofi_connection.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "fabric/limits.h"
#include "fabric/ofi_limits.h"

namespace forebay::fabric {

OfiConnection::OfiConnection(rt::Reactor& reactor, OfiGreeted greeted, const EndpointOptions& own,
                             base::Random& random)
    : reactor_(reactor),
      link_(std::move(greeted.link)),
      peer_(std::move(greeted.peer)),
      limits_(greeted.limits),
      own_max_transfers_(own.max_transfers),
      may_offer_(greeted.offers),
      window_bytes_(MessageWindow(limits_.max_message_bytes)),
      peer_slots_(greeted.preamble.slots),
      frame_bytes_(std::min(greeted.preamble.slot_bytes, kSlotBytes)),
      random_(random),
      gate_(reactor),
      offers_(reactor, random, own.max_regions, link_->domain()),
      expiry_timer_(reactor),
      transfers_(reactor, limits_.max_transfers, life_),
      ops_(kTransferOps),
      queue_(kSendSlots,
             [this](ByteView memory) -> OfiSendQueue::Placement {
               if (!link_->traits().local_registration) return {.in_place = true};
               void* const descriptor = link_->domain().DescriptorInArena(memory);
               return {.in_place = descriptor != nullptr, .descriptor = descriptor};
             }),
      slots_left_(peer_slots_),
      window_(reactor, window_bytes_),
      message_came_(reactor),
      liveness_(own.dead_after, own.idle_dead_after, reactor.clock().Now()),
      liveness_timer_(reactor) {}

OfiConnection::~OfiConnection() { FB_CHECK(gate_.count() == 0); }

void OfiConnection::Start() {
  link_->Start(reactor_, gate_, life_, *this);
  ArmLiveness(liveness_.first());
}

// ---- messages ----

rt::Task<Status> OfiConnection::Send(Bytes head, std::vector<base::Buffer> payload) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  const size_t size = head.size() + TotalSize(payload);
  FB_CO_TRY(CheckMessageSize(size, limits_));
  const size_t cost = size + kMessageOverheadBytes;
  if (!window_.TryAcquire(cost) && !co_await AcquireWindow(cost)) co_return state_;
  FB_CO_TRY(state_);
  window_used_ += cost;
  rt::Event sent(reactor_);
  queue_.PushMessage(std::move(head), std::move(payload), &sent);
  Kick(true);
  co_await sent.Wait();
  FB_CO_TRY(state_);
  ++stats_.messages_sent;
  co_return Status();
}

rt::Task<bool> OfiConnection::AcquireWindow(size_t cost) {
  liveness_.Blocked(Liveness::kMessageWindow, reactor_.Now());
  ++window_waiters_;
  const bool acquired = co_await window_.Acquire(cost, {&life_});
  --window_waiters_;
  co_return acquired;
}

rt::Task<Result<Bytes>> OfiConnection::Receive() {
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
    PushControl({.type = OfiFrameType::kCredit, .length = std::exchange(returnable_, 0)}, false);
  }
  co_return message;
}

// ---- offers ----

Result<RegionToken> OfiConnection::Offer(MutableByteView memory, Direction direction,
                                         base::TimePoint expiry) {
  FB_TRY(state_);
  if (!may_offer_) {
    return Status::FailedPrecondition(
        "this fabric's endpoints share one protection domain, in which a key would be worth something "
        "on every connection: they offer no memory (OfiOptions::domain)");
  }
  OfiFrame announcement;
  FB_ASSIGN(const OfiOffered* offered,
            offers_.Offer(memory, direction, expiry, reactor_.Now(), &announcement));
  const RegionToken token = offered->token;
  ArmExpiry();
  PushControl(announcement, false);
  return token;
}

rt::Task<Status> OfiConnection::Withdraw(RegionToken region) {
  const auto holder = gate_.Enter();  // a closed gate is no obstacle: Fence has closed all registrations
  OfiOffered* const offered = offers_.Find(region.key);
  if (offered == nullptr || offered->withdrawn) {
    co_return Status::NotFound("no region with this key is offered on this endpoint");
  }
  offered->withdrawn = true;
  if (!offered->ending) {
    co_await EndOffer(*offered);
  } else {
    co_await offered->closed.Wait();
  }
  offers_.Remove(region.key);
  co_return Status();
}

rt::Task<void> OfiConnection::EndOffer(OfiOffered& offered) {
  offers_.BeginEnd(offered);
  const base::TimePoint patience = base::DeadlineAfter(reactor_.Now(), kWithdrawPatience);
  if (state_.ok()) {
    PushControl({.type = OfiFrameType::kWithdraw, .key = offered.token.key}, true);
    (void)co_await offered.let_go.Wait({&life_, patience});
    if (!offered.let_go.is_set() && state_.ok()) {
      Break(Status::Unavailable(
          "{} did not let go of a region within {} ms: it is fenced", peer_,
          std::chrono::duration_cast<std::chrono::milliseconds>(kWithdrawPatience).count()));
    }
  }
  const bool was_registered = offered.registration != nullptr;
  offered.registration.reset();
  if (state_.ok() && was_registered && !link_->traits().close_is_final) co_await PassBarrier(patience);
  offered.closed.Set();
}

// What the peer had sent before it saw the probe comes before its answer; what we had to send before the
// probe went before it. The number is made after the key is dead, so that no answer can have been sent ahead.
rt::Task<void> OfiConnection::PassBarrier(base::TimePoint deadline) {
  uint64_t number = 0;
  while (number == 0 || barriers_.contains(number)) number = random_.Next64();
  rt::Event answered(reactor_);
  barriers_.emplace(number, &answered);
  PushControl({.type = OfiFrameType::kProbe, .id = number}, true);
  (void)co_await answered.Wait({&life_, deadline});
  barriers_.erase(number);
  if (!answered.is_set())
    Break(Status::Unavailable("{} did not answer after a region was withdrawn: it is fenced", peer_));
}

void OfiConnection::ArmExpiry() {
  if (offers_.next_expiry() == base::kNever || !state_.ok()) return;
  expiry_timer_.Arm(offers_.next_expiry(), [this] { ExpireOffers(); });
}

void OfiConnection::ExpireOffers() {
  while (OfiOffered* offered = offers_.TakeExpired(reactor_.Now())) {
    if (offered->ending) continue;
    offered->ending = true;  // a Withdraw from now on waits for the task
    reactor_.Spawn(gate_, EndOffer(*offered));
  }
  ArmExpiry();
}

// ---- the end ----

rt::Task<void> OfiConnection::Fence(Status reason) {
  Break(FenceStatus(reason));
  co_await gate_.Close();
  messages_.clear();
}

void OfiConnection::Break(Status reason) {
  if (!state_.ok()) return;
  state_ = std::move(reason);
  liveness_timer_.Cancel();
  expiry_timer_.Cancel();
  link_->Close();
  // From here on the provider touches no memory of ours, so everything that was borrowed for it may go.
  for (OpState& op : ops_) op.registrations.clear();
  jobs_.clear();
  ready_jobs_.clear();
  peer_regions_.Clear();
  offers_.CloseAll();
  transfers_.AnswerAll(state_);
  queue_.Clear();
  life_.Cancel();
}

void OfiConnection::OnLinkEnded(const Status& reason) {
  Break(Status::Unavailable("{}: {}", peer_, reason.message()));
}

EndpointStats OfiConnection::stats() const {
  EndpointStats stats = stats_;
  stats.refused = offers_.rules().refused();
  stats.payload_bytes_copied = queue_.copied();
  return stats;
}

// ---- sending ----

void OfiConnection::PushControl(const OfiFrame& frame, bool awaits) {
  if (!state_.ok()) return;
  queue_.PushControl(frame);
  Kick(awaits);
}

void OfiConnection::Kick(bool awaits) {
  if (awaits && liveness_.Sent(reactor_.Now())) ArmLiveness(reactor_.Now() + limits_.dead_after / 2);
  Pump();
}

void OfiConnection::Pump() {
  while (state_.ok() && SendNext()) liveness_.Unblocked(Liveness::kTransport);
  if (state_.ok() && !queue_.empty()) liveness_.Blocked(Liveness::kTransport, reactor_.Now());
  if (state_.ok()) PumpJobs();
}

// The peer's last free buffer is for giving back buffers, so that both sides can never be out of them at
// once.
bool OfiConnection::SendNext() {
  const bool only_slots = queue_.empty() || slots_left_ < 2;
  if (slots_left_ == 0 || (only_slots && slots_owed_ < kReceiveSlots / 2)) return false;
  const std::optional<uint16_t> slot = link_->TakeSlot();
  if (!slot.has_value()) return false;
  const MutableByteView memory = link_->slot(*slot).first(frame_bytes_);
  OfiSendQueue::Packet packet;
  if (only_slots) {
    packet.frame.type = OfiFrameType::kSlots;
    packet.size = kOfiHeaderBytes;
  } else {
    packet = queue_.Next(*slot, memory, link_->traits().pieces - 1);
  }
  packet.frame.slots = std::exchange(slots_owed_, uint16_t{0});
  packet.frame.written = stats_.bytes_written;
  packet.frame.read = stats_.bytes_read;
  const OfiHeaderBytes header = EncodeOfiFrame(packet.frame);
  std::copy(header.begin(), header.end(), memory.begin());
  --slots_left_;
  if (const Status sent = link_->Send(*slot, packet.size, packet.more); !sent.ok()) OnLinkEnded(sent);
  return state_.ok();
}

// ---- the peer's life ----

void OfiConnection::CheckLiveness() {
  next_check_ = base::kNever;
  const base::TimePoint now = reactor_.Now();
  const Liveness::Decision decision = liveness_.Check(now);
  if (decision.verdict == Liveness::Verdict::kSilent || decision.verdict == Liveness::Verdict::kStuck) {
    Break(DeadPeerStatus(decision.verdict, liveness_.silence(now), peer_));
    return;
  }
  if (decision.verdict == Liveness::Verdict::kProbe) PushControl({.type = OfiFrameType::kProbe}, false);
  ArmLiveness(decision.next);
}

void OfiConnection::ArmLiveness(base::TimePoint when) {
  if (when >= next_check_ || !state_.ok()) return;
  next_check_ = when;
  liveness_timer_.Arm(when, [this] { CheckLiveness(); });
}

}  // namespace forebay::fabric
