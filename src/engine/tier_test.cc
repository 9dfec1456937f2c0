// SPDX-License-Identifier: Apache-2.0
#include "engine/tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"

namespace forebay::engine {
namespace {

constexpr uint64_t kPage = base::Arena::kPage;

class TierTest : public testing::Test {
 protected:
  base::Buffer Block(size_t size = 65536) { return *arena_->Allocate(size); }
  /// A page, as the only block of its extent.
  void Insert(Tier& tier, uint64_t extent) { tier.Insert({extent, 0}, Block(kPage)); }
  void InsertAll(Tier& tier, uint64_t begin, uint64_t end) {
    for (uint64_t extent = begin; extent < end; ++extent) Insert(tier, extent);
  }
  static bool Use(Tier& tier, uint64_t extent) { return !tier.Lookup({extent, 0}).empty(); }
  /// Eight blocks in the main queue, 0 to 7, and none in the small one, by way of the ghosts.
  void FillMain(Tier& tier, size_t size = kPage) {
    for (const uint64_t extent : {0, 1000, 0}) {
      for (uint64_t i = 0; i < 8; ++i) tier.Insert({extent + i, 0}, Block(size));
      if (tier.stats().inserted == 8) continue;
      for (uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(tier.EvictOne());  // the last one is a ninth of what is held
    }
    EXPECT_EQ(tier.stats().ghost_hits, 8U);
    EXPECT_EQ(tier.stats().evicted_small, 16U);
    EXPECT_EQ(tier.bytes(), 8 * size);
  }

  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(8 * base::kMiB);
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

TEST_F(TierTest, WhoReadsAnEvictedBlockKeepsItsMemory) {
  Tier tier(UINT64_MAX);
  const size_t free = arena_->free_bytes();
  tier.Insert({1, 0}, Block());
  base::Buffer read = tier.Lookup({1, 0});
  EXPECT_TRUE(tier.EvictOne());
  EXPECT_EQ(arena_->free_bytes(), free - 65536);
  read = {};
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

TEST_F(TierTest, WhatNobodyUsesLeavesInTheOrderInWhichItCame) {
  Tier tier(UINT64_MAX);
  InsertAll(tier, 0, 50);  // over all shards
  for (uint64_t i = 0; i < 50; ++i) {
    const uint64_t before = tier.bytes();
    EXPECT_TRUE(tier.EvictOne());
    EXPECT_EQ(tier.bytes(), before - kPage);
    EXPECT_FALSE(Use(tier, i)) << i;
  }
  EXPECT_EQ(tier.stats().evicted_small, 50U);
  EXPECT_EQ(tier.stats().evicted_main, 0U);
}

TEST_F(TierTest, WhatWasUsedGoesOnToTheMainQueue) {
  Tier tier(UINT64_MAX);
  InsertAll(tier, 0, 3);
  EXPECT_TRUE(Use(tier, 0));
  EXPECT_TRUE(tier.EvictOne());
  EXPECT_EQ(tier.stats().promoted, 1U);
  EXPECT_EQ(tier.stats().evicted_small, 1U);
  EXPECT_FALSE(Use(tier, 1));
  EXPECT_TRUE(tier.EvictOne());  // the small queue goes first, as long as it has more than a tenth
  EXPECT_FALSE(Use(tier, 2));
  EXPECT_TRUE(Use(tier, 0));
  EXPECT_TRUE(tier.EvictOne());
  EXPECT_EQ(tier.stats().evicted_main, 1U);
  EXPECT_EQ(tier.bytes(), 0U);
}

TEST_F(TierTest, WhatComesBackSoonGoesRightIntoTheMainQueue) {
  Tier tier(UINT64_MAX);
  InsertAll(tier, 0, 3);
  EXPECT_TRUE(tier.EvictOne());  // 0
  Insert(tier, 0);
  EXPECT_EQ(tier.stats().ghost_hits, 1U);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(tier.EvictOne());
  EXPECT_TRUE(Use(tier, 0)) << "the others, in the small queue, went before";
  EXPECT_EQ(tier.stats().inserted, 4U);
}

TEST_F(TierTest, AGhostIsForgottenAfterAsManyAsThereAreBlocks) {
  Tier tier(UINT64_MAX);
  InsertAll(tier, 0, 4);
  for (uint64_t i = 4; i < 9; ++i) {  // 0 to 4 leave, three are held meanwhile
    EXPECT_TRUE(tier.EvictOne());
    if (i < 8) Insert(tier, i);
  }
  EXPECT_EQ(tier.bytes(), 3 * kPage);
  Insert(tier, 1);
  EXPECT_EQ(tier.stats().ghost_hits, 0U) << "three others left after it";
  Insert(tier, 2);
  EXPECT_EQ(tier.stats().ghost_hits, 1U);
  InsertAll(tier, 9, 10);
  Insert(tier, 2);  // is there
  EXPECT_EQ(tier.stats().inserted, 11U);
}

TEST_F(TierTest, WhatLeavesTheMainQueueIsNotRemembered) {
  Tier tier(UINT64_MAX);
  FillMain(tier);
  EXPECT_TRUE(tier.EvictOne());
  EXPECT_EQ(tier.stats().evicted_main, 1U);
  EXPECT_FALSE(Use(tier, 0));
  Insert(tier, 0);
  EXPECT_EQ(tier.stats().ghost_hits, 8U);
}

TEST_F(TierTest, TheMainQueueSparesABlockOnceForEachUse) {
  Tier tier(UINT64_MAX);
  FillMain(tier);
  EXPECT_TRUE(Use(tier, 0));
  EXPECT_TRUE(tier.EvictOne());  // 0 goes behind 7 and has no use any more
  EXPECT_FALSE(Use(tier, 1));
  for (uint64_t i = 2; i < 8; ++i) {
    EXPECT_TRUE(tier.EvictOne());
    EXPECT_FALSE(Use(tier, i));
  }
  EXPECT_EQ(tier.bytes(), kPage);
  EXPECT_TRUE(tier.EvictOne());
  EXPECT_EQ(tier.stats().evicted_main, 8U);
}

TEST_F(TierTest, UsesAreCountedToThree) {
  Tier tier(UINT64_MAX);
  FillMain(tier);
  for (uint64_t i = 0; i < 5; ++i) {  // 0 is used five times, 1 three times, 2 twice
    EXPECT_TRUE(Use(tier, 0));
    if (i < 3) EXPECT_TRUE(Use(tier, 1));
    if (i < 2) EXPECT_TRUE(Use(tier, 2));
    Insert(tier, 100 + i);  // so that the next use is another burst
  }
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(tier.EvictOne());
  EXPECT_EQ(tier.stats().evicted_small, 16U + 5U);
  for (const uint64_t next : {3, 4, 5, 6, 7, 2, 0, 1}) {
    EXPECT_TRUE(tier.EvictOne());
    EXPECT_FALSE(Use(tier, next)) << next;
  }
  EXPECT_EQ(tier.bytes(), 0U);
}

TEST_F(TierTest, TheSmallQueueGivesWhileItHasMoreThanATenth) {
  Tier tier(UINT64_MAX);
  FillMain(tier, 8 * kPage);
  InsertAll(tier, 100, 108);
  EXPECT_TRUE(tier.EvictOne());  // 8 of 72 pages
  EXPECT_FALSE(Use(tier, 100));
  EXPECT_TRUE(tier.EvictOne());  // 7 of 71: the main queue gives 8 pages
  EXPECT_EQ(tier.stats().evicted_main, 1U);
  EXPECT_FALSE(Use(tier, 0));
  EXPECT_TRUE(tier.EvictOne());  // 7 of 63
  EXPECT_FALSE(Use(tier, 101));
  EXPECT_EQ(tier.stats().evicted_main, 1U);
}

TEST_F(TierTest, ABurstOfUsesIsOne) {
  Tier tier(UINT64_MAX);
  InsertAll(tier, 0, 100);
  // A burst lasts for the insertion of a twentieth: of 105 or 106 blocks when five or six more have come.
  Insert(tier, 200);
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(Use(tier, 200)) << "in sixteen steps, right after it came";
  InsertAll(tier, 300, 305);
  EXPECT_TRUE(Use(tier, 200)) << "five blocks later";
  for (int i = 0; i < 101; ++i) EXPECT_TRUE(tier.EvictOne());
  EXPECT_EQ(tier.stats().promoted, 0U);
  EXPECT_EQ(tier.bytes(), 5 * kPage);
  EXPECT_FALSE(Use(tier, 200));

  InsertAll(tier, 1000, 1100);
  Insert(tier, 2000);
  InsertAll(tier, 3000, 3006);
  EXPECT_TRUE(Use(tier, 2000)) << "six blocks of 112 later";
  for (int i = 0; i < 106; ++i) EXPECT_TRUE(tier.EvictOne());
  EXPECT_TRUE(Use(tier, 2000));
  EXPECT_EQ(tier.stats().promoted, 1U);
}

TEST_F(TierTest, SparesOnlySoManyForOneEviction) {
  Tier tier(UINT64_MAX);
  InsertAll(tier, 0, 200);
  for (uint64_t i = 0; i < 190; ++i) EXPECT_TRUE(Use(tier, i));
  EXPECT_TRUE(tier.EvictOne());
  EXPECT_EQ(tier.stats().promoted, 64U);
  EXPECT_EQ(tier.stats().evicted_small, 1U);
  EXPECT_FALSE(Use(tier, 64)) << "used, but the 65th";
  EXPECT_TRUE(Use(tier, 63));
  EXPECT_TRUE(Use(tier, 65));
}

/// S3-FIFO as the header describes it, without shards, one list a queue.
class Model {
 public:
  explicit Model(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  struct Entry {
    BlockKey key;
    uint64_t bytes;
    uint64_t counted_at;
    int uses = 0;
  };

  bool Has(const BlockKey& key) { return Find(key) != nullptr; }
  void Use(const BlockKey& key) {
    Entry* entry = Find(key);
    if (entry == nullptr || clock_ - entry->counted_at < bytes() / 20) return;
    if (entry->uses < 3) {
      ++entry->uses;
      entry->counted_at = clock_;
    }
  }
  void Insert(const BlockKey& key, uint64_t size) {
    while (bytes() + size > limit_bytes_) (void)EvictOne();
    if (Has(key)) return;
    clock_ += size;
    const auto ghost = std::ranges::find(ghosts_, key);
    const bool remembered =
        ghost != ghosts_.end() && static_cast<size_t>(ghosts_.end() - ghost) <= small_.size() + main_.size();
    if (ghost != ghosts_.end()) *ghost = {};  // the others do not age by it
    (remembered ? main_ : small_).push_back({key, size, clock_});
  }
  bool EvictOne() {
    for (int looks = 0; bytes() != 0; ++looks) {
      const bool from_small = Sum(small_) * 10 > bytes();
      std::list<Entry>& queue = from_small ? small_ : main_;
      Entry entry = queue.front();
      queue.pop_front();
      if (entry.uses == 0 || looks >= 64) {
        if (from_small) ghosts_.push_back(entry.key);
        return true;
      }
      entry.uses = from_small ? 0 : entry.uses - 1;
      main_.push_back(entry);
    }
    return false;
  }
  uint64_t bytes() const { return Sum(small_) + Sum(main_); }

 private:
  static uint64_t Sum(const std::list<Entry>& queue) {
    uint64_t sum = 0;
    for (const Entry& entry : queue) sum += entry.bytes;
    return sum;
  }
  Entry* Find(const BlockKey& key) {
    for (std::list<Entry>* queue : {&small_, &main_})
      for (Entry& entry : *queue)
        if (entry.key == key) return &entry;
    return nullptr;
  }

  const uint64_t limit_bytes_;
  std::list<Entry> small_, main_;  // the oldest first
  std::vector<BlockKey> ghosts_;
  uint64_t clock_ = 0;
};

uint64_t Seed() {
  const char* given = std::getenv("FOREBAY_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 4711;
}

TEST_F(TierTest, EvictsLikeOneS3FifoOverAllShards) {
  constexpr uint64_t kExtents = 40;
  constexpr uint32_t kBlocks = 4;
  constexpr uint64_t kLimit = 64 * kPage;
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << Seed());
  base::SeededRandom random(Seed());
  Tier tier(kLimit);
  Model model(kLimit);
  for (int step = 0; step < 40'000; ++step) {
    const BlockKey key{1 + random.Below(kExtents) * random.Below(kExtents) / kExtents,
                       static_cast<uint32_t>(random.Below(kBlocks))};
    if (random.Below(2) == 0) {
      tier.Insert(key, Block(kPage));
      model.Insert(key, kPage);
      ASSERT_EQ(tier.bytes(), model.bytes()) << "step " << step;
      continue;
    }
    std::vector<base::Buffer> blocks(1 + random.Below(kBlocks - key.block));
    tier.LookupRun(key, blocks);
    for (uint32_t i = 0; i < blocks.size(); ++i) {
      const BlockKey one{key.extent, key.block + i};
      ASSERT_EQ(!blocks[i].empty(), model.Has(one)) << "step " << step;
      model.Use(one);
    }
  }
  const TierStats stats = tier.stats();
  for (const uint64_t count : {stats.ghost_hits, stats.promoted, stats.evicted_small, stats.evicted_main})
    EXPECT_GT(count, 100U);
  while (tier.EvictOne()) {
  }
  EXPECT_EQ(arena_->free_bytes(), arena_->size_bytes());
}

/// Least recently used first, over blocks of one size.
class Lru {
 public:
  explicit Lru(size_t blocks) : blocks_(blocks) {}
  /// Whether it was there; now it is.
  bool Access(uint64_t block) {
    const auto found = places_.find(block);
    if (found != places_.end()) {
      order_.splice(order_.end(), order_, found->second);
      return true;
    }
    if (order_.size() == blocks_) {
      places_.erase(order_.front());
      order_.pop_front();
    }
    places_[block] = order_.insert(order_.end(), block);
    return false;
  }

 private:
  const size_t blocks_;
  std::list<uint64_t> order_;
  std::map<uint64_t, std::list<uint64_t>::iterator> places_;
};

/// Objects of sixteen blocks, as of 1 MiB, but with pages for blocks; the tier holds a tenth of them.
class TierTraceTest : public TierTest {
 protected:
  static constexpr uint64_t kObjects = 400;
  static constexpr uint32_t kObjectBlocks = 16;
  static constexpr uint64_t kHeldBlocks = kObjects * kObjectBlocks / 10;

  struct Hits {
    uint64_t tier = 0;
    uint64_t lru = 0;
    uint64_t accesses = 0;
  };

  void Start(uint64_t seed) {
    tier_.emplace(kHeldBlocks * kPage);
    lru_.emplace(kHeldBlocks);
    random_.emplace(seed);
    double sum = 0;
    ranks_.clear();
    for (uint64_t i = 0; i < kObjects; ++i) ranks_.push_back(sum += 1 / std::pow(i + 1, 0.99));
  }
  /// An object by its rank, the most popular first: zipf 0.99.
  uint64_t AnyObject() {
    const double at = static_cast<double>(random_->Below(1 << 30)) / (1 << 30) * ranks_.back();
    return std::ranges::upper_bound(ranks_, at) - ranks_.begin();
  }
  /// Reads an object; each block in so many steps, one after the other, or (0) all at once. Counts blocks, once each.
  void Read(uint64_t object, int steps, Hits& hits) {
    std::array<base::Buffer, kObjectBlocks> found;
    if (steps == 0) tier_->LookupRun({object, 0}, found);
    for (uint32_t block = 0; block < kObjectBlocks; ++block) {
      const BlockKey key{object, block};
      if (steps != 0) found[block] = tier_->Lookup(key);
      ++hits.accesses;
      if (!found[block].empty()) {
        ++hits.tier;
      } else {
        tier_->Insert(key, Block(kPage));
      }
      for (int step = 1; step < steps; ++step) EXPECT_FALSE(tier_->Lookup(key).empty());
      if (lru_->Access(object * kObjectBlocks + block)) ++hits.lru;
    }
  }
  static std::vector<uint64_t> Seeds() {
    if (std::getenv("FOREBAY_SEED") != nullptr) return {Seed()};
    return {1, 2, 3};
  }
  void ScanInTheMiddle(int steps);

  std::optional<Tier> tier_;
  std::optional<Lru> lru_;
  std::optional<base::SeededRandom> random_;
  std::vector<double> ranks_;  // sums of weights
};

TEST_F(TierTraceTest, FindsAtLeastAsMuchAsLruWouldOfAZipfTrace) {
  for (const uint64_t seed : Seeds()) {
    for (const int steps : {0, 16}) {
      Start(seed);
      Hits hits;
      for (int i = 0; i < 10'000; ++i) Read(AnyObject(), steps, hits);
      const auto percent = [&](uint64_t part) { return std::to_string(100.0 * part / hits.accesses); };
      const std::string name = "seed_" + std::to_string(seed) + "_steps_" + std::to_string(steps);
      RecordProperty(name, "S3-FIFO " + percent(hits.tier) + " %, LRU " + percent(hits.lru) + " %");
      EXPECT_GE(hits.tier, hits.lru) << "FOREBAY_SEED=" << seed << ", steps " << steps << ": " << percent(hits.tier)
                                     << " %, LRU " << percent(hits.lru) << " %";
    }
  }
}

/// The hot set are the twenty most popular objects, half of what the tier holds: what of it is found before and after.
void TierTraceTest::ScanInTheMiddle(int steps) {
  for (const uint64_t seed : Seeds()) {
    Start(seed);
    const auto read = [&](uint64_t objects) {
      Hits hits;
      for (uint64_t object = 0; object < objects; ++object) Read(object, steps, hits);
      return hits;
    };
    Hits trace;
    for (int i = 0; i < 5'000; ++i) Read(AnyObject(), steps, trace);
    const Hits before = read(20);
    (void)read(kObjects);
    const Hits after = read(20);
    const std::string figures = "of " + std::to_string(before.accesses) + ": S3-FIFO " + std::to_string(before.tier) +
                                ", then " + std::to_string(after.tier) + "; LRU " + std::to_string(before.lru) +
                                ", then " + std::to_string(after.lru);
    RecordProperty("seed_" + std::to_string(seed), figures);
    EXPECT_GE(after.tier * 10, before.tier * 9) << "FOREBAY_SEED=" << seed << ": " << figures;
  }
}

TEST_F(TierTraceTest, AScanOfWholeObjectsLeavesTheHotSet) { ScanInTheMiddle(0); }

TEST_F(TierTraceTest, AScanInSmallStepsLeavesTheHotSet) { ScanInTheMiddle(16); }

/// Threads insert, look up and evict; each block says which it is.
TEST_F(TierTest, KeepsItsAccountsWhileManyUseIt) {
  constexpr int kThreads = 4;
  constexpr uint64_t kExtents = 64;
  constexpr uint32_t kBlocks = 20;  // two runs
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << Seed());
  Tier tier(400 * kPage);
  std::atomic<uint64_t> wrong{0};
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      base::SeededRandom random(Seed() + thread);
      for (int i = 0; i < 20'000; ++i) {
        const BlockKey key{random.Below(kExtents), static_cast<uint32_t>(random.Below(kBlocks))};
        if (random.Below(50) == 0) (void)tier.EvictOne();
        if (const base::Buffer found = tier.Lookup(key); !found.empty()) {
          if (std::memcmp(found.data(), &key.extent, 8) != 0 || std::memcmp(found.data() + 8, &key.block, 4) != 0)
            ++wrong;
          continue;
        }
        base::Buffer block = Block(kPage << random.Below(2));
        std::memcpy(block.writable().data(), &key.extent, 8);
        std::memcpy(block.writable().data() + 8, &key.block, 4);
        tier.Insert(key, block);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0U);
  uint64_t held_bytes = 0;
  uint64_t held_blocks = 0;
  for (uint64_t extent = 0; extent < kExtents; ++extent) {
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const base::Buffer found = tier.Lookup({extent, block});
      held_bytes += found.size();
      held_blocks += found.empty() ? 0 : 1;
    }
  }
  EXPECT_EQ(tier.bytes(), held_bytes);
  EXPECT_LE(held_bytes, (400 + kThreads * 2) * kPage) << "each thread may add one at the same time";
  EXPECT_EQ(arena_->size_bytes() - arena_->free_bytes(), held_bytes);
  const TierStats stats = tier.stats();
  EXPECT_EQ(stats.inserted - stats.evicted_small - stats.evicted_main, held_blocks);
  uint64_t evicted = 0;
  while (tier.EvictOne()) ++evicted;
  EXPECT_EQ(evicted, held_blocks);
  EXPECT_EQ(tier.bytes(), 0U);
  EXPECT_EQ(arena_->free_bytes(), arena_->size_bytes());
}

/// Who waits for memory holds inserts and then evicts all: nothing may be left behind.
TEST_F(TierTest, OnceInsertsAreHeldEvictingEndsWithNothing) {
  Tier tier(UINT64_MAX);
  std::vector<std::jthread> threads;
  for (uint64_t thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread](const std::stop_token& stop) {
      for (uint64_t i = 0; !stop.stop_requested(); ++i) {
        Result<base::Buffer> block = arena_->Allocate(kPage);
        if (block.ok()) {
          tier.Insert({2 * (i % 1000) + thread, 0}, *block);
        } else {
          (void)tier.EvictOne();
        }
        (void)tier.Lookup({2 * (i / 2 % 1000) + thread, 0});
      }
    });
  }
  for (int round = 0; round < 500; ++round) {
    while (tier.bytes() == 0) std::this_thread::yield();
    tier.HoldInserts();
    while (tier.EvictOne()) {
    }
    ASSERT_EQ(tier.bytes(), 0U) << "round " << round;
    tier.ReleaseInserts();
  }
}

}  // namespace
}  // namespace forebay::engine
