// SPDX-License-Identifier: Apache-2.0
// Gate: "stop new work, wait for the rest". Whoever starts coroutines owns a gate; each enters it for as long as it runs;
// Close lets nobody in any more and waits until everyone has left.
// Reactor-local. Outlives its holders; destroyed empty (checked).
#pragma once

#include <cstddef>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "rt/sync.h"

namespace forebay::rt {

class Gate {
 public:
  /// One visit; leaves when destroyed. May be moved into whatever lives as long as the visit.
  class Holder {
   public:
    Holder(Holder&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Holder& operator=(Holder&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Holder() {
      if (gate_ != nullptr) gate_->Leave();
    }

   private:
    friend class Gate;
    explicit Holder(Gate& gate) : gate_(&gate) {}
    Gate* gate_;  // borrowed from the gate's owner
  };

  explicit Gate(Reactor& reactor) : empty_(reactor) { empty_.Set(); }
  ~Gate() { FB_CHECK(count_ == 0); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Fails with Unavailable once Close was called.
  Result<Holder> Enter() {
    if (closed_) return Status::Unavailable("closing: no new work is taken");
    if (count_++ == 0) empty_.Reset();
    return Holder(*this);
  }
  /// Refuses newcomers from now on, without waiting.
  void Shut() { closed_ = true; }
  /// Refuses newcomers and suspends until everyone has left. May be called more than once, but never by a holder.
  Task<void> Close() {
    closed_ = true;
    while (count_ != 0) co_await empty_.Wait();
  }

  bool closed() const { return closed_; }
  size_t count() const { return count_; }

 private:
  void Leave() {
    if (--count_ == 0) empty_.Set();
  }

  Event empty_;
  size_t count_ = 0;
  bool closed_ = false;
};

}  // namespace forebay::rt
