// SPDX-License-Identifier: Apache-2.0
#include "auth/secret.h"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace forebay::auth {
namespace {

/// The flags of the mapping that `address` lies in, from /proc/self/smaps: "rd wr mr mw me ac dd ".
std::string FlagsOf(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long first = 0;
    unsigned long last = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2) {
      const auto at = reinterpret_cast<unsigned long>(address);
      inside = at >= first && at < last;
    }
    if (inside && line.starts_with("VmFlags:")) return line.substr(8) + " ";
  }
  return {};
}

TEST(SecretTest, LiesInMemoryThatNoCoreFileHolds) {
  base::SeededRandom random(1);
  const Secret secret = Secret::Generate(random);
  EXPECT_NE(FlagsOf(secret.view().data()).find(" dd "), std::string::npos);
  const int on_the_stack = 0;
  EXPECT_EQ(FlagsOf(&on_the_stack).find(" dd "), std::string::npos);
}

TEST(SecretTest, IsZeroUntilFilledAndWipedWhereItWas) {
  base::SeededRandom random(2);
  const std::byte* where = nullptr;
  {
    Secret secret;
    EXPECT_EQ(secret, Secret());
    random.Fill(secret.mutable_view());
    where = secret.view().data();
    EXPECT_FALSE(secret == Secret());
  }
  // The memory stays: secrets come and go in it.
  EXPECT_TRUE(std::all_of(where, where + Secret::kSize, [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(SecretTest, CopiesAndMovesAreValues) {
  base::SeededRandom random(3);
  const Secret original = Secret::Generate(random);
  Secret copy = original;
  EXPECT_EQ(copy, original);
  Secret moved = std::move(copy);
  EXPECT_EQ(moved, original);
  Secret assigned = Secret::Generate(random);
  assigned = std::move(moved);
  EXPECT_EQ(assigned, original);
  EXPECT_EQ(moved, Secret()) << "wiped, and good for another use";
  copy = assigned;
  EXPECT_EQ(copy, original);
}

TEST(SecretTest, ManyOfThemFitAndAreApart) {
  base::SeededRandom random(4);
  std::vector<Secret> secrets;
  for (int i = 0; i < 10'000; ++i) secrets.push_back(Secret::Generate(random));
  base::SeededRandom again(4);
  for (const Secret& secret : secrets) ASSERT_EQ(secret, Secret::Generate(again));
}

}  // namespace
}  // namespace forebay::auth
