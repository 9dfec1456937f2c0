// SPDX-License-Identifier: Apache-2.0
#include "fabric/memory_endpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "fabric/limits.h"

namespace forebay::fabric {

MemoryLink::MemoryLink(EndpointOptions connector, EndpointOptions listener)
    : limits_(CommonLimits(connector, listener)) {}

void MemoryLink::Attach(Side side, rt::Reactor& reactor, MemoryEndpoint* endpoint) {
  base::MutexLock lock(mutex_);
  ends_[side].reactor = &reactor;
  ends_[side].endpoint = endpoint;
  for (Function& function : std::exchange(ends_[side].early, {})) PostLocked(side, std::move(function));
}

void MemoryLink::Detach(Side side) {
  std::vector<Function> dropped;  // destroyed without the lock: functions own buffers
  base::MutexLock lock(mutex_);
  ends_[side].gone = true;
  ends_[side].endpoint = nullptr;
  dropped.swap(ends_[side].early);
}

void MemoryLink::Post(Side side, Function function) {
  base::MutexLock lock(mutex_);
  PostLocked(side, std::move(function));
}

// Posted under the lock, so that a reactor is never posted to after its end was detached and the reactor perhaps gone.
void MemoryLink::PostLocked(Side side, Function function) {
  End& end = ends_[side];
  if (end.gone) return;
  if (end.reactor == nullptr) {
    end.early.push_back(std::move(function));
    return;
  }
  end.reactor->Post([self = shared_from_this(), side, function = std::move(function)]() mutable {
    MemoryEndpoint* endpoint = nullptr;
    {
      base::MutexLock lock(self->mutex_);
      endpoint = self->ends_[side].endpoint;
    }
    // Only this thread detaches this end, so the endpoint stays while the function runs.
    if (endpoint != nullptr) function(*endpoint);
  });
}

MemoryEndpoint::MemoryEndpoint(rt::Reactor& reactor, std::shared_ptr<MemoryLink> link, MemoryLink::Side side,
                               std::string peer, const EndpointOptions& own, base::Random& random)
    : reactor_(reactor),
      link_(std::move(link)),
      side_(side),
      peer_(std::move(peer)),
      limits_(link_->limits()),
      gate_(reactor),
      regions_(random, own.max_regions),
      transfers_(reactor, limits_.max_transfers, life_),
      window_(reactor, MessageWindow(limits_.max_message_bytes)),
      arrived_(reactor),
      liveness_(own.dead_after, own.idle_dead_after, reactor.clock().Now()),
      liveness_timer_(reactor) {}

MemoryEndpoint::~MemoryEndpoint() { Break(Status::Unavailable("the peer's endpoint was destroyed")); }

MemoryLink::Side MemoryEndpoint::other() const {
  return side_ == MemoryLink::kConnector ? MemoryLink::kListener : MemoryLink::kConnector;
}

rt::Task<Status> MemoryEndpoint::Send(Bytes message) { return SendWithPayload(std::move(message), {}); }

rt::Task<Status> MemoryEndpoint::SendWithPayload(Bytes head, std::vector<base::Buffer> payload) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  Bytes message = std::move(head);
  FB_CO_TRY(CheckMessageSize(message.size() + TotalSize(payload), limits_));
  for (const base::Buffer& buffer : payload) message.insert(message.end(), buffer.data(), buffer.data() + buffer.size());
  const size_t cost = message.size() + kMessageOverheadBytes;
  if (!window_.TryAcquire(cost)) {
    liveness_.Blocked(Liveness::kMessageWindow, reactor_.Now());
    ++window_waiters_;
    const bool acquired = co_await window_.Acquire(cost, {&life_});
    --window_waiters_;
    if (!acquired) co_return state_;
  }
  FB_CO_TRY(state_);
  ++stats_.messages_sent;
  PostToPeer([message = std::move(message)](MemoryEndpoint& to) mutable { to.OnMessage(std::move(message)); });
  co_return Status();
}

rt::Task<Result<Bytes>> MemoryEndpoint::Receive() {
  const auto holder = gate_.Enter();
  if (!holder.ok()) co_return state_;
  FB_CHECK(!receiving_);
  receiving_ = true;
  while (incoming_.empty() && state_.ok()) {
    arrived_.Reset();
    co_await arrived_.Wait({&life_});
  }
  receiving_ = false;
  if (incoming_.empty()) co_return state_;
  Bytes message = std::move(incoming_.front());
  incoming_.pop_front();
  const size_t room = message.size() + kMessageOverheadBytes;
  link_->Post(other(), [room](MemoryEndpoint& to) { to.OnRoom(room); });
  co_return message;
}

Result<RegionToken> MemoryEndpoint::Offer(MutableByteView memory, Direction direction, base::TimePoint expiry) {
  FB_TRY(state_);
  return regions_.Offer(memory, direction, expiry);
}

// A transfer is carried out within one turn of this reactor, so there is none to wait for.
rt::Task<Status> MemoryEndpoint::Withdraw(RegionToken region) {
  if (!regions_.Remove(region.key)) co_return Status::NotFound("no region with this key is offered on this endpoint");
  co_return Status();
}

rt::Task<Status> MemoryEndpoint::Write(RegionToken remote, uint64_t offset, std::vector<base::Buffer> data,
                                       base::TimePoint deadline) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  const uint64_t length = TotalSize(data);
  FB_CO_TRY(CheckTransferSize(length, limits_));
  auto begun = co_await transfers_.Begin(Transfer::Kind::kWrite, offset, length, deadline);
  if (!state_.ok()) co_return state_;
  FB_CO_ASSIGN(Transfer * transfer, std::move(begun));
  PostToPeer([id = transfer->id, key = remote.key, offset, data = std::move(data)](MemoryEndpoint& to) {
    to.OnWrite(id, key, offset, data);
  });
  co_return co_await transfers_.Finish(transfer, deadline);
}

rt::Task<Status> MemoryEndpoint::Read(RegionToken remote, uint64_t offset, MutableByteView data,
                                      base::TimePoint deadline) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  FB_CO_TRY(CheckTransferSize(data.size(), limits_));
  auto begun = co_await transfers_.Begin(Transfer::Kind::kRead, offset, data.size(), deadline);
  if (!state_.ok()) co_return state_;
  FB_CO_ASSIGN(Transfer * transfer, std::move(begun));
  transfer->destination = data;
  PostToPeer([id = transfer->id, key = remote.key, offset, length = data.size()](MemoryEndpoint& to) {
    to.OnRead(id, key, offset, length);
  });
  co_return co_await transfers_.Finish(transfer, deadline);
}

rt::Task<void> MemoryEndpoint::Fence(Status reason) {
  Break(FenceStatus(reason));
  incoming_.clear();
  co_await gate_.Close();
}

EndpointStats MemoryEndpoint::stats() const {
  EndpointStats stats = stats_;
  stats.refused = regions_.refused();
  return stats;
}

void MemoryEndpoint::OnMessage(Bytes message) {
  Arrived();
  ++stats_.messages_received;
  incoming_.push_back(std::move(message));
  arrived_.Set();
}

void MemoryEndpoint::OnRoom(size_t bytes) {
  Arrived();
  liveness_.Unblocked(Liveness::kMessageWindow);
  if (window_waiters_ != 0) liveness_.Blocked(Liveness::kMessageWindow, reactor_.Now());
  window_.Release(bytes);
}

void MemoryEndpoint::OnWrite(uint64_t id, uint64_t key, uint64_t offset, const std::vector<base::Buffer>& data) {
  Arrived();
  const auto access = regions_.Check(key, offset, TotalSize(data), Direction::kPeerWrites, reactor_.Now());
  if (access.refusal == Refusal::kNone) {
    size_t at = 0;
    for (const base::Buffer& buffer : data) {
      if (buffer.empty()) continue;
      std::memcpy(access.memory.data() + at, buffer.data(), buffer.size());
      at += buffer.size();
    }
    stats_.peer_bytes_written += at;
  }
  Answer(id, access.refusal, {});
}

void MemoryEndpoint::OnRead(uint64_t id, uint64_t key, uint64_t offset, uint64_t length) {
  Arrived();
  const auto access = regions_.Check(key, offset, length, Direction::kPeerReads, reactor_.Now());
  stats_.peer_bytes_read += access.memory.size();
  Answer(id, access.refusal, Bytes(access.memory.begin(), access.memory.end()));
}

void MemoryEndpoint::Answer(uint64_t id, Refusal refusal, Bytes data) {
  link_->Post(other(), [id, refusal, data = std::move(data)](MemoryEndpoint& to) { to.OnAnswer(id, refusal, data); });
  if (regions_.abused()) {
    Break(Status::Unavailable("fenced: more than {} of the peer's transfers broke the rules of our regions",
                              RegionTable::kMaxViolations));
  }
}

void MemoryEndpoint::OnAnswer(uint64_t id, Refusal refusal, const Bytes& data) {
  Transfer* transfer = transfers_.Find(id);
  if (transfer == nullptr) return;
  if (refusal == Refusal::kNone && transfer->kind == Transfer::Kind::kRead) {
    if (!transfer->abandoned && !data.empty()) std::memcpy(transfer->destination.data(), data.data(), data.size());
    ++stats_.reads;
    stats_.bytes_read += transfer->length;
    stats_.copied_bytes += transfer->length;
  } else if (refusal == Refusal::kNone) {
    ++stats_.writes;
    stats_.copied_bytes += transfer->length;
    stats_.bytes_written += transfer->length;
  }
  transfers_.Answer(transfer, RefusalStatus(refusal, transfer->offset, transfer->length));
  Arrived();
}

void MemoryEndpoint::OnProbe() {
  Arrived();
  link_->Post(other(), [](MemoryEndpoint& to) { to.Arrived(); });
}

void MemoryEndpoint::OnGone(const Status& reason) {
  Break(Status::Unavailable("the peer closed the connection: {}", reason.message()));
}

void MemoryEndpoint::Arrived() { liveness_.Arrived(reactor_.Now(), transfers_.unanswered() != 0); }

void MemoryEndpoint::PostToPeer(MemoryLink::Function function) {
  if (liveness_.Sent(reactor_.Now())) ArmLiveness(reactor_.Now() + limits_.dead_after / 2);
  link_->Post(other(), std::move(function));
}

void MemoryEndpoint::Break(Status reason) {
  if (!state_.ok()) return;
  state_ = std::move(reason);
  link_->Detach(side_);
  link_->Post(other(), [why = state_](MemoryEndpoint& to) { to.OnGone(why); });
  liveness_timer_.Cancel();
  transfers_.AnswerAll(state_);
  life_.Cancel();
}

void MemoryEndpoint::CheckLiveness() {
  next_check_ = base::kNever;
  const base::TimePoint now = reactor_.Now();
  const Liveness::Decision decision = liveness_.Check(now);
  if (decision.verdict == Liveness::Verdict::kSilent || decision.verdict == Liveness::Verdict::kStuck) {
    Break(DeadPeerStatus(decision.verdict, liveness_.silence(now), peer_));
    return;
  }
  if (decision.verdict == Liveness::Verdict::kProbe) link_->Post(other(), [](MemoryEndpoint& to) { to.OnProbe(); });
  ArmLiveness(decision.next);
}

void MemoryEndpoint::ArmLiveness(base::TimePoint when) {
  if (when >= next_check_ || !state_.ok()) return;
  next_check_ = when;
  liveness_timer_.Arm(when, [this] { CheckLiveness(); });
}

}  // namespace forebay::fabric
