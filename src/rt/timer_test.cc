// SPDX-License-Identifier: Apache-2.0
#include "rt/timer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rt/gate.h"
#include "rt/reactor_fixture.h"

namespace forebay::rt {
namespace {

using TimerTest = ReactorTest;

TEST_F(TimerTest, FiresInOrderOfTimeAndThenOfArming) {
  std::string fired;
  Timer a(reactor());
  Timer b(reactor());
  Timer c(reactor());
  a.Arm(In(20ms), [&] { fired += 'a'; });
  b.Arm(In(10ms), [&] { fired += 'b'; });
  c.Arm(In(20ms), [&] { fired += 'c'; });
  reactor().BlockOn([&]() -> Task<void> {
    co_await Advance(9ms);
    EXPECT_EQ(fired, "");
    co_await Advance(1ms);
    EXPECT_EQ(fired, "b");
    co_await Advance(1s);
    EXPECT_EQ(fired, "bac");
  });
  EXPECT_FALSE(a.armed());
}

TEST_F(TimerTest, DoesNotFireWhenCancelledDestroyedOrArmedForLater) {
  std::string fired;
  Timer cancelled(reactor());
  Timer moved(reactor());
  auto destroyed = std::make_unique<Timer>(reactor());
  cancelled.Arm(In(1ms), [&] { fired += 'c'; });
  destroyed->Arm(In(1ms), [&] { fired += 'd'; });
  moved.Arm(In(1ms), [&] { fired += 'm'; });
  cancelled.Cancel();
  destroyed.reset();
  moved.Arm(In(5ms), [&] { fired += 'M'; });
  reactor().BlockOn([&]() -> Task<void> {
    co_await Advance(4ms);
    EXPECT_EQ(fired, "");
    co_await Advance(1ms);
    EXPECT_EQ(fired, "M");
  });
}

TEST_F(TimerTest, MayDestroyItselfOrArmItselfAgainFromItsFunction) {
  auto once = std::make_unique<Timer>(reactor());
  once->Arm(In(1ms), [&] { once.reset(); });
  Timer again(reactor());
  int rounds = 0;
  MoveOnlyFunction next = [&] {
    if (++rounds < 3) again.Arm(reactor().Now(), [&] { next(); });
  };
  again.Arm(In(1ms), [&] { next(); });
  reactor().BlockOn(Advance(1ms));
  EXPECT_EQ(once, nullptr);
  EXPECT_EQ(rounds, 3);
}

TEST_F(TimerTest, SleepersWakeInOrder) {
  std::string woken;
  Gate gate(reactor());
  auto sleeper = [](Reactor& reactor, Duration time, std::string* to, char name) -> Task<void> {
    co_await reactor.Sleep(time);
    *to += name;
  };
  reactor().BlockOn([&]() -> Task<void> {
    reactor().Spawn(gate, sleeper(reactor(), 30ms, &woken, 'c'));
    reactor().Spawn(gate, sleeper(reactor(), 10ms, &woken, 'a'));
    reactor().Spawn(gate, sleeper(reactor(), 20ms, &woken, 'b'));
    co_await Settle();
    co_await Advance(20ms);
    EXPECT_EQ(woken, "ab");
    co_await Advance(10ms);
    co_await gate.Close();
  });
  EXPECT_EQ(woken, "abc");
}

TEST_F(TimerTest, ASleepEndsEarlyWhenItsTokenIsCancelled) {
  CancelToken token;
  Gate gate(reactor());
  bool reached = true;
  reactor().BlockOn([&]() -> Task<void> {
    reactor().Spawn(gate, [&]() -> Task<void> { reached = co_await reactor().Sleep(1h, &token); });
    co_await Settle();
    token.Cancel();
    co_await gate.Close();
    EXPECT_FALSE(co_await reactor().Sleep(1h, &token)) << "and at once when it is cancelled already";
  });
  EXPECT_FALSE(reached);
  EXPECT_TRUE(reactor().timers().empty());
}

// A loop that sleeps in the kernel sees a clock that another thread moved, once it is poked.
TEST_F(TimerTest, PokeMakesASleepingLoopLookAtTheClock) {
  const TimePoint until = In(1h);
  std::thread other([this] {
    clock_.Advance(1h);
    reactor().Poke();
  });
  reactor().BlockOn([&]() -> Task<void> { EXPECT_TRUE(co_await reactor().SleepUntil(until)); });
  other.join();
}

TEST_F(TimerTest, ASystemClockSleepLastsAtLeastItsTime) {
  auto real = Reactor::Create().value();
  const auto start = std::chrono::steady_clock::now();
  real->BlockOn([&]() -> Task<void> { co_await real->Sleep(2ms); });
  EXPECT_GE(std::chrono::steady_clock::now() - start, 2ms);
}

TEST_F(TimerTest, WithDeadlineCancelsTheWorkAndNamesTheDeadline) {
  auto work = [this](CancelToken& token) -> Task<Result<int>> {
    if (!co_await reactor().Sleep(10ms, &token)) co_return Status::Cancelled("copy stopped");
    co_return 3;
  };
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    reactor().Spawn(gate, [&]() -> Task<void> {
      EXPECT_EQ((co_await WithDeadline(reactor(), In(11ms), nullptr, work)).value(), 3);
    });
    reactor().Spawn(gate, [&]() -> Task<void> {
      const auto late = co_await WithDeadline(reactor(), In(9ms), nullptr, work);
      EXPECT_EQ(late.status(), Status::DeadlineExceeded("the deadline passed: copy stopped"));
    });
    CancelToken parent;
    reactor().Spawn(gate, [&]() -> Task<void> {
      const auto stopped = co_await WithDeadline(reactor(), kNever, &parent, work);
      EXPECT_EQ(stopped.status(), Status::Cancelled("copy stopped"));
    });
    co_await Settle();
    co_await Advance(1ms);
    parent.Cancel();
    co_await Advance(8ms);
    co_await Advance(1ms);
    co_await gate.Close();
  });
}

// The heap against a sorted list, with random arming and cancelling.
TEST(TimerHeapTest, AgreesWithASortedList) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("FOREBAY_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  struct Recorded : TimerNode {
    Recorded() : TimerNode([](TimerNode& node) {
      auto& self = static_cast<Recorded&>(node);
      self.fired->push_back(self.id);
    }) {}
    int id = 0;
    std::vector<int>* fired = nullptr;
  };
  TimerHeap heap;
  std::vector<int> fired;
  std::vector<Recorded> nodes(300);
  std::vector<std::pair<TimePoint, int>> expected;  // in order of arming
  for (int step = 0, id = 0; step < 5000; ++step) {
    Recorded& node = nodes[random() % nodes.size()];
    if (node.armed()) {
      heap.Cancel(node);
      std::erase_if(expected, [&](const auto& entry) { return entry.second == node.id; });
    } else if (random() % 4 != 0) {
      node.id = id++;
      node.fired = &fired;
      const TimePoint when(Duration(random() % 100));
      heap.Arm(node, when);
      expected.emplace_back(when, node.id);
    }
    if (step % 500 == 499) {
      const TimePoint now(Duration(random() % 100));
      std::sort(expected.begin(), expected.end());  // by time, then by order of arming
      std::vector<int> due;
      for (const auto& [when, of] : expected) {
        if (when <= now) due.push_back(of);
      }
      std::erase_if(expected, [&](const auto& entry) { return entry.first <= now; });
      fired.clear();
      EXPECT_EQ(heap.FireDue(now), due.size());
      ASSERT_EQ(fired, due);
      ASSERT_EQ(heap.size(), expected.size());
      std::sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    }
  }
  for (Recorded& node : nodes) heap.Cancel(node);
}

}  // namespace
}  // namespace forebay::rt
