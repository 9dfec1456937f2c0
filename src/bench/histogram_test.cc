// SPDX-License-Identifier: Apache-2.0
#include "bench/histogram.h"

#include <gtest/gtest.h>

namespace forebay::bench {
namespace {

TEST(Histogram, IsEmptyAtFirst) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.Percentile(99), 0U);
}

TEST(Histogram, PercentilesOfOneToAThousandAreWithinTheBucketWidth) {
  Histogram histogram;
  for (uint64_t value = 1; value <= 1000; ++value) histogram.Add(value * 1000);
  EXPECT_NEAR(static_cast<double>(histogram.Percentile(50)), 500'000, 500'000 / 32.0);
  EXPECT_NEAR(static_cast<double>(histogram.Percentile(99)), 990'000, 990'000 / 32.0);
  EXPECT_EQ(histogram.Percentile(100), 1'000'000U);
}

TEST(Histogram, HoldsTheExtremes) {
  Histogram histogram;
  histogram.Add(0);
  histogram.Add(UINT64_MAX);
  EXPECT_EQ(histogram.Percentile(50), 0U);
  EXPECT_EQ(histogram.Percentile(100), UINT64_MAX);
}

TEST(Histogram, MergeAddsUp) {
  Histogram a;
  Histogram b;
  a.Add(10);
  b.Add(20);
  a.Merge(b);
  EXPECT_EQ(a.count(), 2U);
  EXPECT_EQ(a.Percentile(50), 10U);
  EXPECT_EQ(a.max(), 20U);
}

}  // namespace
}  // namespace forebay::bench
