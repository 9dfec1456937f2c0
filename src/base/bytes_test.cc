// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <array>

#include <gtest/gtest.h>

namespace forebay::base {
namespace {

TEST(RangeFits, IsExactAtItsEdgesAndCannotOverflow) {
  EXPECT_TRUE(RangeFits(0, 0, 0));
  EXPECT_TRUE(RangeFits(0, 10, 10));
  EXPECT_TRUE(RangeFits(10, 0, 10));
  EXPECT_TRUE(RangeFits(3, 7, 10));
  EXPECT_FALSE(RangeFits(3, 8, 10));
  EXPECT_FALSE(RangeFits(11, 0, 10));
  EXPECT_FALSE(RangeFits(UINT64_MAX, 1, 10));
  EXPECT_FALSE(RangeFits(1, UINT64_MAX, 10));
  EXPECT_FALSE(RangeFits(UINT64_MAX, UINT64_MAX, UINT64_MAX));
  EXPECT_TRUE(RangeFits(UINT64_MAX, 0, UINT64_MAX));
}

TEST(Rounding, GoesToMultiples) {
  EXPECT_EQ(RoundDown(4095, 4096), 0U);
  EXPECT_EQ(RoundDown(4096, 4096), 4096U);
  EXPECT_EQ(RoundUp(0, 4096), 0U);
  EXPECT_EQ(RoundUp(1, 4096), 4096U);
  EXPECT_EQ(RoundUp(4097, 4096), 8192U);
  EXPECT_EQ(DivideUp(0, 3), 0U);
  EXPECT_EQ(DivideUp(7, 3), 3U);
  EXPECT_EQ(DivideUp(UINT64_MAX, 2), uint64_t{1} << 63);
}

TEST(Hex, GoesBothWays) {
  const std::array<std::byte, 4> bytes = {std::byte{0x00}, std::byte{0x9f}, std::byte{0xa0}, std::byte{0xff}};
  EXPECT_EQ(ToHex(bytes), "009fa0ff");
  std::array<std::byte, 4> read{};
  EXPECT_TRUE(FromHex("009fa0ff", read));
  EXPECT_EQ(read, bytes);
  EXPECT_TRUE(FromHex("009FA0FF", read));
  EXPECT_EQ(read, bytes);
  EXPECT_EQ(ToHex({}), "");
}

TEST(Hex, RefusesOtherLengthsAndCharacters) {
  std::array<std::byte, 2> out{};
  for (const char* text : {"", "0", "000", "00000", "00g0", "0x00", " 000", "-100"})
    EXPECT_FALSE(FromHex(text, out)) << text;
}

TEST(ParseSize, ReadsPowersOf1024) {
  const std::pair<const char*, uint64_t> kSizes[] = {{"0", 0},
                                                     {"4096", 4096},
                                                     {"512b", 512},
                                                     {"64K", 65536},
                                                     {"64k", 65536},
                                                     {"64kB", 65536},
                                                     {"1MiB", 1048576},
                                                     {"2g", 2147483648},
                                                     {"1T", 1099511627776},
                                                     {"1P", 1125899906842624},
                                                     {"18446744073709551615", UINT64_MAX},
                                                     {"16777215T", 18446742974197923840U}};
  for (const auto& [text, size] : kSizes) {
    uint64_t read = 1;
    EXPECT_TRUE(ParseSize(text, &read)) << text;
    EXPECT_EQ(read, size) << text;
  }
}

TEST(ParseSize, RefusesOverflowAndEverythingElse) {
  for (const char* text : {"", "K", "-1", "+1", " 1", "1 ", "1 K", "1.5M", "1KK", "1KiBs", "1i", "0x10",
                           "18446744073709551616", "16777216T", "99999999999999999999999K"}) {
    uint64_t read = 77;
    EXPECT_FALSE(ParseSize(text, &read)) << text;
    EXPECT_EQ(read, 77U) << text;
  }
}

TEST(FormatSize, IsForPeople) {
  EXPECT_EQ(FormatSize(0), "0 B");
  EXPECT_EQ(FormatSize(1023), "1023 B");
  EXPECT_EQ(FormatSize(1024), "1.0 KiB");
  EXPECT_EQ(FormatSize(1536), "1.5 KiB");
  EXPECT_EQ(FormatSize(kMiB - 1), "1.0 MiB");  // not "1024.0 KiB"
  EXPECT_EQ(FormatSize(3 * kGiB), "3.0 GiB");
  EXPECT_EQ(FormatSize(UINT64_MAX), "16.0 EiB");
}

}  // namespace
}  // namespace forebay::base
