// SPDX-License-Identifier: Apache-2.0
#include "fabric/tcp_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/checksum.h"
#include "base/random.h"
#include "fabric/frame_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace forebay::fabric {
namespace {

constexpr FrameLimits kLimits{.max_message_bytes = 4096, .max_transfer_bytes = 65536};

Bytes FromHex(std::string hex) {
  std::erase(hex, ' ');
  Bytes bytes(hex.size() / 2);
  EXPECT_TRUE(base::FromHex(hex, bytes));
  return bytes;
}

// The example of docs/formats/fabric-tcp.md; made with another program.
const Bytes kConnectorPreamble = FromHex(
    "46 42 59 46 01 00 01 00 00 00 04 00 00 00 10 00 00 04 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 8a f7 9f 97");
const Bytes kListenerPreamble = FromHex(
    "46 42 59 46 01 00 02 00 00 00 04 00 00 00 10 00 00 04 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 91 34 52 a9");
const Bytes kMessageFrame = FromHex(
    "01 00 00 00 05 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 89 0e d7 02"
    "68 65 6c 6c 6f");
const Bytes kWriteFrame = FromHex(
    "03 00 00 00 04 00 00 00 07 00 00 00 00 00 00 00 ef cd ab 89 67 45 23 01 00 10 00 00 00 00 00 00 00 00 00 00 3a 21 14 0e"
    "de ad be ef");
const Bytes kRefusalFrame = FromHex(
    "04 00 02 00 00 00 00 00 07 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 1f f5 a1 a8");
const Bytes kReadFrame = FromHex(
    "05 00 00 00 00 00 00 00 08 00 00 00 00 00 00 00 ef cd ab 89 67 45 23 01 00 00 00 00 00 00 00 00 03 00 00 00 c4 11 3b 0d");
const Bytes kReadDataFrame = FromHex(
    "06 00 00 00 03 00 00 00 08 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 92 3a 97 16"
    "61 62 63");

FrameHeader Decoded(const Bytes& frame) {
  auto header = DecodeHeader(ByteView(frame).first(kHeaderBytes), kLimits);
  EXPECT_TRUE(header.ok()) << header.status().ToString();
  return header.ok() ? *header : FrameHeader{};
}

/// Bytes of a header with a right checksum whatever they say.
Bytes Sealed(Bytes header) {
  const uint32_t crc = base::Crc32c(ByteView(header).first(36));
  for (size_t i = 0; i < 4; ++i) header[36 + i] = static_cast<std::byte>(crc >> (8 * i));
  return header;
}

Code Refused(const Bytes& header) { return DecodeHeader(header, kLimits).status().code(); }

TEST(TcpFramesTest, PreamblesMatchTheDocumentedExample) {
  const Preamble connector{
      .role = Role::kConnector, .max_message_bytes = 262144, .max_transfer_bytes = 1048576, .max_transfers = 1024};
  EXPECT_TRUE(std::ranges::equal(EncodePreamble(connector), kConnectorPreamble));
  const auto decoded = DecodePreamble(kListenerPreamble, Role::kListener);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded->max_message_bytes, 262144u);
  EXPECT_EQ(decoded->max_transfer_bytes, 1048576u);
  EXPECT_EQ(decoded->max_transfers, 1024u);
}

TEST(TcpFramesTest, HeadersMatchTheDocumentedExample) {
  const FrameHeader message{.type = FrameType::kMessage, .length = 5};
  const FrameHeader write{.type = FrameType::kWrite, .length = 4, .id = 7, .key = 0x0123456789abcdef, .offset = 4096};
  const FrameHeader refusal{.type = FrameType::kWriteDone, .code = 2, .id = 7};
  const FrameHeader read{.type = FrameType::kRead, .id = 8, .key = 0x0123456789abcdef, .count = 3};
  const FrameHeader data{.type = FrameType::kReadData, .length = 3, .id = 8};
  const std::pair<FrameHeader, const Bytes*> examples[] = {
      {message, &kMessageFrame}, {write, &kWriteFrame}, {refusal, &kRefusalFrame}, {read, &kReadFrame}, {data, &kReadDataFrame}};
  for (const auto& [header, bytes] : examples) {
    EXPECT_EQ(Decoded(*bytes), header);
    EXPECT_TRUE(std::ranges::equal(EncodeHeader(header), ByteView(*bytes).first(kHeaderBytes)));
  }
}

TEST(TcpFramesTest, EachFlippedBitOfAPreambleIsNoticed) {
  for (size_t bit = 0; bit < kPreambleBytes * 8; ++bit) {
    Bytes bytes = kConnectorPreamble;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(DecodePreamble(bytes, Role::kConnector).ok()) << bit;
  }
}

TEST(TcpFramesTest, AnotherVersionIsNamed) {
  const Status status =
      DecodePreamble(EncodePreamble({.version = 2, .role = Role::kListener}), Role::kListener).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("version 2"), std::string_view::npos) << status.ToString();
  EXPECT_NE(status.message().find("version 1"), std::string_view::npos) << status.ToString();
}

TEST(TcpFramesTest, OnesOwnPreambleComingBackIsRefused) {
  EXPECT_EQ(DecodePreamble(kConnectorPreamble, Role::kListener).status().code(), Code::kInvalidArgument);
}

TEST(TcpFramesTest, ReservedBytesOfAPreambleMustBeZero) {
  for (size_t at : {size_t{7}, size_t{20}, size_t{35}}) {
    Bytes bytes = kConnectorPreamble;
    bytes[at] = std::byte{1};
    EXPECT_EQ(DecodePreamble(Sealed(bytes), Role::kConnector).status().code(), Code::kInvalidArgument) << at;
  }
}

TEST(TcpFramesTest, EachFlippedBitOfAHeaderIsNoticed) {
  for (size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
    Bytes bytes(kWriteFrame.begin(), kWriteFrame.begin() + kHeaderBytes);
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_EQ(Refused(bytes), Code::kDataLoss) << bit;
  }
}

TEST(TcpFramesTest, UnknownTypesAreRefused) {
  for (int type : {0, 11, 128, 255}) {
    Bytes bytes(kHeaderBytes);
    bytes[0] = static_cast<std::byte>(type);
    EXPECT_EQ(Refused(Sealed(bytes)), Code::kInvalidArgument) << type;
  }
}

// The example of docs/formats/fabric-shm.md; made with another program.
TEST(TcpFramesTest, LoansAreUnderstoodOnlyWhereDescriptorsArePassed) {
  FrameLimits borrower = kLimits, lender = kLimits;
  borrower.borrows = true;
  lender.lends = true;
  const Bytes lent = FromHex(
      "0b 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 ef cd ab 89 67 45 23 01"
      "00 10 00 00 00 00 00 00 00 00 01 00 70 51 a4 70");
  const FrameHeader header{
      .type = FrameType::kLent, .id = 7, .key = 0x0123456789abcdef, .offset = 4096, .count = 65536};
  EXPECT_TRUE(std::ranges::equal(EncodeHeader(header), lent));
  EXPECT_EQ(*DecodeHeader(lent, borrower), header);
  EXPECT_FALSE(DecodeHeader(lent, lender).ok());
  EXPECT_FALSE(DecodeHeader(lent, kLimits).ok());

  const Bytes kept = FromHex(
      "0b 00 03 00 00 00 00 00 07 00 00 00 00 00 00 00 ef cd ab 89 67 45 23 01"
      "00 10 00 00 00 00 00 00 00 00 01 00 03 cd b9 f3");
  const Bytes again = FromHex(
      "0c 00 03 00 00 00 00 00 08 00 00 00 00 00 00 00 ef cd ab 89 67 45 23 01"
      "00 10 00 00 00 00 00 00 00 00 01 00 3d 31 73 0a");
  FrameHeader at_place = header;
  at_place.code = 3;
  FrameLimits keeper = borrower;
  keeper.keeps = 3;
  EXPECT_TRUE(std::ranges::equal(EncodeHeader(at_place), kept));
  EXPECT_EQ(*DecodeHeader(kept, keeper), at_place);
  at_place.type = FrameType::kLentAgain;
  at_place.id = 8;
  EXPECT_TRUE(std::ranges::equal(EncodeHeader(at_place), again));
  EXPECT_EQ(*DecodeHeader(again, keeper), at_place);
  for (const Bytes& placed : {kept, again}) {
    EXPECT_FALSE(DecodeHeader(placed, borrower).ok());  // it has no places
    EXPECT_FALSE(DecodeHeader(placed, lender).ok());
  }
  keeper.keeps = 2;
  EXPECT_FALSE(DecodeHeader(kept, keeper).ok());
  EXPECT_FALSE(DecodeHeader(again, keeper).ok());
  at_place.code = 0;
  EXPECT_FALSE(DecodeHeader(EncodeHeader(at_place), keeper).ok());

  const FrameHeader too_long{.type = FrameType::kLent, .id = 7, .count = 65537};
  EXPECT_FALSE(DecodeHeader(EncodeHeader(too_long), borrower).ok());
  const FrameHeader with_payload{.type = FrameType::kLent, .length = 1, .id = 7};
  EXPECT_FALSE(DecodeHeader(EncodeHeader(with_payload), borrower).ok());

  const Bytes taken_back = FromHex(
      "04 00 06 00 00 00 00 00 07 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
      "00 00 00 00 00 00 00 00 00 00 00 00 aa ac 9f 56");
  EXPECT_EQ(*DecodeHeader(taken_back, lender),
            (FrameHeader{.type = FrameType::kWriteDone, .code = kTakenBack, .id = 7}));
  EXPECT_FALSE(DecodeHeader(taken_back, borrower).ok());
  const FrameHeader of_a_read{.type = FrameType::kReadDone, .code = kTakenBack, .id = 7};
  EXPECT_FALSE(DecodeHeader(EncodeHeader(of_a_read), lender).ok());
}

TEST(TcpFramesTest, FieldsThatATypeDoesNotUseMustBeZero) {
  Bytes flags(kHeaderBytes);
  flags[0] = std::byte{8};
  flags[1] = std::byte{1};
  EXPECT_EQ(Refused(Sealed(flags)), Code::kInvalidArgument);
  const FrameHeader wrong[] = {
      {.type = FrameType::kMessage, .id = 1},      {.type = FrameType::kMessage, .code = 1},
      {.type = FrameType::kCredit, .length = 1},   {.type = FrameType::kCredit, .key = 1},
      {.type = FrameType::kWrite, .count = 1},     {.type = FrameType::kWrite, .code = 1},
      {.type = FrameType::kWriteDone, .key = 1},   {.type = FrameType::kWriteDone, .length = 1},
      {.type = FrameType::kRead, .length = 1},     {.type = FrameType::kReadData, .key = 1},
      {.type = FrameType::kReadDone, .offset = 1}, {.type = FrameType::kProbe, .id = 1},
      {.type = FrameType::kProbeAnswer, .count = 1}, {.type = FrameType::kGoodbye, .id = 1},
  };
  for (const FrameHeader& header : wrong) {
    const HeaderBytes bytes = EncodeHeader(header);
    EXPECT_EQ(DecodeHeader(bytes, kLimits).status().code(), Code::kInvalidArgument) << static_cast<int>(header.type);
  }
}

TEST(TcpFramesTest, LengthsOverTheirLimitAreRefused) {
  const std::pair<FrameHeader, bool> cases[] = {
      {{.type = FrameType::kMessage, .length = 4096}, true},
      {{.type = FrameType::kMessage, .length = 4097}, false},
      {{.type = FrameType::kMessage, .length = UINT32_MAX}, false},
      {{.type = FrameType::kWrite, .length = 65536}, true},
      {{.type = FrameType::kWrite, .length = 65537}, false},
      {{.type = FrameType::kRead, .count = 65536}, true},
      {{.type = FrameType::kRead, .count = 65537}, false},
      {{.type = FrameType::kReadData, .length = 256 * 1024}, true},
      {{.type = FrameType::kReadData, .length = 256 * 1024 + 1}, false},
      {{.type = FrameType::kGoodbye, .length = 512}, true},
      {{.type = FrameType::kGoodbye, .length = 513}, false},
      {{.type = FrameType::kWriteDone, .code = 5}, true},
      {{.type = FrameType::kWriteDone, .code = 6}, false},
  };
  for (const auto& [header, allowed] : cases) {
    const HeaderBytes bytes = EncodeHeader(header);
    EXPECT_EQ(DecodeHeader(bytes, kLimits).ok(), allowed) << static_cast<int>(header.type) << " " << header.length;
  }
}

/// Keeps what it is told.
class RecordingSink final : public FrameSink {
 public:
  Status OnHeader(const FrameHeader& header, MutableByteView* target) override {
    payload.assign(header.length, std::byte{0xEE});
    if (keep) *target = payload;
    return Status();
  }
  Status OnFrame(const FrameHeader& header) override {
    frames.emplace_back(header, payload);
    return Status();
  }
  bool keep = true;
  Bytes payload;
  std::vector<std::pair<FrameHeader, Bytes>> frames;
};

/// Gives `input` to the reader in receives of at most `step` bytes.
Status Feed(FrameReader& reader, ByteView input, size_t step) {
  while (!input.empty()) {
    iovec places[2];
    const size_t count = reader.Buffers(places);
    size_t taken = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t part = std::min({step - taken, places[i].iov_len, input.size() - taken});
      std::memcpy(places[i].iov_base, input.data() + taken, part);
      taken += part;
    }
    input = input.subspan(taken);
    FB_TRY(reader.Received(taken));
  }
  return Status();
}

Bytes Stream() {
  Bytes stream;
  for (const Bytes* frame : {&kMessageFrame, &kWriteFrame, &kRefusalFrame, &kReadFrame, &kReadDataFrame, &kMessageFrame}) {
    stream.insert(stream.end(), frame->begin(), frame->end());
  }
  const HeaderBytes header = EncodeHeader({.type = FrameType::kWrite, .length = 50'000, .id = 9});
  stream.insert(stream.end(), header.begin(), header.end());
  stream.insert(stream.end(), 50'000, std::byte{0x77});
  stream.insert(stream.end(), kRefusalFrame.begin(), kRefusalFrame.end());
  return stream;
}

TEST(FrameReaderTest, ReadsTheSameFramesHoweverTheBytesAreCut) {
  const Bytes stream = Stream();
  for (size_t step : {1, 2, 3, 39, 40, 41, 43, 1000, 16384, 20000, 1 << 20}) {
    RecordingSink sink;
    FrameReader reader(kLimits, sink);
    ASSERT_TRUE(Feed(reader, stream, step).ok()) << step;
    ASSERT_EQ(sink.frames.size(), 8u) << step;
    EXPECT_EQ(AsText(sink.frames[0].second), "hello");
    EXPECT_EQ(sink.frames[1].second, FromHex("deadbeef"));
    EXPECT_EQ(sink.frames[2].first.code, 2);
    EXPECT_EQ(sink.frames[3].first.count, 3u);
    EXPECT_EQ(AsText(sink.frames[4].second), "abc");
    EXPECT_EQ(sink.frames[6].second, Bytes(50'000, std::byte{0x77}));
    EXPECT_EQ(sink.frames[7].first.id, 7u);
  }
}

TEST(FrameReaderTest, UnwantedPayloadIsSwallowed) {
  for (size_t step : {1, 1000, 1 << 20}) {
    RecordingSink sink;
    sink.keep = false;
    FrameReader reader(kLimits, sink);
    ASSERT_TRUE(Feed(reader, Stream(), step).ok());
    ASSERT_EQ(sink.frames.size(), 8u);
    EXPECT_EQ(sink.frames[6].second, Bytes(50'000, std::byte{0xEE}));
    EXPECT_EQ(sink.frames[7].first.id, 7u);
  }
}

TEST(FrameReaderTest, DivertedPayloadStopsLandingButStaysInStep) {
  const Bytes stream = Stream();
  const size_t long_frame = stream.size() - kRefusalFrame.size() - 50'000;
  RecordingSink sink;
  FrameReader reader(kLimits, sink);
  ASSERT_TRUE(Feed(reader, ByteView(stream).first(long_frame + 20'000), 1 << 20).ok());
  iovec places[2];
  reader.Buffers(places);
  EXPECT_TRUE(reader.landing());
  reader.Divert();
  ASSERT_TRUE(reader.Received(0).ok());  // the operation was cancelled
  ASSERT_TRUE(Feed(reader, ByteView(stream).subspan(long_frame + 20'000), 777).ok());
  EXPECT_FALSE(reader.landing());
  ASSERT_EQ(sink.frames.size(), 8u);
  Bytes expected(50'000, std::byte{0xEE});
  std::fill_n(expected.begin(), 20'000, std::byte{0x77});
  EXPECT_EQ(sink.frames[6].second, expected);
  EXPECT_EQ(sink.frames[7].first.id, 7u);
}

TEST(FrameReaderTest, ErrorsOfDecodingAndOfTheSinkEndIt) {
  RecordingSink sink;
  FrameReader reader(kLimits, sink);
  EXPECT_EQ(Feed(reader, Bytes(40), 40).code(), Code::kDataLoss);
  EXPECT_TRUE(sink.frames.empty());
}

TEST(TcpFramesFuzz, CorpusAndMutationsRunClean) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  std::cout << "FOREBAY_SEED=" << seed << "\n";
  const auto run = [](const Bytes& bytes) {
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 0);
  };
  const Bytes stream = Stream();
  const Bytes* corpus[] = {&kConnectorPreamble, &kListenerPreamble, &kMessageFrame, &kWriteFrame,
                           &kRefusalFrame,      &kReadFrame,        &kReadDataFrame, &stream};
  run({});
  base::SeededRandom random(seed);
  for (const Bytes* input : corpus) {
    run(*input);
    for (size_t length = 0; length < std::min<size_t>(input->size(), 300); ++length) {
      run(Bytes(input->begin(), input->begin() + static_cast<ptrdiff_t>(length)));
    }
    for (int i = 0; i < 300; ++i) {
      Bytes mutated = *input;
      for (uint64_t k = 0; k <= random.Below(3); ++k) {
        mutated[random.Below(std::min<size_t>(mutated.size(), 400))] = static_cast<std::byte>(random.Next64());
      }
      run(mutated);
      if (mutated.size() >= kHeaderBytes) {
        // With a checksum that fits, the fields behind it are looked at.
        Bytes header = Sealed(Bytes(mutated.begin(), mutated.begin() + kHeaderBytes));
        std::copy(header.begin(), header.end(), mutated.begin());
        run(mutated);
      }
    }
  }
}

}  // namespace
}  // namespace forebay::fabric
