// SPDX-License-Identifier: Apache-2.0
#include "native/admission.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "rt/sync.h"

namespace forebay::native {

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
  FB_CHECK(flow.waiting_.empty());
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
    wanting_.front()->wants_ = false;
    wanting_.pop_front();
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
  if (!contended()) return true;
  const size_t moving = flow.Moving(Epoch());
  const size_t share =
      std::max(options_.contended_window_bytes / wanting_.size(), options_.contended_chunk_bytes);
  return moving == 0 || moving + bytes <= share;
}

bool Admission::TurnIsOver() const { return turn_used_ >= options_.turn_bytes && contended(); }

// ---- taking and giving back ----

void Admission::Take(Flow& flow, uint64_t price, size_t bytes) {
  available_ -= bytes;
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
  flow.Forget(bytes, epoch);
  Touch(flow);
  Dispatch();
}

Admission::Place Admission::TryEnter(Flow& flow, uint64_t operations, size_t bytes) {
  Touch(flow);
  if (!ring_.empty() || available_ < bytes || !HasShare(flow, bytes) || TurnIsOver()) return {};
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
  // Two ages become one: the younger part no longer counts in the share, as if it were old.
  if (epoch_ != other.epoch_) {
    const bool younger = epoch_ > other.epoch_;
    flow->Forget(younger ? bytes_ : other.bytes_, younger ? epoch_ : other.epoch_);
    epoch_ = std::min(epoch_, other.epoch_);
  }
  bytes_ += other.bytes_;
}

// ---- waiting ----

void Admission::Enqueue(Flow& flow, Waiting& waiting) {
  if (flow.waiting_.empty()) ring_.push_back(&flow);
  waiting.at = flow.waiting_.insert(flow.waiting_.end(), &waiting);
}

void Admission::Dequeue(Flow& flow, Waiting& waiting) {
  flow.waiting_.erase(waiting.at);
  if (!flow.waiting_.empty()) return;
  flow.deficit_ = 0;
  flow.had_quantum_ = false;
  ring_.remove(&flow);
}

void Admission::Rotate() {
  ring_.front()->had_quantum_ = false;
  ring_.splice(ring_.end(), ring_, ring_.begin());
}

void Admission::Dispatch() {
  const uint64_t quantum = options_.turn_bytes / 4;
  size_t without_share = 0;  // in a row
  while (without_share < ring_.size()) {
    Flow& flow = *ring_.front();
    Waiting& first = *flow.waiting_.front();
    if (!HasShare(flow, first.bytes)) {
      ++without_share;
      Rotate();
      continue;
    }
    without_share = 0;
    if (!std::exchange(flow.had_quantum_, true)) flow.deficit_ += quantum;
    if (flow.deficit_ < first.price && ring_.size() > 1) {
      Rotate();
      continue;
    }
    // Whose turn it is keeps it until there is room, so that what is large comes about too.
    if (available_ < first.bytes || TurnIsOver()) return;
    Take(flow, first.price, first.bytes);
    flow.deficit_ -= std::min(flow.deficit_, first.price);
    first.epoch = flow.epoch_;
    Dequeue(flow, first);
    first.admitted.Set();
  }
  if (ring_.empty() || later_.armed()) return;
  later_.Arm(reactor_.Now() + options_.moves_for, [this] { Dispatch(); });  // their shares are free again by then
}

}  // namespace forebay::native
