// SPDX-License-Identifier: Apache-2.0
#include "engine/allocator.h"

#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/superblock.h"

namespace forebay::engine {
namespace {

constexpr uint64_t kDataUnits = kDataStart / device::kUnit;

Allocator Make(std::vector<uint64_t> sizes) {
  std::vector<Allocator::DeviceSpace> spaces;
  for (const uint64_t size : sizes) spaces.push_back({.size_bytes = size, .data_start = kDataStart});
  return Allocator(spaces);
}

TEST(AllocatorTest, HandsOutTheDataAreaOnceAndNothingElse) {
  Allocator allocator = Make({2 * base::kMiB + 3 * device::kUnit});
  EXPECT_EQ(allocator.capacity_bytes(), base::kMiB + 3 * device::kUnit);
  std::set<uint64_t> units;
  while (true) {
    const Result<UnitRun> run = allocator.Reserve(7);
    if (!run.ok()) {
      EXPECT_EQ(run.status().code(), Code::kResourceExhausted);
      break;
    }
    for (uint64_t unit = run->first_unit; unit < run->first_unit + run->units; ++unit)
      EXPECT_TRUE(units.insert(unit).second) << unit;
  }
  EXPECT_EQ(units.size(), 259U);  // 256 of the MiB and 3
  EXPECT_EQ(*units.begin(), kDataUnits);
  EXPECT_EQ(*units.rbegin(), kDataUnits + 258);
  EXPECT_EQ(allocator.free_bytes(), 0U);
}

TEST(AllocatorTest, CountsEachDevice) {
  Allocator allocator = Make({2 * base::kMiB, 3 * base::kMiB});
  const auto used = [&](size_t device) { return allocator.devices()[device].used_bytes; };
  ASSERT_EQ(allocator.devices().size(), 2U);
  EXPECT_EQ(allocator.devices()[0].capacity_bytes, base::kMiB);  // without the head
  EXPECT_EQ(allocator.devices()[1].capacity_bytes, 2 * base::kMiB);
  const UnitRun first = *allocator.Reserve(5);
  const UnitRun second = *allocator.Reserve(7);
  EXPECT_EQ(used(first.device), 5 * device::kUnit);
  EXPECT_EQ(used(second.device), 7 * device::kUnit);
  allocator.Release(first);
  EXPECT_EQ(used(first.device), 0U);
  EXPECT_EQ(used(second.device), 7 * device::kUnit);
}

TEST(AllocatorTest, GivesSmallerRunsWhenTheFreeSpaceIsScattered) {
  Allocator allocator = Make({2 * base::kMiB});
  std::vector<UnitRun> runs;
  for (int i = 0; i < 64; ++i) runs.push_back(*allocator.Reserve(4));
  for (size_t i = 0; i < runs.size(); i += 2) allocator.Release(runs[i]);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(allocator.Reserve(100)->units, 4U);
  EXPECT_FALSE(allocator.Reserve(1).ok());
}

TEST(AllocatorTest, TakesDevicesInTurn) {
  Allocator allocator = Make({8 * base::kMiB, 8 * base::kMiB, 8 * base::kMiB});
  for (uint32_t i = 0; i < 9; ++i) EXPECT_EQ(allocator.Reserve(64)->device, i % 3);
}

TEST(AllocatorTest, AFullDeviceLeavesItsTurnToTheOthers) {
  Allocator allocator = Make({2 * base::kMiB, 64 * base::kMiB});
  uint64_t units = 0;
  while (allocator.Reserve(16).ok()) units += 16;
  EXPECT_EQ(units * device::kUnit, 64 * base::kMiB);  // two heads of 1 MiB less
}

TEST(AllocatorTest, SmallAndLargeReservationsComeFromDifferentGroups) {
  Allocator allocator = Make({160 * base::kMiB});
  std::set<uint64_t> small, large;
  for (int i = 0; i < 100; ++i) {
    small.insert(allocator.Reserve(1)->first_unit / kGroupUnits);
    large.insert(allocator.Reserve(64)->first_unit / kGroupUnits);
  }
  for (const uint64_t group : small) EXPECT_FALSE(large.contains(group));
}

TEST(AllocatorTest, SmallOnesMoveToTheGroupThatWasZeroed) {
  Allocator allocator = Make({160 * base::kMiB});
  EXPECT_FALSE(allocator.BeginZeroing().has_value()) << "nobody writes small";
  ASSERT_TRUE(allocator.Reserve(1).ok());
  const std::optional<UnitRun> group = allocator.BeginZeroing();
  ASSERT_TRUE(group.has_value());
  EXPECT_FALSE(allocator.BeginZeroing().has_value()) << "one at a time";
  const uint64_t meanwhile = allocator.Reserve(1)->first_unit;
  EXPECT_NE(meanwhile / kGroupUnits, group->first_unit / kGroupUnits);
  allocator.EndZeroing(*group, true);
  EXPECT_EQ(allocator.Reserve(1)->first_unit, group->first_unit);
  EXPECT_FALSE(allocator.BeginZeroing().has_value()) << "there is enough";
}

TEST(AllocatorTest, ReleasedUnitsComeBack) {
  Allocator allocator = Make({64 * base::kMiB});
  const uint64_t free = allocator.free_bytes();
  std::vector<UnitRun> runs;
  for (int i = 0; i < 10; ++i) runs.push_back(*allocator.Reserve(1024));
  EXPECT_EQ(allocator.free_bytes(), free - 40 * base::kMiB);
  for (const UnitRun& run : runs) allocator.Release(run);
  EXPECT_EQ(allocator.free_bytes(), free);
}

TEST(AllocatorTest, LoadsWhatTheRowsSay) {
  Allocator allocator = Make({64 * base::kMiB});
  GroupBitmap bitmap{};
  bitmap[1] = 0xff;
  ASSERT_TRUE(allocator.Load({.device = 0, .group = 2}, bitmap).ok());
  EXPECT_TRUE(allocator.IsTaken(0, 2 * kGroupUnits + 64));
  EXPECT_TRUE(allocator.IsTaken(0, 2 * kGroupUnits + 71));
  EXPECT_FALSE(allocator.IsTaken(0, 2 * kGroupUnits + 72));
  EXPECT_EQ(allocator.free_bytes(), 63 * base::kMiB - 8 * device::kUnit);
}

TEST(AllocatorTest, RefusesRowsThatNameUnitsWhichAreNotThere) {
  Allocator allocator = Make({20 * base::kMiB});
  GroupBitmap bitmap{};
  bitmap[0] = 1;
  EXPECT_EQ(allocator.Load({.device = 1, .group = 0}, bitmap).code(), Code::kDataLoss);
  EXPECT_EQ(allocator.Load({.device = 0, .group = 2}, bitmap).code(), Code::kDataLoss);
  EXPECT_EQ(allocator.Load({.device = 0, .group = 0}, bitmap).code(), Code::kDataLoss) << "the superblock";
  bitmap = {};
  bitmap.back() = 1;
  EXPECT_EQ(allocator.Load({.device = 0, .group = 1}, bitmap).code(), Code::kDataLoss) << "beyond the end";
}

TEST(AllocatorTest, RandomReservationsNeverOverlapAndAllComeBack) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20260101;
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  base::SeededRandom random(seed);
  Allocator allocator = Make({40 * base::kMiB, 24 * base::kMiB});
  std::set<std::pair<uint32_t, uint64_t>> taken;
  std::vector<UnitRun> runs;
  std::optional<UnitRun> zeroing;
  for (int step = 0; step < 5000; ++step) {
    if (random.Below(10) < 6) {
      const auto want = static_cast<uint32_t>(1 + random.Below(random.Below(2) == 0 ? 15 : 1024));
      const Result<UnitRun> run = allocator.Reserve(want);
      if (!run.ok()) continue;
      ASSERT_LE(run->units, want);
      ASSERT_EQ(run->first_unit / kGroupUnits, (run->first_unit + run->units - 1) / kGroupUnits);
      for (uint64_t unit = run->first_unit; unit < run->first_unit + run->units; ++unit)
        ASSERT_TRUE(taken.emplace(run->device, unit).second) << "step " << step;
      runs.push_back(*run);
    } else if (!runs.empty()) {
      std::swap(runs[random.Below(runs.size())], runs.back());
      for (uint64_t unit = runs.back().first_unit; unit < runs.back().first_unit + runs.back().units; ++unit)
        taken.erase({runs.back().device, unit});
      allocator.Release(runs.back());
      runs.pop_back();
    }
    if (zeroing) allocator.EndZeroing(*std::exchange(zeroing, std::nullopt), random.Below(2) == 0);
    zeroing = allocator.BeginZeroing();
    ASSERT_EQ(allocator.capacity_bytes() - allocator.free_bytes(), taken.size() * device::kUnit)
        << "step " << step;
  }
  for (const UnitRun& run : runs) allocator.Release(run);
  EXPECT_EQ(allocator.free_bytes(), allocator.capacity_bytes());
}

}  // namespace
}  // namespace forebay::engine
