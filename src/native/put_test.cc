// SPDX-License-Identifier: Apache-2.0
#include "native/native_suite.h"

namespace forebay::native {
namespace {

using fabric::Direction;
using wire::PutBeginRequest;
using wire::PutCommitRequest;
using wire::PutDataRequest;
using wire::PutRequest;
using wire::Source;
using wire::StoredListReply;
using wire::Type;

StoredListReply ReplyOf(const TestPeer::Answer& answer) {
  const auto reply = wire::DecodeBody<StoredListReply>(answer.view.body);
  EXPECT_TRUE(reply.ok()) << reply.status().ToString();
  return reply.ok() ? *reply : StoredListReply{};
}

wire::PutItem Inline(std::string_view key, std::string_view content, uint64_t at = 0) {
  return {.bucket = "models",
          .key = key,
          .size = content.size(),
          .crc32c = base::Crc32c(AsBytes(content)),
          .source_offset = at};
}

class PutTest : public NativeTest {
 protected:
  /// The handle of a new stream for `key`; 0 when it was refused.
  rt::Task<uint64_t> Begin(TestPeer& peer, std::string_view key) {
    const auto answer = co_await peer.Call(Type::kPutBegin, PutBeginRequest{.bucket = "models", .key = key});
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    if (!answer.ok()) co_return 0;
    co_return wire::DecodeBody<wire::PutBeginReply>(answer->view.body)->handle;
  }
  static PutDataRequest Piece(uint64_t handle, uint64_t offset, std::string_view content) {
    return {.handle = handle,
            .offset = offset,
            .size = static_cast<uint32_t>(content.size()),
            .crc32c = base::Crc32c(AsBytes(content))};
  }
  rt::Task<Status> Send(TestPeer& peer, uint64_t handle, uint64_t offset, std::string content) {
    const auto answer = co_await peer.Call(Type::kPutData, Piece(handle, offset, content), AsBytes(content));
    co_return answer.status();
  }
  rt::Task<Status> Commit(TestPeer& peer, uint64_t handle, std::string_view content) {
    const auto answer = co_await peer.Call(
        Type::kPutCommit, PutCommitRequest{handle, content.size(), base::Crc32c(AsBytes(content))});
    co_return answer.status();
  }
};

TEST_F(PutTest, StoresWhatRidesInTheMessage) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    auto second = Inline("b", "world", 5);
    second.metadata = {{"color", "blue"}};
    const auto answer =
        co_await peer.Call(Type::kPut, PutRequest{{}, {Inline("a", "hello"), second}}, AsBytes("helloworld"));
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    if (!answer.ok()) co_return;
    const StoredListReply reply = ReplyOf(*answer);
    EXPECT_EQ(reply.items[1].size, 5u);
    EXPECT_EQ(reply.items[1].crc32c, base::Crc32c(AsBytes("world")));
    EXPECT_EQ(co_await Load("a"), "hello");
    EXPECT_EQ(co_await Load("b"), "world");
    const auto info = co_await store_.Stat(context_, "models", "b");
    EXPECT_EQ(info->etag, reply.items[1].etag);
    EXPECT_EQ(info->metadata.at("color"), "blue");
  });
}

TEST_F(PutTest, ReadsALargeObjectFromTheRegion) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    Bytes memory = Pattern(9 * base::kMiB + 17, 1);
    const ByteView content = ByteView(memory).subspan(1000);
    const auto region = peer.Offer(memory, Direction::kPeerReads);
    const wire::PutItem item{.bucket = "models",
                             .key = "large",
                             .size = content.size(),
                             .crc32c = base::Crc32c(content),
                             .source = Source::kRegion,
                             .source_offset = 1000};
    const auto answer = co_await peer.Call(Type::kPut, PutRequest{region, {item}});
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_TRUE(co_await Load("large") == AsText(content));
  });
}

TEST_F(PutTest, ABatchOfLargeItemsGoesThroughTheWindow) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    Bytes memory = Pattern(12 * 3 * base::kMiB / 2, 2);
    const auto region = peer.Offer(memory, Direction::kPeerReads);
    PutRequest put{region, {}};
    std::vector<std::string> keys;
    for (size_t i = 0; i < 12; ++i) keys.push_back("k" + std::to_string(i));
    const size_t size = 3 * base::kMiB / 2;
    for (size_t i = 0; i < 12; ++i)
      put.items.push_back({.bucket = "models",
                           .key = keys[i],
                           .size = size,
                           .crc32c = base::Crc32c(ByteView(memory).subspan(i * size, size)),
                           .source = Source::kRegion,
                           .source_offset = i * size});
    const auto answer = co_await peer.Call(Type::kPut, put);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    for (size_t i = 0; i < 12; ++i)
      EXPECT_TRUE(co_await Load(keys[i]) == AsText(ByteView(memory).subspan(i * size, size))) << i;
  });
}

TEST_F(PutTest, EachItemHasItsOwnOutcome) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("there", AsBytes("old"));
    wire::PutItem wrong_sum = Inline("b", "hello");
    wrong_sum.crc32c ^= 1;
    wire::PutItem absent = Inline("there", "hello");
    absent.condition = wire::Condition::kIfAbsent;
    wire::PutItem beyond = Inline("c", "hello", 1);
    wire::PutItem wraps = Inline("d", "hello", UINT64_MAX);
    wire::PutItem no_region = Inline("e", "hello");
    no_region.source = Source::kRegion;
    wire::PutItem no_bucket = Inline("f", "hello");
    no_bucket.bucket = "absent";
    wire::PutItem no_key = Inline("", "hello");
    const auto answer = co_await peer.Call(
        Type::kPut,
        PutRequest{{},
                   {Inline("a", "hello"), wrong_sum, absent, beyond, wraps, no_region, no_bucket, no_key}},
        AsBytes("hello"));
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    if (!answer.ok()) co_return;
    const StoredListReply reply = ReplyOf(*answer);
    const Code expected[] = {Code::kOk,
                             Code::kDataLoss,
                             Code::kAlreadyExists,
                             Code::kInvalidArgument,
                             Code::kInvalidArgument,
                             Code::kInvalidArgument,
                             Code::kNotFound,
                             Code::kInvalidArgument};
    for (size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(reply.items[i].code, expected[i]) << i;
    EXPECT_EQ(co_await Load("a"), "hello");
    EXPECT_EQ(co_await Load("there"), "old");
  });
  EXPECT_EQ(ObjectCount(), 2u);
}

TEST_F(PutTest, APutFromAWritableRegionIsRefused) {
  Run([](TestPeer& peer) -> rt::Task<void> {
    Bytes memory(4096);
    const auto region = peer.Offer(memory, Direction::kPeerWrites);
    const wire::PutItem item{.bucket = "models",
                             .key = "a",
                             .size = 4096,
                             .crc32c = base::Crc32c(memory),
                             .source = Source::kRegion};
    auto answer = co_await peer.Call(Type::kPut, PutRequest{region, {item}});
    EXPECT_EQ(ReplyOf(*answer).items[0].code, Code::kInvalidArgument);
    wire::RegionRef lie = region;
    lie.writable = false;  // says it may be read from: the fabric knows better
    answer = co_await peer.Call(Type::kPut, PutRequest{lie, {item}});
    EXPECT_EQ(ReplyOf(*answer).items[0].code, Code::kPermissionDenied);
  });
  EXPECT_EQ(ObjectCount(), 0u);
}

// ---- puts of unknown size ----

TEST_F(PutTest, PiecesThatAreInFlightTogetherKeepTheirOrder) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const uint64_t handle = co_await Begin(peer, "s");
    std::string content;
    for (int i = 0; i < 8; ++i) content += std::string(4096, static_cast<char>('a' + i));
    content += "tail";
    for (size_t at = 0; at < content.size(); at += 4096) {
      const std::string_view piece = std::string_view(content).substr(at, 4096);
      (void)co_await peer.endpoint->Send(
          peer.Make(peer.Next(Type::kPutData), Piece(handle, at, piece), AsBytes(piece)));
    }
    for (int i = 0; i < 9; ++i) {
      const auto answer = co_await peer.Receive();
      EXPECT_EQ(answer->view.header.status, Code::kOk);
    }
    EXPECT_EQ(co_await Load("s"), "NOT_FOUND");  // nothing is visible before Commit
    EXPECT_EQ((co_await Commit(peer, handle, content)).ToString(), "OK");
    EXPECT_TRUE(co_await Load("s") == content);
    EXPECT_EQ((co_await Commit(peer, handle, content)).code(), Code::kNotFound);
  });
}

TEST_F(PutTest, ABadPieceEndsTheStream) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const std::string page(4096, 'x');
    const auto ends = [&](std::string_view why, std::vector<PutDataRequest> pieces) -> rt::Task<void> {
      const uint64_t handle = co_await Begin(peer, "s");
      Status last;
      for (PutDataRequest& piece : pieces) {
        piece.handle = handle;
        last =
            (co_await peer.Call(Type::kPutData, piece, AsBytes(std::string_view(page).substr(0, piece.size))))
                .status();
      }
      EXPECT_FALSE(last.ok()) << why;
      EXPECT_FALSE((co_await Send(peer, handle, 0, page)).ok()) << why;
      EXPECT_FALSE((co_await Commit(peer, handle, page)).ok()) << why;
      EXPECT_EQ(co_await Load("s"), "NOT_FOUND") << why;
    };
    PutDataRequest wrong_sum = Piece(0, 0, page);
    wrong_sum.crc32c ^= 1;
    PutDataRequest short_payload = Piece(0, 0, page);
    short_payload.region_offset = 1;
    co_await ends("checksum", {wrong_sum});
    co_await ends("gap", {Piece(0, 4096, page)});
    co_await ends("again", {Piece(0, 0, page), Piece(0, 0, page)});
    co_await ends("beyond the payload", {short_payload});
    co_await ends("after a ragged one",
                  {Piece(0, 0, std::string_view(page).substr(0, 5)), Piece(0, 5, page)});
    co_await ends("overflow", {Piece(0, 0, page), Piece(0, UINT64_MAX, page)});
  });
}

TEST_F(PutTest, CommitComparesTheWhole) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    uint64_t handle = co_await Begin(peer, "s");
    EXPECT_EQ((co_await Send(peer, handle, 0, "hello")).ToString(), "OK");
    EXPECT_EQ((co_await Commit(peer, handle, "hell")).code(), Code::kDataLoss);
    handle = co_await Begin(peer, "s");
    EXPECT_EQ((co_await Send(peer, handle, 0, "hello")).ToString(), "OK");
    EXPECT_EQ((co_await Commit(peer, handle, "jello")).code(), Code::kDataLoss);
    handle = co_await Begin(peer, "empty");
    EXPECT_EQ((co_await Commit(peer, handle, "")).ToString(), "OK");
    EXPECT_EQ(co_await Load("s"), "NOT_FOUND");
    EXPECT_EQ(co_await Load("empty"), "");
  });
}

TEST_F(PutTest, AnAbortedOrAbandonedStreamLeavesNothing) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const uint64_t aborted = co_await Begin(peer, "s");
    EXPECT_EQ((co_await Send(peer, aborted, 0, "hello")).ToString(), "OK");
    EXPECT_TRUE((co_await peer.Call(Type::kPutAbort, wire::PutAbortRequest{aborted})).ok());
    EXPECT_EQ((co_await peer.Call(Type::kPutAbort, wire::PutAbortRequest{aborted})).status().code(),
              Code::kNotFound);
    const uint64_t left_open = co_await Begin(peer, "t");
    EXPECT_EQ((co_await Send(peer, left_open, 0, "hello")).ToString(), "OK");
  });  // the connection ends here
  EXPECT_EQ(ObjectCount(), 0u);
  Do(server_.Stop(base::Duration::zero()));
  EXPECT_EQ(arena_->free_bytes(), arena_->size_bytes());
}

TEST_F(PutTest, AnIdleStreamIsGivenUp) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const uint64_t handle = co_await Begin(peer, "s");
    EXPECT_EQ((co_await Send(peer, handle, 0, std::string(4096, 'x'))).ToString(), "OK");
    clock_.Advance(std::chrono::seconds(3));
    EXPECT_EQ((co_await Send(peer, handle, 4096, std::string(4096, 'x'))).ToString(), "OK");
    for (int i = 0; i < 60; ++i) {  // in steps, so that the fabric's own timers see a live peer
      clock_.Advance(std::chrono::seconds(1));
      (void)co_await peer.Call(Type::kCancel, wire::CancelRequest{0});
    }
    EXPECT_EQ((co_await Send(peer, handle, 8192, "x")).code(), Code::kNotFound);
  });
}

TEST_F(PutTest, StreamsAreBounded) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    for (uint32_t i = 0; i < ServerOptions().max_streams; ++i) EXPECT_NE(co_await Begin(peer, "s"), 0u);
    const auto refused = co_await peer.Call(Type::kPutBegin, PutBeginRequest{.bucket = "models", .key = "s"});
    EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  });
}

}  // namespace
}  // namespace forebay::native
