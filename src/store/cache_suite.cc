// SPDX-License-Identifier: Apache-2.0
// Buckets of the cache class: what every backend does alike. What is evicted when, is for the tests of each.
#include <chrono>

#include "store/cache_class.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A cache bucket of a tenant of its own.
class Cache {
 public:
  static constexpr const char* kBucket = "cache";
  static constexpr TenantId kTenant{77};

  explicit Cache(StoreSuite& suite, milliseconds ttl = {}) : suite_(suite) {
    EXPECT_TRUE(Is(Create({.name = kBucket, .bucket_class = BucketClass::kCache, .ttl = ttl}), Code::kOk));
  }

  Context MakeContext() {
    Context context = suite_.MakeContext();
    context.tenant = kTenant;
    return context;
  }
  Status Create(BucketInfo bucket) { return suite_.Run(suite_.store().CreateBucket(MakeContext(), std::move(bucket))); }
  Status Set(BucketSettings settings) {
    return suite_.Run(suite_.store().UpdateBucket(MakeContext(), kBucket, settings));
  }
  Status SetQuota(Quota quota) {
    return suite_.Run(suite_.store().SetQuota(suite_.MakeContext(), kTenant, quota));
  }
  Result<ObjectInfo> Put(const std::string& key, std::string content, PutOptions options = {}) {
    return suite_.Run(
        PutContent(suite_.store(), MakeContext(), kBucket, key, std::move(content), std::move(options)));
  }
  Result<std::string> Get(const std::string& key) {
    return suite_.Run(GetContent(suite_.store(), MakeContext(), kBucket, key));
  }
  Status Stat(const std::string& key) { return suite_.Run(suite_.store().Stat(MakeContext(), kBucket, key)).status(); }
  Status Delete(const std::string& key) { return suite_.Run(suite_.store().Delete(MakeContext(), kBucket, key, {})); }
  Status Pin(const std::string& key, milliseconds time) {
    return suite_.Run(suite_.store().Pin(MakeContext(), kBucket, key, time));
  }
  Status Unpin(const std::string& key) { return suite_.Run(suite_.store().Unpin(MakeContext(), kBucket, key)); }
  std::vector<std::string> List() {
    std::vector<std::string> keys;
    const Result<ListPage> page = suite_.Run(suite_.store().List(MakeContext(), kBucket, {}));
    EXPECT_TRUE(Is(page, Code::kOk));
    for (const ObjectInfo& object : page->objects) keys.push_back(object.key);
    return keys;
  }
  TenantUsage Usage() { return *suite_.Run(suite_.store().GetTenantUsage(suite_.MakeContext(), kTenant)); }

 private:
  StoreSuite& suite_;
};

using Keys = std::vector<std::string>;

TEST_P(StoreSuite, ACacheBucketHoldsObjectsLikeAnother) {
  Cache cache(*this, hours(1));
  const std::string content = MakeContent(1, 300'000);
  ASSERT_TRUE(Is(cache.Put("a", content), Code::kOk));
  ASSERT_TRUE(Is(cache.Put("b", "small"), Code::kOk));
  EXPECT_TRUE(Is(cache.Put("b", "again", {.condition = Condition::IfAbsent()}), Code::kAlreadyExists));
  EXPECT_EQ(*cache.Get("a"), content);
  EXPECT_EQ(cache.List(), (Keys{"a", "b"}));
  if (Reopen()) {
    EXPECT_EQ(*cache.Get("a"), content);
    EXPECT_EQ(*cache.Get("b"), "small");
  }
  const Result<BucketInfo> bucket = Run(store().GetBucket(cache.MakeContext(), Cache::kBucket));
  ASSERT_TRUE(Is(bucket, Code::kOk));
  EXPECT_TRUE(IsCache(*bucket));
  EXPECT_EQ(bucket->ttl, hours(1));
  EXPECT_TRUE(Is(cache.Delete("a"), Code::kOk));
  EXPECT_TRUE(Is(cache.Get("a"), Code::kNotFound));
  EXPECT_EQ(cache.Usage().bytes, 5U);
}

TEST_P(StoreSuite, WhatMakesNoSenseForAClassIsRefused) {
  Cache cache(*this);
  EXPECT_TRUE(Is(cache.Create({.name = "durable", .ttl = hours(1)}), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(cache.Create({.name = "versions", .bucket_class = BucketClass::kCache, .versioning = Versioning::kOn}),
                 Code::kFailedPrecondition));
  EXPECT_TRUE(Is(cache.Create({.name = "for-ever", .bucket_class = BucketClass::kCache, .ttl = kMaxTtl + milliseconds(1)}),
                 Code::kInvalidArgument));
  EXPECT_TRUE(Is(cache.Set({.versioning = Versioning::kOn}), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(cache.Set({.ttl = milliseconds(-1)}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(Run(store().UpdateBucket(MakeContext(), kBucket, {.ttl = hours(1)})), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(cache.Set({.ttl = kMaxTtl}), Code::kOk));
}

TEST_P(StoreSuite, AfterItsTtlAnObjectIsNotFoundByAnyCall) {
  Cache cache(*this, seconds(60));
  ASSERT_TRUE(Is(cache.Put("old", MakeContent(1, 100'000)), Code::kOk));
  ASSERT_TRUE(Is(cache.Put("other", "123"), Code::kOk));
  if (!PassTime(seconds(59))) GTEST_SKIP() << "the store's clock is the machine's";
  ASSERT_TRUE(Is(cache.Put("young", "12345"), Code::kOk));
  EXPECT_EQ(cache.Get("old")->size(), 100'000U);
  PassTime(seconds(1));
  EXPECT_TRUE(Is(cache.Get("old"), Code::kNotFound));
  EXPECT_TRUE(Is(cache.Stat("old"), Code::kNotFound));
  EXPECT_TRUE(Is(cache.Delete("old"), Code::kNotFound));
  EXPECT_TRUE(Is(cache.Pin("old", hours(1)), Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().Rename(cache.MakeContext(), Cache::kBucket, "old", "new", {})), Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().Truncate(cache.MakeContext(), Cache::kBucket, "old", 5, {})), Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().SetAttributes(cache.MakeContext(), Cache::kBucket, "old", 0, {.set = {{"a", "b"}}})),
                 Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().Compose(cache.MakeContext(), Cache::kBucket, "copy",
                                     {{.bucket = Cache::kBucket, .key = "old"}}, {})),
                 Code::kNotFound));
  EXPECT_EQ(cache.List(), (Keys{"young"}));
  if (Reopen()) {
    EXPECT_EQ(cache.List(), (Keys{"young"}));
  }
  // Their names are free.
  EXPECT_TRUE(Is(cache.Put("old", "1234567", {.condition = Condition::IfAbsent()}), Code::kOk));
  EXPECT_TRUE(Is(Run(store().RenamePrefix(cache.MakeContext(), Cache::kBucket, "young", "other")), Code::kOk));
  EXPECT_EQ(cache.List(), (Keys{"old", "other"}));
  EXPECT_EQ(*cache.Get("other"), "12345");
}

TEST_P(StoreSuite, AChangeOfTheTtlCountsForWhatIsThere) {
  Cache cache(*this, seconds(60));
  ASSERT_TRUE(Is(cache.Put("a", "1"), Code::kOk));
  ASSERT_TRUE(Is(cache.Set({.ttl = seconds(600)}), Code::kOk));
  if (!PassTime(seconds(599))) GTEST_SKIP() << "the store's clock is the machine's";
  EXPECT_TRUE(Is(cache.Get("a"), Code::kOk));
  ASSERT_TRUE(Is(cache.Set({.ttl = seconds(10)}), Code::kOk));
  EXPECT_TRUE(Is(cache.Get("a"), Code::kNotFound));
  ASSERT_TRUE(Is(cache.Put("b", "1"), Code::kOk));
  ASSERT_TRUE(Is(cache.Set({.ttl = milliseconds(0)}), Code::kOk));
  PassTime(hours(24 * 365));
  EXPECT_TRUE(Is(cache.Get("b"), Code::kOk));
}

TEST_P(StoreSuite, AnOverwriteBeginsTheTtlAnewAndARenameDoesNot) {
  Cache cache(*this, seconds(60));
  ASSERT_TRUE(Is(cache.Put("written", "12345"), Code::kOk));
  ASSERT_TRUE(Is(cache.Put("renamed", "12345"), Code::kOk));
  if (!PassTime(seconds(30))) GTEST_SKIP() << "the store's clock is the machine's";
  ASSERT_TRUE(Is(Run(store().Truncate(cache.MakeContext(), Cache::kBucket, "written", 3, {})), Code::kOk));
  ASSERT_TRUE(Is(Run(store().Rename(cache.MakeContext(), Cache::kBucket, "renamed", "now", {})), Code::kOk));
  PassTime(seconds(30));
  EXPECT_EQ(*cache.Get("written"), "123");
  EXPECT_TRUE(Is(cache.Get("now"), Code::kNotFound));
  PassTime(seconds(30));
  EXPECT_TRUE(Is(cache.Get("written"), Code::kNotFound));
}

TEST_P(StoreSuite, APinOutlastsTheTtlAndEnds) {
  Cache cache(*this, seconds(60));
  for (const char* key : {"plain", "pinned", "unpinned", "replaced"}) ASSERT_TRUE(Is(cache.Put(key, key), Code::kOk));
  for (const char* key : {"pinned", "unpinned", "replaced"}) ASSERT_TRUE(Is(cache.Pin(key, seconds(90)), Code::kOk));
  ASSERT_TRUE(Is(cache.Unpin("unpinned"), Code::kOk));
  ASSERT_TRUE(Is(cache.Put("replaced", "by another"), Code::kOk));
  ASSERT_TRUE(Is(Run(store().Rename(cache.MakeContext(), Cache::kBucket, "pinned", "under another name", {})), Code::kOk));
  if (!PassTime(seconds(60))) GTEST_SKIP() << "the store's clock is the machine's";
  EXPECT_EQ(cache.List(), (Keys{"under another name"}));
  if (Reopen()) {
    EXPECT_EQ(*cache.Get("under another name"), "pinned");
  }
  PassTime(seconds(30));
  EXPECT_EQ(cache.List(), Keys());
}

TEST_P(StoreSuite, PinsAreForCacheBucketsAndBounded) {
  Cache cache(*this);
  ASSERT_TRUE(Is(cache.Put("a", "1"), Code::kOk));
  ASSERT_TRUE(Is(Put("durable", "1"), Code::kOk));
  EXPECT_TRUE(Is(Run(store().Pin(MakeContext(), kBucket, "durable", hours(1))), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(Run(store().Unpin(MakeContext(), kBucket, "durable")), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(cache.Pin("missing", hours(1)), Code::kNotFound));
  EXPECT_TRUE(Is(cache.Unpin("missing"), Code::kNotFound));
  EXPECT_TRUE(Is(cache.Pin("a", milliseconds(0)), Code::kInvalidArgument));
  EXPECT_TRUE(Is(cache.Pin("a", kMaxPinTime + milliseconds(1)), Code::kInvalidArgument));
  EXPECT_TRUE(Is(cache.Pin("a", kMaxPinTime), Code::kOk));
  EXPECT_TRUE(Is(cache.Pin("a", hours(1)), Code::kOk));
  EXPECT_TRUE(Is(cache.Unpin("a"), Code::kOk));
  EXPECT_TRUE(Is(cache.Unpin("a"), Code::kOk));
  const Status refused = CheckPinned({.objects = kMaxPins}, 1, base::kGiB);
  EXPECT_TRUE(Is(refused, Code::kResourceExhausted));
  // An eighth of 800 bytes.
  EXPECT_TRUE(Is(CheckPinned({.objects = 1, .bytes = 60}, 40, 800), Code::kOk));
  EXPECT_TRUE(Is(CheckPinned({.objects = 1, .bytes = 60}, 41, 800), Code::kResourceExhausted));
}

TEST_P(StoreSuite, APutBeyondTheQuotaDisplacesTheOwnersOldestCacheObjects) {
  Cache cache(*this);
  ASSERT_TRUE(Is(cache.Create({.name = "second", .bucket_class = BucketClass::kCache}), Code::kOk));
  ASSERT_TRUE(Is(cache.Create({.name = "durable"}), Code::kOk));
  ASSERT_TRUE(Is(Put("of another tenant", MakeContent(9, 50'000)), Code::kOk));
  const auto put = [&](const char* bucket, const char* key) {
    return Run(PutContent(store(), cache.MakeContext(), bucket, key, MakeContent(1, 10'000)));
  };
  ASSERT_TRUE(Is(put("cache", "1"), Code::kOk));
  ASSERT_TRUE(Is(put("durable", "2"), Code::kOk));
  ASSERT_TRUE(Is(put("second", "3"), Code::kOk));
  ASSERT_TRUE(Is(put("cache", "4"), Code::kOk));
  ASSERT_TRUE(Is(cache.SetQuota({.max_bytes = 40'000}), Code::kOk));
  ASSERT_TRUE(Is(cache.Pin("4", hours(1)), Code::kOk));
  ASSERT_TRUE(Is(put("cache", "5"), Code::kOk));  // instead of 1
  ASSERT_TRUE(Is(put("cache", "6"), Code::kOk));  // instead of 3
  EXPECT_EQ(cache.List(), (Keys{"4", "5", "6"}));
  EXPECT_EQ(cache.Usage().bytes, 40'000U);
  EXPECT_EQ(cache.Usage().objects, 4U);
  EXPECT_TRUE(Is(put("durable", "7"), Code::kResourceExhausted));
  ASSERT_TRUE(Is(cache.Put("8", MakeContent(1, 20'000)), Code::kOk));  // instead of 5 and 6
  EXPECT_EQ(cache.List(), (Keys{"4", "8"}));
  // Beside what is durable and what is pinned it has no place.
  EXPECT_TRUE(Is(cache.Put("9", MakeContent(1, 20'001)), Code::kResourceExhausted));
  EXPECT_TRUE(Is(cache.Put("9", MakeContent(1, 40'001), {.size_bytes = 40'001}), Code::kResourceExhausted));
  EXPECT_EQ(cache.List(), (Keys{"4", "8"}));
  // What it replaces itself counts first.
  EXPECT_TRUE(Is(cache.Put("8", MakeContent(1, 20'000)), Code::kOk));
  EXPECT_EQ(cache.List(), (Keys{"4", "8"}));
}

}  // namespace
}  // namespace forebay::store
