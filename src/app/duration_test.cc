// SPDX-License-Identifier: Apache-2.0
#include "app/duration.h"

#include <gtest/gtest.h>

namespace forebay::app {
namespace {

using namespace std::chrono_literals;

TEST(Duration, IsANumberAndAUnit) {
  EXPECT_EQ(ParseDuration("500ms"), 500ms);
  EXPECT_EQ(ParseDuration("60s"), 60s);
  EXPECT_EQ(ParseDuration("15m"), 15min);
  EXPECT_EQ(ParseDuration("24h"), 24h);
  EXPECT_EQ(ParseDuration("7d"), 7 * 24h);
}

TEST(Duration, AnythingElseIsNone) {
  for (const char* const text : {"", "s", "60", "0s", "-1s", "1.5h", " 1s", "1s ", "1 s", "1w", "1S", "365001d",
                                 "99999999999999999999s", "18446744073709551615d"})
    EXPECT_FALSE(ParseDuration(text).has_value()) << text;
}

}  // namespace
}  // namespace forebay::app
