// SPDX-License-Identifier: Apache-2.0
#include "store/listing.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Walks a set and counts what that costs.
class SetCursor final : public KeyCursor {
 public:
  explicit SetCursor(const std::set<std::string>& keys) : keys_(keys), at_(keys.end()) {}
  void Seek(std::string_view key) override {
    ++moves;
    at_ = keys_.lower_bound(std::string(key));
  }
  void Next() override {
    ++moves;
    ++at_;
  }
  bool Valid() const override { return at_ != keys_.end(); }
  std::string_view key() const override { return *at_; }

  size_t moves = 0;

 private:
  const std::set<std::string>& keys_;
  std::set<std::string>::const_iterator at_;
};

Result<ObjectInfo> NameOnly(std::string_view key) {
  ObjectInfo info;
  info.key = key;
  return info;
}

std::vector<std::string> Names(const ListPage& page) {
  std::vector<std::string> names;
  for (const ObjectInfo& object : page.objects) names.push_back(object.key);
  return names;
}

ListPage List(const std::set<std::string>& keys, const ListOptions& options) {
  SetCursor cursor(keys);
  Result<ListPage> page = ListKeys(cursor, options, NameOnly);
  EXPECT_TRUE(page.ok()) << page.status().ToString();
  return page.ok() ? *std::move(page) : ListPage();
}

const std::set<std::string> kPhotos = {"readme",        "photos/2023/a", "photos/2023/b",
                                       "photos/2024/a", "photos/index",  "zoo"};

TEST(ListKeys, GivesAllKeysInByteOrder) {
  const ListPage page = List({"b", "a", "B", "a/b", "a-", "ä"}, {});
  EXPECT_THAT(Names(page), ElementsAre("B", "a", "a-", "a/b", "b", "ä"));
  EXPECT_FALSE(page.truncated);
  EXPECT_EQ(page.next_start_after, "");
}

TEST(ListKeys, GivesNothingForAnEmptyBucket) {
  const ListPage page = List({}, {.delimiter = "/"});
  EXPECT_THAT(page.objects, IsEmpty());
  EXPECT_THAT(page.common_prefixes, IsEmpty());
  EXPECT_FALSE(page.truncated);
}

TEST(ListKeys, RollsUpAtTheFirstDelimiterAfterThePrefix) {
  const ListPage top = List(kPhotos, {.delimiter = "/"});
  EXPECT_THAT(Names(top), ElementsAre("readme", "zoo"));
  EXPECT_THAT(top.common_prefixes, ElementsAre("photos/"));

  const ListPage photos = List(kPhotos, {.prefix = "photos/", .delimiter = "/"});
  EXPECT_THAT(Names(photos), ElementsAre("photos/index"));
  EXPECT_THAT(photos.common_prefixes, ElementsAre("photos/2023/", "photos/2024/"));

  // A prefix need not end in a delimiter.
  const ListPage part = List(kPhotos, {.prefix = "photos/20", .delimiter = "/"});
  EXPECT_THAT(part.common_prefixes, ElementsAre("photos/2023/", "photos/2024/"));
}

TEST(ListKeys, ListsAKeyThatEqualsThePrefixAndRollsUpOneThatEndsInTheDelimiter) {
  const std::set<std::string> keys = {"dir/", "dir/file"};
  EXPECT_THAT(List(keys, {.delimiter = "/"}).common_prefixes, ElementsAre("dir/"));
  EXPECT_THAT(Names(List(keys, {.prefix = "dir/", .delimiter = "/"})), ElementsAre("dir/", "dir/file"));
}

TEST(ListKeys, TakesDelimitersOfSeveralBytes) {
  const std::set<std::string> keys = {"a--b", "a-b", "a---c", "a-->", "x—y", "x—z", "x-y"};
  EXPECT_THAT(List(keys, {.delimiter = "--"}).common_prefixes, ElementsAre("a--"));
  EXPECT_THAT(List(keys, {.prefix = "x", .delimiter = "—"}).common_prefixes, ElementsAre("x—"));
  EXPECT_THAT(Names(List(keys, {.prefix = "x", .delimiter = "—"})), ElementsAre("x-y"));
}

TEST(ListKeys, IgnoresDelimitersInsideThePrefixAndAcrossItsEnd) {
  const std::set<std::string> keys = {"a/b/c", "a/b/d/e", "a/b"};
  const ListPage page = List(keys, {.prefix = "a/b/", .delimiter = "/"});
  EXPECT_THAT(Names(page), ElementsAre("a/b/c"));
  EXPECT_THAT(page.common_prefixes, ElementsAre("a/b/d/"));
  // "//" begins inside the prefix: only what lies wholly behind it counts.
  EXPECT_THAT(Names(List({"a//b"}, {.prefix = "a/", .delimiter = "//"})), ElementsAre("a//b"));
}

TEST(ListKeys, StartsAfterAKeyWhetherItExistsOrNot) {
  const std::set<std::string> keys = {"a", "b", "c"};
  EXPECT_THAT(Names(List(keys, {.start_after = "a"})), ElementsAre("b", "c"));
  EXPECT_THAT(Names(List(keys, {.start_after = "aa"})), ElementsAre("b", "c"));
  EXPECT_THAT(Names(List(keys, {.start_after = "c"})), IsEmpty());
  EXPECT_THAT(Names(List(keys, {.prefix = "b", .start_after = "a"})), ElementsAre("b"));
  EXPECT_THAT(Names(List(keys, {.prefix = "b", .start_after = "bb"})), IsEmpty());
  EXPECT_THAT(Names(List(keys, {.prefix = "b", .start_after = "x"})), IsEmpty());
}

TEST(ListKeys, StartsAfterEverythingUnderARolledUpPrefix) {
  const ListPage page = List(kPhotos, {.delimiter = "/", .start_after = "photos/"});
  EXPECT_THAT(Names(page), ElementsAre("readme", "zoo"));
  EXPECT_THAT(page.common_prefixes, IsEmpty());
}

TEST(ListKeys, TakesAStartAfterInsideARolledUpPrefixAsAPlainKey) {
  EXPECT_THAT(List(kPhotos, {.delimiter = "/", .start_after = "photos/2023/b"}).common_prefixes,
              ElementsAre("photos/"));
  EXPECT_THAT(List(kPhotos, {.delimiter = "/", .start_after = "photos/index"}).common_prefixes, IsEmpty());
  // With the prefix in place the same text is no common prefix but an ordinary key.
  EXPECT_THAT(Names(List({"d/", "d/a"}, {.prefix = "d/", .delimiter = "/", .start_after = "d/"})),
              ElementsAre("d/a"));
}

TEST(ListKeys, SaysWhereToGoOnOnlyWhenThereIsMore) {
  const std::set<std::string> keys = {"a", "b", "c/1", "c/2"};
  const ListPage first = List(keys, {.delimiter = "/", .limit = 2});
  EXPECT_TRUE(first.truncated);
  EXPECT_EQ(first.next_start_after, "b");
  const ListPage whole = List(keys, {.delimiter = "/", .limit = 3});  // what follows is under the last prefix
  EXPECT_FALSE(whole.truncated);
  EXPECT_THAT(whole.common_prefixes, ElementsAre("c/"));
  EXPECT_FALSE(List(keys, {.prefix = "a", .limit = 1}).truncated);
}

TEST(ListKeys, PagesPastTheHighestCodePoint) {
  const std::string top = "\xf4\x8f\xbf\xbf";  // U+10FFFF, the last of UTF-8
  const std::set<std::string> keys = {"a", "a" + top + "1", "a" + top + "2", "b", top, top + "1", top + top};
  const ListPage page = List(keys, {.delimiter = top});
  EXPECT_THAT(Names(page), ElementsAre("a", "b"));
  EXPECT_THAT(page.common_prefixes, ElementsAre("a" + top, top));
  EXPECT_THAT(Names(List(keys, {.prefix = top, .start_after = top})), ElementsAre(top + "1", top + top));
}

TEST(ListKeys, PassesAMillionKeysUnderAPrefixWithOneSeek) {
  std::set<std::string> keys;
  for (int i = 0; i < 10'000; ++i) keys.insert("big/" + std::to_string(i));
  keys.insert("zoo");
  SetCursor cursor(keys);
  const Result<ListPage> page = ListKeys(cursor, {.delimiter = "/"}, NameOnly);
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(page->common_prefixes, ElementsAre("big/"));
  EXPECT_THAT(Names(*page), ElementsAre("zoo"));
  EXPECT_EQ(cursor.moves, 3U);  // to the start, past the prefix, past "zoo"
}

TEST(ListKeys, LeavesOutWhatWasDeletedMeanwhileAndStopsAtOtherErrors) {
  const std::set<std::string> keys = {"a", "b", "c"};
  SetCursor cursor(keys);
  const auto failing = [](Code code) {
    return [code](std::string_view key) -> Result<ObjectInfo> {
      if (key == "b") return Status(code, "b");
      return NameOnly(key);
    };
  };
  const Result<ListPage> gone = ListKeys(cursor, {}, failing(Code::kNotFound));
  ASSERT_TRUE(gone.ok());
  EXPECT_THAT(Names(*gone), ElementsAre("a", "c"));
  EXPECT_EQ(ListKeys(cursor, {}, failing(Code::kDataLoss)).status().code(), Code::kDataLoss);
}

TEST(ListKeys, RefusesWhatIsBeyondTheLimits) {
  SetCursor cursor(kPhotos);
  const auto code = [&](const ListOptions& options) {
    return ListKeys(cursor, options, NameOnly).status().code();
  };
  EXPECT_EQ(code({.limit = 0}), Code::kInvalidArgument);
  EXPECT_EQ(code({.limit = 1001}), Code::kInvalidArgument);
  EXPECT_EQ(code({.limit = 1000}), Code::kOk);
  EXPECT_EQ(code({.prefix = std::string(1025, 'a')}), Code::kInvalidArgument);
  EXPECT_EQ(code({.prefix = "\xff"}), Code::kInvalidArgument);
  EXPECT_EQ(code({.delimiter = "\xc3"}), Code::kInvalidArgument);
  EXPECT_EQ(code({.start_after = std::string("a\0", 2)}), Code::kInvalidArgument);
}

TEST(AfterPrefix, IsTheFirstStringBeyondThePrefix) {
  EXPECT_EQ(AfterPrefix("a/"), "a0");
  EXPECT_EQ(AfterPrefix("a\xff"), "b");
  EXPECT_EQ(AfterPrefix("\xff\xff"), std::nullopt);
  EXPECT_EQ(AfterPrefix(""), std::nullopt);
}

TEST(ListKeys, PagesOfAnySizeAddUpToTheDefinition) {
  const uint64_t seed = TestSeed(20240601);
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  base::SeededRandom random(seed);
  const std::vector<std::string> letters = {"a", "b", "/", "-", "ä", "\xf4\x8f\xbf\xbf"};
  const auto text = [&](size_t longest) {
    std::string made;
    for (uint64_t n = random.Below(longest + 1); n > 0; --n) made += letters[random.Below(letters.size())];
    return made;
  };
  for (int round = 0; round < 300; ++round) {
    std::set<std::string> keys;
    for (int i = 0; i < 25; ++i) keys.insert("k" + text(6));
    ListOptions options{.prefix = random.Below(2) == 0 ? "" : "k" + text(2), .delimiter = text(2)};
    options.limit = static_cast<uint32_t>(1 + random.Below(5));
    std::vector<std::string> got;
    ListPage page;
    do {
      page = List(keys, options);
      ASSERT_LE(page.objects.size() + page.common_prefixes.size(), options.limit);
      const std::vector<std::string> entries = EntriesOf(page);
      got.insert(got.end(), entries.begin(), entries.end());
      options.start_after = page.next_start_after;
      ASSERT_LT(got.size(), 100U);
    } while (page.truncated);
    ASSERT_EQ(got, ExpectedListing(keys, options.prefix, options.delimiter))
        << "prefix `" << options.prefix << "` delimiter `" << options.delimiter << "`";
  }
}

}  // namespace
}  // namespace forebay::store
