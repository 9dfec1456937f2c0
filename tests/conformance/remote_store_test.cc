// SPDX-License-Identifier: Apache-2.0
// RemoteStore: the behaviour suite of every backend, over a whole server with the memory twin behind it; and what only a
// store that is elsewhere has: one tenant, lost connections, versions that go while they are read.
#include "client/remote_store.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "memory_server.h"
#include "store/store_suite.h"

namespace forebay::client {
namespace {

using conformance::MemoryServer;
using store::Context;
using store::Is;

class RemoteFixture final : public store::StoreFixture {
 public:
  RemoteFixture() : store_(*RemoteStore::Open(server_.Options(), TenantId::kRoot, *arena_)) {}
  ~RemoteFixture() override { reactor_->BlockOn(store_->Close(*reactor_)); }

  store::ObjectStore& store() override { return *store_; }
  rt::Reactor& reactor() override { return *reactor_; }

 private:
  MemoryServer server_;
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(128 * base::kMiB);
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  std::unique_ptr<RemoteStore> store_;
};

}  // namespace
}  // namespace forebay::client

namespace forebay::store {
INSTANTIATE_TEST_SUITE_P(Remote, StoreSuite,
                         testing::Values(StoreBackend{
                             .name = "remote",
                             .create = [] { return std::make_unique<client::RemoteFixture>(); },
                             .refuses = {Refusal::kTenants, Refusal::kUsage}}),
                         BackendName);
}  // namespace forebay::store

namespace forebay::client {
namespace {

class RemoteStoreTest : public testing::Test {
 protected:
  RemoteStoreTest() {
    ClientOptions options = server_.Options();
    options.retry = {.max_attempts = 8, .first_pause = std::chrono::milliseconds(5)};
    store_ = *RemoteStore::Open(options, TenantId::kRoot, *arena_);
    EXPECT_TRUE(Is(Run(store_->CreateBucket(context_, {.name = "models"})), Code::kOk));
  }
  ~RemoteStoreTest() override { Run(store_->Close(*reactor_)); }

  template <typename T>
  T Run(rt::Task<T> task) {
    return reactor_->BlockOn(std::move(task));
  }
  Result<store::ObjectInfo> Put(const std::string& key, std::string content, OperationId operation = {}) {
    const Context context{.reactor = *reactor_, .operation = operation};
    return Run(store::PutContent(*store_, context, "models", key, std::move(content)));
  }
  OperationId Operation() { return OperationId::Generate(store_->operation_time_ms(), random_); }

  MemoryServer server_;
  base::SecureRandom random_;
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(32 * base::kMiB);
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  std::unique_ptr<RemoteStore> store_;
  const Context context_{.reactor = *reactor_};
};

TEST_F(RemoteStoreTest, OthersThanItsTenantAreRefusedByName) {
  const Context other{.reactor = *reactor_, .tenant = TenantId{7}};
  for (const Status& status :
       {Run(store_->ListBuckets(other)).status(), Run(store_->Stat(other, "models", "k")).status(),
        Run(store_->Put(other, "models", "k", {})).status(), Run(store_->Delete(other, "models", "k", {})),
        Run(store_->Open(other, "models", "k", {})).status(), Run(store_->CreateBucket(other, {.name = "mine"})),
        Run(store_->Truncate(other, "models", "k", 0, {})).status()}) {
    EXPECT_TRUE(Is(status, Code::kPermissionDenied));
    EXPECT_NE(status.message().find("tenant 7 is not served"), std::string_view::npos) << status.ToString();
  }
}

TEST_F(RemoteStoreTest, AnOperationTakesPlaceOnceFromEndToEnd) {
  const OperationId id = Operation();
  const Result<store::ObjectInfo> first = Put("k", "content", id);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  // Behind this store's back: the server itself knows the id.
  const Context there{.reactor = server_.thread().reactor(), .operation = id};
  const auto again = server_.thread().Run(
      [&] { return store::PutContent(server_.store(), there, "models", "k", "content"); });
  EXPECT_EQ(again->version, first->version);
  // The one who asks again need not send the content.
  const Context context{.reactor = *reactor_, .operation = id};
  auto writer = Run(store_->Put(context, "models", "k", {}));
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  EXPECT_TRUE((*writer)->replays());
  const Result<store::ObjectInfo> replayed = Run((*writer)->Commit(context, std::nullopt));
  ASSERT_TRUE(replayed.ok()) << replayed.status().ToString();
  EXPECT_EQ(replayed->version, first->version);
  EXPECT_EQ(replayed->etag, first->etag);
}

TEST_F(RemoteStoreTest, AVersionThatGoesWhileNobodyHoldsItIsAnErrorAndNeverOtherBytes) {
  ASSERT_TRUE(Put("k", std::string(100'000, 'a')).ok());
  auto reader = Run(store_->Open(context_, "models", "k", {}));
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(Run(store::ReadRange(**reader, context_, 0, 10)).value_or(""), "aaaaaaaaaa");
  server_.Stop();  // with the connection the server lets the version go
  server_.Start();
  EXPECT_EQ(Run(store::ReadRange(**reader, context_, 9, 3)).value_or(""), "aaa") << "by its number";
  ASSERT_TRUE(Put("k", std::string(100'000, 'b')).ok());
  const Result<store::ReadData> late = Run((*reader)->Read(context_, 0, 10));
  EXPECT_TRUE(Is(late, Code::kAborted));
  EXPECT_NE(late.status().message().find("open it again"), std::string_view::npos);
}

TEST_F(RemoteStoreTest, AVersionThatIsKeptIsReadToItsEnd) {
  ASSERT_TRUE(Is(Run(store_->UpdateBucket(context_, "models", {.versioning = store::Versioning::kOn})), Code::kOk));
  ASSERT_TRUE(Put("k", "first").ok());
  auto reader = Run(store_->Open(context_, "models", "k", {}));
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(Put("k", "second").ok());
  EXPECT_EQ(Run(store::ReadContent(**reader, context_)).value_or(""), "first");
}

TEST_F(RemoteStoreTest, AServerThatComesBackIsFoundAgain) {
  ASSERT_TRUE(Put("k", "content").ok());
  auto writer = Run(store_->Put(context_, "models", "half", {}));
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(Run(store::WriteContent(**writer, context_, std::string(8192, 'x'), 4096)).ok());
  server_.Stop();
  EXPECT_TRUE(Is(Run((*writer)->Commit(context_, std::nullopt)), Code::kUnavailable)) << "its content is gone";
  const Context soon{.reactor = *reactor_, .deadline = reactor_->Now() + std::chrono::milliseconds(200)};
  EXPECT_TRUE(Is(Run(store_->Stat(soon, "models", "k")), Code::kUnavailable));
  EXPECT_TRUE(Is(store_->health(), Code::kUnavailable));
  EXPECT_TRUE(Is(Run(store_->ListBuckets(soon)).status(), Code::kUnavailable) ||
              Is(Run(store_->ListBuckets(soon)).status(), Code::kDeadlineExceeded));
  server_.Start();
  const Result<store::ObjectInfo> found = Run(store_->Stat(context_, "models", "k"));
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_TRUE(store_->health().ok());
  EXPECT_TRUE(Is(Run(store_->Stat(context_, "models", "half")), Code::kNotFound));
  EXPECT_TRUE(Put("k", "more").ok());
}

TEST_F(RemoteStoreTest, MoreWritersThanTheServerLetsAConnectionHaveTakeTurns) {
  // 16 streams of the one connection; the others wait for their turn.
  std::vector<std::unique_ptr<store::ObjectWriter>> open;
  for (int i = 0; i < 16; ++i) {
    auto writer = Run(store_->Put(context_, "models", fmt::format("k{}", i), {}));
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    open.push_back(*std::move(writer));
  }
  const Context soon{.reactor = *reactor_, .deadline = reactor_->Now() + std::chrono::milliseconds(50)};
  EXPECT_TRUE(Is(Run(store_->Put(soon, "models", "late", {})).status(), Code::kDeadlineExceeded));
  open.pop_back();  // given up
  auto next = Run(store_->Put(context_, "models", "late", {}));
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_TRUE(Run((*next)->Commit(context_, std::nullopt)).ok());
  for (auto& writer : open) EXPECT_TRUE(Run(writer->Commit(context_, std::nullopt)).ok());
  next = Status::Cancelled("done");
  open.clear();
}

TEST(RemoteStoreOpenTest, AServerThatIsNotThereIsNamed) {
  ClientOptions options;
  {
    MemoryServer server;
    options = server.Options();
    options.timeout = std::chrono::seconds(2);
    auto other = auth::Credentials::Load(options.credentials_path);
    ASSERT_TRUE(other.ok());
    server.Stop();
    const auto arena = *base::Arena::Create(base::kMiB);
    const auto opened = RemoteStore::Open(options, TenantId::kRoot, *arena);
    EXPECT_TRUE(Is(opened.status(), Code::kUnavailable));
    EXPECT_NE(opened.status().message().find(options.server), std::string_view::npos) << opened.status().ToString();
  }
}

}  // namespace
}  // namespace forebay::client
