// SPDX-License-Identifier: Apache-2.0
#include "auth/trusted_clock.h"

#include <gtest/gtest.h>

namespace forebay::auth {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr hours kYear(24 * 365);

class TrustedClockTest : public ::testing::Test {
 protected:
  base::FakeClock clock_;
  TrustedClock trusted_{clock_};
  const base::WallTime start_ = trusted_.WallNow();
};

TEST_F(TrustedClockTest, FollowsTheWallClock) {
  clock_.Advance(minutes(5));
  EXPECT_EQ(trusted_.WallNow(), start_ + minutes(5));
  clock_.JumpWall(std::chrono::seconds(1));
  EXPECT_EQ(trusted_.WallNow(), start_ + minutes(5) + std::chrono::seconds(1));
}

TEST_F(TrustedClockTest, GoesOnWhileTheWallClockIsBehind) {
  for (const base::Duration jump : {base::Duration(hours(1)), base::Duration(kYear)}) {
    const base::WallTime before = trusted_.WallNow();
    clock_.JumpWall(-jump);
    EXPECT_EQ(trusted_.WallNow(), before);
    clock_.Advance(minutes(10));
    EXPECT_EQ(trusted_.WallNow(), before + minutes(10));
    clock_.JumpWall(jump);
    EXPECT_EQ(trusted_.WallNow(), before + minutes(10));
  }
}

TEST_F(TrustedClockTest, BelievesAJumpForwardAndStaysThere) {
  clock_.JumpWall(kYear);
  EXPECT_EQ(trusted_.WallNow(), start_ + kYear);
  clock_.JumpWall(-kYear);
  clock_.Advance(minutes(1));
  EXPECT_EQ(trusted_.WallNow(), start_ + kYear + minutes(1));
}

TEST_F(TrustedClockTest, WhatARestartRemembersHolds) {
  trusted_.Advance(start_ + hours(1));
  clock_.Advance(minutes(1));
  EXPECT_EQ(trusted_.WallNow(), start_ + hours(1) + minutes(1));
  trusted_.Advance(start_);  // long ago
  EXPECT_EQ(trusted_.WallNow(), start_ + hours(1) + minutes(1));
}

}  // namespace
}  // namespace forebay::auth
