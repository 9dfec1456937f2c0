// SPDX-License-Identifier: Apache-2.0
#include "rt/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rt/reactor_fixture.h"
#include "rt/when_all.h"

namespace forebay::rt {
namespace {

using TaskTest = ReactorTest;

Task<int> Answer() { co_return 42; }

Task<int> Twice(Task<int> task) { co_return 2 * co_await std::move(task); }

TEST_F(TaskTest, GivesItsValue) {
  EXPECT_EQ(reactor().BlockOn(Answer()), 42);
  EXPECT_EQ(reactor().BlockOn(Twice(Answer())), 84);
}

TEST_F(TaskTest, GivesMoveOnlyAndNotDefaultConstructibleValues) {
  struct Named {
    explicit Named(std::string given) : name(std::move(given)) {}
    std::string name;
  };
  auto made = reactor().BlockOn([]() -> Task<std::unique_ptr<Named>> { co_return std::make_unique<Named>("extent"); });
  EXPECT_EQ(made->name, "extent");
  EXPECT_EQ(reactor().BlockOn([]() -> Task<Named> { co_return Named("region"); }).name, "region");
}

TEST_F(TaskTest, RunsOnlyWhenAwaited) {
  bool ran = false;
  auto mark = [](bool* flag) -> Task<void> {
    *flag = true;
    co_return;
  };
  {
    Task<void> dropped = mark(&ran);
    EXPECT_TRUE(dropped.valid());
  }
  EXPECT_FALSE(ran);
  reactor().BlockOn(mark(&ran));
  EXPECT_TRUE(ran);
}

TEST_F(TaskTest, DroppingAnUnstartedTaskDestroysItsArguments) {
  auto argument = std::make_shared<int>(7);
  auto hold = [](std::shared_ptr<int> held) -> Task<int> { co_return *held; };
  {
    auto task = hold(argument);
    EXPECT_EQ(argument.use_count(), 2);
  }
  EXPECT_EQ(argument.use_count(), 1);
}

TEST_F(TaskTest, CarriesStatusAndResultThroughTheMacros) {
  auto fails = [](bool fail) -> Task<Result<int>> {
    if (fail) co_return Status::NotFound("object `a/b` does not exist");
    co_return 5;
  };
  auto sum = [](auto part, bool fail) -> Task<Result<int>> {
    FB_CO_ASSIGN(const int first, co_await part(false));
    FB_CO_ASSIGN(const int second, co_await part(fail));
    co_return first + second;
  };
  EXPECT_EQ(reactor().BlockOn(sum(fails, false)).value(), 10);
  EXPECT_EQ(reactor().BlockOn(sum(fails, true)).status(), Status::NotFound("object `a/b` does not exist"));
}

// Destroys in this order: the callee's locals, the callee's arguments, then the caller's locals.
TEST_F(TaskTest, DestroysFramesFromTheInsideOut) {
  struct Trace {
    Trace(std::vector<std::string>* to, std::string given) : log(to), name(std::move(given)) {}
    Trace(Trace&& other) noexcept : log(std::exchange(other.log, nullptr)), name(std::move(other.name)) {}
    ~Trace() {
      if (log != nullptr) log->push_back(name);
    }
    std::vector<std::string>* log;
    std::string name;
  };
  std::vector<std::string> log;
  auto inner = [](std::vector<std::string>* to, Trace) -> Task<void> {
    Trace local(to, "inner local");
    co_return;
  };
  reactor().BlockOn([&]() -> Task<void> {
    Trace outer(&log, "outer local");
    co_await inner(&log, Trace(&log, "inner argument"));
    log.emplace_back("back in outer");
  });
  EXPECT_EQ(log, (std::vector<std::string>{"inner local", "inner argument", "back in outer", "outer local"}));
}

TEST_F(TaskTest, AwaitsAMillionTasksInALoopWithoutUsingStack) {
  auto one = [](int value) -> Task<int> { co_return value; };
  auto sum = reactor().BlockOn([&]() -> Task<int64_t> {
    int64_t total = 0;
    for (int i = 0; i < 1'000'000; ++i) total += co_await one(1);
    co_return total;
  });
  EXPECT_EQ(sum, 1'000'000);
}

Task<int64_t> Depth(int64_t depth) {
  if (depth == 0) co_return 0;
  co_return 1 + co_await Depth(depth - 1);
}

TEST_F(TaskTest, NestsAHundredThousandDeepWithoutUsingStack) { EXPECT_EQ(reactor().BlockOn(Depth(100'000)), 100'000); }

TEST_F(TaskTest, MayBeMadeOnOneThreadAndRunOnAnother) {
  Task<int> task = Twice(Answer());
  int result = 0;
  std::thread([&] {
    auto other = Reactor::Create().value();
    result = other->BlockOn(std::move(task));
  }).join();
  EXPECT_EQ(result, 84);
}

using TaskDeathTest = ReactorTest;

TEST_F(TaskDeathTest, AnExceptionThatLeavesATaskEndsTheProcessAndIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(reactor().BlockOn([]() -> Task<void> {
    throw std::runtime_error("lost page");
    co_return;
  }),
               "an exception left a coroutine: lost page");
}

TEST_F(TaskTest, WhenAllGivesResultsInOrderOfTheTasks) {
  auto later = [](Reactor& reactor, int turns, int value) -> Task<int> {
    for (int i = 0; i < turns; ++i) co_await reactor.Yield();
    co_return value;
  };
  std::vector<Task<int>> tasks;
  tasks.push_back(later(reactor(), 3, 10));
  tasks.push_back(later(reactor(), 0, 20));
  tasks.push_back(later(reactor(), 1, 30));
  EXPECT_EQ(reactor().BlockOn(WhenAll(std::move(tasks))), (std::vector<int>{10, 20, 30}));
}

TEST_F(TaskTest, WhenAllRunsConcurrently) {
  std::vector<std::string> log;
  auto steps = [](Reactor& reactor, std::vector<std::string>* to, std::string name) -> Task<void> {
    to->push_back(name + "1");
    co_await reactor.Yield();
    to->push_back(name + "2");
  };
  std::vector<Task<void>> tasks;
  tasks.push_back(steps(reactor(), &log, "a"));
  tasks.push_back(steps(reactor(), &log, "b"));
  reactor().BlockOn(WhenAll(std::move(tasks)));
  EXPECT_EQ(log, (std::vector<std::string>{"a1", "b1", "a2", "b2"}));
}

TEST_F(TaskTest, WhenAllOfNothingIsDoneAtOnce) {
  EXPECT_TRUE(reactor().BlockOn(WhenAll(std::vector<Task<int>>())).empty());
  reactor().BlockOn(WhenAll(std::vector<Task<void>>()));
}

}  // namespace
}  // namespace forebay::rt
