// SPDX-License-Identifier: Apache-2.0
#include "app/rates.h"

#include <gtest/gtest.h>

namespace forebay::app {
namespace {

TEST(Rates, WhatIsNotGivenIsNotSet) {
  EXPECT_EQ(*RateOptions().BytesPerSecond(), std::nullopt);
  EXPECT_EQ(*RateOptions().ToGrant(), auth::RateGrant());
  EXPECT_EQ(*RateOptions{.rate = "0"}.BytesPerSecond(), 0U);
}

TEST(Rates, TheRateIsASize) {
  const RateOptions options{.rate = "8MiB", .operations = 5, .transfers = 2};
  EXPECT_EQ(*options.ToGrant(),
            (auth::RateGrant{.bytes_per_s = 8'388'608, .operations_per_s = 5, .transfers = 2}));
  for (const char* const text : {"fast", "-1", "8MB/s", "1.5MiB"})
    EXPECT_EQ(RateOptions{.rate = text}.ToGrant().status().code(), Code::kInvalidArgument) << text;
}

TEST(Rates, OnlyLimitsAreTold) {
  EXPECT_EQ(DescribeRates({}), "");
  EXPECT_EQ(DescribeRates({.operations_per_s = 5}), "; at most 5 operations/s");
  EXPECT_EQ(DescribeRates({.bytes_per_s = 8'388'608, .operations_per_s = 5, .transfers = 2}),
            "; at most 8.0 MiB/s, 5 operations/s, 2 transfers at once");
}

}  // namespace
}  // namespace forebay::app
