// SPDX-License-Identifier: Apache-2.0
// Versions, attributes, truncation and uploads: each call of the client against a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/control_suite.h"

namespace forebay::control {
namespace {

using store::Versioning;
using ::testing::ElementsAre;

class ObjectServicesTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    if (client_ == nullptr) return;
    ASSERT_TRUE(client_->CreateBucket("models", store::BucketClass::kDurable, Operation()).ok());
  }
  Status Set(Versioning versioning) {
    return client_->UpdateBucket("models", {.versioning = versioning}, Operation());
  }
};

TEST_F(ObjectServicesTest, VersioningIsSwitchedAndTold) {
  EXPECT_EQ(client_->GetBucket("models")->versioning, Versioning::kOff);
  EXPECT_EQ(Set(Versioning::kSuspended).code(), Code::kFailedPrecondition) << "it never was on";
  const OperationId operation = Operation();
  ASSERT_TRUE(client_->UpdateBucket("models", {.versioning = Versioning::kOn}, operation).ok());
  EXPECT_EQ(store_->last().operation, operation);
  EXPECT_EQ(client_->GetBucket("models")->versioning, Versioning::kOn);
  EXPECT_EQ(Set(Versioning::kOff).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(client_->UpdateBucket("models", {}, Operation()).ok());
  EXPECT_EQ(client_->GetBucket("models")->versioning, Versioning::kOn) << "what is left out stays";
  EXPECT_TRUE(Set(Versioning::kSuspended).ok());
  EXPECT_EQ(client_->ListBuckets()->buckets.front().versioning, Versioning::kSuspended);
  EXPECT_EQ(client_->UpdateBucket("none", {}, Operation()).code(), Code::kNotFound);
}

TEST_F(ObjectServicesTest, VersionsAreListedLookedAtAndTakenAway) {
  ASSERT_TRUE(Set(Versioning::kOn).ok());
  const store::ObjectInfo first = Put("models", "k", {{"n", "1"}});
  const store::ObjectInfo second = Put("models", "k");
  ASSERT_TRUE(client_->Delete("models", "k", {}, Operation()).ok());
  const Result<store::VersionPage> page = client_->ListVersions("models", {.prefix = "k", .limit = 2});
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  ASSERT_EQ(page->versions.size(), 2U);
  EXPECT_TRUE(page->truncated);
  EXPECT_TRUE(page->versions[0].delete_marker);
  EXPECT_TRUE(page->versions[0].latest);
  EXPECT_EQ(page->versions[1].object.version, second.version);
  const Result<store::VersionPage> rest =
      client_->ListVersions("models", {.after_key = "k", .after_version = second.version});
  ASSERT_EQ(rest->versions.size(), 1U);
  EXPECT_FALSE(rest->truncated);
  EXPECT_EQ(rest->versions[0].object.etag, first.etag);
  const Result<store::VersionInfo> one = client_->StatVersion("models", "k", first.version);
  ASSERT_TRUE(one.ok()) << one.status().ToString();
  EXPECT_EQ(one->object.metadata, (store::UserMetadata{{"n", "1"}}));
  EXPECT_FALSE(one->latest);
  EXPECT_FALSE(one->null_version);
  const uint64_t marker = page->versions[0].object.version;
  EXPECT_TRUE(client_->DeleteVersion("models", "k", marker, Operation()).ok());
  EXPECT_EQ(client_->Stat("models", "k")->version, second.version) << "without the marker it is current again";
  EXPECT_EQ(client_->DeleteVersion("models", "k", marker, Operation()).code(), Code::kNotFound);
  EXPECT_EQ(client_->StatVersion("models", "k", 999).status().code(), Code::kNotFound);
  EXPECT_EQ(client_->ListVersions("models", {.limit = 1001}).status().code(), Code::kInvalidArgument);
}

TEST_F(ObjectServicesTest, AttributesChangeAndAreTold) {
  const store::ObjectInfo put = Put("models", "k");
  ASSERT_TRUE(client_->SetAttributes("models", "k", 0, {.set = {{"s3.a", "1"}, {"s3.b", "2"}}}, Operation()).ok());
  const OperationId operation = Operation();
  ASSERT_TRUE(client_
                  ->SetAttributes("models", "k", put.version,
                                  {.condition = store::Condition::IfMatch(put.etag), .set = {{"s3.b", "3"}}, .remove = {"s3.a"}},
                                  operation)
                  .ok());
  EXPECT_EQ(store_->last().operation, operation);
  const Result<store::ObjectInfo> object = client_->Stat("models", "k");
  EXPECT_EQ(object->attributes, (store::UserMetadata{{"s3.b", "3"}}));
  EXPECT_EQ(object->version, put.version);
  EXPECT_EQ(client_->List("models", {})->objects.front().attributes, object->attributes);
  EXPECT_EQ(client_
                ->SetAttributes("models", "k", 0, {.condition = store::Condition::IfMatch("other"), .set = {{"a", "b"}}},
                                Operation())
                .code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(client_->SetAttributes("models", "k", 0, {.set = {{"", "b"}}}, Operation()).code(), Code::kInvalidArgument);
}

TEST_F(ObjectServicesTest, AnObjectIsCutOffAndLengthened) {
  const store::ObjectInfo put = Put("models", "k");
  const OperationId operation = Operation();
  const Result<store::ObjectInfo> cut = client_->Truncate("models", "k", 1, put.etag, operation);
  ASSERT_TRUE(cut.ok()) << cut.status().ToString();
  EXPECT_EQ(store_->last().operation, operation);
  EXPECT_EQ(cut->size_bytes, 1U);
  EXPECT_EQ(cut->crc32c, 0xc1d04330U);  // of "a", by another implementation
  EXPECT_EQ(client_->Truncate("models", "k", 5, put.etag, Operation()).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(client_->Truncate("models", "k", 5, {}, Operation())->size_bytes, 5U);
  EXPECT_EQ(client_->Truncate("models", "k", UINT64_MAX, {}, Operation()).status().code(), Code::kInvalidArgument);
}

TEST_F(ObjectServicesTest, RenameAndComposeCarryWhatAFrontendChooses) {
  const store::ObjectInfo a = Put("models", "a");
  const store::ObjectInfo b = Put("models", "b");
  EXPECT_EQ(client_->Rename("models", "a", "b", {.target = store::Condition::IfMatch("other")}, Operation()).code(),
            Code::kFailedPrecondition);
  ASSERT_TRUE(client_->Rename("models", "a", "b", {.target = store::Condition::IfMatch(b.etag)}, Operation()).ok());
  const std::vector<store::Source> source = {{.bucket = "models", .key = "b"}};
  EXPECT_EQ(client_->Compose("models", "c", source, {.size_bytes = 4}, Operation()).status().code(),
            Code::kFailedPrecondition);
  const Result<store::ObjectInfo> made = client_->Compose(
      "models", "c", source, {.size_bytes = 3, .attributes = {{"x", "y"}}, .etag = "chosen"}, Operation());
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made->etag, "chosen");
  EXPECT_EQ(made->attributes, (store::UserMetadata{{"x", "y"}}));
}

TEST_F(ObjectServicesTest, AnUploadOfCopiedPartsIsListedAndCompleted) {
  Put("models", "abc");
  const OperationId operation = Operation();
  const Result<store::UploadInfo> begun = client_->CreateUpload("models", "k", {{"n", "v"}}, operation);
  ASSERT_TRUE(begun.ok()) << begun.status().ToString();
  EXPECT_EQ(store_->last().operation, operation);
  EXPECT_EQ(begun->created, clock_.WallNow());
  const store::UploadName upload{"models", "k", begun->id};
  const store::Source two{.bucket = "models", .key = "abc", .offset = 1, .length = 2};
  const Result<store::ObjectInfo> part = client_->CopyPart(upload, 7, two, Operation());
  ASSERT_TRUE(part.ok()) << part.status().ToString();
  EXPECT_EQ(part->size_bytes, 2U);
  ASSERT_TRUE(client_->CopyPart(upload, 9, {.bucket = "models", .key = "abc"}, Operation()).ok());
  const Result<store::PartPage> parts = client_->ListParts(upload, 0, 1);
  ASSERT_EQ(parts->parts.size(), 1U);
  EXPECT_TRUE(parts->truncated);
  EXPECT_EQ(parts->parts[0].number, 7U);
  EXPECT_EQ(parts->parts[0].etag, part->etag);
  EXPECT_EQ(client_->ListParts(upload, 7, 0)->parts.front().number, 9U);
  const Result<store::UploadPage> uploads = client_->ListUploads("models", {.prefix = "k"});
  ASSERT_EQ(uploads->uploads.size(), 1U);
  EXPECT_EQ(uploads->uploads[0].id, upload.id);
  EXPECT_EQ(uploads->uploads[0].metadata, (store::UserMetadata{{"n", "v"}}));
  EXPECT_EQ(client_->CompleteUpload(upload, {{.number = 8}}, {}, Operation()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(client_->CompleteUpload(upload, {{.number = 7}}, {.crc32c = 1}, Operation()).status().code(),
            Code::kDataLoss);
  const Result<store::ObjectInfo> made =
      client_->CompleteUpload(upload, {{.number = 7, .etag = part->etag}, {.number = 9}},
                              {.condition = store::Condition::IfAbsent(), .etag = "chosen"}, Operation());
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made->size_bytes, 5U);
  EXPECT_EQ(made->etag, "chosen");
  EXPECT_EQ(made->metadata, (store::UserMetadata{{"n", "v"}}));
  EXPECT_EQ(client_->AbortUpload(upload, Operation()).code(), Code::kNotFound);
}

TEST_F(ObjectServicesTest, AnUploadIsGivenUp) {
  const store::UploadName upload{"models", "k", client_->CreateUpload("models", "k", {}, Operation())->id};
  EXPECT_TRUE(client_->AbortUpload(upload, Operation()).ok());
  EXPECT_EQ(client_->ListParts(upload, 0, 0).status().code(), Code::kNotFound);
  EXPECT_TRUE(client_->ListUploads("models", {})->uploads.empty());
}

TEST_F(ObjectServicesTest, AVersioningThatIsUnknownIsRefused) {
  const std::string update = "/forebay.control.v1.Buckets/Update";
  const std::string request("\x0a\x06models\x10\x07", 10);  // versioning 7
  EXPECT_EQ(Call(update, {Proof(update)}, request).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace forebay::control
