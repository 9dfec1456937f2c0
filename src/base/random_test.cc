// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <array>
#include <set>

#include <gtest/gtest.h>

namespace forebay::base {
namespace {

// SplitMix64's published first outputs for the seed 1234567.
TEST(SeededRandom, IsSplitMix64) {
  SeededRandom random(1234567);
  for (const uint64_t expected : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U,
                                  4593380528125082431U, 16408922859458223821U}) {
    EXPECT_EQ(random.Next64(), expected);
  }
}

TEST(SeededRandom, FillsAnyLengthAndNothingBeyond) {
  for (size_t size = 0; size <= 17; ++size) {
    std::array<std::byte, 18> bytes{};
    SeededRandom(9).Fill(MutableByteView(bytes).first(size));
    EXPECT_EQ(bytes[size], std::byte{0});
    if (size >= 8) {
      EXPECT_NE(Bytes(bytes.begin(), bytes.begin() + 8), Bytes(8));
    }
  }
}

TEST(Random, BelowStaysBelowAndReachesEverything) {
  SeededRandom random(4);
  std::set<uint64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(random.Below(6));
  EXPECT_EQ(seen, (std::set<uint64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(random.Below(1), 0U);
}

TEST(SecureRandom, DoesNotRepeatItself) {
  SecureRandom random;
  std::set<uint64_t> seen;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(seen.insert(random.Next64()).second);
  Bytes large(1000);  // more than getrandom gives without EINTR
  random.Fill(large);
  EXPECT_NE(Bytes(large.end() - 16, large.end()), Bytes(16));
}

}  // namespace
}  // namespace forebay::base
