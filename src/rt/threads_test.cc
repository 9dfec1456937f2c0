// SPDX-License-Identifier: Apache-2.0
// What crosses threads: Completion, ThreadPool with Offload, CallOn, RunOn, ReactorThread.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rt/call_on.h"
#include "rt/completion.h"
#include "rt/gate.h"
#include "rt/reactor_fixture.h"
#include "rt/reactor_thread.h"
#include "rt/thread_pool.h"
#include "rt/when_all.h"

namespace forebay::rt {
namespace {

using CompletionTest = ReactorTest;
using ThreadPoolTest = ReactorTest;
using CallOnTest = ReactorTest;

TEST_F(CompletionTest, CarriesAValueFromAnotherThread) {
  std::thread other;
  const auto value = reactor().BlockOn([&]() -> Task<std::unique_ptr<std::string>> {
    Completion<std::unique_ptr<std::string>> done(reactor());
    other = std::thread([&done] { done.Fulfil(std::make_unique<std::string>("committed")); });
    co_return co_await done.Wait();
  });
  other.join();
  EXPECT_EQ(*value, "committed");
}

TEST_F(CompletionTest, MayBeFulfilledBeforeItIsAwaited) {
  reactor().BlockOn([&]() -> Task<void> {
    Completion<int> done(reactor());
    done.Fulfil(1);
    co_await Settle();
    EXPECT_EQ(co_await done.Wait(), 1);
  });
}

TEST_F(CompletionTest, ManyFromSeveralThreadsAllArrive) {
  constexpr int kThreads = 3;
  constexpr int kEach = 2000;
  std::vector<std::unique_ptr<Completion<int>>> completions;
  for (int i = 0; i < kThreads * kEach; ++i) completions.push_back(std::make_unique<Completion<int>>(reactor()));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < kThreads * kEach; i += kThreads) completions[static_cast<size_t>(i)]->Fulfil(i);
    });
  }
  const int64_t sum = reactor().BlockOn([&]() -> Task<int64_t> {
    int64_t total = 0;
    for (auto& completion : completions) total += co_await completion->Wait();
    co_return total;
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, int64_t{kThreads * kEach} * (kThreads * kEach - 1) / 2);
}

TEST_F(ThreadPoolTest, OffloadRunsElsewhereAndResumesAtHome) {
  ThreadPool pool(2, "blocking");
  reactor().BlockOn([&]() -> Task<void> {
    const auto home = std::this_thread::get_id();
    const auto there = co_await Offload(reactor(), pool, [] { return std::this_thread::get_id(); });
    EXPECT_NE(there.value(), home);
    EXPECT_EQ(std::this_thread::get_id(), home);
    EXPECT_TRUE(reactor().InReactor());
  });
}

TEST_F(ThreadPoolTest, OffloadPassesStatusesAndResultsThrough) {
  ThreadPool pool(1, "blocking");
  reactor().BlockOn([&]() -> Task<void> {
    Status plain = co_await Offload(reactor(), pool, [] {});
    EXPECT_TRUE(plain.ok());
    Status failed = co_await Offload(reactor(), pool, [] { return Status::DataLoss("log torn"); });
    EXPECT_EQ(failed, Status::DataLoss("log torn"));
    Result<int> result = co_await Offload(reactor(), pool, [] { return Result<int>(7); });
    EXPECT_EQ(result.value(), 7);
    Result<std::unique_ptr<int>> moved = co_await Offload(reactor(), pool, [held = std::make_unique<int>(8)]() mutable {
      return std::move(held);
    });
    EXPECT_EQ(**moved, 8);
  });
}

TEST_F(ThreadPoolTest, RefusesWhatDoesNotFitInItsQueue) {
  ThreadPool pool(1, "small", /*queue_limit=*/2);
  std::latch occupied(1);
  std::latch release(1);
  ASSERT_TRUE(pool.Submit([&] {
    occupied.count_down();
    release.wait();
  }).ok());
  occupied.wait();
  reactor().BlockOn([&]() -> Task<void> {
    std::vector<Task<Status>> calls;
    for (int i = 0; i < 3; ++i) calls.push_back(Offload(reactor(), pool, [] {}));
    Gate gate(reactor());
    std::vector<Status> results;
    reactor().Spawn(gate, [&]() -> Task<void> { results = co_await WhenAll(std::move(calls)); });
    co_await Settle();
    release.count_down();
    co_await gate.Close();
    EXPECT_TRUE(results[0].ok());
    EXPECT_TRUE(results[1].ok());
    EXPECT_EQ(results[2].code(), Code::kResourceExhausted);
    EXPECT_NE(results[2].message().find("`small`"), std::string::npos);
  });
}

TEST_F(ThreadPoolTest, TheDestructorRunsWhatIsQueued) {
  std::atomic<int> ran{0};
  {
    ThreadPool pool(2, "queued");
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(pool.Submit([&] { ++ran; }).ok());
  }
  EXPECT_EQ(ran.load(), 100);
}

TEST_F(CallOnTest, RunsOnTheTargetAndResumesAtHome) {
  auto other = ReactorThread::Create({.name = "other"}).value();
  reactor().BlockOn([&]() -> Task<void> {
    std::string text = "captured";
    const std::string got = co_await CallOn(reactor(), other->reactor(), [&, text]() -> Task<std::string> {
      EXPECT_TRUE(other->reactor().InReactor());
      co_await other->reactor().Yield();
      co_return text + " there";
    });
    EXPECT_EQ(got, "captured there");
    EXPECT_TRUE(reactor().InReactor());
    bool ran = false;
    co_await CallOn(reactor(), other->reactor(), [&]() -> Task<void> {
      ran = true;
      co_return;
    });
    EXPECT_TRUE(ran);
    EXPECT_EQ(co_await CallOn(reactor(), reactor(), []() -> Task<int> { co_return 4; }), 4) << "its own reactor";
  });
}

TEST_F(CallOnTest, ReactorsCallEachOtherConcurrently) {
  constexpr int kCalls = 500;
  auto other = ReactorThread::Create({.name = "other"}).value();
  int counted_there = 0;  // touched on `other` only
  reactor().BlockOn([&]() -> Task<void> {
    std::vector<Task<int>> calls;
    for (int i = 0; i < kCalls; ++i) {
      calls.push_back(CallOn(reactor(), other->reactor(), [&]() -> Task<int> {
        co_await other->reactor().Yield();
        co_return ++counted_there;
      }));
    }
    int64_t sum = 0;
    for (const int value : co_await WhenAll(std::move(calls))) sum += value;
    EXPECT_EQ(sum, int64_t{kCalls} * (kCalls + 1) / 2);
  });
}

TEST_F(CallOnTest, AThreadRunsATaskOnAReactorAndWaits) {
  auto other = ReactorThread::Create({.name = "other"}).value();
  EXPECT_EQ(other->Run([&]() -> Task<int> {
    co_await other->reactor().Sleep(1ms);
    co_return 11;
  }),
            11);
  auto later = other->Submit([]() -> Task<std::string> { co_return "future"; });
  EXPECT_EQ(later.get(), "future");
  other->Run([]() -> Task<void> { co_return; });
}

}  // namespace
}  // namespace forebay::rt
