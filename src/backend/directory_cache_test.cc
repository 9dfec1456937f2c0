// SPDX-License-Identifier: Apache-2.0
#include "backend/directory_cache.h"

#include <gtest/gtest.h>

namespace forebay::backend {
namespace {

class DirectoryCacheTest : public testing::Test {
 protected:
  /// A directory that changed `ago`.
  FileState Directory(uint64_t inode, base::Duration ago = std::chrono::hours(1)) const {
    const int64_t then = (clock_.WallNow() - ago).time_since_epoch().count();
    return {.inode = inode, .size_bytes = 4096, .modified_ns = then, .changed_ns = then};
  }
  static SortedEntries Names(size_t count) { return std::make_shared<const std::vector<std::string>>(count, "name"); }

  base::FakeClock clock_;
  DirectoryCache cache_{clock_};
};

TEST_F(DirectoryCacheTest, GivesEntriesWhileNothingChanged) {
  const SortedEntries entries = Names(5000);
  const FileState state = Directory(1);
  cache_.Keep(state, entries);
  EXPECT_EQ(cache_.Find(state), entries);
  FileState changed = state;
  ++changed.modified_ns;
  EXPECT_EQ(cache_.Find(changed), nullptr);
  EXPECT_EQ(cache_.Find(Directory(2)), nullptr);
  cache_.Keep(changed, Names(6000));
  EXPECT_EQ(cache_.Find(state), nullptr) << "one state of each directory";
  EXPECT_EQ(cache_.Find(changed)->size(), 6000U);
}

TEST_F(DirectoryCacheTest, KeepsNothingThatMayChangeWithinTheSameTime) {
  const FileState fresh = Directory(1, std::chrono::milliseconds(500));
  cache_.Keep(fresh, Names(5000));
  EXPECT_EQ(cache_.Find(fresh), nullptr);
  const FileState ahead = Directory(1, -std::chrono::hours(1));
  cache_.Keep(ahead, Names(5000));
  EXPECT_EQ(cache_.Find(ahead), nullptr);
  clock_.Advance(std::chrono::seconds(1));
  cache_.Keep(fresh, Names(5000));
  EXPECT_NE(cache_.Find(fresh), nullptr);
}

TEST_F(DirectoryCacheTest, HoldsSoManyNamesAndLetsGoOfThoseUsedLongestAgo) {
  cache_.Keep(Directory(1), Names(DirectoryCache::kLeastNames - 1));
  EXPECT_EQ(cache_.Find(Directory(1)), nullptr);
  cache_.Keep(Directory(1), Names(DirectoryCache::kMaxNames + 1));
  EXPECT_EQ(cache_.Find(Directory(1)), nullptr);
  for (uint64_t inode = 1; inode <= 4; ++inode) cache_.Keep(Directory(inode), Names(DirectoryCache::kMaxNames / 4));
  EXPECT_NE(cache_.Find(Directory(1)), nullptr);
  cache_.Keep(Directory(5), Names(DirectoryCache::kMaxNames / 4));
  EXPECT_EQ(cache_.Find(Directory(2)), nullptr);
  for (const uint64_t inode : {1, 3, 4, 5}) EXPECT_NE(cache_.Find(Directory(inode)), nullptr) << inode;
}

}  // namespace
}  // namespace forebay::backend
