// SPDX-License-Identifier: Apache-2.0
#include "bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace forebay::bench {

unsigned Histogram::BucketOf(uint64_t value) {
  if (value < kSub) return static_cast<unsigned>(value);
  const unsigned exponent = static_cast<unsigned>(std::bit_width(value)) - 1 - kSubBits;
  const auto mantissa = static_cast<unsigned>(value >> exponent) - kSub;
  return (exponent + 1) * kSub + mantissa;
}

uint64_t Histogram::UpperEdge(unsigned bucket) {
  if (bucket < kSub) return bucket;
  const unsigned exponent = bucket / kSub - 1;
  const uint64_t mantissa = bucket % kSub + kSub;
  return ((mantissa + 1) << exponent) - 1;
}

void Histogram::Add(uint64_t nanoseconds) {
  ++buckets_[BucketOf(nanoseconds)];
  ++count_;
  max_ = std::max(max_, nanoseconds);
}

void Histogram::Merge(const Histogram& other) {
  for (unsigned i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

uint64_t Histogram::Percentile(double percent) const {
  if (count_ == 0) return 0;
  const auto wanted = static_cast<uint64_t>(std::ceil(static_cast<double>(count_) * percent / 100.0));
  uint64_t seen = 0;
  for (unsigned i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= std::max<uint64_t>(wanted, 1)) return std::min(UpperEdge(i), max_);
  }
  return max_;
}

}  // namespace forebay::bench
