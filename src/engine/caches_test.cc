// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "engine/object_cache.h"

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

}  // namespace
}  // namespace forebay::engine
