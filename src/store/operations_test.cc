// SPDX-License-Identifier: Apache-2.0
#include "store/operations.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "rt/reactor.h"
#include "store/memory_store.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

using namespace std::chrono_literals;

TEST(OperationClock, GoesOnWithTheMonotonicClockWhateverTheWallClockDoes) {
  base::FakeClock clock;  // its wall clock stands at 1,700,000,001 s
  const OperationClock operations(clock);
  EXPECT_EQ(operations.NowMs(), 1'700'000'001'000U);
  clock.JumpWall(-24h * 365);
  EXPECT_EQ(operations.NowMs(), 1'700'000'001'000U);
  clock.JumpWall(24h * 365 * 2);
  clock.Advance(90s);
  EXPECT_EQ(operations.NowMs(), 1'700'000'091'000U);
}

TEST(OperationClock, BeginsNoEarlierThanItIsTold) {
  base::FakeClock clock;
  EXPECT_EQ(OperationClock(clock, 1'600'000'000'000).NowMs(), 1'700'000'001'000U);
  EXPECT_EQ(OperationClock(clock, 1'800'000'000'000).NowMs(), 1'800'000'000'000U);
  const OperationClock last(clock, OperationId::kMaxUnixMs);
  clock.Advance(1s);
  EXPECT_EQ(last.NowMs(), OperationId::kMaxUnixMs);
}

TEST(Operation, AFingerprintTellsWhereOnePartEnds) {
  const auto reactor = *rt::Reactor::Create();
  const Context context{.reactor = *reactor};
  const auto of = [&](std::string_view bucket, std::string_view key) {
    return DeleteOperation(context, bucket, key, {}, 0).fingerprint;
  };
  EXPECT_EQ(of("ab", "c"), of("ab", "c"));
  EXPECT_NE(of("ab", "c"), of("a", "bc"));
}

TEST(OperationRecord, CutsALongMessageBetweenCharacters) {
  std::string message(kMaxRefusalBytes - 1, 'x');
  message += "\u00e9\u00e9";  // two bytes each
  const OperationRecord record = RecordOf({}, Status(Code::kNotFound, message), nullptr, 0);
  EXPECT_EQ(record.refusal.code(), Code::kNotFound);
  EXPECT_EQ(record.refusal.message(), std::string(kMaxRefusalBytes - 1, 'x'));
}

/// The memory store on a clock that stands still.
class MemoryOperationsTest : public testing::Test {
 protected:
  OperationId NewId() { return OperationId::Generate(store_.operation_time_ms(), random_); }
  Status Create(const OperationId& id, const std::string& name) {
    const Context context{.reactor = *reactor_, .operation = id};
    return reactor_->BlockOn(store_.CreateBucket(context, {.name = name}));
  }
  Status Delete(const std::string& name) {
    const Context context{.reactor = *reactor_};
    return reactor_->BlockOn(store_.DeleteBucket(context, name));
  }

  base::FakeClock clock_;
  base::SeededRandom random_{1};
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(base::Arena::kMaxAllocation);
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create({.clock = &clock_});
  MemoryStore store_{*arena_, clock_, 3};
};

TEST_F(MemoryOperationsTest, KeepsResultsForTheRetentionAndThenRefusesTheId) {
  const OperationId id = NewId();
  ASSERT_TRUE(Is(Create(id, "once"), Code::kOk));
  ASSERT_TRUE(Is(Delete("once"), Code::kOk));
  clock_.Advance(kOperationRetention);
  EXPECT_TRUE(Is(Create(id, "once"), Code::kOk));  // the first result
  clock_.Advance(1ms);
  ASSERT_TRUE(Is(Create(NewId(), "other"), Code::kOk));  // lets go of it
  EXPECT_TRUE(Is(Create(id, "once"), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(Delete("once"), Code::kNotFound));
}

TEST_F(MemoryOperationsTest, RefusesMoreThanTheLimitUntilTheOldestAreOver) {
  const OperationId first = NewId();
  ASSERT_TRUE(Is(Create(first, "bucket-1"), Code::kOk));
  ASSERT_TRUE(Is(Create(NewId(), "bucket-2"), Code::kOk));
  ASSERT_TRUE(Is(Create(NewId(), "bucket-3"), Code::kOk));
  EXPECT_TRUE(Is(Create(NewId(), "bucket-4"), Code::kResourceExhausted));
  EXPECT_TRUE(Is(Create(first, "bucket-1"), Code::kOk));
  EXPECT_TRUE(Is(Create(OperationId(), "bucket-5"), Code::kOk));
  clock_.Advance(kOperationRetention + 1ms);
  EXPECT_TRUE(Is(Create(NewId(), "bucket-4"), Code::kOk));
}

}  // namespace
}  // namespace forebay::store
