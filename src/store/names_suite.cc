// SPDX-License-Identifier: Apache-2.0
// Buckets, keys and listings.
#include <algorithm>

#include "store/store_suite.h"

namespace forebay::store {
namespace {

constexpr const char* kHighest = "\xf4\x8f\xbf\xbf";  // U+10FFFF, the last code point

TEST_P(StoreSuite, BucketsAreCreatedOnceAndDeletedEmpty) {
  const Context context = MakeContext();
  EXPECT_TRUE(Is(Run(store().CreateBucket(context, {.name = kBucket})), Code::kAlreadyExists));
  const BucketClass bucket_class = Refuses(Refusal::kCacheClass) ? BucketClass::kDurable : BucketClass::kCache;
  ASSERT_TRUE(Is(Run(store().CreateBucket(context, {.name = "cache", .bucket_class = bucket_class})), Code::kOk));
  Reopen();
  const Context again = MakeContext();
  const Result<BucketInfo> info = Run(store().GetBucket(again, "cache"));
  ASSERT_TRUE(Is(info, Code::kOk));
  EXPECT_EQ(info->name, "cache");
  EXPECT_EQ(info->bucket_class, bucket_class);
  EXPECT_EQ(info->owner, TenantId::kRoot);

  ASSERT_TRUE(Is(Put("o", "content"), Code::kOk));
  EXPECT_TRUE(Is(Run(store().DeleteBucket(again, kBucket)), Code::kFailedPrecondition));
  EXPECT_EQ(Get("o").value_or(""), "content");
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  EXPECT_TRUE(Is(Run(store().DeleteBucket(again, kBucket)), Code::kOk));
  EXPECT_TRUE(Is(Run(store().DeleteBucket(again, kBucket)), Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().GetBucket(again, kBucket)), Code::kNotFound));
}

TEST_P(StoreSuite, BucketNamesFollowTheRules) {
  const Context context = MakeContext();
  for (const std::string& name :
       {std::string(), std::string("ab"), std::string(64, 'a'), std::string("Upper"), std::string("a/b"),
        std::string("../x"), std::string("-ab"), std::string("a..b"), std::string("a\0b", 3),
        std::string("\xff\xff\xff")}) {
    EXPECT_TRUE(Is(Run(store().CreateBucket(context, {.name = name})), Code::kInvalidArgument)) << name;
    EXPECT_FALSE(Run(store().GetBucket(context, name)).ok()) << name;
  }
  EXPECT_TRUE(Is(Run(store().CreateBucket(context, {.name = std::string(63, 'a')})), Code::kOk));
}

TEST_P(StoreSuite, BucketsAreListedInOrder) {
  const Context context = MakeContext();
  for (const char* name : {"zoo", "a-b", "a.b", "abc", "0ab"})
    ASSERT_TRUE(Is(Run(store().CreateBucket(context, {.name = name})), Code::kOk)) << name;
  const Result<std::vector<BucketInfo>> buckets = Run(store().ListBuckets(context));
  ASSERT_TRUE(Is(buckets, Code::kOk));
  std::vector<std::string> names;
  for (const BucketInfo& bucket : *buckets) names.push_back(bucket.name);
  EXPECT_EQ(names, (std::vector<std::string>{"0ab", "a-b", "a.b", "abc", kBucket, "zoo"}));
}

TEST_P(StoreSuite, AMissingBucketNamesTheCommandThatMakesOne) {
  const Context context = MakeContext();
  const auto expect = [](const Status& status) {
    EXPECT_TRUE(Is(status, Code::kNotFound));
    EXPECT_NE(status.message().find("forebay bucket create nowhere"), std::string_view::npos)
        << status.ToString();
  };
  expect(Run(store().GetBucket(context, "nowhere")).status());
  expect(Run(store().DeleteBucket(context, "nowhere")));
  expect(Run(store().Put(context, "nowhere", "o", {})).status());
  expect(Run(store().Open(context, "nowhere", "o", {})).status());
  expect(Run(store().Stat(context, "nowhere", "o")).status());
  expect(Run(store().List(context, "nowhere", {})).status());
  expect(Run(store().Delete(context, "nowhere", "o", {})));
}

TEST_P(StoreSuite, BucketsKeepTheirKeysApart) {
  const Context context = MakeContext();
  ASSERT_TRUE(Is(Run(store().CreateBucket(context, {.name = "suite2"})), Code::kOk));
  ASSERT_TRUE(Is(Put("o", "here"), Code::kOk));
  ASSERT_TRUE(Is(Run(PutContent(store(), context, "suite2", "o", "there")), Code::kOk));
  ASSERT_TRUE(Is(Run(PutContent(store(), context, "suite2", "only", "there")), Code::kOk));
  EXPECT_EQ(Get("o").value_or(""), "here");
  EXPECT_TRUE(Is(Stat("only"), Code::kNotFound));
  EXPECT_EQ(ListAll({}), (std::vector<std::string>{"o"}));
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  EXPECT_EQ(Run(GetContent(store(), context, "suite2", "o")).value_or(""), "there");
}

TEST_P(StoreSuite, KeysAreAnyTextAndAllDistinct) {
  const std::vector<std::string> keys = {"%",
                                         "%2F",
                                         "%2f",
                                         "a%20b",
                                         "a+b",
                                         "a b",
                                         " ",
                                         "  ",
                                         "/",
                                         "//",
                                         "a//b",
                                         "a/b",
                                         "a",
                                         "a/",
                                         "/a",
                                         "..",
                                         "../..",
                                         "a/../b",
                                         ".",
                                         "./a",
                                         "\\",
                                         "a\\b",
                                         "Key",
                                         "key",
                                         "?q=1&r=2#f",
                                         "\"'`$(x)",
                                         "~",
                                         "*",
                                         "line\nbreak",
                                         "tab\t",
                                         "\x01\x7f",
                                         "Å",
                                         "A\xcc\x8a",
                                         "日本/語",
                                         kHighest,
                                         std::string(1024, 'k'),
                                         std::string(1020, 'k') + kHighest,
                                         "con",
                                         "nul.txt",
                                         "a:b|c<d>"};
  for (const std::string& key : keys) ASSERT_TRUE(Is(Put(key, "content of " + key), Code::kOk)) << key;
  Reopen();
  for (const std::string& key : keys) {
    EXPECT_EQ(Get(key).value_or(""), "content of " + key) << key;
    EXPECT_EQ(Stat(key)->key, key);
  }
  std::vector<std::string> sorted = keys;
  std::ranges::sort(sorted);
  EXPECT_EQ(ListAll({}), sorted);
  for (const std::string& key : keys) EXPECT_TRUE(Is(Delete(key), Code::kOk)) << key;
  EXPECT_TRUE(ListAll({}).empty());
}

TEST_P(StoreSuite, RefusesWhatIsNoKey) {
  for (const std::string& key :
       {std::string(), std::string(1025, 'k'), std::string("a\0b", 3), std::string("\0", 1),
        std::string("\xff"), std::string("\xed\xa0\x80"), std::string("a\xc3")}) {
    EXPECT_TRUE(Is(BeginPut(key), Code::kInvalidArgument)) << key.size();
    EXPECT_FALSE(Stat(key).ok());
    EXPECT_FALSE(Open(key).ok());
    EXPECT_FALSE(Delete(key).ok());
  }
}

TEST_P(StoreSuite, ListsByBytesWithWhatIsKnownOfEachObject) {
  const Result<ObjectInfo> put = Put("b", "bb", {.metadata = {{"m", "1"}}});
  ASSERT_TRUE(Is(put, Code::kOk));
  for (const char* key : {"a", "B", "ä"}) ASSERT_TRUE(Is(Put(key, "x"), Code::kOk));
  const Result<ListPage> page = List({});
  ASSERT_TRUE(Is(page, Code::kOk));
  EXPECT_EQ(EntriesOf(*page), (std::vector<std::string>{"B", "a", "b", "ä"}));
  EXPECT_FALSE(page->truncated);
  ASSERT_EQ(page->objects.size(), 4U);
  const ObjectInfo& info = page->objects[2];
  EXPECT_EQ(info.size_bytes, 2U);
  EXPECT_EQ(info.etag, put->etag);
  EXPECT_EQ(info.version, put->version);
  EXPECT_EQ(info.crc32c, put->crc32c);
}

TEST_P(StoreSuite, ListsNothingInAnEmptyBucketOrBeyondAllKeys) {
  EXPECT_TRUE(ListAll({}).empty());
  EXPECT_TRUE(ListAll({.prefix = "a", .delimiter = "/", .start_after = "a/"}).empty());
  ASSERT_TRUE(Is(Put("a/b", "x"), Code::kOk));
  EXPECT_TRUE(ListAll({.prefix = "b"}).empty());
  EXPECT_TRUE(ListAll({.start_after = "a/b"}).empty());
  EXPECT_TRUE(ListAll({.delimiter = "/", .start_after = "a/"}).empty());
  EXPECT_TRUE(ListAll({.prefix = kHighest}).empty());
}

TEST_P(StoreSuite, PagesOfAnySizeAddUpForAnyPrefixAndDelimiter) {
  std::set<std::string> keys;
  for (const std::string top : {"a", "b/", "b//", "bä", kHighest, "c"})
    for (const std::string rest : {"", "/", "/x", "//y", "/ä/1", "-", "--", kHighest})
      keys.insert(top + rest);
  for (const std::string& key : keys) ASSERT_TRUE(Is(Put(key, ""), Code::kOk)) << key;
  for (const std::string delimiter : {"", "/", "//", "ä", "--", kHighest, "none"}) {
    for (const std::string prefix : {"", "b", "b/", "b//", "bä/", kHighest, "c", "d"}) {
      const std::vector<std::string> expected = ExpectedListing(keys, prefix, delimiter);
      for (const uint32_t limit : {1U, 7U, 1000U}) {
        EXPECT_EQ(ListAll({.prefix = prefix, .delimiter = delimiter, .limit = limit}), expected)
            << "prefix `" << prefix << "` delimiter `" << delimiter << "` limit " << limit;
      }
    }
  }
}

TEST_P(StoreSuite, StartsAfterAnyKeyAndSkipsWhatLiesUnderARolledUpPrefix) {
  for (const char* key : {"a", "dir/1", "dir/2", "dir0", "e"}) ASSERT_TRUE(Is(Put(key, ""), Code::kOk));
  EXPECT_EQ(ListAll({.start_after = "a"}), (std::vector<std::string>{"dir/1", "dir/2", "dir0", "e"}));
  EXPECT_EQ(ListAll({.start_after = "dir/1a"}), (std::vector<std::string>{"dir/2", "dir0", "e"}));
  EXPECT_EQ(ListAll({.delimiter = "/", .start_after = "dir/"}), (std::vector<std::string>{"dir0", "e"}));
  EXPECT_EQ(ListAll({.start_after = "dir/"}), (std::vector<std::string>{"dir/1", "dir/2", "dir0", "e"}));
  EXPECT_EQ(ListAll({.prefix = "dir", .start_after = "a"}),
            (std::vector<std::string>{"dir/1", "dir/2", "dir0"}));
}

TEST_P(StoreSuite, RefusesListingsBeyondTheLimits) {
  EXPECT_TRUE(Is(List({.limit = 0}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(List({.limit = base::kMaxListPage + 1}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(List({.prefix = std::string(1025, 'a')}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(List({.delimiter = "\xff"}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(List({.start_after = std::string("a\0", 2)}), Code::kInvalidArgument));
}

}  // namespace
}  // namespace forebay::store
