// SPDX-License-Identifier: Apache-2.0
#include "backend/tree_cursor.h"

#include <set>

#include <gtest/gtest.h>

#include "backend/directory_fixture.h"
#include "base/random.h"

namespace forebay::backend {
namespace {

class TreeCursorTest : public testing::Test {
 protected:
  void Make(const std::string& key) { WriteFile(directory_.path() + "/" + key, ""); }
  std::vector<std::string> From(const std::string& key) {
    const Descriptor tree(::open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    TreeCursor cursor(tree.get());
    std::vector<std::string> keys;
    for (cursor.Seek(key); cursor.Valid(); cursor.Next()) keys.emplace_back(cursor.key());
    EXPECT_TRUE(cursor.status().ok());
    return keys;
  }
  OwnDirectory directory_;
};

using Keys = std::vector<std::string>;

TEST_F(TreeCursorTest, KeysComeInTheOrderOfTheirBytes) {
  for (const char* const key : {"a/b", "a.b", "a0", "a/", "b"})
    if (std::string_view(key) != "a/") Make(key);
  std::filesystem::create_directories(directory_.path() + "/a/empty/too");
  EXPECT_EQ(From(""), (Keys{"a.b", "a/b", "a0", "b"}));
  EXPECT_EQ(From("a/"), (Keys{"a/b", "a0", "b"}));
  EXPECT_EQ(From("a/c"), (Keys{"a0", "b"}));
  EXPECT_EQ(From("a/b"), (Keys{"a/b", "a0", "b"}));
  EXPECT_EQ(From("a/empty/z"), (Keys{"a0", "b"}));
  EXPECT_EQ(From("c"), Keys{});
}

TEST_F(TreeCursorTest, LinksAndNamesThatAreNoKeysAreLeftOut) {
  Make("file");
  Make("directory/file");
  Make("not-utf8-\xff");
  std::filesystem::create_symlink("file", directory_.path() + "/link");
  std::filesystem::create_directory_symlink("directory", directory_.path() + "/linked");
  std::filesystem::create_directory_symlink("/", directory_.path() + "/directory/out");
  ASSERT_EQ(::mkfifo((directory_.path() + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(From(""), (Keys{"directory/file", "file"}));
}

TEST_F(TreeCursorTest, EverySeekOfARandomTreeIsThatOfAnOrderedSet) {
  base::SeededRandom random(20240703);
  std::set<std::string> keys;
  const std::string few = "ab.-0";
  while (keys.size() < 300) {
    std::string key;
    for (uint64_t depth = 1 + random.Below(4); depth != 0; --depth) {
      if (!key.empty()) key += '/';
      std::string name(1 + random.Below(2), ' ');
      for (char& c : name) c = few[random.Below(few.size())];
      key += name == "." || name == ".." ? "dots" : name;
    }
    const auto below = keys.lower_bound(key + "/");
    bool clashes = below != keys.end() && below->starts_with(key + "/");
    for (size_t slash = key.find('/'); slash != std::string::npos; slash = key.find('/', slash + 1))
      clashes |= keys.contains(key.substr(0, slash));
    if (clashes || !keys.insert(key).second) continue;
    Make(key);
  }
  const Descriptor tree(::open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  TreeCursor cursor(tree.get());  // one for all, as a listing that skips common prefixes has it
  for (int i = 0; i < 3000; ++i) {
    std::string target = *std::next(keys.begin(), static_cast<ptrdiff_t>(random.Below(keys.size())));
    target.resize(random.Below(target.size() + 1));
    if (random.Below(2) == 0) target += "/"[0];
    if (random.Below(3) == 0) target += static_cast<char>(random.Below(256));
    auto expected = keys.lower_bound(target);
    cursor.Seek(target);
    for (uint64_t steps = random.Below(5); expected != keys.end(); --steps, ++expected, cursor.Next()) {
      ASSERT_TRUE(cursor.Valid()) << target;
      ASSERT_EQ(cursor.key(), *expected) << target;
      if (steps == 0) break;
    }
    if (expected == keys.end()) ASSERT_FALSE(cursor.Valid()) << target;
  }
}

}  // namespace
}  // namespace forebay::backend
