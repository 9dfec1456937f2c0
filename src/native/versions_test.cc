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
