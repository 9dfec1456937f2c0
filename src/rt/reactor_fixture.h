// SPDX-License-Identifier: Apache-2.0
// ReactorTest: the fixture of rt's tests: a reactor on a fake clock, run by the test's own thread.
// Reactor-local.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "base/clock.h"
#include "rt/reactor.h"

namespace forebay::rt {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): tests read better with it

class ReactorTest : public testing::Test {
 protected:
  void SetUp() override { Start({.name = "test", .clock = &clock_}); }

  void Start(Reactor::Options options) {
    auto reactor = Reactor::Create(std::move(options));
    if (reactor.status().code() == Code::kFailedPrecondition) GTEST_SKIP() << reactor.status().ToString();
    ASSERT_TRUE(reactor.ok()) << reactor.status().ToString();
    reactor_ = *std::move(reactor);
  }

  Reactor& reactor() { return *reactor_; }
  TimePoint In(Duration duration) { return clock_.Now() + duration; }

  /// Suspends until everything that could run without the kernel or the clock has run.
  Task<void> Settle() {
    for (int i = 0; i < 20; ++i) co_await reactor().Yield();
  }
  /// Moves the clock and lets the loop see it.
  Task<void> Advance(Duration duration) {
    clock_.Advance(duration);
    co_await Settle();
  }

  base::FakeClock clock_;
  std::unique_ptr<Reactor> reactor_;
};

}  // namespace forebay::rt
