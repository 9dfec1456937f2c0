// SPDX-License-Identifier: Apache-2.0
#include "store/checks.h"

#include <gtest/gtest.h>

namespace forebay::store {
namespace {

Code PutCode(const PutOptions& options) { return CheckPut("key", options).code(); }

TEST(CheckPut, TakesETagsThatEveryProtocolCanCarry) {
  EXPECT_EQ(PutCode({.etag = "9e107d9d372bb6826bd81d3542a419d6-2"}), Code::kOk);
  EXPECT_EQ(PutCode({.etag = std::string(64, '!')}), Code::kOk);
  for (const std::string& etag :
       {std::string(65, 'e'), std::string("a\"b"), std::string("a b"), std::string("a\r\nb"),
        std::string("a\x7f"), std::string("\xc3\xa9"), std::string("a\0", 2)}) {
    EXPECT_EQ(PutCode({.etag = etag}), Code::kInvalidArgument) << etag;
  }
}

TEST(CheckPut, CountsNamesAndValuesOfTheMetadata) {
  EXPECT_EQ(PutCode({.metadata = {{"ab", std::string(8190, 'x')}}}), Code::kOk);
  EXPECT_EQ(PutCode({.metadata = {{"abc", std::string(8190, 'x')}}}), Code::kInvalidArgument);
  EXPECT_EQ(PutCode({.metadata = {{"a", std::string("\0", 1)}}}), Code::kInvalidArgument);
}

TEST(CheckObjectSize, ReachesFiveTebibytesAndDoesNotOverflow) {
  constexpr uint64_t kLimit = 5'497'558'138'880;
  EXPECT_TRUE(CheckObjectSize(kLimit - 1, 1).ok());
  EXPECT_EQ(CheckObjectSize(kLimit, 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckObjectSize(1, UINT64_MAX).code(), Code::kInvalidArgument);
  EXPECT_EQ(PutCode({.size_bytes = kLimit}), Code::kOk);
}

TEST(CheckContent, ComparesOnlyWhatWasGiven) {
  EXPECT_TRUE(CheckContent(std::nullopt, 7, "b", "k").ok());
  EXPECT_TRUE(CheckContent(7, 7, "b", "k").ok());
  const Status status = CheckContent(0xe3069283, 7, "b", "k");
  EXPECT_EQ(status.code(), Code::kDataLoss);
  for (const char* part : {"b/k", "e3069283", "00000007"}) {
    EXPECT_NE(status.message().find(part), std::string_view::npos) << status.ToString();
  }
}

TEST(DefaultETag, IsVersionAndChecksumInHex) {
  EXPECT_EQ(DefaultETag(0x1a, 0xe3069283), "000000000000001a-e3069283");
  EXPECT_EQ(DefaultETag(UINT64_MAX, 0), "ffffffffffffffff-00000000");
}

}  // namespace
}  // namespace forebay::store
