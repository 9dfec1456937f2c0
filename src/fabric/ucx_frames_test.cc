// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_frames.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace forebay::fabric {
namespace {

Bytes FromHex(std::string hex) {
  std::erase(hex, ' ');
  Bytes bytes(hex.size() / 2);
  EXPECT_TRUE(base::FromHex(hex, bytes));
  return bytes;
}

// The examples of docs/formats/fabric-ucx.md, written by hand.
const Bytes kHello = FromHex("46425558 0100 01 00 00000400 00001000 00040000 00040000");
const Bytes kHelloHeader = FromHex(
    "01 00 0000 18000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 "
    "0000000000000000");
const Bytes kRkey = FromHex("0100000000000000 00 08 3412000034120000");
const Bytes kOfferHeader = FromHex(
    "04 00 0200 12000000 0100000000000000 ffffffffffffffff efcdab8967452301 00100000007f0000 "
    "0000010000000000");
const Bytes kAskHeader = FromHex(
    "07 00 0200 00000000 0500000000000000 0700000000000000 efcdab8967452301 0000010000000000 "
    "0400000000000000");
const Bytes kAnswerHeader = FromHex(
    "08 00 0200 00000000 0400000000000000 0700000000000000 0000000000000000 0000000000000000 "
    "0000000000000000");

TEST(UcxFramesTest, ExamplesOfTheFormatPage) {
  const UcxHello hello{.max_message_bytes = 262'144,
                       .max_transfer_bytes = 1'048'576,
                       .max_transfers = 1024,
                       .max_regions = 1024};
  EXPECT_TRUE(std::ranges::equal(EncodeUcxHello(hello), kHello));
  const UcxFrame frames[] = {
      {.type = UcxFrameType::kHello, .length = 24},
      {.type = UcxFrameType::kOffer,
       .code = 2,
       .length = 18,
       .sequence = 1,
       .id = kUcxNoEnd,
       .key = 0x0123456789abcdef,
       .offset = 0x7f0000001000,
       .count = 65'536},
      {.type = UcxFrameType::kAsk,
       .code = 2,
       .sequence = 5,
       .id = 7,
       .key = 0x0123456789abcdef,
       .offset = 65'536,
       .count = 4},
      {.type = UcxFrameType::kAnswer, .code = 2, .sequence = 4, .id = 7},
  };
  const Bytes* bytes[] = {&kHelloHeader, &kOfferHeader, &kAskHeader, &kAnswerHeader};
  for (size_t i = 0; i < std::size(frames); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(std::ranges::equal(EncodeUcxFrame(frames[i]), *bytes[i]));
    const auto decoded = DecodeUcxFrame(*bytes[i], frames[i].length, 0);
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(*decoded, frames[i]);
  }
}

TEST(UcxFramesTest, ReservedFieldsAreRefusedForEachType) {
  // Which of code, id, key, offset and count a type may use, from the table of the format page.
  const struct {
    uint8_t type;
    bool code, id, key, offset, count;
  } table[] = {
      {1, false, false, false, false, false},  {2, false, false, false, false, false},
      {3, false, false, false, false, true},   {4, true, true, true, true, true},
      {5, false, false, true, false, false},   {6, false, false, true, false, false},
      {7, true, true, true, true, true},       {8, true, true, false, false, false},
      {9, false, false, false, true, true},    {10, false, false, false, false, false},
      {11, false, false, false, false, false}, {12, false, false, false, false, false},
  };
  for (const auto& row : table) {
    SCOPED_TRACE(static_cast<int>(row.type));
    Bytes header(kUcxHeaderBytes);
    header[0] = std::byte{row.type};
    if (row.type == 4 || row.type == 7) header[2] = std::byte{1};
    EXPECT_TRUE(DecodeUcxFrame(header, 0, 100).ok());
    const struct {
      size_t at;
      bool used;
    } fields[] = {{1, false}, {2, row.code}, {16, row.id}, {24, row.key}, {32, row.offset}, {40, row.count}};
    for (const auto& field : fields) {
      Bytes changed = header;
      changed[field.at] = std::byte{1};
      EXPECT_EQ(DecodeUcxFrame(changed, 0, 100).ok(), field.used) << field.at;
    }
  }
}

TEST(UcxFramesTest, UnknownTypesAndCodesAreRefused) {
  for (int type : {0, 13, 14, 255}) {
    Bytes header(kUcxHeaderBytes);
    header[0] = static_cast<std::byte>(type);
    EXPECT_EQ(DecodeUcxFrame(header, 0, 100).status().code(), Code::kInvalidArgument) << type;
  }
  Bytes answer = kAnswerHeader;
  answer[2] = std::byte{6};
  EXPECT_FALSE(DecodeUcxFrame(answer, 0, 100).ok());
  for (int direction : {0, 3}) {
    Bytes ask = kAskHeader;
    ask[2] = static_cast<std::byte>(direction);
    EXPECT_FALSE(DecodeUcxFrame(ask, 0, 100).ok()) << direction;
  }
}

TEST(UcxFramesTest, LengthsAreThoseThatCameAndKeepToTheirLimits) {
  const auto decode = [](UcxFrameType type, uint32_t length, size_t came) {
    UcxFrame frame{.type = type, .length = length};
    if (type == UcxFrameType::kOffer) frame.code = 1;
    return DecodeUcxFrame(EncodeUcxFrame(frame), came, 1000).ok();
  };
  EXPECT_TRUE(decode(UcxFrameType::kMessage, 1000, 1000));
  EXPECT_FALSE(decode(UcxFrameType::kMessage, 1001, 1001));
  EXPECT_FALSE(decode(UcxFrameType::kMessage, 1000, 999));
  EXPECT_FALSE(decode(UcxFrameType::kMessage, 1000, 1001));
  EXPECT_TRUE(decode(UcxFrameType::kOffer, kMaxUcxRkeyBytes, kMaxUcxRkeyBytes));
  EXPECT_FALSE(decode(UcxFrameType::kOffer, kMaxUcxRkeyBytes + 1, kMaxUcxRkeyBytes + 1));
  EXPECT_TRUE(decode(UcxFrameType::kGoodbye, kMaxUcxGoodbyeBytes, kMaxUcxGoodbyeBytes));
  EXPECT_FALSE(decode(UcxFrameType::kGoodbye, kMaxUcxGoodbyeBytes + 1, kMaxUcxGoodbyeBytes + 1));
  EXPECT_FALSE(decode(UcxFrameType::kProbe, 1, 1));
  EXPECT_FALSE(DecodeUcxFrame(ByteView(kAskHeader).first(47), 0, 100).ok());
}

TEST(UcxFramesTest, HelloOfAnotherVersionNamesBoth) {
  Bytes later = kHello;
  later[4] = std::byte{9};
  const Status status = DecodeUcxHello(later, UcxRole::kConnector).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("version 9"), std::string_view::npos) << status.ToString();
  EXPECT_NE(status.message().find("version 1"), std::string_view::npos) << status.ToString();
}

TEST(UcxFramesTest, HelloAnnouncesNotMoreRegionsThanAPeerCanKeep) {
  EXPECT_TRUE(DecodeUcxHello(EncodeUcxHello({.max_regions = 65'536}), UcxRole::kConnector).ok());
  EXPECT_FALSE(DecodeUcxHello(EncodeUcxHello({.max_regions = 65'537}), UcxRole::kConnector).ok());
}

TEST(UcxFramesTest, WhatIsNoHelloIsRefused) {
  EXPECT_TRUE(DecodeUcxHello(kHello, UcxRole::kConnector).ok());
  EXPECT_FALSE(DecodeUcxHello(kHello, UcxRole::kListener).ok());
  EXPECT_FALSE(DecodeUcxHello(ByteView(kHello).first(23), UcxRole::kConnector).ok());
  EXPECT_FALSE(DecodeUcxHello({}, UcxRole::kConnector).ok());
  for (size_t at : {size_t{0}, size_t{3}, size_t{7}}) {
    Bytes changed = kHello;
    changed[at] ^= std::byte{1};
    EXPECT_FALSE(DecodeUcxHello(changed, UcxRole::kConnector).ok()) << at;
  }
}

TEST(UcxFramesTest, KeysThatUcxWouldReadPastTheirEndAreRefused) {
  EXPECT_TRUE(CheckUcxRkey(kRkey).ok());
  for (size_t length = 0; length < kRkey.size(); ++length) {
    EXPECT_FALSE(CheckUcxRkey(ByteView(kRkey).first(length)).ok()) << length;
  }
  Bytes longer = kRkey;
  longer.push_back({});
  EXPECT_FALSE(CheckUcxRkey(longer).ok());
  const struct {
    size_t at;
    uint8_t value;
  } changes[] = {
      {0, 0},     // names no registration: UCX would then move the bytes by messages
      {0, 3},     // names two and has one
      {7, 0x80},  // the same, at the other end of the map
      {8, 1},     // memory of a GPU
      {9, 7},     // its part is shorter than UCX reads
      {9, 9},     // and longer than there is
      {9, 255},
  };
  for (const auto& change : changes) {
    Bytes changed = kRkey;
    changed[change.at] = std::byte{change.value};
    EXPECT_FALSE(CheckUcxRkey(changed).ok()) << change.at << " " << static_cast<int>(change.value);
  }
  // Two devices, of which one has a key for atomic operations as well.
  EXPECT_TRUE(
      CheckUcxRkey(FromHex("0500000000000000 00 08 3412000034120000 10 34120000341200003412000034120000"))
          .ok());
}

TEST(UcxFramesFuzz, CorpusAndMutationsRunClean) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  std::cout << "FOREBAY_SEED=" << seed << "\n";
  const auto run = [](const Bytes& bytes) {
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 0);
  };
  const auto with = [](Bytes header, const Bytes& payload) {
    header.insert(header.end(), payload.begin(), payload.end());
    return header;
  };
  const std::vector<Bytes> corpus = {
      kHello, kRkey, with(kHelloHeader, kHello), with(kOfferHeader, kRkey), kAskHeader, kAnswerHeader};
  run({});
  base::SeededRandom random(seed);
  for (const Bytes& input : corpus) {
    for (size_t length = 0; length <= input.size(); ++length) {
      run(Bytes(input.begin(), input.begin() + static_cast<ptrdiff_t>(length)));
    }
    for (int i = 0; i < 2000; ++i) {
      Bytes changed = input;
      for (uint64_t changes = 1 + random.Below(4); changes != 0; --changes) {
        changed[random.Below(changed.size())] = static_cast<std::byte>(random.Below(256));
      }
      run(changed);
    }
  }
}

}  // namespace
}  // namespace forebay::fabric
