// SPDX-License-Identifier: Apache-2.0
// Each call of the client against a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/control_suite.h"

namespace forebay::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ServicesTest : public ControlTest {
 protected:
  void CreateBucket(const std::string& name) {
    ASSERT_TRUE(client_->CreateBucket(name, store::BucketClass::kDurable, Operation()).ok());
  }
};

TEST_F(ServicesTest, ABucketIsCreatedFoundAndDeleted) {
  ASSERT_TRUE(client_->CreateBucket("models", store::BucketClass::kCache, Operation()).ok());
  const Result<store::BucketInfo> bucket = client_->GetBucket("models");
  ASSERT_TRUE(bucket.ok()) << bucket.status().ToString();
  EXPECT_EQ(bucket->name, "models");
  EXPECT_EQ(bucket->bucket_class, store::BucketClass::kCache);
  EXPECT_EQ(bucket->owner, TenantId::kRoot);
  EXPECT_EQ(bucket->created, clock_.WallNow());
  EXPECT_EQ(client_->CreateBucket("models", store::BucketClass::kCache, Operation()).code(),
            Code::kAlreadyExists);
  EXPECT_TRUE(client_->DeleteBucket("models", Operation()).ok());
  EXPECT_EQ(client_->GetBucket("models").status().code(), Code::kNotFound);
}

TEST_F(ServicesTest, AMissingBucketIsNamedWithTheCommandThatMakesIt) {
  for (const Status& status :
       {client_->GetBucket("models").status(), client_->DeleteBucket("models", Operation()),
        client_->List("models", {}).status(), client_->Stat("models", "k").status(),
        client_->Delete("models", "k", {}, Operation())}) {
    EXPECT_EQ(status.code(), Code::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr("forebay bucket create models"));
  }
}

TEST_F(ServicesTest, BucketsAreListedInPages) {
  for (const char* name : {"ccc", "aaa", "ddd", "bbb"}) CreateBucket(name);
  std::vector<std::string> names;
  std::string last;
  for (int pages = 1;; ++pages) {
    const Result<BucketPage> page = client_->ListBuckets(last, 3);
    ASSERT_TRUE(page.ok());
    for (const store::BucketInfo& bucket : page->buckets) names.push_back(bucket.name);
    if (!page->truncated) {
      EXPECT_EQ(pages, 2);
      break;
    }
    last = names.back();
  }
  EXPECT_THAT(names, ElementsAre("aaa", "bbb", "ccc", "ddd"));
  EXPECT_EQ(client_->ListBuckets()->buckets.size(), 4U);
  EXPECT_EQ(client_->ListBuckets({}, 1001).status().code(), Code::kInvalidArgument);
}

TEST_F(ServicesTest, AnObjectIsDescribedWhole) {
  CreateBucket("models");
  const store::ObjectInfo put = Put("models", "ключ/llama", {{"colour", "grün"}, {"n", ""}});
  const Result<store::ObjectInfo> object = client_->Stat("models", "ключ/llama");
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  EXPECT_EQ(object->key, "ключ/llama");
  EXPECT_EQ(object->version, put.version);
  EXPECT_EQ(object->size_bytes, 3U);
  EXPECT_EQ(object->etag, put.etag);
  EXPECT_EQ(object->crc32c, 0x364b3fb7U);  // of "abc", by another implementation
  EXPECT_EQ(object->modified, clock_.WallNow());
  EXPECT_EQ(object->metadata, put.metadata);
}

TEST_F(ServicesTest, ObjectsAreListedInPagesAndRolledUp) {
  CreateBucket("models");
  for (const char* key : {"a", "b/1", "b/2", "c", "d/1"}) Put("models", key);
  std::vector<std::string> seen;
  store::ListOptions options{.delimiter = "/", .limit = 2};
  for (int pages = 1;; ++pages) {
    const Result<store::ListPage> page = client_->List("models", options);
    ASSERT_TRUE(page.ok()) << page.status().ToString();
    for (const store::ObjectInfo& object : page->objects) seen.push_back(object.key);
    for (const std::string& prefix : page->common_prefixes) seen.push_back(prefix);
    if (!page->truncated) {
      EXPECT_EQ(pages, 2);
      break;
    }
    options.start_after = page->next_start_after;
  }
  EXPECT_THAT(seen, ::testing::UnorderedElementsAre("a", "b/", "c", "d/"));
  const Result<store::ListPage> under = client_->List("models", {.prefix = "b/", .start_after = "b/1"});
  ASSERT_EQ(under->objects.size(), 1U);
  EXPECT_EQ(under->objects[0].key, "b/2");
  EXPECT_EQ(client_->List("models", {.limit = 1001}).status().code(), Code::kInvalidArgument);
}

TEST_F(ServicesTest, DeleteMindsTheETagAndCarriesItsOperation) {
  CreateBucket("models");
  const store::ObjectInfo object = Put("models", "k");
  EXPECT_EQ(client_->Delete("models", "k", "other", Operation()).code(), Code::kFailedPrecondition);
  const OperationId operation = Operation();
  EXPECT_TRUE(client_->Delete("models", "k", object.etag, operation).ok());
  EXPECT_EQ(store_->last().operation, operation);
  EXPECT_EQ(store_->last().tenant, TenantId::kRoot);
  EXPECT_EQ(store_->last().condition.etag, object.etag);
  EXPECT_EQ(client_->Delete("models", "k", {}, OperationId()).code(), Code::kNotFound);
  EXPECT_TRUE(store_->last().operation.IsNone());
  EXPECT_EQ(store_->last().condition.kind, store::Condition::Kind::kNone);
}

TEST_F(ServicesTest, ComposeCarriesSourcesConditionsAndMetadata) {
  CreateBucket("models");
  const store::ObjectInfo a = Put("models", "a");
  Put("models", "b");
  const OperationId operation = Operation();
  const Result<store::ObjectInfo> made =
      client_->Compose("models", "c",
                       {{.bucket = "models", .key = "a", .condition = store::Condition::IfMatch(a.etag)},
                        {.bucket = "models", .key = "b", .offset = 1, .length = 2}},
                       {.condition = store::Condition::IfAbsent(), .metadata = {{"made", "here"}}}, operation);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made->key, "c");
  EXPECT_EQ(made->size_bytes, a.size_bytes + 2);
  EXPECT_EQ(made->metadata, (store::UserMetadata{{"made", "here"}}));
  EXPECT_EQ(store_->last().operation, operation);
  EXPECT_EQ(store_->last().condition.kind, store::Condition::Kind::kIfAbsent);
  EXPECT_EQ(client_->Compose("models", "d", {{.bucket = "models", .key = "none"}}, {}, Operation()).status().code(),
            Code::kNotFound);
  EXPECT_EQ(client_
                ->Compose("models", "d",
                          {{.bucket = "models", .key = "a", .condition = store::Condition::IfMatch("other")}}, {},
                          Operation())
                .status()
                .code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(client_->Compose("models", "d", {}, {}, Operation()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(client_->Compose("models", "d", {{.bucket = "models", .key = "a", .offset = UINT64_MAX}}, {}, Operation())
                .status()
                .code(),
            Code::kOutOfRange);
}

TEST_F(ServicesTest, RenamesCarryTheirConditionsAndOperations) {
  CreateBucket("models");
  const store::ObjectInfo a = Put("models", "x/a");
  Put("models", "x/b");
  const OperationId operation = Operation();
  EXPECT_EQ(client_->Rename("models", "x/a", "x/b", {.target = store::Condition::IfAbsent()}, Operation()).code(),
            Code::kAlreadyExists);
  EXPECT_EQ(client_->Rename("models", "x/a", "c", {.source = store::Condition::IfMatch("other")}, Operation()).code(),
            Code::kFailedPrecondition);
  EXPECT_TRUE(client_->Rename("models", "x/a", "x/c", {.source = store::Condition::IfMatch(a.etag)}, operation).ok());
  EXPECT_EQ(store_->last().operation, operation);
  EXPECT_EQ(store_->last().condition.etag, a.etag);
  const Result<uint64_t> renamed = client_->RenamePrefix("models", "x/", "y/", Operation());
  ASSERT_TRUE(renamed.ok()) << renamed.status().ToString();
  EXPECT_EQ(*renamed, 2U);
  EXPECT_TRUE(client_->Stat("models", "y/c").ok());
  EXPECT_EQ(client_->RenamePrefix("models", "x/", "y/", Operation()).status().code(), Code::kNotFound);
}

TEST_F(ServicesTest, BothEndsOfASessionHaveTheSameKey) {
  const uint64_t time_ms = store_->operation_time_ms();
  const Result<ClientSession> session = client_->OpenSession();
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  EXPECT_EQ(session->tenant, TenantId::kRoot);
  const std::vector<DataEndpoint> told = {{"shm", "/run/forebay.sock"}, {"tcp", "127.0.0.1:4711"}};
  EXPECT_EQ(session->data_endpoints, told);
  EXPECT_EQ(session->expires_in, 1h);
  EXPECT_EQ(session->operation_time_ms, time_ms);
  EXPECT_EQ(session->max_batch_items, 256U);
  EXPECT_EQ(session->max_message_bytes, 262'144U);
  EXPECT_EQ(session->max_inline_bytes, 8192U);
  EXPECT_EQ(session->max_chunk_bytes, 1'048'576U);
  const Result<auth::SessionGrant> grant = sessions_.Bind(session->id, nullptr);
  ASSERT_TRUE(grant.ok());
  EXPECT_TRUE(grant->key == session->key);
  EXPECT_EQ(grant->grant->tenant, TenantId::kRoot);
  EXPECT_TRUE(grant->state().ok());
  EXPECT_TRUE(client_->CloseSession(session->id).ok());
  EXPECT_EQ(grant->state().code(), Code::kUnavailable);
  EXPECT_EQ(client_->CloseSession(session->id).code(), Code::kNotFound);
}

TEST_F(ServicesTest, HealthNeedsNoCredentials) {
  const std::unique_ptr<ControlClient> anonymous = Connect({});
  Result<ServerHealth> health = anonymous->Health();
  ASSERT_TRUE(health.ok()) << health.status().ToString();
  EXPECT_TRUE(health->ready);
  EXPECT_FALSE(health->read_only);
  EXPECT_EQ(health->version, "1.2.3");
  store_->SetHealth(Status::FailedPrecondition("the last flush failed"));
  health = anonymous->Health();
  EXPECT_FALSE(health->ready);
  EXPECT_TRUE(health->read_only);
  EXPECT_EQ(health->reason, "the last flush failed");
  EXPECT_EQ(anonymous->Stats().status().code(), Code::kUnauthenticated);
}

TEST_F(ServicesTest, StatsCount) {
  ASSERT_TRUE(client_->OpenSession().ok());
  clock_.Advance(90s);
  const Result<ServerStats> stats = client_->Stats();
  ASSERT_TRUE(stats.ok()) << stats.status().ToString();
  EXPECT_EQ(stats->capacity_bytes, 1000U);
  EXPECT_EQ(stats->used_bytes, 250U);
  EXPECT_EQ(stats->sessions, 1U);
  EXPECT_GE(stats->calls_in_progress, 1U);  // this one; gRPC may still hold the one before
  EXPECT_EQ(stats->uptime, 90s);
  EXPECT_EQ(stats->device_bytes_read, 11U);
  EXPECT_EQ(stats->device_bytes_written, 22U);
  EXPECT_EQ(stats->device_flushes, 33U);
  EXPECT_GT(stats->cpu_us, 0U);
  EXPECT_EQ(stats->traffic, traffic_);
}

TEST_F(ServicesTest, SpaceIsTheStoresAndSaysWhyNothingIsWritten) {
  Result<ServerSpace> told = client_->Space();
  ASSERT_TRUE(told.ok()) << told.status().ToString();
  EXPECT_EQ(told->read_only_reason, "");
  const store::StoreSpace& space = told->space;
  ASSERT_EQ(space.devices.size(), 2U);
  EXPECT_EQ(space.devices[0].name, "/dev/one");
  EXPECT_EQ(space.devices[0].capacity_bytes, 600U);
  EXPECT_EQ(space.devices[0].used_bytes, 150U);
  EXPECT_EQ(space.devices[1].name, "/dev/two");
  EXPECT_EQ(space.devices[1].capacity_bytes, 400U);
  EXPECT_EQ(space.devices[1].used_bytes, 100U);
  EXPECT_EQ(space.metadata.path, "/store/meta");
  EXPECT_EQ(space.metadata.used_bytes, 44U);
  EXPECT_EQ(space.metadata.free_bytes, 55U);
  EXPECT_EQ(space.metadata.reserve_bytes, 66U);
  EXPECT_EQ(space.objects, 7U);
  EXPECT_EQ(space.object_bytes, 777U);
  store_->SetHealth(Status::FailedPrecondition("the last flush failed"));
  told = client_->Space();
  ASSERT_TRUE(told.ok()) << "it is asked most when nothing else works: " << told.status().ToString();
  EXPECT_EQ(told->read_only_reason, "the last flush failed");
  EXPECT_EQ(Connect({})->Space().status().code(), Code::kUnauthenticated);
}

TEST_F(ServicesTest, BackupsAreBegunAndAskedFor) {
  const Result<uint64_t> id = client_->StartBackup("/backups/monday", 1000);
  ASSERT_TRUE(id.ok()) << id.status().ToString();
  EXPECT_EQ(probe_backups_.last(), "/backups/monday at 1000");
  const Result<BackupState> state = client_->GetBackup(*id);
  ASSERT_TRUE(state.ok()) << state.status().ToString();
  EXPECT_TRUE(state->done);
  EXPECT_EQ(state->copied_bytes, 5U);
  EXPECT_EQ(state->total_bytes, 6U);
  EXPECT_EQ(client_->GetBackup(*id + 1).status().code(), Code::kNotFound);
}

TEST_F(ServicesTest, DevicesAreReplacedAddedAndTakenOut) {
  ASSERT_TRUE(client_->ReplaceDevice("/dev/lost", "/dev/new").ok());
  EXPECT_EQ(probe_devices_.last(), "/dev/lost by /dev/new");
  EXPECT_EQ(client_->ReplaceDevice("/dev/other", "/dev/new").code(), Code::kNotFound);
  ASSERT_TRUE(client_->AddDevice("/dev/a", "/dev/b", 7).ok());
  EXPECT_EQ(probe_devices_.last(), "add /dev/a and /dev/b of 7");
  ASSERT_TRUE(client_->DrainDevice("/dev/a", false).ok());
  EXPECT_EQ(probe_devices_.last(), "drain /dev/a");
  ASSERT_TRUE(client_->DrainDevice("/dev/a", true).ok());
  EXPECT_EQ(probe_devices_.last(), "keep /dev/a");
  ASSERT_TRUE(client_->RemoveDevice("/dev/a").ok());
  EXPECT_EQ(probe_devices_.last(), "remove /dev/a");
  devices_ = nullptr;
  Start({.listen = "127.0.0.1:0"});
  for (const Status& status :
       {client_->ReplaceDevice("/dev/lost", "/dev/new"), client_->AddDevice("/dev/a", "", 0),
        client_->DrainDevice("/dev/a", false), client_->RemoveDevice("/dev/a")})
    EXPECT_EQ(status.code(), Code::kUnimplemented);
}

TEST_F(ServicesTest, AStoreThatMakesNoBackupsSaysSo) {
  backups_ = nullptr;
  Start({.listen = "127.0.0.1:0"});
  for (const Status& status : {client_->StartBackup("/backups/monday", 0).status(), client_->GetBackup(1).status()}) {
    EXPECT_EQ(status.code(), Code::kUnimplemented);
    EXPECT_NE(status.message().find("makes no backups"), std::string::npos) << status.ToString();
  }
}

TEST_F(ServicesTest, AScrubIsBegunAskedForAndStopped) {
  EXPECT_TRUE(client_->StartScrub(1000, false).ok());
  EXPECT_EQ(probe_scrubs_.last(), "start at 1000");
  EXPECT_TRUE(client_->StartScrub(0, true).ok());
  EXPECT_EQ(probe_scrubs_.last(), "start at 0, anew");
  const Result<ScrubReport> report = client_->GetScrub();
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(*report, ProbeScrubs::Report());
  EXPECT_TRUE(client_->StopScrub().ok());
  EXPECT_EQ(probe_scrubs_.last(), "stop");
}

TEST_F(ServicesTest, AStoreThatDoesNotScrubItselfSaysSo) {
  scrubs_ = nullptr;
  Start({.listen = "127.0.0.1:0"});
  for (const Status& status : {client_->StartScrub(0, false), client_->GetScrub().status(), client_->StopScrub()})
    EXPECT_EQ(status.code(), Code::kUnimplemented) << status.ToString();
}

TEST_F(ServicesTest, BrokenFieldsAreRefused) {
  const std::string create = "/forebay.control.v1.Buckets/Create";
  const std::string name(
      "\x0a\x03"
      "abc",
      5);  // field 1, three bytes
  EXPECT_EQ(Call(create, {Proof(create)}, name + std::string("\x10\x07", 2)).code(),
            Code::kInvalidArgument);  // class 7
  EXPECT_EQ(Call(create, {Proof(create)}, name + std::string("\x1a\x01x", 3)).code(),
            Code::kInvalidArgument);  // operation
  EXPECT_EQ(Call(create, {Proof(create)}, std::string("\x0a\x01\xff", 3)).code(),
            Code::kInvalidArgument);  // not UTF-8
  EXPECT_EQ(Call(create, {Proof(create)}, std::string("\x0a\x7f", 2)).code(),
            Code::kInvalidArgument);  // cut short
  EXPECT_EQ(store_->calls(), 0);
  EXPECT_TRUE(Call(create, {Proof(create)}, name).ok());
  const std::string open = "/forebay.control.v1.Sessions/Open";
  EXPECT_EQ(Call(open, {Proof(open)}, std::string("\x0a\x02xx", 4)).code(),
            Code::kInvalidArgument);  // a short nonce
}

}  // namespace
}  // namespace forebay::control
