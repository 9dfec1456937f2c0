// SPDX-License-Identifier: Apache-2.0
// What a stream may be beside a put: an overwrite, an append, a part of an upload; and what it says at its end.
#include "native/native_suite.h"

namespace forebay::native {
namespace {

using wire::OverwriteBeginRequest;
using wire::PartBeginRequest;
using wire::PutBeginRequest;
using wire::Type;

class StreamsTest : public NativeTest {
 protected:
  struct Stored {
    uint64_t size = 0;
    uint64_t version = 0;
    std::string etag;
    store::UserMetadata metadata;
    store::UserMetadata attributes;
  };

  /// A stream that `begin` opens, of `content` in one piece, unless the server says that it needs none.
  template <typename Begin>
  rt::Task<Result<Stored>> Stream(TestPeer& peer, Type type, Begin begin, std::string content,
                                  OperationId operation = {}) {
    wire::Header header = peer.Next(type);
    header.operation = operation;
    FB_CO_ASSIGN(const auto opened, co_await peer.Exchange(peer.Make(header, begin), header.request));
    const auto stream = *wire::DecodeBody<wire::PutBeginReply>(opened.view.body);
    EXPECT_TRUE(stream.replays.has_value());
    replayed_ = stream.replays.value_or(false);
    const uint32_t crc32c = base::Crc32c(AsBytes(content));
    if (!replayed_) {
      const wire::PutDataRequest piece{
          .handle = stream.handle, .size = static_cast<uint32_t>(content.size()), .crc32c = crc32c};
      FB_CO_TRY((co_await peer.Call(Type::kPutData, piece, AsBytes(content))).status());
    }
    const wire::PutCommitRequest commit = replayed_
                                              ? wire::PutCommitRequest{stream.handle, 0, 0, true}
                                              : wire::PutCommitRequest{stream.handle, content.size(), crc32c};
    FB_CO_ASSIGN(const auto done, co_await peer.Call(Type::kPutCommit, commit));
    FB_CO_ASSIGN(const auto object, wire::DecodeBody<wire::ObjectReply>(done.view.body));
    co_return Stored{.size = object.size,
                     .version = object.version,
                     .etag = std::string(object.etag),
                     .metadata = {object.metadata.begin(), object.metadata.end()},
                     .attributes = {object.attributes.begin(), object.attributes.end()}};
  }

  bool replayed_ = false;
};

TEST_F(StreamsTest, AnOverwriteReplacesARunAndAnAppendAdds) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const store::ObjectInfo before = co_await Store("k", AsBytes("0123456789"));
    const auto changed = co_await Stream(peer, Type::kOverwriteBegin,
                                         OverwriteBeginRequest{.bucket = "models",
                                                               .key = "k",
                                                               .condition = wire::Condition::kIfMatch,
                                                               .etag = before.etag,
                                                               .offset = 3,
                                                               .size = {}},
                                         "abc");
    EXPECT_TRUE(changed.ok()) << changed.status().ToString();
    EXPECT_EQ(co_await Load("k"), "012abc6789");
    EXPECT_EQ(changed->size, 10u) << "of the object";
    EXPECT_NE(changed->etag, before.etag);
    const OverwriteBeginRequest append{.bucket = "models", .key = "k"};
    EXPECT_EQ((co_await Stream(peer, Type::kOverwriteBegin, append, "xyz"))->size, 13u);
    EXPECT_EQ(co_await Load("k"), "012abc6789xyz");
    const OverwriteBeginRequest stale{.bucket = "models",
                                      .key = "k",
                                      .condition = wire::Condition::kIfMatch,
                                      .etag = before.etag,
                                      .offset = 0};
    EXPECT_EQ((co_await Stream(peer, Type::kOverwriteBegin, stale, "no")).status().code(), Code::kFailedPrecondition);
    const OverwriteBeginRequest absent{
        .bucket = "models", .key = "k", .condition = wire::Condition::kIfAbsent, .offset = 0};
    EXPECT_EQ((co_await peer.Call(Type::kOverwriteBegin, absent)).status().code(), Code::kInvalidArgument);
  });
}

TEST_F(StreamsTest, AnOverwriteThatIsSentAgainTookPlaceOnce) {
  const OperationId id = OperationId::Generate(store_.operation_time_ms(), random_);
  Run([&](TestPeer& peer) -> rt::Task<void> {
    co_await Store("k", AsBytes("0123456789"));
    const OverwriteBeginRequest append{.bucket = "models", .key = "k", .size = 3};
    const auto first = co_await Stream(peer, Type::kOverwriteBegin, append, "abc", id);
    EXPECT_TRUE(first.ok()) << first.status().ToString();
    EXPECT_FALSE(replayed_);
    const auto second = co_await Stream(peer, Type::kOverwriteBegin, append, "abc", id);
    EXPECT_TRUE(replayed_);
    EXPECT_EQ(second->version, first->version);
    EXPECT_EQ(co_await Load("k"), "0123456789abc");
  });
}

TEST_F(StreamsTest, APutSaysAllWhenItChoosesMore) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    PutBeginRequest begin{.bucket = "models", .key = "k", .metadata = {{"m", "1"}}};
    begin.chosen = {.attributes = {{"s3.tag", "blue"}}, .etag = "mine"};
    const auto put = co_await Stream(peer, Type::kPutBegin, begin, "content");
    EXPECT_TRUE(put.ok()) << put.status().ToString();
    EXPECT_EQ(put->etag, "mine");
    EXPECT_EQ(put->metadata, (store::UserMetadata{{"m", "1"}}));
    EXPECT_EQ(put->attributes, (store::UserMetadata{{"s3.tag", "blue"}}));
    EXPECT_EQ((co_await store_.Stat(context_, "models", "k"))->etag, "mine");
  });
}

TEST_F(StreamsTest, PartsMakeAnObject) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const auto upload = co_await store_.CreateUpload(context_, "models", "k", {});
    for (const uint32_t number : {2, 1}) {
      const PartBeginRequest begin{.bucket = "models", .key = "k", .upload = upload->id, .number = number, .size = 4};
      const auto part = co_await Stream(peer, Type::kPartBegin, begin, number == 1 ? "one " : "two.");
      EXPECT_TRUE(part.ok()) << part.status().ToString();
    }
    const store::UploadName name{"models", "k", upload->id};
    const std::vector<store::PartRef> parts{{.number = 1}, {.number = 2}};
    EXPECT_TRUE((co_await store_.CompleteUpload(context_, name, parts, {})).ok());
    EXPECT_EQ(co_await Load("k"), "one two.");
    const PartBeginRequest late{.bucket = "models", .key = "k", .upload = upload->id, .number = 3};
    EXPECT_EQ((co_await Stream(peer, Type::kPartBegin, late, "late")).status().code(), Code::kNotFound);
    const PartBeginRequest none{.bucket = "models", .key = "k", .upload = upload->id, .number = 0};
    EXPECT_EQ((co_await peer.Call(Type::kPartBegin, none)).status().code(), Code::kInvalidArgument);
  });
}

TEST_F(StreamsTest, OnlyWhatReplaysIsCommittedWithoutAChecksum) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const auto begun = co_await peer.Call(Type::kPutBegin, PutBeginRequest{.bucket = "models", .key = "k"});
    const auto reply = *wire::DecodeBody<wire::PutBeginReply>(begun->view.body);
    EXPECT_FALSE(reply.replays.has_value()) << "an older client is told what it knows";
    const wire::PutCommitRequest commit{reply.handle, 0, 0, true};
    EXPECT_EQ((co_await peer.Call(Type::kPutCommit, commit)).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(co_await Load("k"), "NOT_FOUND");
  });
}

}  // namespace
}  // namespace forebay::native
