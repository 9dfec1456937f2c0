// SPDX-License-Identifier: Apache-2.0
// Randomness is passed in: SecureRandom (the kernel's) for keys, ids and secrets, SeededRandom for tests and
// workloads that must be repeatable.
// SecureRandom is thread-safe; SeededRandom is reactor-local.
#pragma once

#include "base/bytes.h"

namespace forebay::base {

class Random {
 public:
  virtual ~Random() = default;
  virtual void Fill(MutableByteView out) = 0;
  uint64_t Next64();
  /// Uniform in [0, bound); bound must not be 0. The slight bias of a plain modulo is of no matter to callers.
  uint64_t Below(uint64_t bound) { return Next64() % bound; }
};

class SecureRandom final : public Random {
 public:
  void Fill(MutableByteView out) override;
};

/// SplitMix64: the same seed gives the same bytes on every machine. Never for secrets.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  void Fill(MutableByteView out) override;

 private:
  uint64_t state_;
};

}  // namespace forebay::base
