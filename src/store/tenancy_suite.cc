// SPDX-License-Identifier: Apache-2.0
// Tenants: who sees which bucket.
#include "store/store_suite.h"
#include "store/tenancy.h"

namespace forebay::store {
namespace {

constexpr TenantId kAlice{3};
constexpr TenantId kBob{4};

std::vector<std::string> NamesOf(const Result<std::vector<BucketInfo>>& buckets) {
  std::vector<std::string> names;
  if (buckets.ok())
    for (const BucketInfo& bucket : *buckets) names.push_back(bucket.name);
  return names;
}

/// The store under test, as its tenants see it.
class Tenants {
 public:
  explicit Tenants(StoreSuite& suite) : suite_(suite) {}

  Context As(TenantId tenant) { return {.reactor = suite_.reactor(), .tenant = tenant}; }
  Status Create(TenantId tenant, BucketInfo bucket) {
    const Context context = As(tenant);
    return suite_.Run(suite_.store().CreateBucket(context, std::move(bucket)));
  }
  Result<BucketInfo> GetInfo(TenantId tenant, const std::string& name) {
    const Context context = As(tenant);
    return suite_.Run(suite_.store().GetBucket(context, name));
  }
  std::vector<std::string> Listed(TenantId tenant) {
    const Context context = As(tenant);
    return NamesOf(suite_.Run(suite_.store().ListBuckets(context)));
  }
  /// What each call that names a bucket says about `bucket`, whatever the answer is for the key.
  std::vector<Status> Answers(TenantId tenant, const std::string& bucket) {
    const Context context = As(tenant);
    return {
        suite_.Run(suite_.store().GetBucket(context, bucket)).status(),
        suite_.Run(suite_.store().Put(context, bucket, "o", {})).status(),
        suite_.Run(suite_.store().Put(context, bucket, "o", {.condition = Condition::IfAbsent()})).status(),
        suite_.Run(suite_.store().Open(context, bucket, "o", {})).status(),
        suite_.Run(suite_.store().Open(context, bucket, "missing", {})).status(),
        suite_.Run(suite_.store().Stat(context, bucket, "o")).status(),
        suite_.Run(suite_.store().Stat(context, bucket, "missing")).status(),
        suite_.Run(suite_.store().List(context, bucket, {})).status(),
        suite_.Run(suite_.store().Delete(context, bucket, "missing", {})),
        suite_.Run(suite_.store().Delete(context, bucket, "o", {})),
        suite_.Run(suite_.store().DeleteBucket(context, bucket))};
  }
  Status Put(TenantId tenant, const std::string& bucket, const std::string& key, std::string content) {
    return suite_.Run(PutContent(suite_.store(), As(tenant), bucket, key, std::move(content))).status();
  }
  Result<std::string> Get(TenantId tenant, const std::string& bucket, const std::string& key) {
    return suite_.Run(GetContent(suite_.store(), As(tenant), bucket, key));
  }

 private:
  StoreSuite& suite_;
};

TEST_P(StoreSuite, ABucketIsOfWhoCreatesItUnlessRootNamesAnother) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Tenants tenants(*this);
  ASSERT_TRUE(Is(tenants.Create(kAlice, {.name = "alice"}), Code::kOk));
  ASSERT_TRUE(Is(tenants.Create(kAlice, {.name = "alice-too", .owner = kBob}), Code::kOk));
  ASSERT_TRUE(Is(tenants.Create(TenantId::kRoot, {.name = "bob", .owner = kBob}), Code::kOk));
  Reopen();
  EXPECT_EQ(tenants.GetInfo(TenantId::kRoot, "alice")->owner, kAlice);
  EXPECT_EQ(tenants.GetInfo(TenantId::kRoot, "alice-too")->owner, kAlice);
  EXPECT_EQ(tenants.GetInfo(kBob, "bob")->owner, kBob);
  EXPECT_EQ(tenants.GetInfo(TenantId::kRoot, kBucket)->owner, TenantId::kRoot);
  for (const TenantId owner : {TenantId::kNone, TenantId::kSystem})
    EXPECT_TRUE(
        Is(tenants.Create(TenantId::kRoot, {.name = "nobody", .owner = owner}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(tenants.Create(TenantId::kNone, {.name = "nobody"}), Code::kInvalidArgument));
}

TEST_P(StoreSuite, ATenantWorksInItsOwnBucketAndRootSeesIt) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Tenants tenants(*this);
  ASSERT_TRUE(Is(tenants.Create(kAlice, {.name = "alice"}), Code::kOk));
  ASSERT_TRUE(Is(tenants.Put(kAlice, "alice", "o", "content"), Code::kOk));
  EXPECT_EQ(tenants.Get(kAlice, "alice", "o").value_or(""), "content");
  EXPECT_EQ(tenants.Get(TenantId::kRoot, "alice", "o").value_or(""), "content");
  const Context alice = tenants.As(kAlice);
  EXPECT_TRUE(Is(Run(store().Delete(alice, "alice", "o", {})), Code::kOk));
  EXPECT_TRUE(Is(Run(store().DeleteBucket(alice, "alice")), Code::kOk));
}

TEST_P(StoreSuite, AForeignBucketIsAnsweredLikeAMissingOne) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Tenants tenants(*this);
  ASSERT_TRUE(Is(tenants.Create(kAlice, {.name = "alice"}), Code::kOk));
  ASSERT_TRUE(Is(tenants.Put(kAlice, "alice", "o", "content"), Code::kOk));
  // The object may be in a cache or not: the answer is the same.
  ASSERT_TRUE(Is(tenants.Get(kAlice, "alice", "o"), Code::kOk));
  for (const bool reopened : {false, true}) {
    if (reopened && !Reopen()) break;
    for (const TenantId tenant : {kBob, TenantId::kNone}) {
      for (const std::string bucket : {"alice", kBucket}) {
        for (const Status& status : tenants.Answers(tenant, bucket)) {
          EXPECT_TRUE(Is(status, Code::kNotFound));
          EXPECT_EQ(status.message(), NoSuchBucket(bucket).message());
        }
      }
    }
  }
  EXPECT_TRUE(Is(tenants.Create(kBob, {.name = "alice"}), Code::kAlreadyExists));
  EXPECT_EQ(tenants.Get(kAlice, "alice", "o").value_or(""), "content");
}

TEST_P(StoreSuite, EachTenantIsShownItsOwnBuckets) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Tenants tenants(*this);
  ASSERT_TRUE(Is(tenants.Create(kAlice, {.name = "alice"}), Code::kOk));
  ASSERT_TRUE(Is(tenants.Create(kBob, {.name = "bob"}), Code::kOk));
  EXPECT_EQ(tenants.Listed(kAlice), (std::vector<std::string>{"alice"}));
  EXPECT_EQ(tenants.Listed(kBob), (std::vector<std::string>{"bob"}));
  EXPECT_EQ(tenants.Listed(TenantId{5}), std::vector<std::string>());
  EXPECT_EQ(tenants.Listed(TenantId::kNone), std::vector<std::string>());
  EXPECT_EQ(tenants.Listed(TenantId::kRoot), (std::vector<std::string>{"alice", "bob", kBucket}));
}

TEST_P(StoreSuite, APutThatBeganBeforeItsBucketBecameForeignIsNotStored) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Tenants tenants(*this);
  ASSERT_TRUE(Is(tenants.Create(kAlice, {.name = "shared"}), Code::kOk));
  const Context alice = tenants.As(kAlice);
  auto writer = Run(store().Put(alice, "shared", "o", {}));
  ASSERT_TRUE(Is(writer, Code::kOk));
  ASSERT_TRUE(Is(Run(store().DeleteBucket(alice, "shared")), Code::kOk));
  ASSERT_TRUE(Is(tenants.Create(kBob, {.name = "shared"}), Code::kOk));
  EXPECT_TRUE(Is(Run((*writer)->Commit(alice, std::nullopt)), Code::kNotFound));
  EXPECT_TRUE(Is(tenants.Get(kBob, "shared", "o"), Code::kNotFound));
}

TEST_P(StoreSuite, TheSystemsBucketDoesNotExistForAnyoneElse) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Tenants tenants(*this);
  const std::string name(kSystemBucket);
  ASSERT_FALSE(base::CheckBucketName(name).ok());
  std::vector<std::string> answers_before;
  for (const bool exists : {false, true}) {
    std::vector<std::string> answers;
    if (exists) {
      ASSERT_TRUE(Is(tenants.Create(TenantId::kSystem, {.name = name}), Code::kOk));
      ASSERT_TRUE(Is(tenants.Put(TenantId::kSystem, name, "o", "secret"), Code::kOk));
    }
    for (const TenantId tenant : {TenantId::kRoot, kAlice, TenantId::kNone}) {
      for (const Status& status : tenants.Answers(tenant, name)) {
        EXPECT_FALSE(status.ok());
        answers.push_back(status.ToString());
      }
      EXPECT_TRUE(
          Is(tenants.Create(tenant, {.name = name, .owner = TenantId::kSystem}), Code::kInvalidArgument));
    }
    if (exists) EXPECT_EQ(answers, answers_before);
    answers_before = answers;
    EXPECT_EQ(tenants.Listed(TenantId::kRoot), (std::vector<std::string>{kBucket}));
    EXPECT_EQ(tenants.Listed(TenantId::kSystem), (std::vector<std::string>{kBucket}));
  }
  Reopen();
  EXPECT_EQ(tenants.Get(TenantId::kSystem, name, "o").value_or(""), "secret");
  EXPECT_EQ(tenants.GetInfo(TenantId::kSystem, name)->owner, TenantId::kSystem);
  EXPECT_EQ(tenants.GetInfo(TenantId::kSystem, kBucket)->owner, TenantId::kRoot);
}

}  // namespace
}  // namespace forebay::store
