// SPDX-License-Identifier: Apache-2.0
#include "native/native_suite.h"

namespace forebay::native {
namespace {

using fabric::Direction;
using wire::GetReply;
using wire::GetRequest;
using wire::Type;

GetReply ReplyOf(const TestPeer::Answer& answer) {
  const auto reply = wire::DecodeBody<GetReply>(answer.view.body);
  EXPECT_TRUE(reply.ok()) << reply.status().ToString();
  return reply.ok() ? *reply : GetReply{};
}

class GetTest : public NativeTest {};

TEST_F(GetTest, WritesTheObjectIntoTheRegion) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes content = Pattern(100'000, 1);
    const store::ObjectInfo info = co_await Store("a", content);
    Bytes memory(100'000);
    const auto region = peer.Offer(memory, Direction::kPeerWrites);
    const auto answer = co_await peer.Call(
        Type::kGet, GetRequest{false, region, {{.bucket = "models", .key = "a", .length = memory.size()}}});
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    if (!answer.ok()) co_return;
    const GetReply reply = ReplyOf(*answer);
    EXPECT_FALSE(reply.inlined);
    EXPECT_EQ(reply.items[0].size, 100'000u);
    EXPECT_EQ(reply.items[0].total_size, 100'000u);
    EXPECT_EQ(reply.items[0].crc32c, base::Crc32c(content));
    EXPECT_EQ(reply.items[0].etag, info.etag);
    EXPECT_EQ(reply.items[0].version, info.version);
    EXPECT_EQ(memory, content);
  });
}

TEST_F(GetTest, ALargeObjectComesInChunksAndKeepsItsChecksum) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes content = Pattern(11 * base::kMiB + 123, 2);
    co_await Store("large", content);
    Bytes memory(content.size() + 1000);
    const auto region = peer.Offer(memory, Direction::kPeerWrites);
    const uint64_t offset = 4097;
    const auto answer = co_await peer.Call(Type::kGet, GetRequest{true,
                                                                  region,
                                                                  {{.bucket = "models",
                                                                    .key = "large",
                                                                    .offset = offset,
                                                                    .length = memory.size() - 500,
                                                                    .region_offset = 500}}});
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    if (!answer.ok()) co_return;
    const GetReply reply = ReplyOf(*answer);
    EXPECT_EQ(reply.items[0].size, content.size() - offset);
    EXPECT_EQ(reply.items[0].crc32c, base::Crc32c(ByteView(content).subspan(offset)));
    EXPECT_TRUE(std::equal(content.begin() + offset, content.end(), memory.begin() + 500));
    EXPECT_TRUE(
        std::all_of(memory.begin(), memory.begin() + 500, [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_GE(fabric_.writes(), base::DivideUp(content.size() - offset, base::kMaxTransferBytes));
    EXPECT_LE(fabric_.writes(), base::DivideUp(content.size() - offset, base::kMaxChunkBytes));
  });
}

TEST_F(GetTest, SmallResultsRideInTheReplyWhenAllowed) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("a", AsBytes("hello "));
    co_await Store("b", AsBytes("world"));
    const auto answer =
        co_await peer.Call(Type::kGet, GetRequest{true,
                                                  {},
                                                  {{.bucket = "models", .key = "a", .length = 100},
                                                   {.bucket = "models", .key = "x", .length = 100},
                                                   {.bucket = "models", .key = "b", .length = 100}}});
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    if (!answer.ok()) co_return;
    const GetReply reply = ReplyOf(*answer);
    EXPECT_TRUE(reply.inlined);
    EXPECT_EQ(AsText(answer->view.payload), "hello world");
    EXPECT_EQ(reply.items[0].crc32c, base::Crc32c(AsBytes("hello ")));
    EXPECT_EQ(reply.items[1].code, Code::kNotFound);
    EXPECT_EQ(reply.items[2].size, 5u);
    EXPECT_EQ(fabric_.writes(), 0u);
  });
}

TEST_F(GetTest, ABatchOfSmallNeighboursIsOneTransfer) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    Bytes expected;
    GetRequest get;
    std::vector<std::string> keys;
    for (int i = 0; i < 32; ++i) {
      const Bytes content = Pattern(4096, 100 + i);
      keys.push_back("key" + std::to_string(i));
      co_await Store(keys.back(), content);
      expected.insert(expected.end(), content.begin(), content.end());
    }
    for (size_t i = 0; i < keys.size(); ++i)
      get.items.push_back({.bucket = "models", .key = keys[i], .length = 4096, .region_offset = i * 4096});
    Bytes memory(expected.size());
    get.region = peer.Offer(memory, Direction::kPeerWrites);
    const auto answer = co_await peer.Call(Type::kGet, get);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(memory, expected);
    EXPECT_EQ(fabric_.writes(), 1u);
  });
}

TEST_F(GetTest, AFailedItemLeavesTheOthersAlone) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes content = Pattern(70'000, 3);  // not small: goes the chunked way
    co_await Store("a", content);
    Bytes memory(210'000);
    const auto region = peer.Offer(memory, Direction::kPeerWrites);
    const auto answer = co_await peer.Call(
        Type::kGet,
        GetRequest{true,
                   region,
                   {{.bucket = "models", .key = "a", .length = 70'000},
                    {.bucket = "models", .key = "gone", .length = 70'000, .region_offset = 70'000},
                    {.bucket = "nobucket", .key = "a", .length = 1, .region_offset = 70'000},
                    {.bucket = "models",
                     .key = "a",
                     .length = 70'000,
                     .region_offset = 140'000,
                     .if_match = "another"},
                    {.bucket = "models", .key = "a", .length = 70'000, .region_offset = 140'000}}});
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    if (!answer.ok()) co_return;
    const GetReply reply = ReplyOf(*answer);
    EXPECT_EQ(reply.items[0].code, Code::kOk);
    EXPECT_EQ(reply.items[1].code, Code::kNotFound);
    EXPECT_EQ(reply.items[1].message, "object `models/gone` does not exist");
    EXPECT_EQ(reply.items[2].code, Code::kNotFound);
    EXPECT_EQ(reply.items[3].code, Code::kFailedPrecondition);
    EXPECT_EQ(reply.items[4].code, Code::kOk);
    EXPECT_TRUE(std::equal(content.begin(), content.end(), memory.begin()));
    EXPECT_TRUE(std::equal(content.begin(), content.end(), memory.begin() + 140'000));
  });
}

struct RangeCase {
  uint64_t offset;
  uint64_t length;
  Code code;
  uint64_t size;
};

TEST_F(GetTest, RangesAreCutAtTheEndAndRefusedBehindIt) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes content = Pattern(10'000, 4);
    co_await Store("a", content);
    Bytes memory(20'000);
    const auto region = peer.Offer(memory, Direction::kPeerWrites);
    const RangeCase cases[] = {{0, 20'000, Code::kOk, 10'000},    {9'999, 2, Code::kOk, 1},
                               {10'000, 5, Code::kOk, 0},         {0, 0, Code::kOk, 0},
                               {10'001, 1, Code::kOutOfRange, 0}, {UINT64_MAX, 20'000, Code::kOutOfRange, 0},
                               {4096, 4096, Code::kOk, 4096}};
    for (const RangeCase& range : cases) {
      const auto answer = co_await peer.Call(
          Type::kGet,
          GetRequest{false,
                     region,
                     {{.bucket = "models", .key = "a", .offset = range.offset, .length = range.length}}});
      EXPECT_TRUE(answer.ok()) << answer.status().ToString();
      if (!answer.ok()) co_return;
      const GetReply reply = ReplyOf(*answer);
      EXPECT_EQ(reply.items[0].code, range.code) << range.offset;
      EXPECT_EQ(reply.items[0].size, range.size) << range.offset;
      if (range.code == Code::kOk) {
        EXPECT_EQ(reply.items[0].crc32c, base::Crc32c(ByteView(content).subspan(range.offset, range.size)));
        EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + static_cast<long>(range.size),
                               content.begin() + static_cast<long>(range.offset)));
      }
    }
  });
}

TEST_F(GetTest, WhatDoesNotFitTheRegionIsRefusedBeforeAnythingMoves) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("a", Pattern(10'000, 4));
    Bytes memory(4096);
    const auto region = peer.Offer(memory, Direction::kPeerWrites);
    const auto get = [&](wire::RegionRef ref, uint64_t at, uint64_t length) {
      return peer.Call(
          Type::kGet,
          GetRequest{false, ref, {{.bucket = "models", .key = "a", .length = length, .region_offset = at}}});
    };
    EXPECT_EQ((co_await get(region, 0, 4097)).status().code(), Code::kInvalidArgument);
    EXPECT_EQ((co_await get(region, 1, 4096)).status().code(), Code::kInvalidArgument);
    EXPECT_EQ((co_await get(region, UINT64_MAX, 2)).status().code(), Code::kInvalidArgument);
    EXPECT_EQ((co_await get({}, 0, 1)).status().code(), Code::kInvalidArgument);  // no region, and not inline
    wire::RegionRef wrong = region;
    wrong.writable = false;
    EXPECT_EQ((co_await get(wrong, 0, 1)).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(fabric_.writes(), 0u);
    EXPECT_TRUE((co_await get(region, 0, 4096)).ok());
  });
}

TEST_F(GetTest, ARegionThatIsNotTheClientsIsAnErrorOfTheRequestOnly) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("a", Pattern(10'000, 4));
    Bytes memory(4096);
    wire::RegionRef guessed = peer.Offer(memory, Direction::kPeerWrites);
    guessed.key ^= 1;
    const auto refused = co_await peer.Call(
        Type::kGet, GetRequest{false, guessed, {{.bucket = "models", .key = "a", .length = 4096}}});
    EXPECT_EQ(refused.status().code(), Code::kPermissionDenied);
    EXPECT_EQ(memory, Bytes(4096));
    guessed.key ^= 1;
    guessed.length = UINT64_MAX;  // a lie about the length does not make the region longer
    const auto beyond = co_await peer.Call(
        Type::kGet, GetRequest{false, guessed, {{.bucket = "models", .key = "a", .length = 10'000}}});
    EXPECT_EQ(beyond.status().code(), Code::kPermissionDenied);
    EXPECT_EQ(memory, Bytes(4096));
  });
}

TEST_F(GetTest, ManyItemsThatExceedTheWindowStillArrive) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes content = Pattern(300'000, 5);
    co_await Store("a", content);
    GetRequest get;
    for (size_t i = 0; i < 64; ++i)  // 19 MB through a window of 8 MiB, every third one missing
      get.items.push_back({.bucket = "models",
                           .key = i % 3 == 1 ? "gone" : "a",
                           .length = 300'000,
                           .region_offset = i * 300'000});
    Bytes memory(64 * 300'000);
    get.region = peer.Offer(memory, Direction::kPeerWrites);
    const auto answer = co_await peer.Call(Type::kGet, get);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    for (size_t i = 0; i < 64; ++i) {
      if (i % 3 == 1) continue;
      EXPECT_TRUE(std::equal(content.begin(), content.end(), memory.begin() + static_cast<long>(i * 300'000)))
          << i;
    }
  });
}

}  // namespace
}  // namespace forebay::native
