// SPDX-License-Identifier: Apache-2.0
#include "wire/message.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "base/random.h"
#include "wire/message_fuzz.h"

namespace forebay::wire {
namespace {

Bytes FromHexText(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c != ' ' && c != '\n') digits += c;
  Bytes bytes(digits.size() / 2);
  EXPECT_TRUE(base::FromHex(digits, bytes)) << text;
  return bytes;
}

/// The block between "```hex" and "```" of the format's page, without its offsets.
Bytes DocumentedExample() {
  std::ifstream page(FOREBAY_SOURCE_DIR "/docs/formats/data-plane.md");
  std::string line;
  std::string hex;
  bool inside = false;
  while (std::getline(page, line)) {
    if (line.starts_with("```"))
      inside = line == "```hex";
    else if (inside)
      hex += line.substr(4) + "\n";
  }
  return FromHexText(hex);
}

Header ExampleHeader() {
  Header header;
  header.type = Type::kGet;
  header.session = 0x1122334455667788;
  header.counter = 2;
  header.tenant = TenantId::kRoot;
  for (size_t i = 0; i < 16; ++i) header.operation.bytes[i] = static_cast<std::byte>(i);
  header.deadline_us = 5'000'000;
  header.request = 7;
  return header;
}

GetRequest ExampleGet() {
  GetRequest get;
  get.inline_allowed = true;
  get.region = {.key = 0x0102030405060708, .length = 65536, .writable = true};
  get.items.push_back({.bucket = "models", .key = "a.bin", .offset = 4096, .length = 65536});
  return get;
}

void ZeroMac(Bytes& message) { std::ranges::fill(MacOf(message), std::byte{0}); }

TEST(Message, TheDocumentedExampleIsWhatWeSend) {
  Bytes documented = DocumentedExample();
  ASSERT_EQ(documented.size(), 157u);
  ZeroMac(documented);
  EXPECT_EQ(base::ToHex(EncodeMessage(ExampleHeader(), ExampleGet())), base::ToHex(documented));
}

TEST(Message, TheDocumentedExampleIsUnderstood) {
  const Bytes documented = DocumentedExample();
  const auto message = DecodeMessage(documented);
  ASSERT_TRUE(message.ok()) << message.status().ToString();
  EXPECT_EQ(message->header, ExampleHeader());
  EXPECT_TRUE(message->payload.empty());
  const auto get = DecodeBody<GetRequest>(message->body);
  ASSERT_TRUE(get.ok()) << get.status().ToString();
  EXPECT_TRUE(get->inline_allowed);
  EXPECT_EQ(get->region, ExampleGet().region);
  ASSERT_EQ(get->items.size(), 1u);
  EXPECT_EQ(get->items[0].bucket, "models");
  EXPECT_EQ(get->items[0].key, "a.bin");
  EXPECT_EQ(get->items[0].offset, 4096u);
  EXPECT_EQ(get->items[0].length, 65536u);
  EXPECT_EQ(get->items[0].if_match, "");
}

TEST(Message, AnythingCutShortIsRefused) {
  const Bytes whole = DocumentedExample();
  for (size_t size = 0; size < whole.size(); ++size) {
    const ByteView cut = ByteView(whole).first(size);
    EXPECT_EQ(DecodeMessage(cut).status().code(), Code::kInvalidArgument) << size;
  }
  const ByteView body = ByteView(whole).subspan(kHeaderBytes);
  for (size_t size = 0; size < body.size(); ++size)
    EXPECT_EQ(DecodeBody<GetRequest>(body.first(size)).status().code(), Code::kInvalidArgument) << size;
}

TEST(Message, AByteTooManyIsRefused) {
  Bytes message = DocumentedExample();
  message.push_back(std::byte{0});
  EXPECT_EQ(DecodeMessage(message).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(DecodeBody<GetRequest>(ByteView(message).subspan(kHeaderBytes)).status().code(),
            Code::kInvalidArgument);
}

struct BadByte {
  size_t at;
  int value;
  const char* why;
};

TEST(Message, HeaderFieldsOutOfRangeAreRefused) {
  const BadByte cases[] = {{0, 'X', "magic"},
                           {4, 2, "version"},
                           {6, 2, "unknown flag"},
                           {8, 97, "header_bytes"},
                           {10, 1, "reserved"},
                           {12, 0x3e, "body"},
                           {15, 0xff, "body of 4 GiB"},
                           {16, 1, "payload"},
                           {19, 0xff, "payload of 4 GiB"},
                           {20, 1, "status in a request"},
                           {23, 1, "no such status"}};
  for (const BadByte& bad : cases) {
    Bytes message = DocumentedExample();
    message[bad.at] = static_cast<std::byte>(bad.value);
    EXPECT_EQ(DecodeMessage(message).status().code(), Code::kInvalidArgument) << bad.why;
  }
}

TEST(Message, BodyFieldsOutOfRangeAreRefused) {
  const BadByte cases[] = {{0, 2, "inline_allowed"},   {17, 2, "writable"},      {18, 0, "no items"},
                           {19, 0x7f, "32,513 items"}, {20, 64, "bucket of 64"}, {29, 0x80, "key of 32 KiB"},
                           {59, 65, "etag of 65"}};
  for (const BadByte& bad : cases) {
    Bytes message = DocumentedExample();
    message[kHeaderBytes + bad.at] = static_cast<std::byte>(bad.value);
    EXPECT_EQ(DecodeBody<GetRequest>(ByteView(message).subspan(kHeaderBytes)).status().code(),
              Code::kInvalidArgument)
        << bad.why;
  }
}

TEST(Message, APayloadBeyondTheInlineLimitIsRefused) {
  const Bytes payload(base::kMaxInlineBytes + 1);
  EXPECT_EQ(DecodeMessage(EncodeMessage(ExampleHeader(), ExampleGet(), payload)).status().code(),
            Code::kInvalidArgument);
  const Bytes fits(base::kMaxInlineBytes);
  EXPECT_TRUE(DecodeMessage(EncodeMessage(ExampleHeader(), ExampleGet(), fits)).ok());
}

TEST(Message, AnUnknownTypeIsStillAMessage) {
  Bytes message = DocumentedExample();
  message[5] = std::byte{200};
  const auto decoded = DecodeMessage(message);
  ASSERT_TRUE(decoded.ok());
  EXPECT_FALSE(IsKnown(decoded->header.type));
  EXPECT_EQ(TypeName(decoded->header.type), "unknown");
}

TEST(Message, PutCarriesConditionsMetadataAndPayload) {
  PutItem item{.bucket = "models",
               .key = "k",
               .size = 5,
               .crc32c = 0x9a71bb4c,
               .condition = Condition::kIfMatch,
               .etag = "e1",
               .source = Source::kPayload,
               .source_offset = 0,
               .metadata = {{"color", "blue"}, {"n", ""}}};
  item.operation.bytes[3] = std::byte{9};
  PutRequest put;
  put.items = {item};
  Header header = ExampleHeader();
  header.type = Type::kPut;
  // By hand: region none | 1 item | 6 "models" | 1 "k" | operation | size | crc | if-match "e1" | payload | 0
  // | 2 pairs.
  const Bytes expected = FromHexText(
      "0000000000000000 0000000000000000 00 0100 0600 6d6f64656c73 0100 6b 00000009000000000000000000000000"
      "0500000000000000 4cbb719a 02 0200 6531 00 0000000000000000 0200 0500 636f6c6f72 0400 626c7565 0100 6e "
      "0000");
  const Bytes message = EncodeMessage(header, put, AsBytes("hello"));
  const auto view = DecodeMessage(message);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(base::ToHex(view->body), base::ToHex(expected));
  EXPECT_EQ(AsText(view->payload), "hello");
  const auto decoded = DecodeBody<PutRequest>(view->body);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->items[0].metadata, item.metadata);
  EXPECT_EQ(decoded->items[0].operation, item.operation);
  EXPECT_EQ(decoded->items[0].etag, "e1");
}

TEST(Message, MetadataBeyondTheLimitIsRefused) {
  const std::string value(base::kMaxUserMetadataBytes, 'v');
  PutBeginRequest begin{.bucket = "models", .key = "k", .metadata = {{"n", value}}};
  const Bytes over = EncodeMessage(ExampleHeader(), begin);
  EXPECT_FALSE(DecodeBody<PutBeginRequest>(ByteView(over).subspan(kHeaderBytes)).ok());
  begin.metadata[0].second.remove_suffix(1);
  const Bytes fits = EncodeMessage(ExampleHeader(), begin);
  EXPECT_TRUE(DecodeBody<PutBeginRequest>(ByteView(fits).subspan(kHeaderBytes)).ok());
}

TEST(Message, RepliesKeepEachItemsOutcome) {
  GetReply reply;
  reply.inlined = true;
  reply.items.resize(2);
  reply.items[0] = {.size = 3, .total_size = 10, .version = 4, .crc32c = 5, .etag = "abc"};
  reply.items[1] = {.code = Code::kNotFound, .message = "object `b/k` does not exist"};
  Header header = ExampleHeader();
  header.reply = true;
  const Bytes message = EncodeMessage(header, reply, AsBytes("xyz"));
  const auto view = DecodeMessage(message);
  ASSERT_TRUE(view.ok());
  EXPECT_TRUE(view->header.reply);
  const auto decoded = DecodeBody<GetReply>(view->body);
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(decoded->inlined);
  EXPECT_EQ(decoded->items[0].size, 3u);
  EXPECT_EQ(decoded->items[0].total_size, 10u);
  EXPECT_EQ(decoded->items[0].etag, "abc");
  EXPECT_EQ(decoded->items[1].code, Code::kNotFound);
  EXPECT_EQ(decoded->items[1].message, "object `b/k` does not exist");
}

TEST(Message, AnItemThatGotMoreThanThereIsIsRefused) {
  GetReply reply;
  reply.items.resize(1);
  reply.items[0] = {.size = 11, .total_size = 10};
  const Bytes message = EncodeMessage(ExampleHeader(), reply);
  EXPECT_FALSE(DecodeBody<GetReply>(ByteView(message).subspan(kHeaderBytes)).ok());
}

TEST(Message, ALongErrorIsCut) {
  const std::string text(5000, 'x');
  const Bytes message = EncodeMessage(ExampleHeader(), ErrorReply{text});
  const auto decoded = DecodeBody<ErrorReply>(ByteView(message).subspan(kHeaderBytes));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->message.size(), kMaxErrorBytes);
}

TEST(Message, StreamBodiesRoundTrip) {
  const PutDataRequest data{.handle = 3,
                            .offset = 1 << 20,
                            .size = 4096,
                            .crc32c = 77,
                            .source = Source::kRegion,
                            .region = {.key = 9, .length = 4096},
                            .region_offset = 0};
  const Bytes message = EncodeMessage(ExampleHeader(), data);
  const auto decoded = DecodeBody<PutDataRequest>(ByteView(message).subspan(kHeaderBytes));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->handle, 3u);
  EXPECT_EQ(decoded->offset, 1u << 20);
  EXPECT_EQ(decoded->size, 4096u);
  EXPECT_EQ(decoded->region, data.region);
  PutDataRequest too_large = data;
  too_large.size = base::kMaxChunkBytes + 1;
  const Bytes refused = EncodeMessage(ExampleHeader(), too_large);
  EXPECT_FALSE(DecodeBody<PutDataRequest>(ByteView(refused).subspan(kHeaderBytes)).ok());
}

/// What was added to wire version 1 is not there when it is not used: older peers understand the rest.
TEST(Message, WhatWasAddedStandsAtTheEnd) {
  const auto body = [](const auto& of) { return base::ToHex(EncodeMessage(ExampleHeader(), of)).substr(2 * kHeaderBytes); };
  PutBeginRequest begin{.bucket = "abc", .key = "k", .size = 5};
  // By hand: 3 "abc" | 1 "k" | no condition, no etag | size 5 is known | no metadata.
  const std::string plain = "0300616263" "01006b" "00" "0000" "01" "0500000000000000" "0000";
  EXPECT_EQ(body(begin), plain);
  begin.chosen.emplace();
  EXPECT_EQ(body(begin), plain + "0000" "0000") << "no attributes, no etag";
  EXPECT_EQ(body(PutBeginReply{3}), "0300000000000000");
  EXPECT_EQ(body(PutBeginReply{3, true}), "030000000000000001");
  EXPECT_EQ(body(PutCommitRequest{3, 0, 0}), "0300000000000000" "0000000000000000" "00000000");
  EXPECT_EQ(body(PutCommitRequest{3, 0, 0, true}), "0300000000000000" "0000000000000000" "00000000" "01");
}

TEST(Message, ACommitHasAChecksumOrSaysThatItHasNone) {
  Bytes message = EncodeMessage(ExampleHeader(), PutCommitRequest{3, 0, 7});
  message.push_back(std::byte{1});
  EXPECT_FALSE(DecodeBody<PutCommitRequest>(ByteView(message).subspan(kHeaderBytes)).ok()) << "both";
  message = EncodeMessage(ExampleHeader(), PutCommitRequest{3, 0, 0, true});
  message.back() = std::byte{0};
  EXPECT_FALSE(DecodeBody<PutCommitRequest>(ByteView(message).subspan(kHeaderBytes)).ok()) << "neither";
}

TEST(Message, AnOverwriteOfNoOffsetIsAnAppend) {
  const OverwriteBeginRequest append{.bucket = "abc", .key = "k", .size = 9};
  Bytes message = EncodeMessage(ExampleHeader(), append);
  const auto decoded = DecodeBody<OverwriteBeginRequest>(ByteView(message).subspan(kHeaderBytes));
  ASSERT_TRUE(decoded.ok());
  EXPECT_FALSE(decoded->offset.has_value());
  EXPECT_EQ(decoded->size, 9u);
  message[message.size() - 17] = std::byte{1};  // the lowest byte of an offset that is said not to be there
  EXPECT_FALSE(DecodeBody<OverwriteBeginRequest>(ByteView(message).subspan(kHeaderBytes)).ok());
}

TEST(MessageFuzz, FlippedBitsNeverCrashADecoder) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : base::SecureRandom().Next64();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE("FOREBAY_SEED=" + std::to_string(seed));
  base::SeededRandom random(seed);
  const std::vector<Bytes> corpus = FuzzCorpus();
  ASSERT_GE(corpus.size(), 35u);
  size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes input = corpus[random.Below(corpus.size())];
    for (uint64_t flips = random.Below(4); flips > 0; --flips)
      input[random.Below(input.size())] ^= static_cast<std::byte>(1 + random.Below(255));
    if (random.Below(4) == 0) input.resize(random.Below(input.size() + 1));
    accepted += FuzzOne(input) ? 1 : 0;
  }
  EXPECT_GT(accepted, 1000u);  // otherwise nothing beyond the first check was reached
}

TEST(MessageFuzz, TheCorpusIsDecoded) {
  for (const Bytes& message : FuzzCorpus()) EXPECT_TRUE(FuzzOne(message)) << base::ToHex(message);
}

}  // namespace
}  // namespace forebay::wire
