// SPDX-License-Identifier: Apache-2.0
// Operations of the engine on twins, whose clock moves when it is told: batches, clocks, limits, letting go.
#include "engine/operations.h"

#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "engine/fsck.h"
#include "rt/timer.h"

namespace forebay::engine {
namespace {

using namespace std::chrono_literals;
using store::kOperationRetention;

class OperationsTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(twins_.CreateBucket().ok()); }

  OperationId NewId(std::chrono::milliseconds age = 0ms) {
    return OperationId::Generate(twins_.engine().operation_time_ms() - static_cast<uint64_t>(age.count()),
                                 random_);
  }
  store::Context With(const OperationId& id) {
    store::Context context = twins_.context();
    context.operation = id;
    return context;
  }
  Result<store::ObjectInfo> Put(const OperationId& id, const std::string& key,
                                const std::string& content = "content") {
    return twins_.Run([](TwinStore& twins, store::Context context, std::string to,
                         std::string bytes) -> rt::Task<Result<store::ObjectInfo>> {
      FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                   co_await twins.engine().Put(context, "bucket", std::move(to), {}));
      FB_CO_TRY(co_await twins.WriteTask(*writer, bytes));
      co_return co_await writer->Commit(context, std::nullopt);
    }(twins_, With(id), key, content));
  }
  Status Delete(const OperationId& id, const std::string& key) {
    return twins_.Run(twins_.engine().Delete(With(id), "bucket", key, {}));
  }
  uint64_t groups() { return twins_.engine().stats().commits.groups; }
  uint64_t kept() { return twins_.engine().stats().operations; }
  /// Repeats a change that has its result, which may start a sweep each time, until `count` results are left.
  void SweepTo(uint64_t count) {
    for (int i = 0; i < 1'000'000 && kept() > count; ++i) {
      EXPECT_EQ(twins_.Run(twins_.engine().DeleteBucket(With(last_), "none")).code(), Code::kNotFound);
      twins_.Turn(100);
    }
    EXPECT_EQ(kept(), count);
  }
  FsckReport Check() {
    twins_.Close();
    std::vector<std::unique_ptr<device::Device>> lent;
    lent.push_back(std::make_unique<LentDevice>(twins_.disk(), twins_.faults()));
    Devices devices(std::move(lent));
    FsckReport report;
    {
      const auto meta = *meta::MemoryMetaStore::Open(twins_.media(), 0, nullptr);
      report = *twins_.Run(CheckStore(twins_.reactor(), devices, *meta, {}));
    }
    for (const std::string& error : report.errors) ADD_FAILURE() << error;
    EXPECT_TRUE(twins_.TryOpen().ok());
    return report;
  }

  TwinStore twins_{{.engine = {.max_operations = 20'000}}};
  base::SeededRandom random_{5};
  OperationId last_;  // of SweepTo: one that has its result, so that no new one comes
};

TEST_F(OperationsTest, EffectAndResultAreOneGroupAndARetryIsNone) {
  const OperationId id = NewId();
  const uint64_t before = groups();
  const auto first = Put(id, "o");
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(groups(), before + 1);
  const int flushes = twins_.faults().flushes;
  const auto again = Put(id, "o");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->version, first->version);
  EXPECT_EQ(groups(), before + 1);
  EXPECT_EQ(twins_.faults().flushes, flushes);
  EXPECT_EQ(kept(), 1U);
}

TEST_F(OperationsTest, ACommitThatOutlivedItsDeadlineIsFoundByTheRetry) {
  const OperationId id = NewId();
  store::Context context = With(id);
  context.deadline = twins_.clock().Now() + 1s;
  auto writer = *twins_.Run(twins_.engine().Put(context, "bucket", "o", {}));
  ASSERT_TRUE(twins_.Run(twins_.WriteTask(*writer, "content")).ok());
  twins_.faults().hold_flushes = true;
  const auto late = twins_.Run([&]() -> rt::Task<Result<store::ObjectInfo>> {
    rt::Timer timer(twins_.reactor());
    timer.Arm(twins_.clock().Now(), [this] { twins_.clock().Advance(2s); });
    co_return co_await writer->Commit(context, std::nullopt);
  }());
  EXPECT_EQ(late.status().code(), Code::kDeadlineExceeded);
  twins_.faults().hold_flushes = false;
  const auto found = Put(id, "o");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(twins_.Run(twins_.engine().Stat(twins_.context(), "bucket", "o"))->version, found->version);
  EXPECT_EQ(kept(), 1U);
}

TEST_F(OperationsTest, AResultIsLetGoAfterTheRetentionAndItsIdIsNeverActedOnAgain) {
  const OperationId put = NewId();
  const OperationId removed = NewId();
  ASSERT_TRUE(Put(put, "o").ok());
  ASSERT_TRUE(Delete(removed, "o").ok());
  twins_.clock().Advance(kOperationRetention);
  EXPECT_TRUE(Put(put, "o").ok());
  last_ = NewId();
  ASSERT_EQ(twins_.Run(twins_.engine().DeleteBucket(With(last_), "none")).code(), Code::kNotFound);
  twins_.clock().Advance(1s);
  SweepTo(1);
  EXPECT_EQ(Put(put, "o").status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(Check().operations, 1U);
  // Not even by a server whose clock was set back.
  twins_.clock().JumpWall(-24h);
  twins_.Reopen();
  EXPECT_EQ(Put(put, "o").status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(twins_.Get("o").status().code(), Code::kNotFound);
  EXPECT_TRUE(Put(NewId(), "o").ok());
}

TEST_F(OperationsTest, AResultThatCameLateIsKeptAsLong) {
  const OperationId late = NewId(10min);
  last_ = NewId();
  ASSERT_TRUE(Put(late, "o").ok());
  ASSERT_EQ(twins_.Run(twins_.engine().DeleteBucket(With(last_), "none")).code(), Code::kNotFound);
  twins_.clock().Advance(kOperationRetention - 1s);
  for (int i = 0; i < 3; ++i) {  // sweeps that pass it
    ASSERT_EQ(twins_.Run(twins_.engine().DeleteBucket(With(last_), "none")).code(), Code::kNotFound);
    twins_.Turn(100);
  }
  EXPECT_TRUE(Put(late, "o").ok());
  EXPECT_EQ(kept(), 2U);
}

TEST_F(OperationsTest, JumpsOfTheWallClockMoveNothing) {
  const OperationId id = NewId();
  const auto first = Put(id, "o");
  ASSERT_TRUE(first.ok());
  const uint64_t time_ms = twins_.engine().operation_time_ms();
  for (const auto jump : {base::Duration(365 * 24h), base::Duration(-2 * 365 * 24h)}) {
    twins_.clock().JumpWall(jump);
    EXPECT_EQ(twins_.engine().operation_time_ms(), time_ms);
    const auto again = Put(id, "o");
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->version, first->version);
    EXPECT_TRUE(Put(NewId(), "p").ok());
  }
}

TEST_F(OperationsTest, TheTimeGoesOnOverARestartWithAClockThatWasSetBack) {
  const OperationId id = NewId();
  const auto first = Put(id, "o");
  ASSERT_TRUE(first.ok());
  const uint64_t time_ms = twins_.engine().operation_time_ms();
  twins_.clock().JumpWall(-365 * 24h);
  twins_.Reopen();
  EXPECT_EQ(twins_.engine().operation_time_ms(), time_ms);
  EXPECT_EQ(Put(id, "o")->version, first->version);
  EXPECT_TRUE(Put(NewId(), "p").ok());
}

TEST_F(OperationsTest, ARestartWithAClockThatWasSetAheadRefusesOldIdsAndTakesNewOnes) {
  const OperationId unused = NewId();
  const OperationId id = NewId();
  const auto first = Put(id, "o");
  ASSERT_TRUE(first.ok());
  twins_.clock().JumpWall(365 * 24h);
  twins_.Reopen();
  EXPECT_EQ(Put(unused, "o").status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(Put(id, "o")->version, first->version);  // as long as it has not been let go
  EXPECT_TRUE(Put(NewId(), "p").ok());
  twins_.clock().JumpWall(-365 * 24h);
  twins_.Reopen();
  EXPECT_TRUE(Put(NewId(), "p").ok());
}

TEST_F(OperationsTest, ManyAreLetGoAStepAtATime) {
  constexpr int kMany = 9000;  // more than two steps
  const OperationId late = NewId(10min);
  for (int i = 0; i < kMany; ++i) ASSERT_EQ(Delete(NewId(), "none").code(), Code::kNotFound);
  twins_.clock().Advance(5min);
  ASSERT_TRUE(Put(late, "late").ok());  // stands before all, and is not over with them
  twins_.clock().Advance(kOperationRetention - 4min);
  last_ = NewId();
  ASSERT_EQ(twins_.Run(twins_.engine().DeleteBucket(With(last_), "none")).code(), Code::kNotFound);
  SweepTo(2);
  EXPECT_TRUE(Put(late, "late").ok());
  EXPECT_EQ(Check().operations, 2U);
}

TEST_F(OperationsTest, MoreThanTheLimitAreRefusedOverARestartToo) {
  TwinStore small({.engine = {.max_operations = 2}});
  base::SeededRandom random(1);
  const auto create = [&](const std::string& name, bool with_id) {
    store::Context context = small.context();
    if (with_id) context.operation = OperationId::Generate(small.engine().operation_time_ms(), random);
    return small.Run(small.engine().CreateBucket(context, {.name = name})).code();
  };
  EXPECT_EQ(create("first", true), Code::kOk);
  EXPECT_EQ(create("first", true), Code::kAlreadyExists);
  EXPECT_EQ(create("second", true), Code::kResourceExhausted);
  small.Reopen();
  EXPECT_EQ(create("second", true), Code::kResourceExhausted);
  EXPECT_EQ(create("second", false), Code::kOk);
  // It empties by itself: who is refused starts that.
  small.clock().Advance(store::kOperationRetention + 1s);
  Code code = create("third", true);
  EXPECT_EQ(code, Code::kResourceExhausted);
  for (int i = 0; i < 1000 && code != Code::kOk; ++i) {
    small.Turn(100);
    code = create("third", true);
  }
  EXPECT_EQ(code, Code::kOk);
}

TEST_F(OperationsTest, ARetryGetsItsResultFromAFullStore) {
  const OperationId id = NewId();
  const std::string content = RandomContent(1, 4 << 20);
  const auto first = Put(id, "o", content);
  ASSERT_TRUE(first.ok());
  int fillers = 0;
  while (twins_.Put("filler" + std::to_string(fillers), content).ok()) ASSERT_LT(++fillers, 100);
  EXPECT_EQ(Put(NewId(), "p", content).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(Put(id, "o", content)->version, first->version);
}

TEST_F(OperationsTest, FsckCountsTheResults) {
  ASSERT_TRUE(Put(NewId(), "o").ok());
  ASSERT_TRUE(Put(NewId(), "p").ok());
  EXPECT_EQ(Check().operations, 2U);
}

}  // namespace
}  // namespace forebay::engine
