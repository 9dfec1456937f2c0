// SPDX-License-Identifier: Apache-2.0
// Calls that are made again, on a clock that stands still. That a repeated change takes place once, over each
// fabric, is shown in tests/conformance.
#include "client/data_pool.h"

#include <array>
#include <atomic>

#include <gtest/gtest.h>

#include "base/random.h"
#include "fabric/memory_fabric.h"

namespace forebay::client {
namespace {

using namespace std::chrono_literals;

class DataPoolTest : public testing::Test {
 protected:
  /// One call on a pool that cannot open a session, and what came of it.
  rt::Task<void> Call(base::TimePoint deadline, bool again) {
    const Result<int> result =
        co_await pool_.With(deadline, again, [](DataSession&) -> rt::Task<Result<int>> { co_return 1; });
    result_ = result.status();
  }
  rt::Task<void> AwaitOpened(int times) {
    while (opened_ < times) co_await reactor_->Yield();
    for (int i = 0; i < 50; ++i) co_await reactor_->Yield();
  }

  base::FakeClock clock_;
  base::SeededRandom random_{1};
  const std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create({.name = "test", .clock = &clock_});
  fabric::MemoryFabric fabric_{random_};
  rt::ThreadPool threads_{1, "open"};
  std::atomic<int> opened_{0};
  std::array<base::TimePoint, 3> opened_at_{};  // written before opened_ is read as larger, by the pool's one thread
  std::atomic<Code> refusal_{Code::kUnavailable};
  DataPool pool_{*reactor_,
                 MoverChoice::Only(fabric_),
                 threads_,
                 [this](base::Duration) -> Result<DataTarget> {
                   if (opened_ < 3) opened_at_[opened_] = clock_.Now();
                   ++opened_;
                   return Status(refusal_.load(), "no server");
                 },
                 1,
                 random_,
                 {.max_attempts = 3, .first_pause = 100ms, .max_pause = 1s}};
  std::optional<Status> result_;
};

TEST_F(DataPoolTest, ACallIsMadeAgainAfterEachPause) {
  reactor_->BlockOn([this]() -> rt::Task<void> {
    rt::Gate gate(*reactor_);
    reactor_->Spawn(gate, Call(base::kNever, true));
    // Opening happens on another thread, so time goes on while that works; each pause is at least half of what it grows to.
    while (opened_ < 3) {
      EXPECT_FALSE(result_.has_value());
      clock_.Advance(1ms);
      co_await reactor_->Yield();
    }
    co_await gate.Close();
    EXPECT_EQ(result_->ToString(), "UNAVAILABLE: no server (tried 3 times)");
    co_await pool_.Close(Status::Unavailable("done"));
  }());
  EXPECT_EQ(opened_, 3);
  EXPECT_GE(opened_at_[1] - opened_at_[0], 50ms);
  EXPECT_GE(opened_at_[2] - opened_at_[1], 100ms);
}

TEST_F(DataPoolTest, OneThatMayNotBeRepeatedIsNot) {
  reactor_->BlockOn([this]() -> rt::Task<void> {
    co_await Call(base::kNever, false);
    EXPECT_EQ(result_->ToString(), "UNAVAILABLE: no server");
    refusal_ = Code::kPermissionDenied;
    co_await Call(base::kNever, true);
    EXPECT_EQ(result_->code(), Code::kPermissionDenied);
    co_await pool_.Close(Status::Unavailable("done"));
  }());
  EXPECT_EQ(opened_, 2);
}

TEST_F(DataPoolTest, TheEndOfThePoolEndsAPause) {
  reactor_->BlockOn([this]() -> rt::Task<void> {
    rt::Gate gate(*reactor_);
    reactor_->Spawn(gate, Call(base::kNever, true));
    co_await AwaitOpened(1);
    co_await pool_.Close(Status::Unavailable("the client is going away"));
    co_await gate.Close();  // though the clock stands still
    EXPECT_EQ(result_->code(), Code::kUnavailable);
  }());
  EXPECT_EQ(opened_, 1);
}

}  // namespace
}  // namespace forebay::client
