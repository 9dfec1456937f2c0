// SPDX-License-Identifier: Apache-2.0
// Admission: whose request goes next on a reactor. Payload in flight is bounded by a window of bytes, and what finds it full
// waits; a tenant's requests wait in the order in which they came, and among tenants that want something at the same time
// turns are taken by deficit round robin (Shreedhar and Varghese, 1995), weighed by bytes plus a price for each operation. So
// that a tenant's turn comes soon whatever the others have begun, three things are less while tenants compete: what is in
// flight, in equal shares; what is begun in one turn of the loop; and the size of a chunk. A tenant that is alone is not held
// back by any of it, but leaves a part of the window to whoever comes next; one that competes holds at most its equal part.
// What holds no payload waits for its tenant's turn, never for memory. Reactor-local. Outlives its tenants' places and Flows.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "rt/operation.h"
#include "rt/reactor.h"
#include "rt/task.h"
#include "rt/timer.h"

namespace forebay::native {

struct AdmissionOptions {
  size_t window_bytes = 0;  // in flight, of all
  // While tenants compete. Measured with `forebay bench fair`: less costs throughput, more costs the others' latency.
  size_t contended_window_bytes = 512 * base::kKiB;  // in flight, of all; a tenant's equal share, but at least one chunk
  size_t contended_chunk_bytes = 256 * base::kKiB;
  uint64_t turn_bytes = 32 * base::kKiB;  // begun in one turn of the loop, operations counted as `operation_bytes`
  /// What an operation costs a reactor, in the time that it takes for so many bytes.
  uint64_t operation_bytes = 16 * base::kKiB;
  /// A tenant counts as wanting something for so long after it did.
  base::Duration wants_for = std::chrono::milliseconds(100);
  /// What takes longer waits for a device or for its client, and not for the others: it is no longer counted in the share.
  base::Duration moves_for = std::chrono::milliseconds(1);
};

class Admission {
 public:
  class Flow;
  class Place;

  Admission(rt::Reactor& reactor, const AdmissionOptions& options);
  /// After all that was handed out is gone.
  ~Admission();
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  /// A tenant's requests, of all its connections. Shared by them.
  std::shared_ptr<Flow> Join(TenantId tenant);

  /// A place for `operations` with `bytes` of payload at once, if it may have it right now.
  Place TryEnter(Flow& flow, uint64_t operations, size_t bytes);
  /// Waits for one. An empty place when the token or the deadline came first. More bytes than the window wait for ever.
  rt::Task<Place> Enter(Flow& flow, uint64_t operations, size_t bytes, rt::OpOptions options);

  /// The largest piece of payload to ask a place for.
  size_t chunk_bytes() const;
  /// Whether more than one tenant wants something.
  bool contended() const;
  size_t available_bytes() const { return available_; }

 private:
  struct Waiting;

  uint64_t PriceOf(uint64_t operations, size_t bytes) const { return operations * options_.operation_bytes + bytes; }
  /// It wants something now.
  void Touch(Flow& flow);
  bool HasShare(const Flow& flow, size_t bytes) const;
  bool TurnIsOver() const;
  /// Counts it; the caller makes the Place.
  void Take(Flow& flow, uint64_t price, size_t bytes);
  void Release(Flow& flow, size_t bytes, uint64_t epoch);
  /// Gives places to those who wait, as far as there are any.
  void Dispatch();
  void Enqueue(Flow& flow, Waiting& waiting);
  void Dequeue(Flow& flow, Waiting& waiting);
  void Rotate();
  Waiting* NextOf(Flow& flow, bool memory) const;
  Flow* GoRound();
  /// The number of this stretch of moves_for.
  uint64_t Epoch() const;
  void Leave(Flow& flow);

  rt::Reactor& reactor_;
  const AdmissionOptions options_;
  size_t available_;
  std::map<TenantId, std::weak_ptr<Flow>> flows_;
  mutable std::list<Flow*> wanting_;  // with some who no longer do; the one that wanted something last is at the end
  std::list<Flow*> ring_;             // who waits; the front is asked next
  bool kept_turn_ = false;            // the first of the ring waits for memory, which nobody else is given
  uint64_t turn_used_ = 0;            // of turn_bytes, in this turn
  rt::Timer next_turn_;
  rt::Timer later_;
};

/// What one tenant has in flight and waiting on this reactor.
class Admission::Flow {
 public:
  Flow(Admission& admission, TenantId tenant) : admission_(admission), tenant_(tenant) {}
  ~Flow() { admission_.Leave(*this); }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

 private:
  friend class Admission;
  size_t Moving(uint64_t epoch) const;
  void Forget(size_t bytes, uint64_t epoch);

  Admission& admission_;
  const TenantId tenant_;
  bool IsWaiting() const { return !waiting_.empty() || !light_.empty(); }
  std::list<Waiting*>& QueueOf(size_t bytes) { return bytes == 0 ? light_ : waiting_; }

  std::list<Waiting*> waiting_;  // for a place with payload
  std::list<Waiting*> light_;    // for one without: they wait for no memory
  size_t held_ = 0;              // bytes in flight
  uint64_t deficit_ = 0;
  bool had_quantum_ = false;  // since it came to the front of the ring
  // Bytes in flight that were begun in an epoch, and in the one before.
  uint64_t epoch_ = 0;
  size_t begun_ = 0;
  size_t begun_before_ = 0;
  base::TimePoint wanted_{};
  std::list<Flow*>::iterator wants_at_{};  // in wanting_, while wants_
  bool wants_ = false;
};

/// Bytes in flight; given back when it is destroyed. Empty ones hold nothing.
class [[nodiscard]] Admission::Place {
 public:
  Place() = default;
  Place(Place&& other) noexcept
      : flow_(std::exchange(other.flow_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), epoch_(other.epoch_) {}
  Place& operator=(Place&& other) noexcept {
    std::swap(flow_, other.flow_);
    std::swap(bytes_, other.bytes_);
    std::swap(epoch_, other.epoch_);
    return *this;
  }
  ~Place() { Shrink(0); }

  explicit operator bool() const { return flow_ != nullptr; }
  size_t bytes() const { return bytes_; }
  /// Gives back all but `bytes`; with 0 it is empty afterwards.
  void Shrink(size_t bytes);
  /// A part of it, to be given back by itself.
  Place Split(size_t bytes);
  /// Takes over what `other`, of the same tenant, holds.
  void Merge(Place other);

 private:
  friend class Admission;
  Place(Flow& flow, size_t bytes, uint64_t epoch) : flow_(&flow), bytes_(bytes), epoch_(epoch) {}

  Flow* flow_ = nullptr;  // borrowed from its connections
  size_t bytes_ = 0;
  uint64_t epoch_ = 0;
};

}  // namespace forebay::native
