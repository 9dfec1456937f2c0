// SPDX-License-Identifier: Apache-2.0
#include "fabric/liveness.h"

#include <gtest/gtest.h>

namespace forebay::fabric {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = Liveness::Verdict;

constexpr base::TimePoint kStart{seconds(1000)};
base::TimePoint At(int ms) { return kStart + milliseconds(ms); }

Liveness Fresh() { return Liveness(seconds(5), seconds(15), kStart); }

TEST(LivenessTest, IdlePeerIsProbedEachThirdAndGivenUpAtTheEnd) {
  Liveness liveness = Fresh();
  EXPECT_EQ(liveness.first(), At(5000));
  EXPECT_EQ(liveness.Check(At(4999)).verdict, Verdict::kAlive);
  const auto probe = liveness.Check(At(5000));
  EXPECT_EQ(probe.verdict, Verdict::kProbe);
  EXPECT_EQ(probe.next, At(10000));
  EXPECT_EQ(liveness.Check(At(10000)).verdict, Verdict::kProbe);
  EXPECT_EQ(liveness.Check(At(14999)).verdict, Verdict::kAlive);
  EXPECT_EQ(liveness.Check(At(15000)).verdict, Verdict::kSilent);
}

TEST(LivenessTest, AnAnswerResetsEverything) {
  Liveness liveness = Fresh();
  EXPECT_EQ(liveness.Check(At(5000)).verdict, Verdict::kProbe);
  liveness.Arrived(At(5001), false);
  EXPECT_EQ(liveness.Check(At(10000)).verdict, Verdict::kAlive);
  EXPECT_EQ(liveness.Check(At(10001)).verdict, Verdict::kProbe);
  EXPECT_EQ(liveness.Check(At(15001)).verdict, Verdict::kProbe);
  EXPECT_EQ(liveness.Check(At(20000)).verdict, Verdict::kAlive);
  EXPECT_EQ(liveness.Check(At(20001)).verdict, Verdict::kSilent);
}

TEST(LivenessTest, WhatWasSentIsAskedAboutAtHalfTimeAndAwaitedForDeadAfter) {
  Liveness liveness = Fresh();
  EXPECT_TRUE(liveness.Sent(At(1000)));
  EXPECT_FALSE(liveness.Sent(At(2000)));  // the first one counts
  EXPECT_EQ(liveness.Check(At(1000)).next, At(3500));
  EXPECT_EQ(liveness.Check(At(3500)).verdict, Verdict::kProbe);
  EXPECT_EQ(liveness.Check(At(5999)).verdict, Verdict::kAlive);
  EXPECT_EQ(liveness.Check(At(6000)).verdict, Verdict::kSilent);
}

TEST(LivenessTest, OutstandingTransfersKeepTheShortLimit) {
  Liveness liveness = Fresh();
  liveness.Sent(At(0));
  liveness.Arrived(At(4000), true);
  EXPECT_EQ(liveness.Check(At(6500)).verdict, Verdict::kProbe);
  EXPECT_EQ(liveness.Check(At(8999)).verdict, Verdict::kAlive);
  EXPECT_EQ(liveness.Check(At(9000)).verdict, Verdict::kSilent);
}

TEST(LivenessTest, ATransferThatWasCarriedOutBeginsTheTimeAnew) {
  Liveness liveness = Fresh();
  liveness.Sent(At(0));
  EXPECT_EQ(liveness.Check(At(2500)).verdict, Verdict::kProbe);
  liveness.Moved(At(4000));
  EXPECT_EQ(liveness.Check(At(5000)).verdict, Verdict::kAlive);
  EXPECT_EQ(liveness.Check(At(6500)).verdict, Verdict::kProbe);
  EXPECT_EQ(liveness.Check(At(8999)).verdict, Verdict::kAlive);
  EXPECT_EQ(liveness.Check(At(9000)).verdict, Verdict::kSilent);
}

TEST(LivenessTest, ATransferThatWasCarriedOutAwaitsNothing) {
  Liveness liveness = Fresh();
  liveness.Moved(At(1000));
  EXPECT_EQ(liveness.Check(At(5999)).verdict, Verdict::kAlive);
  EXPECT_EQ(liveness.Check(At(6000)).verdict, Verdict::kProbe);
  EXPECT_EQ(liveness.Check(At(15999)).verdict, Verdict::kProbe);
  EXPECT_EQ(liveness.Check(At(16000)).verdict, Verdict::kAlive);
}

TEST(LivenessTest, NobodyIsGivenUpUnaskedWhenWeDidNotRunForAWhile) {
  Liveness liveness = Fresh();
  liveness.Sent(At(0));
  EXPECT_EQ(liveness.Check(At(60'000)).verdict, Verdict::kProbe);
  EXPECT_EQ(liveness.Check(At(62'499)).verdict, Verdict::kAlive);
  EXPECT_EQ(liveness.Check(At(62'500)).verdict, Verdict::kSilent);
}

TEST(LivenessTest, APeerThatTalksButTakesNothingIsStuck) {
  Liveness liveness = Fresh();
  liveness.Blocked(Liveness::kMessageWindow, At(1000));
  liveness.Blocked(Liveness::kMessageWindow, At(9000));
  liveness.Blocked(Liveness::kTransport, At(9000));
  for (int ms = 1000; ms < 16000; ms += 1000) {
    liveness.Arrived(At(ms), false);
    EXPECT_EQ(liveness.Check(At(ms)).verdict, Verdict::kAlive) << ms;
  }
  liveness.Arrived(At(16000), false);
  EXPECT_EQ(liveness.Check(At(16000)).verdict, Verdict::kStuck);
  liveness.Unblocked(Liveness::kMessageWindow);
  EXPECT_EQ(liveness.Check(At(16000)).verdict, Verdict::kAlive);
}

}  // namespace
}  // namespace forebay::fabric
