// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <vector>

#include "base/random.h"
#include "engine/object_cache.h"
#include "engine/tier.h"

namespace forebay::engine {
namespace {

ObjectStatePtr State(const std::string& key, uint64_t version) {
  auto state = std::make_shared<ObjectState>();
  state->bucket = 1;
  state->info.key = key;
  state->info.version = version;
  return state;
}

TEST(ObjectCacheTest, GivesWhatWasLoaded) {
  ObjectCache cache(base::kMiB);
  const ObjectCache::Found miss = cache.Lookup(1, "key");
  EXPECT_EQ(miss.state, nullptr);
  cache.Insert(State("key", 5), miss.generation);
  EXPECT_EQ(cache.Lookup(1, "key").state->info.version, 5U);
  EXPECT_EQ(cache.Lookup(2, "key").state, nullptr);
}

TEST(ObjectCacheTest, AChangeHidesTheOldVersionAtOnceAndShowsTheNewOneAtItsEnd) {
  ObjectCache cache(base::kMiB);
  cache.Insert(State("key", 5), cache.Lookup(1, "key").generation);
  cache.BeginChange(1, "key");
  EXPECT_EQ(cache.Lookup(1, "key").state, nullptr);
  cache.EndChange(1, "key", State("key", 6));
  EXPECT_EQ(cache.Lookup(1, "key").state->info.version, 6U);
}

TEST(ObjectCacheTest, WhatWasLoadedBeforeAChangeCannotComeInAfterIt) {
  ObjectCache cache(base::kMiB);
  const uint64_t generation = cache.Lookup(1, "key").generation;
  cache.BeginChange(1, "key");
  cache.EndChange(1, "key", nullptr);  // a delete
  cache.Insert(State("key", 5), generation);
  EXPECT_EQ(cache.Lookup(1, "key").state, nullptr);
}

TEST(ObjectCacheTest, NothingComesInDuringAChange) {
  ObjectCache cache(base::kMiB);
  cache.BeginChange(1, "key");
  cache.Insert(State("key", 5), cache.Lookup(1, "key").generation);
  EXPECT_EQ(cache.Lookup(1, "key").state, nullptr);
  cache.EndChange(1, "key", nullptr);
}

TEST(ObjectCacheTest, OfSeveralChangesInOneGroupTheLastOneCounts) {
  ObjectCache cache(base::kMiB);
  cache.BeginChange(1, "key");
  cache.BeginChange(1, "key");
  cache.EndChange(1, "key", State("key", 6));
  EXPECT_EQ(cache.Lookup(1, "key").state, nullptr) << "not while the other one is on its way";
  cache.EndChange(1, "key", State("key", 7));
  EXPECT_EQ(cache.Lookup(1, "key").state->info.version, 7U);
}

TEST(ObjectCacheTest, StaysWithinItsBytes) {
  ObjectCache cache(64 * 4096);
  int found = 0;
  for (int i = 0; i < 10'000; ++i)
    cache.Insert(State("key" + std::to_string(i), 1), cache.Lookup(1, "key" + std::to_string(i)).generation);
  for (int i = 0; i < 10'000; ++i)
    found += cache.Lookup(1, "key" + std::to_string(i)).state != nullptr ? 1 : 0;
  EXPECT_GT(found, 64);
  EXPECT_LT(found * sizeof(ObjectState), 64 * 4096U);
}

class TierTest : public testing::Test {
 protected:
  base::Buffer Block() { return *arena_->Allocate(65536); }
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(4 * base::kMiB);
};

TEST_F(TierTest, KeepsABlockUntilItIsEvicted) {
  Tier tier(UINT64_MAX);
  const size_t free = arena_->free_bytes();
  tier.Insert({1, 0}, Block());
  EXPECT_EQ(tier.bytes(), 65536U);
  EXPECT_FALSE(tier.Lookup({1, 0}).empty());
  EXPECT_TRUE(tier.Lookup({1, 1}).empty());
  EXPECT_TRUE(tier.EvictOne());
  EXPECT_FALSE(tier.EvictOne());
  EXPECT_TRUE(tier.Lookup({1, 0}).empty());
  EXPECT_EQ(arena_->free_bytes(), free);
}

TEST_F(TierTest, WhatItKeepsIsFrozen) {
  Tier tier(UINT64_MAX);
  tier.Insert({1, 0}, Block());
  EXPECT_NE(tier.Lookup({1, 0}).content_id(), 0U);
}

TEST_F(TierTest, StaysWithinItsBytes) {
  Tier tier(10 * 65536);
  for (uint32_t i = 0; i < 40; ++i) tier.Insert({1, i}, Block());
  EXPECT_EQ(tier.bytes(), 10 * 65536U);
}

/// Against a list that does the same one by one. The blocks lie in one run, and so in one shard; each has a size of its own,
/// which tells which one was evicted.
TEST_F(TierTest, EvictsWhatWasNotUsedForLongest) {
  constexpr uint32_t kBlocks = 8;
  base::SeededRandom random(5);
  Tier tier(UINT64_MAX);
  std::list<uint32_t> model;  // the oldest first
  const auto in_model = [&](uint32_t block) { return std::ranges::count(model, block) != 0; };
  const auto use = [&](uint32_t block) {
    if (std::erase(model, block) != 0) model.push_back(block);
  };
  for (int step = 0; step < 20'000; ++step) {
    const auto first = static_cast<uint32_t>(random.Below(kBlocks));
    const uint64_t before = tier.bytes();
    switch (random.Below(4)) {
      case 0:
        tier.Insert({1, first}, *arena_->Allocate(size_t{4096} << first));
        if (!in_model(first)) model.push_back(first);
        break;
      case 1: {
        const bool any = tier.EvictOne();
        ASSERT_EQ(any, !model.empty());
        if (!any) break;
        ASSERT_EQ(before - tier.bytes(), uint64_t{4096} << model.front()) << "step " << step;
        model.pop_front();
        break;
      }
      default: {
        std::vector<base::Buffer> blocks(1 + random.Below(kBlocks - first));
        tier.LookupRun({1, first}, blocks);
        for (uint32_t i = 0; i < blocks.size(); ++i) {
          const bool here = in_model(first + i);
          ASSERT_EQ(blocks[i].size(), here ? size_t{4096} << (first + i) : 0) << "step " << step;
          use(first + i);
        }
      }
    }
  }
  while (tier.EvictOne()) {
  }
  EXPECT_EQ(arena_->free_bytes(), arena_->size_bytes());
}

TEST_F(TierTest, ARunIsFoundAcrossItsGapsAndNotBeyondIt) {
  Tier tier(UINT64_MAX);
  for (const uint32_t block : {17U, 18U, 20U, 32U}) tier.Insert({1, block}, Block());
  tier.Insert({2, 19}, Block());
  std::array<base::Buffer, Tier::kRunBlocks> blocks;
  tier.LookupRun({1, 16}, blocks);
  for (uint32_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(!blocks[i].empty(), i == 1 || i == 2 || i == 4) << i;
  EXPECT_FALSE(tier.Lookup({1, 32}).empty());
}

TEST_F(TierTest, TakesNothingWhileOthersWaitForMemory) {
  Tier tier(UINT64_MAX);
  tier.HoldInserts();
  tier.Insert({1, 0}, Block());
  EXPECT_EQ(tier.bytes(), 0U);
  tier.ReleaseInserts();
  tier.Insert({1, 0}, Block());
  EXPECT_EQ(tier.bytes(), 65536U);
}

}  // namespace
}  // namespace forebay::engine
