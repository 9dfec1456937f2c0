// SPDX-License-Identifier: Apache-2.0
#include "base/ids.h"

#include <algorithm>
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
  EXPECT_FALSE(OperationId().HasTime());
  base::SeededRandom random(2);
  std::unordered_set<OperationId> seen;
  for (int i = 0; i < 1000; ++i) {
    const OperationId id = OperationId::Generate(1'700'000'000'000, random);
    EXPECT_FALSE(id.IsNone());
    EXPECT_TRUE(seen.insert(id).second);
  }
  EXPECT_EQ(OperationId().ToString(), std::string(32, '0'));
}

/// Gives the bytes it is made of.
class GivenRandom final : public base::Random {
 public:
  explicit GivenRandom(std::string_view hex) { EXPECT_TRUE(base::FromHex(hex, bytes_)); }
  void Fill(MutableByteView out) override {
    std::ranges::copy(std::span(bytes_).first(out.size()), out.begin());
  }

 private:
  std::array<std::byte, 10> bytes_{};
};

// RFC 9562, appendix A.6: 2022-02-22 14:22:22 GMT-05:00, rand_a cc3, rand_b 18c4dc0c0c07398f. The four bits
// of the version and the two of the variant are set here, as they are in what a random source gives.
TEST(OperationId, IsTheExampleOfTheRfc) {
  GivenRandom random("fcc3d8c4dc0c0c07398f");
  const OperationId id = OperationId::Generate(0x17F22E279B0, random);
  EXPECT_EQ(id.ToString(), "017f22e279b07cc398c4dc0c0c07398f");
  EXPECT_TRUE(id.HasTime());
  EXPECT_EQ(id.unix_ms(), 1'645'557'742'000U);
}

TEST(OperationId, IsOrderedByItsTimeWhichEndsWithItsBits) {
  base::SeededRandom random(3);
  EXPECT_LT(OperationId::Generate(1'000'255, random), OperationId::Generate(1'000'256, random));
  EXPECT_EQ(OperationId::Generate(UINT64_MAX, random).unix_ms(), 0xffff'ffff'ffffU);
  EXPECT_EQ(OperationId::Generate(0, random).unix_ms(), 0U);
}

TEST(OperationId, OnlyVersion7HasATime) {
  base::SeededRandom random(4);
  OperationId id = OperationId::Generate(1, random);
  id.bytes[6] = std::byte{0x4f};
  EXPECT_FALSE(id.HasTime());
  id.bytes[6] = std::byte{0x7f};
  EXPECT_TRUE(id.HasTime());
  id.bytes[8] = std::byte{0xc0};
  EXPECT_FALSE(id.HasTime());
}

}  // namespace
}  // namespace forebay
