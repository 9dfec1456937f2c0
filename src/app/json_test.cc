// SPDX-License-Identifier: Apache-2.0
#include "app/json.h"

#include <gtest/gtest.h>

namespace forebay::app {
namespace {

TEST(Json, EscapesWhatKeysMayHold) {
  EXPECT_EQ(ToJson({{"key", std::string("a\"b\\c\n\x01é")}}), "{\"key\":\"a\\\"b\\\\c\\n\\u0001é\"}");
}

TEST(Json, KeepsTheOrderAndTheKindsOfValues) {
  EXPECT_EQ(ToJson({{"z", true}, {"a", uint64_t{18446744073709551615U}}, {"m", int64_t{-1}}, {"x", 0.5}}),
            R"({"z":true,"a":18446744073709551615,"m":-1,"x":0.5})");
}

TEST(Json, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(ToJson({{"key", std::string("\xff")}}), "{\"key\":\"\xef\xbf\xbd\"}");
}

TEST(Json, WritesTimesInUtc) {
  // 1,000,000,000 s after the epoch, as every Unix handbook has it.
  EXPECT_EQ(FormatTime(std::chrono::system_clock::time_point(std::chrono::seconds(1'000'000'000))),
            "2001-09-09T01:46:40Z");
}

TEST(Json, AnObjectHasTheDocumentedFields) {
  ObjectInfo object;
  object.key = "k";
  object.size = 9;
  object.version = 7;
  object.etag = "e";
  object.crc32c = 0xe3069283;
  object.metadata["color"] = "blue";
  object.attributes["s3.tag"] = "x";
  EXPECT_EQ(
      ToJson(object),
      R"({"key":"k","size_bytes":9,"version":7,"etag":"e","crc32c":"e3069283","modified":"1970-01-01T00:00:00Z",)"
      R"("metadata":{"color":"blue"},"attributes":{"s3.tag":"x"}})");
}

}  // namespace
}  // namespace forebay::app
