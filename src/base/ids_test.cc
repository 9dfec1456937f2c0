// SPDX-License-Identifier: Apache-2.0
#include "base/ids.h"

#include <unordered_set>

#include <gtest/gtest.h>

namespace forebay {
namespace {

TEST(Uuid, HasTheBitsOfVersion4) {
  base::SeededRandom random(1);
  for (int i = 0; i < 100; ++i) {
    const Uuid id = Uuid::Generate(random);
    EXPECT_EQ(id.bytes[6] & std::byte{0xf0}, std::byte{0x40});
    EXPECT_EQ(id.bytes[8] & std::byte{0xc0}, std::byte{0x80});
    const std::string text = id.ToString();
    EXPECT_EQ(text[14], '4');
    EXPECT_NE(std::string("89ab").find(text[19]), std::string::npos);
  }
}

TEST(Uuid, IsWrittenInFiveGroupsAndReadBack) {
  Uuid id;
  for (size_t i = 0; i < 16; ++i) id.bytes[i] = static_cast<std::byte>(0x10 + i);
  EXPECT_EQ(id.ToString(), "10111213-1415-1617-1819-1a1b1c1d1e1f");
  Uuid read;
  ASSERT_TRUE(Uuid::Parse("10111213-1415-1617-1819-1A1B1C1D1E1F", &read));
  EXPECT_EQ(read, id);
}

TEST(Uuid, ParseRefusesWhatIsNoUuid) {
  Uuid out;
  for (const char* text :
       {"", "10111213", "101112131415161718191a1b1c1d1e1f", "10111213-1415-1617-1819-1a1b1c1d1e1",
        "10111213-1415-1617-1819-1a1b1c1d1e1f0", "1011121-31415-1617-1819-1a1b1c1d1e1f",
        "10111213-1415-1617-1819-1a1b1c1d1e1g", "10111213_1415_1617_1819_1a1b1c1d1e1f",
        "{0111213-1415-1617-1819-1a1b1c1d1e1f", "10111213-1415-1617-1819--a1b1c1d1e1f"}) {
    EXPECT_FALSE(Uuid::Parse(text, &out)) << text;
  }
}

TEST(OperationId, IsNoneUntilGeneratedAndThenUnique) {
  EXPECT_TRUE(OperationId().IsNone());
  base::SeededRandom random(2);
  std::unordered_set<OperationId> seen;
  for (int i = 0; i < 1000; ++i) {
    const OperationId id = OperationId::Generate(random);
    EXPECT_FALSE(id.IsNone());
    EXPECT_TRUE(seen.insert(id).second);
  }
  EXPECT_EQ(OperationId().ToString(), std::string(32, '0'));
}

}  // namespace
}  // namespace forebay
