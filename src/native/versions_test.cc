// SPDX-License-Identifier: Apache-2.0
// Stat and GetVersion: one version by its number, or the current one.
#include "native/native_suite.h"

namespace forebay::native {
namespace {

using wire::StatRequest;
using wire::Type;

class VersionsTest : public NativeTest {
 protected:
  rt::Task<void> KeepVersions() {
    EXPECT_TRUE((co_await store_.UpdateBucket(context_, "models", {.versioning = store::Versioning::kOn})).ok());
  }
  static rt::Task<Result<uint64_t>> VersionOf(TestPeer& peer, StatRequest ask) {
    FB_CO_ASSIGN(const auto answer, co_await peer.Call(Type::kStat, ask));
    FB_CO_ASSIGN(const auto object, wire::DecodeBody<wire::ObjectReply>(answer.view.body));
    co_return object.version;
  }
  static rt::Task<uint64_t> Open(TestPeer& peer) {
    wire::OpenRequest ask;
    ask.bucket = "models";
    ask.key = "k";
    const auto answer = co_await peer.Call(Type::kOpen, ask);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    if (!answer.ok()) co_return 0;
    const auto reply = wire::DecodeBody<wire::OpenReply>(answer->view.body);
    EXPECT_GT(reply->object.size, 0u);
    co_return reply->handle;
  }
  static rt::Task<std::string> ReadOpen(TestPeer& peer, uint64_t handle, uint64_t offset, uint64_t length) {
    const wire::ReadRequest ask{.handle = handle, .offset = offset, .length = length, .inline_allowed = true};
    const auto answer = co_await peer.Call(Type::kRead, ask);
    if (!answer.ok()) co_return std::string(CodeName(answer.status().code()));
    const auto reply = *wire::DecodeBody<wire::GetReply>(answer->view.body);
    if (reply.items[0].code != Code::kOk) co_return std::string(CodeName(reply.items[0].code));
    co_return std::string(AsText(answer->view.payload));
  }
  /// The content, or the code of the item.
  static rt::Task<std::string> Read(TestPeer& peer, wire::GetItem item) {
    wire::GetVersionRequest ask;
    ask.inline_allowed = true;
    item.bucket = "models";
    item.key = "k";
    item.length = 100;
    ask.items = {item};
    const auto answer = co_await peer.Call(Type::kGetVersion, ask);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    const auto reply = *wire::DecodeBody<wire::GetReply>(answer->view.body);
    if (reply.items[0].code != Code::kOk) co_return std::string(CodeName(reply.items[0].code));
    co_return std::string(AsText(answer->view.payload));
  }
};

TEST_F(VersionsTest, AVersionIsReadByItsNumber) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await KeepVersions();
    const store::ObjectInfo first = co_await Store("k", AsBytes("first"));
    const store::ObjectInfo second = co_await Store("k", AsBytes("second"));
    EXPECT_EQ(co_await Read(peer, {.version = first.version}), "first");
    EXPECT_EQ(co_await Read(peer, {.version = second.version}), "second");
    EXPECT_EQ(co_await Read(peer, {}), "second") << "0 is the current one";
    EXPECT_EQ(co_await Read(peer, {.offset = 2, .version = first.version}), "rst");
    EXPECT_EQ(co_await Read(peer, {.version = 999}), "NOT_FOUND");
    EXPECT_EQ(co_await Read(peer, {.if_match = second.etag, .version = first.version}), "FAILED_PRECONDITION");
    EXPECT_EQ(co_await Read(peer, {.if_match = first.etag, .version = first.version}), "first");
  });
}

TEST_F(VersionsTest, StatTellsAllOfAVersion) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await KeepVersions();
    const store::ObjectInfo first = co_await Store("k", AsBytes("first"));
    const store::AttributeChange blue{.set = {{"s3.tag", "blue"}}};
    EXPECT_TRUE((co_await store_.SetAttributes(context_, "models", "k", first.version, blue)).ok());
    const store::ObjectInfo second = co_await Store("k", AsBytes("second"));
    const auto answer =
        co_await peer.Call(Type::kStat, StatRequest{.bucket = "models", .key = "k", .version = first.version});
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    const auto object = *wire::DecodeBody<wire::ObjectReply>(answer->view.body);
    EXPECT_EQ(object.size, 5u);
    EXPECT_EQ(object.crc32c, base::Crc32c(AsBytes("first")));
    EXPECT_EQ(object.etag, first.etag);
    EXPECT_EQ(base::WallTime(std::chrono::milliseconds(object.modified_unix_ms)),
              std::chrono::floor<std::chrono::milliseconds>(first.modified));
    EXPECT_EQ(object.attributes, (wire::MetadataView{{"s3.tag", "blue"}}));
    EXPECT_EQ(*co_await VersionOf(peer, {.bucket = "models", .key = "k"}), second.version);
    EXPECT_EQ((co_await VersionOf(peer, {.bucket = "models", .key = "k", .if_match = first.etag})).status().code(),
              Code::kFailedPrecondition);
  });
}

TEST_F(VersionsTest, AnOpenVersionStaysReadableUntilItIsClosed) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("k", AsBytes("first"));
    const uint64_t handle = co_await Open(peer);
    EXPECT_NE(handle, 0u);
    co_await Store("k", AsBytes("second"));
    EXPECT_EQ(co_await ReadOpen(peer, handle, 0, 100), "first") << "cut at its end";
    EXPECT_TRUE((co_await store_.Delete(context_, "models", "k", {})).ok());
    EXPECT_EQ(co_await ReadOpen(peer, handle, 1, 3), "irs");
    EXPECT_EQ(co_await ReadOpen(peer, handle, 6, 1), "OUT_OF_RANGE");
    EXPECT_EQ(co_await ReadOpen(peer, handle + 1, 0, 1), "NOT_FOUND");
    const auto another = co_await Connect();
    EXPECT_TRUE((co_await another->Hello()).ok());
    EXPECT_EQ(co_await ReadOpen(*another, handle, 0, 1), "NOT_FOUND") << "it is this connection's";
    co_await another->endpoint->Fence(Status::Unavailable("done"));
    EXPECT_TRUE((co_await peer.Call(Type::kClose, wire::CloseRequest{handle})).ok());
    EXPECT_EQ(co_await ReadOpen(peer, handle, 0, 1), "NOT_FOUND");
    EXPECT_TRUE((co_await peer.Call(Type::kClose, wire::CloseRequest{handle})).ok()) << "again is fine";
    EXPECT_EQ(store_.usage().used_bytes, 0u) << "what was held open takes no room any more";
  });
}

TEST_F(VersionsTest, AnOpenVersionMovesIntoARegion) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes content = Pattern(3 * base::kMiB, 1);
    co_await Store("k", content);
    const uint64_t handle = co_await Open(peer);
    co_await Store("k", AsBytes("other"));
    Bytes memory(base::kMiB);
    const auto region = peer.Offer(memory, fabric::Direction::kPeerWrites);
    const auto answer = co_await peer.Call(
        Type::kRead, wire::ReadRequest{.handle = handle, .offset = base::kMiB, .length = base::kMiB, .region = region});
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_TRUE(std::ranges::equal(memory, ByteView(content).subspan(base::kMiB, base::kMiB)));
  });
}

TEST_F(VersionsTest, OpenVersionsAreBoundedAndLetGoWhenIdle) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("k", AsBytes("first"));
    const uint64_t first = co_await Open(peer);
    for (uint32_t i = 1; i < ServerOptions{}.max_readers; ++i) (void)co_await Open(peer);
    EXPECT_EQ(co_await Open(peer), 0u) << "told, but not held";
    clock_.Advance(ServerOptions{}.stream_idle - std::chrono::seconds(1));
    EXPECT_EQ(co_await ReadOpen(peer, first, 0, 5), "first");
    clock_.Advance(std::chrono::seconds(2));
    co_await reactor_->Yield();
    EXPECT_EQ(co_await ReadOpen(peer, first, 0, 5), "first") << "it was read meanwhile";
    EXPECT_EQ(co_await ReadOpen(peer, first + 1, 0, 5), "NOT_FOUND");
    EXPECT_NE(co_await Open(peer), 0u);
  });
}

TEST_F(VersionsTest, ADeleteMarkerIsNoObject) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await KeepVersions();
    co_await Store("k", AsBytes("first"));
    EXPECT_TRUE((co_await store_.Delete(context_, "models", "k", {})).ok());
    const auto versions = co_await store_.ListVersions(context_, "models", {});
    const uint64_t marker = versions->versions.front().object.version;
    EXPECT_EQ((co_await VersionOf(peer, {.bucket = "models", .key = "k", .version = marker})).status().code(),
              Code::kNotFound);
    EXPECT_EQ(co_await Read(peer, {.version = marker}), "NOT_FOUND");
    EXPECT_EQ((co_await VersionOf(peer, {.bucket = "models", .key = "k"})).status().code(), Code::kNotFound);
  });
}

}  // namespace
}  // namespace forebay::native
