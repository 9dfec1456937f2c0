// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/random.h"

namespace forebay::base {
namespace {

// RFC 3720, B.4.
TEST(Crc32c, MatchesThePublishedExamples) {
  Bytes bytes(32, std::byte{0});
  EXPECT_EQ(Crc32c(bytes), 0x8a9136aaU);
  bytes.assign(32, std::byte{0xff});
  EXPECT_EQ(Crc32c(bytes), 0x62a8ab43U);
  for (size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(Crc32c(bytes), 0x46dd794eU);
  for (size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(31 - i);
  EXPECT_EQ(Crc32c(bytes), 0x113fdb5cU);
  Bytes read_command(48);  // an iSCSI SCSI Read (10) command
  ASSERT_TRUE(
      FromHex("01c00000000000000000000000000000140000000000040000000014000000182800000000000000"
              "0200000000000000",
              read_command));
  EXPECT_EQ(Crc32c(read_command), 0xd9963a56U);
}

TEST(Crc32c, MatchesTheCheckValue) {
  EXPECT_EQ(Crc32c(AsBytes("123456789")), 0xe3069283U);
  EXPECT_EQ(Crc32c({}), kCrc32cEmpty);
}

TEST(Crc32c, ExtendsOverAnySplit) {
  const std::string_view text = "123456789";
  for (size_t split = 0; split <= text.size(); ++split) {
    const uint32_t first = Crc32c(AsBytes(text.substr(0, split)));
    EXPECT_EQ(Crc32cExtend(first, AsBytes(text.substr(split))), 0xe3069283U) << split;
    EXPECT_EQ(Crc32cCombine(first, Crc32c(AsBytes(text.substr(split))), text.size() - split), 0xe3069283U)
        << split;
  }
}

TEST(Crc32c, CombinesRandomPiecesToTheChecksumOfTheWhole) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 11;
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  SeededRandom random(seed);
  for (int round = 0; round < 200; ++round) {
    Bytes bytes(random.Below(20'000));
    random.Fill(bytes);
    uint32_t combined = kCrc32cEmpty;
    for (size_t at = 0; at < bytes.size();) {
      const size_t piece = std::min<size_t>(bytes.size() - at, random.Below(9000));  // empty pieces too
      combined = Crc32cCombine(combined, Crc32c(ByteView(bytes).subspan(at, piece)), piece);
      at += piece;
    }
    ASSERT_EQ(combined, Crc32c(bytes));
  }
}

// Of 32 zeros: RFC 3720, B.4. The others were computed bit by bit.
TEST(Crc32c, OfZeros) {
  EXPECT_EQ(Crc32cZeros(0), kCrc32cEmpty);
  EXPECT_EQ(Crc32cZeros(1), 0x527d5351U);
  EXPECT_EQ(Crc32cZeros(32), 0x8a9136aaU);
  EXPECT_EQ(Crc32cZeros(4096), 0x98f94189U);
  EXPECT_EQ(Crc32cZeros(1 << 20), 0x14298c12U);
  const Bytes half(size_t{1} << 19, std::byte{0});
  EXPECT_EQ(Crc32cZeros(1 << 20), Crc32cCombine(Crc32c(half), Crc32c(half), half.size()));
}

TEST(Crc32c, OfWhatIsCutOffOrReplaced) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 12;
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  SeededRandom random(seed);
  for (int round = 0; round < 200; ++round) {
    Bytes bytes(1 + random.Below(20'000));
    random.Fill(bytes);
    const ByteView all = bytes;
    const uint32_t whole = Crc32c(all);
    const size_t begin = random.Below(bytes.size());
    const size_t length = random.Below(bytes.size() - begin + 1);
    ASSERT_EQ(Crc32cWithout(whole, Crc32c(all.subspan(begin)), bytes.size() - begin), Crc32c(all.first(begin)));
    const uint32_t before = Crc32c(all.subspan(begin, length));
    random.Fill(MutableByteView(bytes).subspan(begin, length));
    ASSERT_EQ(Crc32cReplace(whole, before, Crc32c(all.subspan(begin, length)), bytes.size() - begin - length),
              Crc32c(all));
  }
  // Longer than any memory: zeros that were put behind something are taken away again.
  constexpr uint64_t kLong = 5'497'558'138'881;  // 5 TiB + 1, more than a thousand times the order
  EXPECT_EQ(Crc32cWithout(Crc32cCombine(0xe3069283, Crc32cZeros(kLong), kLong), Crc32cZeros(kLong), kLong), 0xe3069283U);
}

TEST(Crc32c, CombinesPiecesOfEveryPowerOfTwo) {
  Bytes bytes((size_t{1} << 23) + 77);
  SeededRandom(4).Fill(bytes);
  for (size_t k = 0; k <= 22; ++k) {
    const size_t piece = size_t{1} << k;
    const ByteView both = ByteView(bytes).first(77 + piece);
    EXPECT_EQ(Crc32cCombine(Crc32c(both.first(77)), Crc32c(both.subspan(77)), piece), Crc32c(both)) << k;
  }
  const ByteView all = ByteView(bytes).first((size_t{1} << 23) - 1);  // every power below it
  EXPECT_EQ(Crc32cCombine(Crc32c(all.first(0)), Crc32c(all), all.size()), Crc32c(all));
  EXPECT_EQ(Crc32cCombine(Crc32c(ByteView(bytes).first(78)), Crc32c(ByteView(bytes).subspan(78)), bytes.size() - 78),
            Crc32c(bytes));
}

TEST(Crc32c, CombinesLengthsBeyondFourGigabytes) {
  // Combining with 0 only shifts the first checksum over the length: twice 2^33 bytes is once 2^34.
  constexpr uint64_t kLength = uint64_t{1} << 33;
  const uint32_t once = Crc32cCombine(0xe3069283, 0, kLength);
  EXPECT_NE(once, 0xe3069283);
  EXPECT_EQ(Crc32cCombine(once, 0, kLength), Crc32cCombine(0xe3069283, 0, 2 * kLength));
  EXPECT_NE(Crc32cCombine(0xe3069283, 0, kLength + 1), once);
}

TEST(Crc32c, SeesEverySingleFlippedBit) {
  Bytes block(4096);
  SeededRandom(3).Fill(block);
  const uint32_t right = Crc32c(block);
  for (size_t bit = 0; bit < block.size() * 8; bit += 97) {
    block[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(Crc32c(block), right);
    block[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

}  // namespace
}  // namespace forebay::base
