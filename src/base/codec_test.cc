// SPDX-License-Identifier: Apache-2.0
#include "base/codec.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/random.h"

namespace forebay::base {
namespace {

using std::string_literals::operator""s;

std::string Varint(uint64_t value) {
  std::string out;
  Encoder(&out).Varint(value);
  return out;
}

TEST(Encoder, WritesFixedNumbersLittleEndianAndKeysBigEndian) {
  std::string out;
  Encoder encoder(&out);
  encoder.U8(0x01);
  encoder.U16(0x0203);
  encoder.U32(0x04050607);
  encoder.U64(0x08090a0b0c0d0e0f);
  encoder.U64BigEndian(0x1011121314151617);
  EXPECT_EQ(ToHex(AsBytes(out)),
            "01"
            "0302"
            "07060504"
            "0f0e0d0c0b0a0908"
            "1011121314151617");
  EXPECT_EQ(encoder.size(), 23U);
}

// The examples of the Protocol Buffers encoding guide and the edges of each length.
TEST(Encoder, WritesVarintsAsLeb128) {
  EXPECT_EQ(Varint(0), "\x00"s);
  EXPECT_EQ(Varint(1), "\x01");
  EXPECT_EQ(Varint(127), "\x7f");
  EXPECT_EQ(Varint(128), "\x80\x01");
  EXPECT_EQ(Varint(150), "\x96\x01");
  EXPECT_EQ(Varint(16383), "\xff\x7f");
  EXPECT_EQ(Varint(16384), "\x80\x80\x01");
  EXPECT_EQ(Varint(UINT64_MAX), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST(Codec, RoundTripsEveryKindOfField) {
  std::string out;
  Encoder encoder(&out);
  encoder.U8(255);
  encoder.U16(65535);
  encoder.U32(UINT32_MAX);
  encoder.U64(UINT64_MAX - 1);
  encoder.U64BigEndian(42);
  encoder.Blob("blob");
  encoder.Blob("");
  encoder.Raw("raw");
  encoder.Raw(AsBytes("more"));

  Decoder decoder{std::string_view(out)};
  EXPECT_EQ(decoder.U8(), 255);
  EXPECT_EQ(decoder.U16(), 65535);
  EXPECT_EQ(decoder.U32(), UINT32_MAX);
  EXPECT_EQ(decoder.U64(), UINT64_MAX - 1);
  EXPECT_EQ(decoder.U64BigEndian(), 42U);
  EXPECT_EQ(decoder.Blob(4), "blob");
  EXPECT_EQ(decoder.Blob(0), "");
  EXPECT_EQ(decoder.Raw(3), "raw");
  std::array<std::byte, 4> more{};
  decoder.Raw(more);
  EXPECT_EQ(AsText(more), "more");
  EXPECT_TRUE(decoder.Finish("x").ok());
}

TEST(Codec, RoundTripsVarintsAroundEachPowerOfTwo) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (const uint64_t value : {(uint64_t{1} << bit) - 1, uint64_t{1} << bit, (uint64_t{1} << bit) + 1}) {
      const std::string bytes = Varint(value);
      Decoder decoder{std::string_view(bytes)};
      EXPECT_EQ(decoder.Varint(), value);
      EXPECT_TRUE(decoder.Finish("varint").ok());
    }
  }
}

void ExpectBadVarint(std::string_view bytes) {
  Decoder decoder(bytes);
  EXPECT_EQ(decoder.Varint(), 0U) << ToHex(AsBytes(bytes));
  EXPECT_TRUE(decoder.failed()) << ToHex(AsBytes(bytes));
}

TEST(Decoder, RefusesVarintsThatAreCutShort) {
  ExpectBadVarint("");
  ExpectBadVarint("\x80");
  ExpectBadVarint("\xff\xff\xff\xff\xff\xff\xff\xff\xff");
}

TEST(Decoder, RefusesVarintsBeyond64Bits) {
  ExpectBadVarint("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");
  ExpectBadVarint("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
  ExpectBadVarint("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01");
  ExpectBadVarint("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
}

// Two encodings of one value would let two different messages mean, and hash as, the same.
TEST(Decoder, RefusesVarintsThatAreLongerThanNeeded) {
  ExpectBadVarint("\x80\x00"s);
  ExpectBadVarint("\x81\x00"s);
  ExpectBadVarint("\xff\x80\x00"s);
  ExpectBadVarint("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00"s);
}

TEST(Decoder, FailureSticksAndYieldsZeros) {
  Decoder decoder{std::string_view("\x01\x02\x03")};
  EXPECT_EQ(decoder.U32(), 0U);  // one byte is missing
  EXPECT_TRUE(decoder.failed());
  EXPECT_EQ(decoder.U8(), 0);  // would fit
  EXPECT_EQ(decoder.Varint(), 0U);
  EXPECT_EQ(decoder.U64BigEndian(), 0U);
  EXPECT_EQ(decoder.Raw(1), "");
  EXPECT_EQ(decoder.Blob(10), "");
  std::array<std::byte, 2> out = {std::byte{7}, std::byte{7}};
  decoder.Raw(out);
  EXPECT_EQ(out, (std::array<std::byte, 2>{}));
  EXPECT_EQ(decoder.Finish("header").code(), Code::kDataLoss);
}

TEST(Decoder, RefusesBlobsBeyondTheLimitOrTheRest) {
  const auto failed = [](std::string_view bytes, uint64_t limit) {
    Decoder decoder(bytes);
    const bool empty = decoder.Blob(limit).empty();
    EXPECT_EQ(empty, decoder.failed());
    return decoder.failed();
  };
  EXPECT_FALSE(
      failed("\x03"
             "abc",
             3));
  EXPECT_TRUE(
      failed("\x03"
             "abc",
             2));
  EXPECT_TRUE(
      failed("\x04"
             "abc",
             100));
  EXPECT_TRUE(
      failed("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
             "abc",
             UINT64_MAX));
}

TEST(Decoder, SaysWhatIsMalformedAndHowMuchFollows) {
  Decoder decoder{std::string_view("\x01xyz")};
  EXPECT_EQ(decoder.U8(), 1);
  const Status status = decoder.Finish("extent record");
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_EQ(status.message(), "extent record is malformed: 3 bytes follow its last field");
  decoder.Fail();
  EXPECT_EQ(decoder.Finish("x").message(), "x is malformed: a field is cut short or out of range");
}

TEST(Decoder, SurvivesRandomBytes) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 7;
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  SeededRandom random(seed);
  for (int round = 0; round < 2000; ++round) {
    Bytes bytes(random.Below(64));
    random.Fill(bytes);
    Decoder decoder{ByteView(bytes)};
    size_t before = decoder.remaining();
    for (int field = 0; field < 20; ++field) {
      switch (random.Below(6)) {
        case 0:
          decoder.U8();
          break;
        case 1:
          decoder.U32();
          break;
        case 2:
          decoder.U64BigEndian();
          break;
        case 3:
          decoder.Varint();
          break;
        case 4:
          decoder.Raw(random.Next64() >> random.Below(64));
          break;
        default:
          decoder.Blob(random.Below(100));
          break;
      }
      ASSERT_LE(decoder.remaining(), before);
      before = decoder.remaining();
    }
  }
}

}  // namespace
}  // namespace forebay::base
