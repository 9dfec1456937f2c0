// SPDX-License-Identifier: Apache-2.0
// RegionTable: the regions that one endpoint offers, and the one place where a peer's transfer is judged: key, range,
// direction and expiry, for each transfer anew. Keys are 64 random bits; a lookup does the same work for any unknown key.
// It remembers keys of late, so that a transfer that crossed a Withdraw on its way is told from a guessed key.
// Reactor-local. Borrows the memory of each region until Remove.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"
#include "fabric/fabric.h"

namespace forebay::fabric {

/// Why the owner of a region refused a transfer. The numbers travel (docs/formats/fabric-tcp.md).
enum class Refusal : uint16_t {
  kNone = 0,
  kUnknownKey = 1,
  kOutOfRange = 2,
  kWrongDirection = 3,
  kExpired = 4,
  kWithdrawn = 5,
};
constexpr uint16_t kMaxRefusal = 5;

/// What the initiator of a refused transfer gets; ok for kNone.
Status RefusalStatus(Refusal refusal, uint64_t offset, uint64_t length);

class RegionTable {
 public:
  /// A peer that broke the rules this often is no peer: its endpoint is fenced. Transfers that met a region which was
  /// theirs, but withdrawn or expired, do not count: they may have been on their way.
  static constexpr uint32_t kMaxViolations = 100;
  /// Keys remembered after their Withdraw.
  static constexpr size_t kRememberedKeys = 256;

  /// `random` is borrowed for the table's life.
  RegionTable(base::Random& random, uint32_t max_regions);

  /// ResourceExhausted at max_regions.
  Result<RegionToken> Offer(MutableByteView memory, Direction direction, base::TimePoint expiry);
  /// False when there is no region with that key.
  bool Remove(uint64_t key);

  struct Access {
    Refusal refusal = Refusal::kNone;
    MutableByteView memory;  ///< exactly the asked range; empty when refused
  };
  /// Judges one transfer of the peer's, and counts it when it is refused.
  Access Check(uint64_t key, uint64_t offset, uint64_t length, Direction wanted, base::TimePoint now);
  /// Counts a transfer that was accepted and then lost its region.
  void CountLost() { ++refused_; }

  size_t size() const { return regions_.size(); }
  uint64_t refused() const { return refused_; }
  bool abused() const { return violations_ > kMaxViolations; }

 private:
  struct Region {
    MutableByteView memory;  // borrowed from whoever offered it
    Direction direction;
    base::TimePoint expiry;
  };
  /// Salted, so that a peer cannot learn bits of a key from how long a lookup takes.
  struct SaltedHash {
    uint64_t salt;
    size_t operator()(uint64_t key) const noexcept;
  };

  Refusal Judge(const Region* region, uint64_t key, uint64_t offset, uint64_t length, Direction wanted,
                base::TimePoint now) const;
  bool Remembered(uint64_t key) const;

  base::Random& random_;
  const uint32_t max_regions_;
  std::unordered_map<uint64_t, Region, SaltedHash> regions_;
  std::vector<uint64_t> withdrawn_;  // a ring once full
  size_t next_withdrawn_ = 0;
  uint64_t refused_ = 0;
  uint32_t violations_ = 0;
};

}  // namespace forebay::fabric
