// SPDX-License-Identifier: Apache-2.0
#include "native/admission.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "rt/sync.h"

namespace forebay::native {
namespace {

/// The part of the window that one tenant alone leaves free, so that whoever comes next finds memory: an eighth.
constexpr size_t kKeptForOthers = 8;

}  // namespace

struct Admission::Waiting {
  Waiting(rt::Reactor& reactor, uint64_t asked_price, size_t asked_bytes)
      : price(asked_price), bytes(asked_bytes), admitted(reactor) {}

  const uint64_t price;
  const size_t bytes;
  uint64_t epoch = 0;  // of its admission
  rt::Event admitted;
  std::list<Waiting*>::iterator at{};
};

Admission::Admission(rt::Reactor& reactor, const AdmissionOptions& options)
    : reactor_(reactor), options_(options), available_(options.window_bytes), next_turn_(reactor), later_(reactor) {}

Admission::~Admission() { FB_CHECK(available_ == options_.window_bytes && ring_.empty()); }

std::shared_ptr<Admission::Flow> Admission::Join(TenantId tenant) {
  std::weak_ptr<Flow>& known = flows_[tenant];
  std::shared_ptr<Flow> flow = known.lock();
  if (flow == nullptr) {
    flow = std::make_shared<Flow>(*this, tenant);
    known = flow;
  }
  return flow;
}

void Admission::Leave(Flow& flow) {
  FB_CHECK(!flow.IsWaiting());
  if (flow.wants_) wanting_.erase(flow.wants_at_);
  flows_.erase(flow.tenant_);
}

// ---- who competes ----

void Admission::Touch(Flow& flow) {
  flow.wanted_ = reactor_.Now();
  if (flow.wants_) {
    wanting_.splice(wanting_.end(), wanting_, flow.wants_at_);
  } else {
    flow.wants_at_ = wanting_.insert(wanting_.end(), &flow);
    flow.wants_ = true;
  }
}

bool Admission::contended() const {
  const base::TimePoint since = reactor_.Now() - options_.wants_for;
  while (!wanting_.empty() && wanting_.front()->wanted_ < since) {
    Flow& flow = *wanting_.front();
    if (flow.IsWaiting()) {
      flow.wanted_ = reactor_.Now();
      wanting_.splice(wanting_.end(), wanting_, wanting_.begin());
    } else {
      flow.wants_ = false;
      wanting_.pop_front();
    }
  }
  return wanting_.size() > 1;
}

size_t Admission::chunk_bytes() const { return contended() ? options_.contended_chunk_bytes : base::kMaxChunkBytes; }

uint64_t Admission::Epoch() const {
  return static_cast<uint64_t>(reactor_.Now().time_since_epoch() / options_.moves_for);
}

size_t Admission::Flow::Moving(uint64_t epoch) const {
  if (epoch == epoch_) return begun_ + begun_before_;
  return epoch == epoch_ + 1 ? begun_ : 0;
}

void Admission::Flow::Forget(size_t bytes, uint64_t epoch) {
  if (epoch == epoch_) begun_ -= bytes;
  if (epoch + 1 == epoch_) begun_before_ -= bytes;
}

bool Admission::HasShare(const Flow& flow, size_t bytes) const {
  // What a tenant holds, moving or not: alone, all but a part that is kept for who comes next.
  const bool competes = contended();
  const size_t most = competes ? options_.window_bytes / wanting_.size()
                               : options_.window_bytes - options_.window_bytes / kKeptForOthers;
  if (flow.held_ != 0 && flow.held_ + bytes > most) return false;
  if (!competes) return true;
  const size_t moving = flow.Moving(Epoch());
  const size_t share =
      std::max(options_.contended_window_bytes / wanting_.size(), options_.contended_chunk_bytes);
  return moving == 0 || moving + bytes <= share;
}

bool Admission::TurnIsOver() const { return turn_used_ >= options_.turn_bytes && contended(); }

// ---- taking and giving back ----

void Admission::Take(Flow& flow, uint64_t price, size_t bytes) {
  available_ -= bytes;
  flow.held_ += bytes;
  const uint64_t epoch = Epoch();
  if (flow.epoch_ != epoch) {
    flow.begun_before_ = flow.epoch_ + 1 == epoch ? flow.begun_ : 0;
    flow.begun_ = 0;
    flow.epoch_ = epoch;
  }
  flow.begun_ += bytes;
  if (!contended()) return;
  turn_used_ += price;
  if (next_turn_.armed()) return;
  next_turn_.Arm(reactor_.Now(), [this] {
    turn_used_ = 0;
    Dispatch();
  });
}

void Admission::Release(Flow& flow, size_t bytes, uint64_t epoch) {
  available_ += bytes;
  flow.held_ -= bytes;
  flow.Forget(bytes, epoch);
  Touch(flow);
  Dispatch();
}

Admission::Place Admission::TryEnter(Flow& flow, uint64_t operations, size_t bytes) {
  Touch(flow);
  if (flow.IsWaiting() && (bytes != 0 || !flow.light_.empty())) return {};
  if (TurnIsOver() || (bytes != 0 && (kept_turn_ || available_ < bytes || !HasShare(flow, bytes)))) return {};
  Take(flow, PriceOf(operations, bytes), bytes);
  return {flow, bytes, flow.epoch_};
}

rt::Task<Admission::Place> Admission::Enter(Flow& flow, uint64_t operations, size_t bytes, rt::OpOptions options) {
  if (Place place = TryEnter(flow, operations, bytes)) co_return place;
  Waiting waiting(reactor_, PriceOf(operations, bytes), bytes);
  Enqueue(flow, waiting);
  Dispatch();
  (void)co_await waiting.admitted.Wait(options);
  if (!waiting.admitted.is_set()) {
    Dequeue(flow, waiting);
    Dispatch();  // who came next may fit
    co_return Place();
  }
  co_return Place(flow, bytes, waiting.epoch);
}

void Admission::Place::Shrink(size_t bytes) {
  if (flow_ == nullptr || (bytes != 0 && bytes >= bytes_)) return;
  Flow& flow = *flow_;
  const size_t released = bytes_ - bytes;
  bytes_ = bytes;
  if (bytes == 0) flow_ = nullptr;
  flow.admission_.Release(flow, released, epoch_);
}

Admission::Place Admission::Place::Split(size_t bytes) {
  FB_CHECK(flow_ != nullptr && bytes <= bytes_);
  bytes_ -= bytes;
  return {*flow_, bytes, epoch_};
}

void Admission::Place::Merge(Place other) {
  if (flow_ == nullptr) std::swap(*this, other);
  Flow* const flow = std::exchange(other.flow_, nullptr);
  if (flow == nullptr) return;
  if (epoch_ != other.epoch_) {  // two ages become one that no longer counts in the share
    flow->Forget(bytes_, std::exchange(epoch_, 0));
    flow->Forget(other.bytes_, other.epoch_);
  }
  bytes_ += other.bytes_;
}

// ---- waiting ----

void Admission::Enqueue(Flow& flow, Waiting& waiting) {
  if (!flow.IsWaiting()) ring_.push_back(&flow);
  std::list<Waiting*>& queue = flow.QueueOf(waiting.bytes);
  waiting.at = queue.insert(queue.end(), &waiting);
}

void Admission::Dequeue(Flow& flow, Waiting& waiting) {
  flow.QueueOf(waiting.bytes).erase(waiting.at);
  if (flow.IsWaiting()) return;
  flow.deficit_ = 0;
  flow.had_quantum_ = false;
  ring_.remove(&flow);
}

void Admission::Rotate() {
  ring_.front()->had_quantum_ = false;
  ring_.splice(ring_.end(), ring_, ring_.begin());
}

/// What of the flow goes next, if anything may: what holds no payload goes before what does.
Admission::Waiting* Admission::NextOf(Flow& flow, bool memory) const {
  if (!flow.light_.empty()) return flow.light_.front();
  Waiting* const first = flow.waiting_.front();
  return memory && HasShare(flow, first->bytes) ? first : nullptr;
}

/// Round robin. The flow whose turn came when there was too little memory for it, if one's did: nobody else is given any.
Admission::Flow* Admission::GoRound() {
  const uint64_t quantum = options_.turn_bytes / 4;
  Flow* kept = nullptr;
  size_t passed = 0;  // flows in a row that may have nothing now
  while (passed < ring_.size() && !TurnIsOver()) {
    Flow& flow = *ring_.front();
    Waiting* const next = NextOf(flow, kept == nullptr);
    if (next == nullptr) {
      ++passed;
      Rotate();
      continue;
    }
    passed = 0;
    if (!std::exchange(flow.had_quantum_, true)) flow.deficit_ += quantum;
    if (flow.deficit_ < next->price && ring_.size() > 1) {
      Rotate();
      continue;
    }
    if (available_ < next->bytes) {
      kept = &flow;
      continue;
    }
    Take(flow, next->price, next->bytes);
    flow.deficit_ -= std::min(flow.deficit_, next->price);
    next->epoch = flow.epoch_;
    Dequeue(flow, *next);
    next->admitted.Set();
  }
  return kept;
}

void Admission::Dispatch() {
  Flow* const kept = GoRound();
  kept_turn_ = kept != nullptr;
  if (kept != nullptr) {
    ring_.remove(kept);
    ring_.push_front(kept);
    kept->had_quantum_ = true;
  }
  if (ring_.empty()) return later_.Cancel();
  if (!later_.armed())  // their shares are free again by then
    later_.Arm(reactor_.Now() + options_.moves_for, [this] { Dispatch(); });
}

}  // namespace forebay::native
