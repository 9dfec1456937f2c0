// SPDX-License-Identifier: Apache-2.0
// Histogram: latencies in nanoseconds in buckets of 1/32 relative width, so that percentiles are right to 3 %
// from nanoseconds to hours in 16 KiB of memory. Reactor-local: each thread fills its own and they are
// merged.
#pragma once

#include <array>
#include <cstdint>

namespace forebay::bench {

class Histogram {
 public:
  void Add(uint64_t nanoseconds);
  void Merge(const Histogram& other);
  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }
  /// The upper edge of the bucket that holds the `percent`-th percentile (0 to 100); 0 when empty.
  uint64_t Percentile(double percent) const;

 private:
  static constexpr unsigned kSubBits = 5;
  static constexpr unsigned kSub = 1U << kSubBits;
  static constexpr unsigned kBuckets = (64 - kSubBits + 1) * kSub;
  static unsigned BucketOf(uint64_t value);
  static uint64_t UpperEdge(unsigned bucket);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t max_ = 0;
};

}  // namespace forebay::bench
