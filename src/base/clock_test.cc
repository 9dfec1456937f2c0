// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <gtest/gtest.h>

namespace forebay::base {
namespace {

using namespace std::chrono_literals;

TEST(FakeClock, StandsStillUntilTold) {
  FakeClock clock;
  const TimePoint start = clock.Now();
  const WallTime wall = clock.WallNow();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(5s);
  EXPECT_EQ(clock.Now() - start, 5s);
  EXPECT_EQ(clock.WallNow() - wall, 5s);
}

TEST(FakeClock, WallTimeJumpsAlone) {
  FakeClock clock;
  const TimePoint start = clock.Now();
  const WallTime wall = clock.WallNow();
  clock.JumpWall(-1h);
  EXPECT_EQ(clock.Now(), start);
  EXPECT_EQ(clock.WallNow() - wall, -1h);
}

TEST(SystemClock, DoesNotGoBack) {
  const SystemClock clock;
  const TimePoint first = clock.Now();
  EXPECT_LE(first, clock.Now());
  EXPECT_GT(clock.WallNow().time_since_epoch(), 24h * 365 * 50);  // later than 2020
}

TEST(DeadlineAfter, SaturatesAtBothEnds) {
  const TimePoint now(1s);
  EXPECT_EQ(DeadlineAfter(now, 2s), TimePoint(3s));
  EXPECT_EQ(DeadlineAfter(now, 0s), now);
  EXPECT_EQ(DeadlineAfter(now, -1s), now);
  EXPECT_EQ(DeadlineAfter(now, Duration::min()), now);
  EXPECT_EQ(DeadlineAfter(now, Duration::max()), kNever);
  EXPECT_EQ(DeadlineAfter(now, kMaxWait), kNever);
  EXPECT_LT(DeadlineAfter(now, kMaxWait - 1ns), kNever);
}

}  // namespace
}  // namespace forebay::base
