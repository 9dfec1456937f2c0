// SPDX-License-Identifier: Apache-2.0
#include "client/retry.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "client/operation_ids.h"

namespace forebay::client {
namespace {

using namespace std::chrono_literals;

const Status kGone = Status(Code::kUnavailable, "gone");

class AttemptsTest : public testing::Test {
 protected:
  base::FakeClock clock_;
  base::SeededRandom random_{1};
  const RetryOptions options_{.max_attempts = 5, .first_pause = 100ms, .max_pause = 300ms};
};

TEST_F(AttemptsTest, PausesDoubleUpToTheCapAndHalfOfEachIsRandom) {
  bool differ = false;
  std::optional<base::Duration> last;
  for (int call = 0; call < 20; ++call) {
    Attempts attempts(options_, random_);
    for (const base::Duration whole : {100ms, 200ms, 300ms, 300ms}) {
      const auto pause = attempts.Next(kGone, clock_.Now(), base::kNever);
      ASSERT_TRUE(pause.has_value());
      EXPECT_GE(*pause, whole / 2);
      EXPECT_LE(*pause, whole);
      if (whole == 100ms) differ |= last.has_value() && *last != *pause;
      if (whole == 100ms) last = pause;
    }
    EXPECT_EQ(attempts.Next(kGone, clock_.Now(), base::kNever), std::nullopt);
    EXPECT_EQ(attempts.Explain(kGone).message(), "gone (tried 5 times)");
    EXPECT_EQ(attempts.Explain(kGone).code(), Code::kUnavailable);
  }
  EXPECT_TRUE(differ);
}

TEST_F(AttemptsTest, OnlyWhatIsUnavailableIsTriedAgain) {
  for (const Code code : {Code::kNotFound, Code::kDeadlineExceeded, Code::kResourceExhausted, Code::kDataLoss,
                          Code::kCancelled, Code::kInternal}) {
    Attempts attempts(options_, random_);
    EXPECT_EQ(attempts.Next(Status(code, "no"), clock_.Now(), base::kNever), std::nullopt) << CodeName(code);
    EXPECT_EQ(attempts.Explain(Status(code, "no")).message(), "no");
  }
}

TEST_F(AttemptsTest, NoPauseGoesBeyondTheDeadline) {
  Attempts attempts(options_, random_);
  EXPECT_TRUE(attempts.Next(kGone, clock_.Now(), clock_.Now() + 101ms).has_value());
  EXPECT_EQ(attempts.Next(kGone, clock_.Now(), clock_.Now() + 99ms), std::nullopt);
}

TEST_F(AttemptsTest, MayBeTurnedOff) {
  Attempts unsafe(options_, random_, false);
  EXPECT_EQ(unsafe.Next(kGone, clock_.Now(), base::kNever), std::nullopt);
  const RetryOptions off{.max_attempts = 1};
  Attempts once(off, random_);
  EXPECT_EQ(once.Next(kGone, clock_.Now(), base::kNever), std::nullopt);
}

TEST_F(AttemptsTest, NumbersThatMakeNoSenseAreRefused) {
  EXPECT_TRUE(CheckRetry({}).ok());
  EXPECT_TRUE(CheckRetry(options_).ok());
  EXPECT_EQ(CheckRetry({.max_attempts = 0}).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckRetry({.max_attempts = 1001}).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckRetry({.first_pause = 0ms}).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckRetry({.first_pause = 2ms, .max_pause = 1ms}).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckRetry({.max_pause = std::chrono::nanoseconds::max()}).code(), Code::kInvalidArgument);
}

TEST(OperationIdsTest, FollowTheServersTimeWhateverTheWallClockSays) {
  base::FakeClock clock;
  base::SeededRandom random(1);
  OperationIds ids(clock, random);
  EXPECT_TRUE(ids.New().IsNone());
  ids.Learn(1'800'000'000'000);
  EXPECT_EQ(ids.New().unix_ms(), 1'800'000'000'000U);
  clock.JumpWall(-1000h);
  clock.Advance(2s);
  EXPECT_EQ(ids.New().unix_ms(), 1'800'000'002'000U);
  ids.Learn(0);
  EXPECT_FALSE(ids.known());
  EXPECT_TRUE(ids.New().IsNone());
}

TEST(OperationIdsTest, AGivenIdIsTakenAsItIs) {
  base::FakeClock clock;
  base::SeededRandom random(1);
  OperationIds ids(clock, random);
  EXPECT_EQ(ids.Parse("017f22e279b07cc398c4dc0c0c07398f")->unix_ms(), 1'645'557'742'000U);  // RFC 9562, A.6
  for (const char* text :
       {"017f22e279b04cc398c4dc0c0c07398f", "017f22e2", "x17f22e279b07cc398c4dc0c0c07398f"})
    EXPECT_EQ(ids.Parse(text).status().code(), Code::kInvalidArgument) << text;
}

}  // namespace
}  // namespace forebay::client
