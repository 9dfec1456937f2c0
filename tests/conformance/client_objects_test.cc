// SPDX-License-Identifier: Apache-2.0
// The installed API's calls about parts of objects, attributes, versions and uploads, against a whole server.
#include <gtest/gtest.h>

#include "base/checksum.h"
#include "forebay/client.h"
#include "memory_server.h"

namespace forebay {
namespace {

using conformance::MemoryServer;

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string Content(size_t size, uint64_t seed) {
  std::string content(size, '\0');
  base::SeededRandom(seed).Fill(std::as_writable_bytes(std::span(content.data(), content.size())));
  return content;
}

class ClientObjectsTest : public testing::Test {
 protected:
  ClientObjectsTest() : client_(*Client::Connect(server_.Options())) {
    EXPECT_TRUE(client_->CreateBucket("models"));
  }
  PutResult Put(const std::string& key, const std::string& content) {
    auto put = client_->Put("models", key, BytesOf(content));
    EXPECT_TRUE(put) << put.error().message;
    return put.value_or(PutResult{});
  }
  /// The content, or what the error says.
  std::string Get(const std::string& key, uint64_t version = 0) {
    auto reader = client_->OpenReader("models", key, {.version = version});
    if (!reader) return reader.error().message;
    std::string content;
    for (;;) {
      const auto bytes = reader->Next();
      if (!bytes) return bytes.error().message;
      if (bytes->empty()) return content;
      content.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    }
  }
  template <typename T>
  static Code CodeOf(const std::expected<T, Error>& result) {
    return result ? Code::kOk : result.error().code;
  }

  MemoryServer server_;
  const std::unique_ptr<Client> client_;
};

TEST_F(ClientObjectsTest, RunsAreReplacedAndAddedAndCutOff) {
  const PutResult put = Put("k", "0123456789");
  const auto changed = client_->Overwrite("models", "k", 3, BytesOf("abc"), {.if_match = put.etag});
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(changed->size, 10u) << "of the whole object";
  EXPECT_EQ(changed->crc32c, base::Crc32c(AsBytes("012abc6789")));
  EXPECT_EQ(Get("k"), "012abc6789");
  EXPECT_EQ(client_->Append("models", "k", BytesOf("xyz"))->size, 13u);
  EXPECT_EQ(client_->Truncate("models", "k", 4)->size, 4u);
  EXPECT_EQ(Get("k"), "012a");
  EXPECT_EQ(CodeOf(client_->Overwrite("models", "k", 0, BytesOf("x"), {.if_match = put.etag})),
            Code::kFailedPrecondition);
  EXPECT_EQ(CodeOf(client_->Truncate("models", "k", 0, {.if_match = put.etag})), Code::kFailedPrecondition);
  EXPECT_EQ(CodeOf(client_->Append("models", "none", BytesOf("x"))), Code::kNotFound);
}

TEST_F(ClientObjectsTest, AnOverwriteOfManyPiecesIsStreamed) {
  std::string content = Content(7'000'000, 1);
  Put("k", content);
  const std::string fresh = Content(5'300'000, 2);
  auto writer = client_->OpenOverwriter("models", "k", 1'000'000);
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(writer->Write(BytesOf(fresh)));
  const auto done = writer->Commit();
  ASSERT_TRUE(done) << done.error().message;
  content.replace(1'000'000, fresh.size(), fresh);
  EXPECT_EQ(done->crc32c, base::Crc32c(AsBytes(content)));
  EXPECT_TRUE(Get("k") == content);
  auto append = client_->OpenOverwriter("models", "k", std::nullopt);
  ASSERT_TRUE(append && append->Write(BytesOf("end")) && append->Commit());
  EXPECT_TRUE(Get("k") == content + "end");
}

TEST_F(ClientObjectsTest, AnAppendThatIsSentAgainTookPlaceOnce) {
  Put("k", "one");
  auto writer = client_->OpenOverwriter("models", "k", std::nullopt);
  ASSERT_TRUE(writer && writer->Write(BytesOf(" two")));
  const auto first = writer->Commit();
  ASSERT_TRUE(first) << first.error().message;
  const OverwriteOptions again{.operation = writer->operation()};
  ASSERT_FALSE(again.operation.empty());
  const auto second = client_->Append("models", "k", BytesOf(" two"), again);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->version, first->version);
  EXPECT_EQ(Get("k"), "one two");
  EXPECT_EQ(CodeOf(client_->Append("models", "k", BytesOf("other"), again)), Code::kInvalidArgument);
}

TEST_F(ClientObjectsTest, AServerThatWasRestartedTakesAnAppendOnce) {
  Put("k", "one");
  server_.Stop();
  server_.Start();
  const auto appended = client_->Append("models", "k", BytesOf(" two"));
  ASSERT_TRUE(appended) << appended.error().message;
  EXPECT_EQ(Get("k"), "one two");
}

TEST_F(ClientObjectsTest, AttributesChangeBesideAVersion) {
  const PutResult put = Put("k", "content");
  ASSERT_TRUE(client_->SetAttributes("models", "k", {.set = {{"a", "1"}, {"b", "2"}}}));
  ASSERT_TRUE(client_->SetAttributes("models", "k", {.set = {{"a", "3"}}, .remove = {"b"}, .if_match = put.etag}));
  const auto object = client_->Stat("models", "k");
  EXPECT_EQ(object->attributes, (std::map<std::string, std::string>{{"a", "3"}}));
  EXPECT_EQ(object->version, put.version);
  EXPECT_EQ(CodeOf(client_->SetAttributes("models", "k", {.set = {{"a", "4"}}, .if_match = "other"})),
            Code::kFailedPrecondition);
}

TEST_F(ClientObjectsTest, VersionsAreKeptReadAndTakenAway) {
  EXPECT_EQ(client_->GetBucket("models")->versioning, Versioning::kOff);
  ASSERT_TRUE(client_->SetVersioning("models", Versioning::kOn));
  EXPECT_EQ(client_->ListBuckets()->front().versioning, Versioning::kOn);
  const PutResult first = Put("k", "first");
  const PutResult second = Put("k", "second");
  ASSERT_TRUE(client_->Remove("models", "k"));
  EXPECT_EQ(Get("k", first.version), "first");
  std::vector<std::byte> memory(100);
  const auto got = client_->Get("models", "k", memory, {.version = second.version});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(AsText(ByteView(memory).first(got->size)), "second");
  const auto page = client_->ListVersions("models", {.limit = 2});
  ASSERT_EQ(page->versions.size(), 2u);
  EXPECT_TRUE(page->truncated);
  EXPECT_TRUE(page->versions[0].delete_marker);
  const auto rest = client_->ListVersions("models", {.after_key = "k", .after_version = second.version});
  ASSERT_EQ(rest->versions.size(), 1u);
  EXPECT_EQ(rest->versions[0].object.version, first.version);
  EXPECT_FALSE(client_->StatVersion("models", "k", first.version)->latest);
  ASSERT_TRUE(client_->RemoveVersion("models", "k", page->versions[0].object.version));
  EXPECT_EQ(Get("k"), "second") << "without the marker it is there again";
  EXPECT_EQ(CodeOf(client_->RemoveVersion("models", "k", 999)), Code::kNotFound);
  EXPECT_EQ(CodeOf(client_->Append("models", "k", BytesOf("x"))), Code::kFailedPrecondition);
}

TEST_F(ClientObjectsTest, AnUploadOfPartsFromEverywhereBecomesAnObject) {
  Put("source", "0123456789");
  const auto begun = client_->CreateUpload("models", "k", {{"made", "of parts"}});
  ASSERT_TRUE(begun) << begun.error().message;
  const UploadName upload{"models", "k", begun->id};
  const std::string large = Content(3'000'000, 3);
  auto writer = client_->OpenPart(upload, 2);
  ASSERT_TRUE(writer && writer->Write(BytesOf(large))) << "of unknown size";
  const auto second = writer->Commit();
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->crc32c, base::Crc32c(AsBytes(large)));
  const auto first = client_->PutPart(upload, 1, BytesOf("begin "));
  ASSERT_TRUE(first) << first.error().message;
  const Source middle{.bucket = "models", .key = "source", .if_match = {}, .offset = 2, .length = 3};
  ASSERT_TRUE(client_->CopyPart(upload, 7, middle));
  const auto parts = client_->ListParts(upload);
  ASSERT_EQ(parts->parts.size(), 3u);
  EXPECT_EQ(parts->parts[2].number, 7u);
  EXPECT_EQ(client_->ListParts(upload, 2)->parts.size(), 1u);
  EXPECT_EQ(client_->ListUploads("models")->uploads.front().id, upload.id);
  EXPECT_EQ(CodeOf(client_->Stat("models", "k")), Code::kNotFound) << "not before it is complete";
  const std::vector<PartRef> named{{.number = 1, .etag = first->etag}, {.number = 2}, {.number = 7}};
  EXPECT_EQ(CodeOf(client_->CompleteUpload(upload, named, {.crc32c = 1})), Code::kDataLoss);
  const auto object = client_->CompleteUpload(
      upload, named, {.if_absent = true, .crc32c = base::Crc32c(AsBytes("begin " + large + "234"))});
  ASSERT_TRUE(object) << object.error().message;
  EXPECT_EQ(object->metadata.at("made"), "of parts");
  EXPECT_TRUE(Get("k") == "begin " + large + "234");
  EXPECT_EQ(CodeOf(client_->AbortUpload(upload)), Code::kNotFound);
}

TEST_F(ClientObjectsTest, AnUploadIsGivenUpAndAWriterOfItStoresNothing) {
  const UploadName upload{"models", "k", client_->CreateUpload("models", "k")->id};
  {
    auto writer = client_->OpenPart(upload, 1);
    ASSERT_TRUE(writer && writer->Write(BytesOf("half")));
  }
  EXPECT_TRUE(client_->ListParts(upload)->parts.empty());
  ASSERT_TRUE(client_->AbortUpload(upload));
  EXPECT_EQ(CodeOf(client_->PutPart(upload, 1, BytesOf("late"))), Code::kNotFound);
  EXPECT_TRUE(client_->ListUploads("models")->uploads.empty());
}

}  // namespace
}  // namespace forebay
