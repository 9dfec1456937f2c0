// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_frames.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/random.h"
#include "fabric/ofi_limits.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace forebay::fabric {
namespace {

constexpr uint64_t kMaxMessage = 262'144;

Bytes FromHex(std::string hex) {
  std::erase(hex, ' ');
  Bytes bytes(hex.size() / 2);
  EXPECT_TRUE(base::FromHex(hex, bytes));
  return bytes;
}
std::string Zeros(size_t bytes) { return std::string(2 * bytes, '0'); }

// The examples of docs/formats/fabric-ofi.md; made with another program.
const Bytes kConnector =
    FromHex("4642594f 0100 01 00 00000400 00001000 00040000 00100000 1000" + Zeros(10) + "1a56186a");
const Bytes kListener =
    FromHex("4642594f 0100 02 00 00000400 00001000 00040000 00100000 1000" + Zeros(10) + "0195d554");
const Bytes kOffer = FromHex(
    "04 02 0000 0000 0000" + Zeros(8) +
    "efcdab8967452301 0010000000 7f0000 0000010000000000 3412000000000000 002f685900000000" + Zeros(16));
const Bytes kMessage =
    FromHex("01 00 0000 0100 0000" + Zeros(24) + "0500000000000000" + Zeros(32) + "68656c6c6f");
const Bytes kAsk = FromHex(
    "05 02 0000 0000 0000 0700000000000000 efcdab8967452301 0000010000000000 0400000000000000" + Zeros(32));
const Bytes kAnswer = FromHex("06 00 0200 0000 0000 0700000000000000" + Zeros(56));
const Bytes kWithdraw = FromHex("07 00 0000 0000 0000" + Zeros(8) + "efcdab8967452301" + Zeros(48));
const Bytes kWithdrawn = FromHex("08 00 0000 0200 0000" + Zeros(8) + "efcdab8967452301" + Zeros(32) +
                                 "0000020000000000" + Zeros(8));

constexpr uint64_t kKey = 0x0123456789abcdef;
constexpr auto kWrites = static_cast<uint8_t>(Direction::kPeerWrites);

void ExpectFrame(const Bytes& bytes, const OfiFrame& frame) {
  EXPECT_TRUE(std::ranges::equal(EncodeOfiFrame(frame), ByteView(bytes).first(kOfiHeaderBytes)));
  const auto received = DecodeOfiFrame(bytes, kMaxMessage);
  ASSERT_TRUE(received.ok()) << received.status().ToString();
  EXPECT_EQ(received->frame, frame);
}

TEST(OfiFramesTest, PreambleIsThePagesExample) {
  const OfiPreamble preamble{.role = Role::kConnector,
                             .max_message_bytes = 262'144,
                             .max_transfer_bytes = 1'048'576,
                             .max_transfers = 1024,
                             .slot_bytes = 4096,
                             .slots = 16};
  EXPECT_TRUE(std::ranges::equal(EncodeOfiPreamble(preamble), kConnector));
  const auto decoded = DecodeOfiPreamble(kConnector, Role::kConnector);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded->max_message_bytes, 262'144u);
  EXPECT_EQ(decoded->max_transfer_bytes, 1'048'576u);
  EXPECT_EQ(decoded->max_transfers, 1024u);
  EXPECT_EQ(decoded->slot_bytes, kSlotBytes);
  EXPECT_EQ(decoded->slots, kReceiveSlots);
  EXPECT_TRUE(DecodeOfiPreamble(kListener, Role::kListener).ok());
  EXPECT_EQ(DecodeOfiPreamble(kListener, Role::kConnector).status().code(), Code::kInvalidArgument);
}

TEST(OfiFramesTest, PreambleMayBeFollowedByPadding) {
  Bytes padded = kConnector;
  padded.resize(196);
  EXPECT_TRUE(DecodeOfiPreamble(padded, Role::kConnector).ok());
}

TEST(OfiFramesTest, EveryFlippedBitOfAPreambleIsNoticed) {
  for (size_t bit = 0; bit < 8 * kConnector.size(); ++bit) {
    Bytes flipped = kConnector;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(DecodeOfiPreamble(flipped, Role::kConnector).ok()) << bit;
  }
  for (size_t size = 0; size < kConnector.size(); ++size) {
    EXPECT_FALSE(DecodeOfiPreamble(ByteView(kConnector).first(size), Role::kConnector).ok()) << size;
  }
}

TEST(OfiFramesTest, FramesAreThePagesExamples) {
  ExpectFrame(kOffer, {.type = OfiFrameType::kOffer,
                       .direction = kWrites,
                       .key = kKey,
                       .offset = 0x7f0000001000,
                       .length = 65'536,
                       .provider_key = 0x1234,
                       .lifetime_ns = 1'500'000'000});
  ExpectFrame(kMessage, {.type = OfiFrameType::kMessage, .slots = 1, .length = 5});
  EXPECT_EQ(AsText(DecodeOfiFrame(kMessage, kMaxMessage)->payload), "hello");
  ExpectFrame(kAsk, {.type = OfiFrameType::kAsk,
                     .direction = kWrites,
                     .id = 7,
                     .key = kKey,
                     .offset = 65'536,
                     .length = 4});
  ExpectFrame(kAnswer, {.type = OfiFrameType::kAnswer, .code = 2, .id = 7});
  ExpectFrame(kWithdraw, {.type = OfiFrameType::kWithdraw, .key = kKey});
  ExpectFrame(kWithdrawn, {.type = OfiFrameType::kWithdrawn, .slots = 2, .key = kKey, .written = 131'072});
}

TEST(OfiFramesTest, FieldsThatATypeDoesNotUseAreRefused) {
  const OfiFrame probe{.type = OfiFrameType::kProbe};
  std::vector<OfiFrame> wrong(7, probe);
  wrong[0].direction = kWrites;
  wrong[1].code = 1;
  wrong[2].key = 1;
  wrong[3].offset = 1;
  wrong[4].length = 1;
  wrong[5].provider_key = 1;
  wrong[6].lifetime_ns = 1;
  for (const OfiFrame& frame : wrong) {
    EXPECT_EQ(DecodeOfiFrame(EncodeOfiFrame(frame), kMaxMessage).status().code(), Code::kInvalidArgument);
  }
  Bytes with_payload(kWithdraw);
  with_payload.push_back(std::byte{0});
  EXPECT_FALSE(DecodeOfiFrame(with_payload, kMaxMessage).ok());
  EXPECT_TRUE(DecodeOfiFrame(EncodeOfiFrame(probe), kMaxMessage).ok());
}

TEST(OfiFramesTest, ValuesOutOfRangeAreRefused) {
  for (uint8_t direction : {0, 3, 255}) {
    Bytes bytes = kAsk;
    bytes[1] = std::byte{direction};
    EXPECT_FALSE(DecodeOfiFrame(bytes, kMaxMessage).ok()) << int{direction};
  }
  for (uint8_t type : {0, 11, 255}) {
    Bytes bytes(kOfiHeaderBytes);
    bytes[0] = std::byte{type};
    EXPECT_FALSE(DecodeOfiFrame(bytes, kMaxMessage).ok()) << int{type};
  }
  Bytes code = kAnswer;
  code[2] = std::byte{6};
  EXPECT_FALSE(DecodeOfiFrame(code, kMaxMessage).ok());
  for (size_t size = 0; size < kOfiHeaderBytes; ++size) {
    EXPECT_FALSE(DecodeOfiFrame(ByteView(kMessage).first(size), kMaxMessage).ok()) << size;
  }
}

TEST(OfiFramesTest, PiecesOfAMessageLieInsideOfIt) {
  const auto piece = [](uint64_t offset, uint64_t length, size_t payload) {
    const OfiHeaderBytes header =
        EncodeOfiFrame({.type = OfiFrameType::kMessage, .offset = offset, .length = length});
    Bytes bytes(header.begin(), header.end());
    bytes.resize(bytes.size() + payload);
    return DecodeOfiFrame(bytes, kMaxMessage).ok();
  };
  EXPECT_TRUE(piece(0, 0, 0));
  EXPECT_TRUE(piece(0, kMaxMessage, 100));
  EXPECT_TRUE(piece(kMaxMessage - 1, kMaxMessage, 1));
  EXPECT_FALSE(piece(0, kMaxMessage + 1, 100));
  EXPECT_FALSE(piece(kMaxMessage, kMaxMessage, 1));
  EXPECT_FALSE(piece(UINT64_MAX, 10, 1));
  EXPECT_FALSE(piece(0, 10, 11));
  EXPECT_FALSE(piece(0, 10, 0));
}

TEST(OfiFramesTest, FuzzTargetTakesItsCorpus) {
  const std::vector<Bytes> corpus = {kConnector, kListener, kOffer,    kMessage,
                                     kAsk,       kAnswer,   kWithdraw, kWithdrawn};
  const char* given = std::getenv("FOREBAY_SEED");
  base::SeededRandom random(given != nullptr ? std::strtoull(given, nullptr, 10) : 20260117);
  for (const Bytes& seed : corpus) {
    for (int round = 0; round < 20'000; ++round) {
      Bytes bytes = seed;
      for (uint64_t flips = random.Below(4); flips > 0; --flips) {
        bytes[random.Below(bytes.size())] = static_cast<std::byte>(random.Below(256));
      }
      if (random.Below(8) == 0) bytes.resize(random.Below(2 * bytes.size()));
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    }
  }
}

}  // namespace
}  // namespace forebay::fabric
