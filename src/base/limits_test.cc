// SPDX-License-Identifier: Apache-2.0
#include "base/limits.h"

#include <gtest/gtest.h>

namespace forebay::base {
namespace {

// The Unicode Standard, table 3-7: the first and last well-formed sequence of each row.
TEST(IsUtf8, TakesTheEdgesOfEachRow) {
  for (const char* text : {"",
                           "\x01",
                           "\x7f",
                           "\xc2\x80",
                           "\xdf\xbf",
                           "\xe0\xa0\x80",
                           "\xe0\xbf\xbf",
                           "\xe1\x80\x80",
                           "\xec\xbf\xbf",
                           "\xed\x80\x80",
                           "\xed\x9f\xbf",
                           "\xee\x80\x80",
                           "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80",
                           "\xf0\xbf\xbf\xbf",
                           "\xf1\x80\x80\x80",
                           "\xf3\xbf\xbf\xbf",
                           "\xf4\x80\x80\x80",
                           "\xf4\x8f\xbf\xbf",
                           "grün/日本/🌊"}) {
    EXPECT_TRUE(IsUtf8(text)) << ToHex(AsBytes(text));
  }
  EXPECT_TRUE(IsUtf8(std::string_view("\0", 1)));
}

TEST(IsUtf8, RefusesWhatLiesJustOutside) {
  for (const char* text : {"\x80",
                           "\xbf",
                           "\xc0\x80",
                           "\xc1\xbf",
                           "\xc2",
                           "\xc2\x7f",
                           "\xc2\xc0",
                           "\xe0\x9f\xbf",
                           "\xe0\xa0",
                           "\xe1\x80",
                           "\xe1\x80\x7f",
                           "\xed\xa0\x80",
                           "\xed\xbf\xbf",
                           "\xf0\x8f\xbf\xbf",
                           "\xf0\x90\x80",
                           "\xf1\x80\x80\xc0",
                           "\xf4\x90\x80\x80",
                           "\xf5\x80\x80\x80",
                           "\xfe",
                           "\xff",
                           "ok\xff",
                           "a\xe2\x82"}) {
    EXPECT_FALSE(IsUtf8(text)) << ToHex(AsBytes(text));
  }
}

TEST(CheckKey, TakesAnyCleanTextOf1To1024Bytes) {
  EXPECT_TRUE(CheckKey("a").ok());
  EXPECT_TRUE(CheckKey(std::string(1024, 'k')).ok());
  EXPECT_TRUE(CheckKey("../%2F//+ \n\xf4\x8f\xbf\xbf").ok());
}

TEST(CheckKey, NamesTheBrokenRule) {
  EXPECT_NE(CheckKey("").message().find("empty"), std::string_view::npos);
  EXPECT_NE(CheckKey(std::string(1025, 'k')).message().find("1025"), std::string_view::npos);
  EXPECT_NE(CheckKey(std::string_view("a\0b", 3)).message().find("NUL"), std::string_view::npos);
  EXPECT_NE(CheckKey("a\xff").message().find("UTF-8"), std::string_view::npos);
  // 1024 bytes that end in the middle of a character
  EXPECT_EQ(CheckKey(std::string(1022, 'k') + "\xe2\x82").code(), Code::kInvalidArgument);
}

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
TEST(CheckBucketName, FollowsTheRulesOfS3) {
  for (const std::string& name :
       {std::string("abc"), std::string(63, 'a'), std::string("my-bucket.v2"), std::string("007"),
        std::string("1.2.3"), std::string("1.2.3.4.5"), std::string("1.2.3.x")}) {
    EXPECT_TRUE(CheckBucketName(name).ok()) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("ab"), std::string(64, 'a'), std::string("Abc"), std::string("a_b"),
        std::string("a/b"), std::string("a b"), std::string("-abc"), std::string("abc-"), std::string(".abc"),
        std::string("abc."), std::string("a..b"), std::string("..."),
        std::string("b\xc3\xbc"
                    "cher"),
        std::string("a\0b", 3), std::string("192.168.5.4")}) {
    EXPECT_EQ(CheckBucketName(name).code(), Code::kInvalidArgument) << name;
  }
}

TEST(CheckBucketName, DoesNotRepeatHostileNames) {
  EXPECT_EQ(CheckBucketName("\xff\xfe").message().find('\xff'), std::string_view::npos);
  EXPECT_LT(CheckBucketName(std::string(100'000, 'a')).message().size(), 300U);
}

}  // namespace
}  // namespace forebay::base
