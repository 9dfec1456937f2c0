// SPDX-License-Identifier: Apache-2.0
#include "backend/names.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace forebay::backend {
namespace {

TEST(Names, APathThatStaysInsideIsStoredAsItIs) {
  for (const std::string key : {"a", "a/b", "a.b", ".hidden", "...", "a b", "ä", "a\nb", "A", "-", "~", ".forebay", "a/..b/c.."})
    EXPECT_TRUE(IsPath(key)) << key;
  EXPECT_TRUE(IsPath(std::string(255, 'n')));
}

TEST(Names, WhatIsNoPathIsNone) {
  for (const std::string& key :
       {std::string(), std::string("/"), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."),
        std::string(".."), std::string("../a"), std::string("a/.."), std::string("a/./b"), std::string("a/../../b"),
        std::string("/etc/passwd"), std::string("a\0b", 3), std::string(256, 'n'), "a/" + std::string(256, 'n')})
    EXPECT_FALSE(IsPath(key)) << key;
}

TEST(Names, EscapedNamesAreAsTheFormatSays) {
  EXPECT_EQ(EscapeKey("a//b"), "a%2f%2fb");
  EXPECT_EQ(EscapeKey(".."), "%2e.");
  EXPECT_EQ(EscapeKey("."), "%2e");
  EXPECT_EQ(EscapeKey("dir/"), "dir%2f");
  EXPECT_EQ(EscapeKey("100%+"), "100%25%2b");
  EXPECT_EQ(EscapeKey("\xc3\xa4/"), "%c3%a4%2f");
  EXPECT_EQ(EscapeKey(std::string(241, 'k')), std::string(240, 'k') + "+/k");
  EXPECT_EQ(EscapeKey(std::string(240, 'k') + "."), std::string(240, 'k') + "+/.=");
}

TEST(Names, EachKeyHasOneEscapedNameAndBack) {
  base::SeededRandom random(20240701);
  std::set<std::string> keys = {".", "..", "/", "//", "a", "a/", "a/b", "+", "%", "=", "%2f", std::string("\0", 1), "\xff\xfe"};
  for (const size_t size : {239, 240, 241, 242, 480, 481, 1024}) {
    keys.insert(std::string(size, 'k'));
    keys.insert(std::string(size, '.'));
    keys.insert(std::string(size, '/'));
  }
  const std::string few = "./+=%a";
  for (int i = 0; i < 20'000; ++i) {
    std::string key(1 + random.Below(i % 10 == 0 ? 1024 : 12), '\0');
    for (char& c : key) c = i % 2 == 0 ? few[random.Below(few.size())] : static_cast<char>(random.Below(256));
    keys.insert(key);
  }
  std::set<std::string> paths;
  for (const std::string& key : keys) {
    const std::string path = EscapeKey(key);
    ASSERT_EQ(UnescapeKey(path), key);
    ASSERT_TRUE(IsPath(path)) << path;
    ASSERT_TRUE(paths.insert(path).second) << path;
  }
  // None is a directory of another: the paths stand in order, and what is below a directory would follow it.
  for (const std::string& path : paths) {
    const auto below = paths.lower_bound(path + "/");
    ASSERT_TRUE(below == paths.end() || !below->starts_with(path + "/")) << path << " and " << *below;
  }
}

TEST(Names, OnlyItsOwnNamesAreRead) {
  for (const std::string path : {"", ".", "..", "a/b", "a+", "a+/b", "%", "%2", "%2F", "%zz", "%61", "a=", "%2e=", "a b", "ä"})
    EXPECT_EQ(UnescapeKey(path), std::nullopt) << path;
}

}  // namespace
}  // namespace forebay::backend
