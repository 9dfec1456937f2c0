// SPDX-License-Identifier: Apache-2.0
// Quotas: what a tenant uses is exact, and held to the limit by the commit.
#include <algorithm>

#include "rt/when_all.h"
#include "store/quota.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

constexpr TenantId kAlice{3};
constexpr TenantId kBob{4};

/// Alice with one bucket of her own, and her account.
class Account {
 public:
  static constexpr const char* kHers = "alice";

  explicit Account(StoreSuite& suite) : suite_(suite) {
    const Context context = As(kAlice);
    EXPECT_TRUE(Is(suite_.Run(suite_.store().CreateBucket(context, {.name = kHers})), Code::kOk));
  }

  Context As(TenantId tenant) { return {.reactor = suite_.reactor(), .tenant = tenant}; }
  Result<TenantUsage> Ask(TenantId tenant, TenantId asking) {
    const Context context = As(asking);
    return suite_.Run(suite_.store().GetTenantUsage(context, tenant));
  }
  TenantUsage Of(TenantId tenant) {
    const Result<TenantUsage> usage = Ask(tenant, TenantId::kRoot);
    EXPECT_TRUE(Is(usage, Code::kOk));
    return usage.value_or(TenantUsage());
  }
  Status SetQuota(Quota quota, TenantId tenant = kAlice, TenantId asking = TenantId::kRoot) {
    const Context context = As(asking);
    return suite_.Run(suite_.store().SetQuota(context, tenant, quota));
  }
  Status Put(const std::string& key, size_t bytes, PutOptions options = {}) {
    return suite_
        .Run(PutContent(suite_.store(), As(kAlice), kHers, key, std::string(bytes, 'x'), std::move(options)))
        .status();
  }
  Status Delete(const std::string& key) {
    const Context context = As(kAlice);
    return suite_.Run(suite_.store().Delete(context, kHers, key, {}));
  }

 private:
  StoreSuite& suite_;
};

TEST_P(StoreSuite, UsageFollowsEachChange) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Account account(*this);
  EXPECT_EQ(account.Of(kAlice), (TenantUsage{.buckets = 1}));
  EXPECT_EQ(account.Of(TenantId::kRoot), (TenantUsage{.buckets = 1}));
  EXPECT_EQ(account.Of(kBob), TenantUsage());
  ASSERT_TRUE(Is(account.Put("small", 10), Code::kOk));
  ASSERT_TRUE(Is(account.Put("large", 100'000), Code::kOk));
  ASSERT_TRUE(Is(account.Put("empty", 0), Code::kOk));
  EXPECT_EQ(account.Of(kAlice), (TenantUsage{.objects = 3, .bytes = 100'010, .buckets = 1}));
  ASSERT_TRUE(Is(account.Put("large", 20), Code::kOk));
  EXPECT_EQ(account.Of(kAlice), (TenantUsage{.objects = 3, .bytes = 30, .buckets = 1}));
  // What root stores in her bucket is hers; what is refused or given up is nobody's.
  ASSERT_TRUE(Is(Run(PutContent(store(), account.As(TenantId::kRoot), "alice", "o", "12345")), Code::kOk));
  EXPECT_TRUE(Is(account.Put("small", 99, {.condition = Condition::IfAbsent()}), Code::kAlreadyExists));
  {
    auto given_up = BeginPut("given-up");
  }
  EXPECT_EQ(account.Of(kAlice), (TenantUsage{.objects = 4, .bytes = 35, .buckets = 1}));
  EXPECT_EQ(account.Of(TenantId::kRoot), (TenantUsage{.buckets = 1}));
  Reopen();
  EXPECT_EQ(account.Of(kAlice), (TenantUsage{.objects = 4, .bytes = 35, .buckets = 1}));
  for (const char* key : {"small", "large", "empty", "o"}) ASSERT_TRUE(Is(account.Delete(key), Code::kOk));
  EXPECT_TRUE(Is(account.Delete("o"), Code::kNotFound));
  EXPECT_EQ(account.Of(kAlice), (TenantUsage{.buckets = 1}));
  const Context alice = account.As(kAlice);
  ASSERT_TRUE(Is(Run(store().DeleteBucket(alice, "alice")), Code::kOk));
  EXPECT_EQ(account.Of(kAlice), TenantUsage());
  Reopen();
  EXPECT_EQ(account.Of(kAlice), TenantUsage());
  EXPECT_EQ(account.Of(TenantId::kRoot), (TenantUsage{.buckets = 1}));
}

TEST_P(StoreSuite, AtTheQuotaOfBytesNothingIsAddedAndEverythingIsTakenAway) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Account account(*this);
  ASSERT_TRUE(Is(account.SetQuota({.max_bytes = 1000}), Code::kOk));
  ASSERT_TRUE(Is(account.Put("a", 600), Code::kOk));
  ASSERT_TRUE(Is(account.Put("b", 400), Code::kOk)) << "the limit itself is allowed";
  const Status refused = account.Put("c", 1);
  EXPECT_TRUE(Is(refused, Code::kResourceExhausted));
  for (const char* part : {"tenant 3", "1000", "delete", "forebay tenant set 3 --max-bytes"})
    EXPECT_NE(refused.message().find(part), std::string_view::npos) << refused.ToString();
  EXPECT_TRUE(Is(account.Put("c", 0), Code::kOk)) << "nothing more is nothing more";
  EXPECT_TRUE(Is(account.Put("b", 401), Code::kResourceExhausted));
  EXPECT_EQ(Run(GetContent(store(), account.As(kAlice), "alice", "b")).value_or(""), std::string(400, 'x'));
  EXPECT_TRUE(Is(account.Put("b", 400), Code::kOk)) << "an overwrite counts by the difference";
  EXPECT_TRUE(Is(account.Put("b", 300), Code::kOk));
  EXPECT_TRUE(Is(account.Put("c", 100), Code::kOk));
  EXPECT_TRUE(Is(account.Delete("a"), Code::kOk));
  EXPECT_TRUE(Is(account.Put("d", 600), Code::kOk));
  EXPECT_EQ(account.Of(kAlice),
            (TenantUsage{.objects = 3, .bytes = 1000, .buckets = 1, .quota = {.max_bytes = 1000}}));
  EXPECT_TRUE(Is(Put("other", std::string(2000, 'x')), Code::kOk)) << "root is not Alice";
}

TEST_P(StoreSuite, AtTheQuotaOfObjectsOnlyOverwritesAreTaken) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Account account(*this);
  ASSERT_TRUE(Is(account.SetQuota({.max_objects = 2}), Code::kOk));
  ASSERT_TRUE(Is(account.Put("a", 1), Code::kOk));
  ASSERT_TRUE(Is(account.Put("b", 1), Code::kOk));
  const Status refused = account.Put("c", 0);
  EXPECT_TRUE(Is(refused, Code::kResourceExhausted));
  EXPECT_NE(refused.message().find("forebay tenant set 3 --max-objects"), std::string_view::npos);
  EXPECT_TRUE(Is(account.Put("a", 100'000), Code::kOk));
  EXPECT_TRUE(Is(account.Delete("b"), Code::kOk));
  EXPECT_TRUE(Is(account.Put("c", 0), Code::kOk));
}

TEST_P(StoreSuite, AQuotaBelowTheUsageOnlyStopsGrowth) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Account account(*this);
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Is(account.Put(key, 100), Code::kOk));
  ASSERT_TRUE(Is(account.SetQuota({.max_bytes = 50, .max_objects = 1}), Code::kOk));
  Reopen();
  EXPECT_TRUE(Is(account.Put("a", 101), Code::kResourceExhausted));
  EXPECT_TRUE(Is(account.Put("a", 100), Code::kOk));
  EXPECT_TRUE(Is(account.Put("a", 90), Code::kOk));
  EXPECT_TRUE(Is(account.Delete("b"), Code::kOk));
  EXPECT_TRUE(Is(account.Put("b", 0), Code::kResourceExhausted));
  ASSERT_TRUE(Is(account.SetQuota({}), Code::kOk));
  EXPECT_TRUE(Is(account.Put("b", 5000), Code::kOk)) << "no quota, no limit";
}

TEST_P(StoreSuite, AnAnnouncedSizeBeyondTheQuotaIsRefusedBeforeAnyByte) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Account account(*this);
  ASSERT_TRUE(Is(account.SetQuota({.max_bytes = 1000}), Code::kOk));
  ASSERT_TRUE(Is(account.Put("a", 900), Code::kOk));
  const Context alice = account.As(kAlice);
  EXPECT_TRUE(Is(Run(store().Put(alice, "alice", "b", {.size_bytes = 101})), Code::kResourceExhausted));
  EXPECT_TRUE(Is(Run(store().Put(alice, "alice", "a", {.size_bytes = 1001})), Code::kResourceExhausted));
  EXPECT_TRUE(Is(Run(store().Put(alice, "alice", "a", {.size_bytes = 1000})), Code::kOk));
}

TEST_P(StoreSuite, PutsAtTheSameTimeShareTheQuotaExactly) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Account account(*this);
  constexpr size_t kPuts = 40;
  constexpr size_t kFit = 13;
  ASSERT_TRUE(Is(account.SetQuota({.max_bytes = kFit * 100 + 99}), Code::kOk));
  std::vector<rt::Task<Result<ObjectInfo>>> puts;
  for (size_t i = 0; i < kPuts; ++i)
    puts.push_back(
        PutContent(store(), account.As(kAlice), "alice", std::to_string(i), std::string(100, 'x')));
  size_t stored = 0;
  for (const Result<ObjectInfo>& put : Run(rt::WhenAll(std::move(puts)))) {
    if (!put.ok()) EXPECT_TRUE(Is(put, Code::kResourceExhausted));
    stored += put.ok() ? 1 : 0;
  }
  EXPECT_EQ(stored, kFit);
  EXPECT_EQ(account.Of(kAlice).objects, kFit);
  EXPECT_EQ(account.Of(kAlice).bytes, kFit * 100);
}

TEST_P(StoreSuite, RootSetsQuotasAndATenantSeesItsOwnUsage) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Account account(*this);
  EXPECT_TRUE(Is(account.SetQuota({.max_bytes = 1}, kAlice, kAlice), Code::kPermissionDenied));
  EXPECT_TRUE(Is(account.SetQuota({.max_bytes = 1}, kAlice, TenantId::kSystem), Code::kOk));
  for (const TenantId tenant : {TenantId::kNone, TenantId::kSystem})
    EXPECT_TRUE(Is(account.SetQuota({.max_bytes = 1}, tenant), Code::kInvalidArgument));
  EXPECT_TRUE(Is(account.SetQuota({.max_bytes = kMaxUsage + 1}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(account.SetQuota({.max_objects = kMaxUsage}), Code::kOk));
  EXPECT_TRUE(Is(account.Ask(kAlice, kAlice), Code::kOk));
  EXPECT_TRUE(Is(account.Ask(kAlice, TenantId::kSystem), Code::kOk));
  EXPECT_TRUE(Is(account.Ask(kAlice, kBob), Code::kPermissionDenied));
  EXPECT_TRUE(Is(account.Ask(kAlice, TenantId::kNone), Code::kPermissionDenied));
}

}  // namespace
}  // namespace forebay::store
