// SPDX-License-Identifier: Apache-2.0
#include "engine/epochs.h"

#include <algorithm>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

namespace forebay::engine {
namespace {

UnitRun RunAt(uint64_t unit) { return {.device = 0, .first_unit = unit, .units = 1}; }

class EpochTest : public testing::Test {
 protected:
  std::vector<uint64_t> reclaimed_;
  EpochSet epochs_{[this](const UnitRun& run) { reclaimed_.push_back(run.first_unit); }};
};

TEST_F(EpochTest, WithoutReadersWhatIsRetiredIsFreeAtOnce) {
  epochs_.Retire({RunAt(1), RunAt(2)});
  EXPECT_EQ(reclaimed_, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(epochs_.retired(), 0U);
}

TEST_F(EpochTest, AReaderThatCameBeforeHoldsIt) {
  std::optional<EpochSet::Guard> reader = epochs_.Enter();
  epochs_.Retire({RunAt(1)});
  epochs_.Collect();
  EXPECT_TRUE(reclaimed_.empty());
  EXPECT_EQ(epochs_.retired(), 1U);
  reader.reset();
  EXPECT_EQ(reclaimed_, (std::vector<uint64_t>{1}));
}

TEST_F(EpochTest, LaterReadersDoNotKeepItForEver) {
  std::optional<EpochSet::Guard> first = epochs_.Enter();
  epochs_.Retire({RunAt(1)});
  std::optional<EpochSet::Guard> second = epochs_.Enter();
  first.reset();
  // Each reader leaves only when the next one is there.
  for (int i = 0; i < 3; ++i) {
    std::optional<EpochSet::Guard> next = epochs_.Enter();
    second.swap(next);
    next.reset();
  }
  EXPECT_EQ(reclaimed_, (std::vector<uint64_t>{1}));
}

TEST_F(EpochTest, WhatWasRetiredBeforeAReaderCameIsNotHeldByIt) {
  epochs_.Retire({RunAt(1)});
  const EpochSet::Guard reader = epochs_.Enter();
  epochs_.Retire({RunAt(2)});
  EXPECT_EQ(reclaimed_, (std::vector<uint64_t>{1}));
}

TEST_F(EpochTest, WhoLeavesDoesNotReclaimAllThatWasHeldAtOnce) {
  std::optional<EpochSet::Guard> reader = epochs_.Enter();
  constexpr uint64_t kRuns = 5000;
  for (uint64_t i = 0; i < kRuns; ++i) epochs_.Retire({RunAt(i)});
  EXPECT_EQ(epochs_.retired(), kRuns);
  reader.reset();
  EXPECT_LT(reclaimed_.size(), kRuns / 2);
  EXPECT_GT(reclaimed_.size(), 0U);
  for (int others = 0; others < 5; ++others) (void)epochs_.Enter();
  EXPECT_EQ(reclaimed_.size(), kRuns);
  EXPECT_TRUE(std::ranges::is_sorted(reclaimed_));
  EXPECT_EQ(epochs_.retired(), 0U);
  reader = epochs_.Enter();
  for (uint64_t i = 0; i < kRuns; ++i) epochs_.Retire({RunAt(i)});
  reader.reset();
  epochs_.Collect();
  EXPECT_EQ(reclaimed_.size(), 2 * kRuns);
}

TEST(EpochThreadsTest, NothingIsReclaimedUnderAReader) {
  // A slot is alive while it is published; reclaiming ends its life. Readers must never find a published slot
  // dead.
  constexpr size_t kSlots = 4096;
  std::vector<std::atomic<bool>> alive(kSlots);
  for (auto& slot : alive) slot = true;
  std::atomic<uint64_t> published{0};
  EpochSet epochs([&](const UnitRun& run) { alive[run.first_unit] = false; });
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const EpochSet::Guard guard = epochs.Enter();
        const uint64_t slot = published.load();
        for (int look = 0; look < 20; ++look)
          if (!alive[slot]) ++wrong;
      }
    });
  }
  for (uint64_t slot = 1; slot < kSlots; ++slot) {
    const uint64_t old = published.exchange(slot);
    epochs.Retire({RunAt(old)});
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  epochs.Collect();
  EXPECT_EQ(epochs.retired(), 0U);
}

}  // namespace
}  // namespace forebay::engine
