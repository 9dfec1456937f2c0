// SPDX-License-Identifier: Apache-2.0
#include "rt/sync.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "rt/channel.h"
#include "rt/gate.h"
#include "rt/reactor_fixture.h"

namespace forebay::rt {
namespace {

using GateTest = ReactorTest;
using EventTest = ReactorTest;
using SemaphoreTest = ReactorTest;
using MutexTest = ReactorTest;
using WaitGroupTest = ReactorTest;
using ChannelTest = ReactorTest;

TEST_F(GateTest, CloseWaitsForTheLastHolderAndRefusesNewcomers) {
  std::string log;
  Gate gate(reactor());
  Gate outer(reactor());
  reactor().BlockOn([&]() -> Task<void> {
    auto first = gate.Enter();
    auto second = gate.Enter();
    EXPECT_EQ(gate.count(), 2U);
    reactor().Spawn(outer, [&]() -> Task<void> {
      co_await gate.Close();
      log += "closed";
    });
    co_await Settle();
    EXPECT_EQ(gate.Enter().status().code(), Code::kUnavailable);
    { auto leave = *std::move(first); }
    co_await Settle();
    EXPECT_EQ(log, "");
    { auto leave = *std::move(second); }
    co_await outer.Close();
    EXPECT_EQ(log, "closed");
    co_await gate.Close();  // again, with nobody inside
  });
}

TEST_F(GateTest, SpawnedTasksHoldTheGate) {
  bool finished = false;
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    EXPECT_TRUE(reactor().Spawn(gate, [&]() -> Task<void> {
      co_await Settle();
      finished = true;
    }));
    EXPECT_FALSE(finished) << "it starts in the next turn";
    co_await gate.Close();
    EXPECT_TRUE(finished);
    EXPECT_FALSE(reactor().Spawn(gate, [&]() -> Task<void> {
      ADD_FAILURE() << "ran after Close";
      co_return;
    }));
    co_await Settle();
  });
}

TEST_F(EventTest, WakesAllWaitersOnceAndStaysSet) {
  int woken = 0;
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    Event event(reactor());
    for (int i = 0; i < 3; ++i) {
      reactor().Spawn(gate, [&]() -> Task<void> {
        EXPECT_TRUE(co_await event.Wait());
        ++woken;
      });
    }
    co_await Settle();
    EXPECT_EQ(woken, 0);
    event.Set();
    EXPECT_EQ(woken, 0) << "waiters run from the loop, not inside of Set";
    event.Reset();
    co_await Settle();
    EXPECT_EQ(woken, 3) << "a Reset before they ran takes nothing back";
    event.Set();
    EXPECT_TRUE(co_await event.Wait());
    co_await gate.Close();
  });
}

TEST_F(EventTest, AWaitEndsAtItsDeadlineOrWithItsToken) {
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    Event event(reactor());
    CancelToken token;
    std::string log;
    reactor().Spawn(gate, [&]() -> Task<void> {
      EXPECT_FALSE(co_await event.Wait({.deadline = In(5ms)}));
      log += 'd';
    });
    reactor().Spawn(gate, [&]() -> Task<void> {
      EXPECT_FALSE(co_await event.Wait({.token = &token}));
      log += 't';
    });
    co_await Settle();
    token.Cancel();
    co_await Settle();
    EXPECT_EQ(log, "t");
    co_await Advance(5ms);
    EXPECT_EQ(log, "td");
    EXPECT_FALSE(co_await event.Wait({.deadline = clock_.Now()})) << "a deadline that has passed does not suspend";
    co_await gate.Close();
  });
}

TEST_F(SemaphoreTest, ServesFirstComeFirstServedAndLargeRequestsAreNotOvertaken) {
  std::string served;
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    Semaphore semaphore(reactor(), 3);
    EXPECT_TRUE(co_await semaphore.Acquire(2));
    auto take = [&](size_t units, char name) -> Task<void> {
      EXPECT_TRUE(co_await semaphore.Acquire(units));
      served += name;
    };
    reactor().Spawn(gate, take(3, 'L'));
    reactor().Spawn(gate, take(1, 's'));
    co_await Settle();
    EXPECT_EQ(served, "") << "one unit is free, but L came first";
    EXPECT_FALSE(semaphore.TryAcquire());
    semaphore.Release(2);
    co_await Settle();
    EXPECT_EQ(served, "L");
    semaphore.Release(3);
    co_await Settle();
    EXPECT_EQ(served, "Ls");
    EXPECT_EQ(semaphore.available(), 2U);
    co_await gate.Close();
  });
}

TEST_F(SemaphoreTest, WhenTheFirstInLineGivesUpTheNextIsServed) {
  std::string log;
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    Semaphore semaphore(reactor(), 1);
    reactor().Spawn(gate, [&]() -> Task<void> {
      EXPECT_FALSE(co_await semaphore.Acquire(2, {.deadline = In(1ms)}));
      log += 'L';
    });
    reactor().Spawn(gate, [&]() -> Task<void> {
      EXPECT_TRUE(co_await semaphore.Acquire(1));
      log += 's';
    });
    co_await Settle();
    EXPECT_EQ(log, "");
    co_await Advance(1ms);
    EXPECT_EQ(log, "Ls");
    EXPECT_EQ(semaphore.available(), 0U);
    co_await gate.Close();
  });
}

TEST_F(SemaphoreTest, UnitsReleaseThemselves) {
  Semaphore semaphore(reactor(), 4);
  {
    ASSERT_TRUE(semaphore.TryAcquire(3));
    Units units(semaphore, 3);
    Units moved = std::move(units);
    EXPECT_EQ(semaphore.available(), 1U);
  }
  EXPECT_EQ(semaphore.available(), 4U);
}

TEST_F(MutexTest, ExcludesAcrossSuspensionPoints) {
  std::string log;
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    Mutex mutex(reactor());
    auto critical = [&](char name) -> Task<void> {
      auto lock = co_await mutex.Lock();
      log += name;
      co_await reactor().Yield();
      co_await reactor().Yield();
      log += name;
    };
    for (const char name : std::string("abc")) reactor().Spawn(gate, critical(name));
    co_await gate.Close();
    EXPECT_FALSE(mutex.locked());
  });
  EXPECT_EQ(log, "aabbcc");
}

TEST_F(WaitGroupTest, WaitsForAsManyDoneAsAdd) {
  reactor().BlockOn([&]() -> Task<void> {
    WaitGroup group(reactor());
    EXPECT_TRUE(co_await group.Wait()) << "an empty group does not wait";
    group.Add(2);
    Latch latch(reactor(), 1);
    Gate gate(reactor());
    reactor().Spawn(gate, [&]() -> Task<void> {
      co_await group.Wait();
      latch.CountDown();
    });
    group.Done();
    co_await Settle();
    EXPECT_FALSE(co_await latch.Wait({.deadline = clock_.Now()}));
    group.Done();
    EXPECT_TRUE(co_await latch.Wait());
    co_await gate.Close();
  });
}

TEST_F(ChannelTest, KeepsOrderAndHoldsPushersBackWhenFull) {
  std::vector<int> popped;
  int pushed = 0;
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    Channel<int> channel(reactor(), 2);
    reactor().Spawn(gate, [&]() -> Task<void> {
      for (int i = 0; i < 6; ++i) {
        EXPECT_TRUE(co_await channel.Push(i));
        ++pushed;
      }
      channel.Close();
    });
    co_await Settle();
    EXPECT_EQ(pushed, 2);
    EXPECT_EQ(channel.size(), 2U);
    EXPECT_FALSE(channel.TryPush(99));
    while (auto value = co_await channel.Pop()) popped.push_back(*value);
    co_await gate.Close();
  });
  EXPECT_EQ(popped, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST_F(ChannelTest, PoppersAreServedInOrder) {
  std::string log;
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    Channel<std::string> channel(reactor(), 1);
    auto pop = [&](std::string name) -> Task<void> {
      auto value = co_await channel.Pop();
      log += name + value.value_or("-");
    };
    reactor().Spawn(gate, pop("a"));
    reactor().Spawn(gate, pop("b"));
    reactor().Spawn(gate, pop("c"));
    co_await Settle();
    EXPECT_TRUE(channel.TryPush("1"));
    EXPECT_TRUE(channel.TryPush("2"));
    EXPECT_EQ(channel.size(), 0U) << "values go straight to those who wait";
    channel.Close();
    co_await gate.Close();
  });
  EXPECT_EQ(log, "a1b2c-");
}

TEST_F(ChannelTest, CloseRefusesWaitingPushersAndDrainsTheRest) {
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    Channel<std::unique_ptr<int>> channel(reactor(), 1);
    EXPECT_TRUE(co_await channel.Push(std::make_unique<int>(1)));
    reactor().Spawn(gate, [&]() -> Task<void> { EXPECT_FALSE(co_await channel.Push(std::make_unique<int>(2))); });
    co_await Settle();
    channel.Close();
    co_await gate.Close();
    EXPECT_FALSE(co_await channel.Push(std::make_unique<int>(3)));
    auto left = co_await channel.Pop();
    EXPECT_EQ(**left, 1);
    EXPECT_FALSE((co_await channel.Pop()).has_value());
    EXPECT_TRUE(channel.closed());
  });
}

TEST_F(ChannelTest, APopEndsAtItsDeadline) {
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    Channel<int> channel(reactor(), 1);
    bool timed_out = false;
    reactor().Spawn(gate, [&]() -> Task<void> { timed_out = !(co_await channel.Pop({.deadline = In(1ms)})).has_value(); });
    co_await Settle();
    co_await Advance(1ms);
    EXPECT_TRUE(timed_out);
    EXPECT_TRUE(channel.TryPush(5));
    EXPECT_EQ(channel.TryPop(), 5) << "the value did not go to the one that left";
    co_await gate.Close();
  });
}

}  // namespace
}  // namespace forebay::rt
