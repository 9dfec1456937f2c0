// SPDX-License-Identifier: Apache-2.0
// A put that is sent again, on another connection: it took place once, and its answer is the first one.
#include <gtest/gtest.h>

#include "native/native_suite.h"

namespace forebay::native {
namespace {

using wire::Type;

class OperationsTest : public NativeTest {
 protected:
  template <typename Body>
  rt::Task<Result<TestPeer::Answer>> Call(TestPeer& peer, Type type, Body body, ByteView payload = {}) {
    wire::Header header = peer.Next(type);
    header.operation = id_;
    return peer.Exchange(peer.Make(header, body, payload), header.request);
  }
  rt::Task<wire::StoredReply> PutOne(TestPeer& peer, wire::PutItem item, wire::RegionRef region,
                                     ByteView payload) {
    item.operation = id_;
    const auto answer = co_await peer.Call(Type::kPut, wire::PutRequest{region, {item}}, payload);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    if (!answer.ok()) co_return wire::StoredReply{.code = Code::kUnknown};
    wire::StoredReply reply = wire::DecodeBody<wire::StoredListReply>(answer->view.body)->items.at(0);
    reply.etag = reply.message = {};  // views
    co_return reply;
  }
  static wire::PutItem Item(ByteView content, wire::Source source = wire::Source::kPayload) {
    return {.bucket = "models",
            .key = "k",
            .size = content.size(),
            .crc32c = base::Crc32c(content),
            .source = source};
  }
  /// The whole of a put of unknown size; `begun` is whether PutBegin carries the id too.
  rt::Task<Result<uint64_t>> Stream(TestPeer& peer, bool begun, ByteView content, ByteView sent) {
    const wire::PutBeginRequest begin{.bucket = "models", .key = "s"};
    const auto opened =
        begun ? co_await Call(peer, Type::kPutBegin, begin) : co_await peer.Call(Type::kPutBegin, begin);
    if (!opened.ok()) co_return opened.status();
    const uint64_t handle = wire::DecodeBody<wire::PutBeginReply>(opened->view.body)->handle;
    const wire::PutDataRequest piece{.handle = handle,
                                     .offset = 0,
                                     .size = static_cast<uint32_t>(content.size()),
                                     .crc32c = base::Crc32c(content)};
    const auto took = co_await peer.Call(Type::kPutData, piece, sent);
    if (!took.ok()) co_return took.status();
    const auto stored = co_await Call(peer, Type::kPutCommit,
                                      wire::PutCommitRequest{handle, content.size(), base::Crc32c(content)});
    if (!stored.ok()) co_return stored.status();
    co_return wire::DecodeBody<wire::StoredReply>(stored->view.body)->version;
  }

  const OperationId id_ = OperationId::Generate(store_.operation_time_ms(), random_);
};

TEST_F(OperationsTest, APutThatIsSentTwiceIsStoredOnce) {
  const ByteView content = AsBytes("hello");
  uint64_t version = 0;
  Run([&](TestPeer& peer) -> rt::Task<void> {
    version = (co_await PutOne(peer, Item(content), {}, content)).version;
    EXPECT_NE(version, 0u);
  });
  (void)Do(Store("k", AsBytes("of somebody else")));
  Run([&](TestPeer& peer) -> rt::Task<void> {
    const wire::StoredReply again = co_await PutOne(peer, Item(content), {}, content);
    EXPECT_EQ(again.code, Code::kOk);
    EXPECT_EQ(again.version, version);
    const ByteView other = AsBytes("other");
    EXPECT_EQ((co_await PutOne(peer, Item(other), {}, other)).code, Code::kInvalidArgument);
    EXPECT_EQ(co_await Load("k"), "of somebody else");
  });
}

TEST_F(OperationsTest, EachItemOfABatchHasItsOwn) {
  Run([&](TestPeer& peer) -> rt::Task<void> {
    wire::PutItem first = Item(AsBytes("hello"));
    wire::PutItem second = first;
    first.operation = id_;
    second.key = "l";
    second.operation = OperationId::Generate(store_.operation_time_ms(), random_);
    for (int i = 0; i < 2; ++i) {
      const auto answer =
          co_await peer.Call(Type::kPut, wire::PutRequest{{}, {first, second}}, AsBytes("hello"));
      EXPECT_TRUE(answer.ok());
      const auto reply = wire::DecodeBody<wire::StoredListReply>(answer->view.body);
      for (const wire::StoredReply& item : reply->items) EXPECT_EQ(item.code, Code::kOk) << item.message;
    }
    EXPECT_EQ((co_await store_.Stat(context_, "models", "k"))->version, 1u);
    EXPECT_EQ((co_await store_.Stat(context_, "models", "l"))->version, 2u);
  });
}

TEST_F(OperationsTest, ALargePutThatTookPlaceIsNotFetchedAgain) {
  Bytes memory = Pattern(2 * base::kMiB, 1);
  const wire::PutItem item = Item(memory, wire::Source::kRegion);
  uint64_t version = 0;
  Run([&](TestPeer& peer) -> rt::Task<void> {
    const auto region = peer.Offer(memory, fabric::Direction::kPeerReads);
    version = (co_await PutOne(peer, item, region, {})).version;
  });
  Bytes changed(memory.size());  // would be refused for its checksum, were it read
  Run([&](TestPeer& peer) -> rt::Task<void> {
    const auto region = peer.Offer(changed, fabric::Direction::kPeerReads);
    const wire::StoredReply again = co_await PutOne(peer, item, region, {});
    EXPECT_EQ(again.code, Code::kOk);
    EXPECT_EQ(again.version, version);
  });
}

TEST_F(OperationsTest, AStreamIsSentAgainOnAnotherConnection) {
  const Bytes content = Pattern(5000, 2);
  const Bytes changed(content.size());
  Result<uint64_t> version = uint64_t{0};
  Run([&](TestPeer& peer) -> rt::Task<void> { version = co_await Stream(peer, false, content, content); });
  ASSERT_TRUE(version.ok()) << version.status().ToString();
  (void)Do(Store("s", AsBytes("of somebody else")));
  Run([&](TestPeer& peer) -> rt::Task<void> {
    const auto known = co_await Stream(peer, true, content, changed);
    EXPECT_TRUE(known.ok()) << known.status().ToString();
    EXPECT_EQ(known.ok() ? *known : 0, *version);
    const auto at_commit = co_await Stream(peer, false, content, content);
    EXPECT_EQ(at_commit.ok() ? *at_commit : 0, *version);
    EXPECT_EQ((co_await Stream(peer, true, changed, changed)).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(co_await Load("s"), "of somebody else");
  });
}

TEST_F(OperationsTest, AnExpiredIdIsRefusedBeforeAnythingMoves) {
  clock_.Advance(std::chrono::minutes(16));
  Run([&](TestPeer& peer) -> rt::Task<void> {
    const ByteView content = AsBytes("hello");
    EXPECT_EQ((co_await PutOne(peer, Item(content), {}, content)).code, Code::kFailedPrecondition);
    EXPECT_EQ((co_await Stream(peer, true, content, content)).status().code(), Code::kFailedPrecondition);
  });
  EXPECT_EQ(ObjectCount(), 0u);
}

}  // namespace
}  // namespace forebay::native
