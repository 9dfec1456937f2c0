// SPDX-License-Identifier: Apache-2.0
#include "fabric/region_table.h"

#include <gtest/gtest.h>

namespace forebay::fabric {
namespace {

constexpr base::TimePoint kNow{std::chrono::seconds(100)};

class RegionTableTest : public testing::Test {
 protected:
  Refusal Check(uint64_t key, uint64_t offset, uint64_t length, Direction direction = Direction::kPeerWrites,
                base::TimePoint now = kNow) {
    return table_.Check(key, offset, length, direction, now).refusal;
  }

  base::SeededRandom random_{1};
  RegionTable table_{random_, 4};
  Bytes memory_ = Bytes(100);
};

TEST_F(RegionTableTest, GivesExactlyTheAskedRange) {
  const RegionToken token = *table_.Offer(memory_, Direction::kPeerWrites, base::kNever);
  const auto access = table_.Check(token.key, 10, 20, Direction::kPeerWrites, kNow);
  EXPECT_EQ(access.refusal, Refusal::kNone);
  EXPECT_EQ(access.memory.data(), memory_.data() + 10);
  EXPECT_EQ(access.memory.size(), 20u);
}

TEST_F(RegionTableTest, NamesEachReason) {
  const RegionToken token =
      *table_.Offer(memory_, Direction::kPeerWrites, kNow + std::chrono::seconds(1));
  EXPECT_EQ(Check(token.key + 1, 0, 1), Refusal::kUnknownKey);
  EXPECT_EQ(Check(token.key, 100, 1), Refusal::kOutOfRange);
  EXPECT_EQ(Check(token.key, UINT64_MAX, 2), Refusal::kOutOfRange);
  EXPECT_EQ(Check(token.key, 0, 1, Direction::kPeerReads), Refusal::kWrongDirection);
  EXPECT_EQ(Check(token.key, 0, 1, Direction::kPeerWrites, kNow + std::chrono::seconds(1)), Refusal::kExpired);
  EXPECT_TRUE(table_.Remove(token.key));
  EXPECT_FALSE(table_.Remove(token.key));
  EXPECT_EQ(Check(token.key, 0, 1), Refusal::kWithdrawn);
  EXPECT_EQ(table_.refused(), 6u);
  for (uint16_t code = 1; code <= kMaxRefusal; ++code) {
    EXPECT_EQ(RefusalStatus(static_cast<Refusal>(code), 1, 2).code(), Code::kPermissionDenied);
  }
}

TEST_F(RegionTableTest, OnlyBrokenRulesMakeAnAbuser) {
  const RegionToken token = *table_.Offer(memory_, Direction::kPeerWrites, kNow);
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(Check(token.key, 0, 1), Refusal::kExpired);
  EXPECT_FALSE(table_.abused());
  for (uint32_t i = 0; i < RegionTable::kMaxViolations; ++i) Check(token.key, 1000, 1);
  EXPECT_FALSE(table_.abused());
  Check(token.key, 1000, 1);
  EXPECT_TRUE(table_.abused());
}

TEST_F(RegionTableTest, ForgetsTheOldestWithdrawnKeys) {
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < RegionTable::kRememberedKeys + 1; ++i) {
    keys.push_back(table_.Offer(memory_, Direction::kPeerWrites, base::kNever)->key);
    EXPECT_TRUE(table_.Remove(keys.back()));
  }
  EXPECT_EQ(Check(keys[0], 0, 1), Refusal::kUnknownKey);
  EXPECT_EQ(Check(keys[1], 0, 1), Refusal::kWithdrawn);
  EXPECT_EQ(Check(keys.back(), 0, 1), Refusal::kWithdrawn);
}

}  // namespace
}  // namespace forebay::fabric
