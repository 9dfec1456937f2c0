// SPDX-License-Identifier: Apache-2.0
// Scrubs of a store directory: asked for, scheduled, stopped, and over restarts. The clock stands still but where a test
// moves it.
#include "app/scrubs.h"

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/arena.h"
#include "base/random.h"
#include "engine/store_directory.h"
#include "meta/temporary_directory.h"

namespace forebay::app {
namespace {

using control::ScrubPhase;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): tests read better with it

class ScrubsTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *engine::StoreDirectory::Create(
        temporary_.path() + "/store", {.size_bytes = 64 * base::kMiB},
        {.arena = *arena_, .clock = clock_, .random = random_, .log = *log_}, {});
    const store::Context context{.reactor = *reactor_};
    ASSERT_TRUE(reactor_->BlockOn(store_->engine().CreateBucket(context, {.name = "bucket"})).ok());
    ASSERT_TRUE(reactor_->BlockOn(Put(store_->engine(), context)).ok());
  }
  void TearDown() override {
    for (const auto& scrubs : opened_) scrubs->Close();
    reactor_->BlockOn(store_->engine().Drain(*reactor_));
    store_.reset();
  }

  static constexpr uint64_t kContentBytes = 3 * base::kMiB;
  static rt::Task<Status> Put(engine::Engine& engine, store::Context context) {
    FB_CO_ASSIGN(const auto writer, co_await engine.Put(context, "bucket", "key", {.size_bytes = kContentBytes}));
    for (uint64_t at = 0; at < kContentBytes;) {
      FB_CO_ASSIGN(base::Buffer buffer, co_await writer->Allocate(context, kContentBytes - at));
      std::memset(buffer.writable().data(), 0x5a, buffer.size());
      at += buffer.size();
      FB_CO_TRY(co_await writer->Write(context, std::move(buffer)));
    }
    co_return (co_await writer->Commit(context, std::nullopt)).status();
  }

  Scrubs& Open(ScrubSchedule schedule = {}) {
    opened_.push_back(*Scrubs::Open(store_->engine(), clock_, *log_, schedule));
    return *opened_.back();
  }
  /// Waits for what another thread does.
  static control::ScrubReport Await(Scrubs& scrubs, ScrubPhase phase) {
    while (scrubs.Get()->phase != phase) std::this_thread::yield();
    return *scrubs.Get();
  }

  const meta::TemporaryDirectory temporary_;
  base::FakeClock clock_;
  base::SeededRandom random_{11};
  std::unique_ptr<base::Log> log_ = base::Log::Discard();
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(32 * base::kMiB);
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  std::vector<std::unique_ptr<Scrubs>> opened_;  // they go after the store
  std::unique_ptr<engine::StoreDirectory> store_;
};

TEST_F(ScrubsTest, RunsWhenItIsAskedFor) {
  Scrubs& scrubs = Open();
  EXPECT_EQ(scrubs.Get()->phase, ScrubPhase::kNever);
  ASSERT_TRUE(scrubs.Start(0, false).ok());
  const control::ScrubReport report = Await(scrubs, ScrubPhase::kFinished);
  EXPECT_EQ(report.verified_bytes, kContentBytes);
  EXPECT_EQ(report.passed_bytes, report.total_bytes);
  EXPECT_EQ(report.started, clock_.WallNow());
  clock_.Advance(1h);
  ASSERT_TRUE(scrubs.Start(0, false).ok());
  while (scrubs.Get()->started == report.started) std::this_thread::yield();
  EXPECT_EQ(Await(scrubs, ScrubPhase::kFinished).verified_bytes, kContentBytes) << "a finished one begins anew";
}

TEST_F(ScrubsTest, OneAtATimeAndStoppedWhereItIs) {
  Scrubs& scrubs = Open();
  ASSERT_TRUE(scrubs.Start(1, false).ok());
  while (scrubs.Get()->passed_bytes == 0) std::this_thread::yield();  // now it waits for its rate
  EXPECT_EQ(scrubs.Start(1, false).code(), Code::kFailedPrecondition);
  ASSERT_TRUE(scrubs.Stop().ok());
  EXPECT_EQ(scrubs.Get()->phase, ScrubPhase::kStopped);
  clock_.Advance(1s);
  ASSERT_TRUE(scrubs.Start(0, false).ok());
  EXPECT_EQ(Await(scrubs, ScrubPhase::kFinished).verified_bytes, kContentBytes) << "nothing is counted twice";
  EXPECT_TRUE(scrubs.Stop().ok()) << "it is fine when there is none";
  EXPECT_EQ(scrubs.Get()->phase, ScrubPhase::kFinished);
}

TEST_F(ScrubsTest, GoesOnAfterARestart) {
  Scrubs& first = Open();
  ASSERT_TRUE(first.Start(1, false).ok());
  while (first.Get()->passed_bytes == 0) std::this_thread::yield();
  const base::WallTime started = clock_.WallNow();
  clock_.Advance(1s);  // the longest time until it looks whether to go on
  first.Close();
  EXPECT_EQ(first.Get().status().code(), Code::kUnavailable);
  EXPECT_EQ(first.Start(1, false).code(), Code::kUnavailable);
  clock_.Advance(1h);
  Scrubs& second = Open();
  const control::ScrubReport report = Await(second, ScrubPhase::kFinished);
  EXPECT_EQ(report.verified_bytes, kContentBytes);
  EXPECT_EQ(report.started, started);
}

TEST_F(ScrubsTest, AStoppedOneStaysStoppedOverARestart) {
  Scrubs& first = Open();
  ASSERT_TRUE(first.Start(1, false).ok());
  while (first.Get()->passed_bytes == 0) std::this_thread::yield();
  ASSERT_TRUE(first.Stop().ok());
  clock_.Advance(1s);
  while (engine::Scrubber::Load(store_->engine().OpenForScrub().meta)->phase != engine::ScrubPhase::kStopped) {
    ASSERT_TRUE(first.Stop().ok());  // wakes it, so that it sees the clock
    std::this_thread::yield();
  }
  first.Close();
  Scrubs& second = Open();
  EXPECT_EQ(second.Get()->phase, ScrubPhase::kStopped);
  ASSERT_TRUE(second.Start(0, true).ok());
  EXPECT_EQ(Await(second, ScrubPhase::kFinished).verified_bytes, kContentBytes);
}

TEST_F(ScrubsTest, AScheduleBeginsByItself) {
  Scrubs& scrubs = Open({.every = 24h * 30, .bytes_per_second = 0});
  const base::WallTime first = Await(scrubs, ScrubPhase::kFinished).started;
  clock_.Advance(24h * 30 - 1s);
  ASSERT_TRUE(scrubs.Stop().ok());  // wakes it: it is not time yet
  EXPECT_EQ(scrubs.Get()->started, first);
  scrubs.Close();
  Scrubs& restarted = Open({.every = 24h * 30, .bytes_per_second = 0});
  EXPECT_EQ(restarted.Get()->started, first) << "a restart counts the days on";
  clock_.Advance(2s);
  while (restarted.Get()->started == first) {
    ASSERT_TRUE(restarted.Stop().ok());
    std::this_thread::yield();
  }
  EXPECT_EQ(restarted.Get()->started, first + 24h * 30 + 1s);
}

}  // namespace
}  // namespace forebay::app
