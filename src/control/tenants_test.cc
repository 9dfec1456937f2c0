// SPDX-License-Identifier: Apache-2.0
// Tenants and access keys, over RPCs as a program asks for them, and over restarts of the server.
#include <set>

#include "control/access_keys.h"
#include "control/control_suite.h"
#include "control/tenant_registry.h"
#include "control/tenant_services.h"

namespace forebay::control {
namespace {

using store::Condition;

Bytes FromHexText(std::string_view hex) {
  Bytes bytes(hex.size() / 2);
  EXPECT_TRUE(base::FromHex(hex, bytes));
  return bytes;
}

class TenantsTest : public ControlTest {
 protected:
  /// As a server that is started again on the same store.
  void Restart() {
    client_.reset();
    server_.reset();
    OpenRecords();
    Start({.listen = "127.0.0.1:0"});
  }
  Tenant Create(const std::string& name, const TenantChange& limits = {}) {
    const Result<Tenant> made = client_->CreateTenant(name, limits);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.value_or(Tenant());
  }
  Status CreateBucket(const std::string& name, const std::string& tenant) {
    return client_->CreateBucket(name, store::BucketClass::kDurable, Operation(), {}, tenant);
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const TenantRecord& record : tenants_->List()) names.push_back(record.name);
    return names;
  }
};

TEST_F(TenantsTest, ATenantIsCreatedShownChangedAndRemoved) {
  const Tenant made = Create("alice", {.max_bytes = 1000, .bytes_per_s = 5, .transfers = 2});
  EXPECT_EQ(made.record.id, TenantId{3});
  EXPECT_EQ(made.record.name, "alice");
  EXPECT_EQ(made.record.created, std::chrono::floor<std::chrono::milliseconds>(clock_.WallNow()));
  EXPECT_EQ(made.usage, (store::TenantUsage{.quota = {.max_bytes = 1000}}));
  EXPECT_EQ(made.record.rates, (auth::RateGrant{.bytes_per_s = 5, .transfers = 2}));

  ASSERT_TRUE(client_->SetTenant("alice", {.max_objects = 7, .bytes_per_s = 0}).ok());
  Restart();
  for (const char* name : {"alice", "3"}) {
    const Result<Tenant> shown = client_->GetTenant(name);
    ASSERT_TRUE(shown.ok()) << shown.status().ToString();
    EXPECT_EQ(shown->record.id, TenantId{3});
    EXPECT_EQ(shown->usage.quota, (store::Quota{.max_bytes = 1000, .max_objects = 7}));
    EXPECT_EQ(shown->record.rates, (auth::RateGrant{.transfers = 2}));
  }
  EXPECT_TRUE(client_->DeleteTenant("alice").ok());
  EXPECT_EQ(client_->DeleteTenant("alice").code(), Code::kNotFound);
  EXPECT_EQ(client_->GetTenant("3").status().code(), Code::kNotFound);
  EXPECT_TRUE(client_->ListTenants()->empty());
}

TEST_F(TenantsTest, NamesFollowTheRulesAndAreTakenOnce) {
  for (const std::string& name :
       {std::string(), std::string("3alice"), std::string("Alice"), std::string("a_b"), std::string("root"),
        std::string("system"), std::string("a\0", 2), std::string(64, 'a')})
    EXPECT_EQ(client_->CreateTenant(name, {}).status().code(), Code::kInvalidArgument) << name;
  Create(std::string(63, 'a'));
  Create("a-1");
  EXPECT_EQ(client_->CreateTenant("a-1", {}).status().code(), Code::kAlreadyExists);
}

TEST_F(TenantsTest, NumbersAreNeverGivenTwice) {
  EXPECT_EQ(Create("a").record.id, TenantId{3});
  EXPECT_EQ(Create("b").record.id, TenantId{4});
  ASSERT_TRUE(client_->DeleteTenant("b").ok());
  EXPECT_EQ(Create("b").record.id, TenantId{5});
  ASSERT_TRUE(client_->DeleteTenant("b").ok());
  Restart();
  EXPECT_EQ(Create("b").record.id, TenantId{6});
}

TEST_F(TenantsTest, RootIsATenantThatCannotBeChanged) {
  ASSERT_TRUE(CreateBucket("mine", "").ok());
  for (const char* name : {"root", "1"}) {
    const Result<Tenant> root = client_->GetTenant(name);
    ASSERT_TRUE(root.ok()) << root.status().ToString();
    EXPECT_EQ(root->record.id, TenantId::kRoot);
    EXPECT_EQ(root->usage.buckets, 1U);
    EXPECT_EQ(client_->SetTenant(name, {.max_bytes = 1}).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(client_->DeleteTenant(name).code(), Code::kInvalidArgument);
    EXPECT_EQ(client_->CreateKey(name).status().code(), Code::kInvalidArgument);
  }
  for (const char* name : {"0", "2", "system", "", "99999999999999999999"})
    EXPECT_EQ(client_->GetTenant(name).status().code(), Code::kNotFound) << name;
}

TEST_F(TenantsTest, ABucketIsMadeForATenantThatThenStays) {
  Create("alice");
  ASSERT_TRUE(CreateBucket("hers", "alice").ok());
  EXPECT_EQ(client_->GetBucket("hers")->owner, TenantId{3});
  EXPECT_EQ(CreateBucket("nobodys", "bob").code(), Code::kNotFound);
  EXPECT_EQ(client_->GetBucket("nobodys").status().code(), Code::kNotFound);
  const Status refused = client_->DeleteTenant("alice");
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.message().find("owns 1 buckets"), std::string_view::npos) << refused.ToString();
  ASSERT_TRUE(client_->DeleteBucket("hers", Operation()).ok());
  EXPECT_TRUE(client_->DeleteTenant("alice").ok());
}

TEST_F(TenantsTest, TheQuotaIsHeldByTheStore) {
  Create("alice", {.max_objects = 1});
  ASSERT_TRUE(CreateBucket("hers", "alice").ok());
  Put("hers", "first");
  const store::Context context{.reactor = thread_->reactor()};
  const auto refused =
      thread_->Run([&] { return store_->Put(context, "hers", "second", {.size_bytes = 1}); });
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(client_->GetTenant("alice")->usage,
            (store::TenantUsage{.objects = 1, .bytes = 3, .buckets = 1, .quota = {.max_objects = 1}}));
  EXPECT_EQ(client_->SetTenant("alice", {.max_bytes = uint64_t{1} << 63}).status().code(),
            Code::kInvalidArgument);
}

TEST_F(TenantsTest, RatesAreInForceFromTheChangeAndAfterARestart) {
  const auto hers = [this] { return rates_.Open({.tenant = TenantId{3}}, clock_.Now()); };
  Create("alice", {.bytes_per_s = 1000});
  const auth::RateAccounts at_work = hers();
  EXPECT_TRUE(at_work.HasRates());
  EXPECT_FALSE(at_work.LimitsTransfers());
  ASSERT_TRUE(client_->SetTenant("alice", {.bytes_per_s = 0, .transfers = 2}).ok());
  EXPECT_FALSE(at_work.HasRates());
  EXPECT_TRUE(at_work.LimitsTransfers());

  rates_.SetTenant(TenantId{3}, {});  // a new process knows nothing
  Restart();
  EXPECT_TRUE(hers().LimitsTransfers());
  ASSERT_TRUE(client_->DeleteTenant("alice").ok());
  EXPECT_FALSE(hers().LimitsTransfers());
}

TEST_F(TenantsTest, RatesOfAChangeThatFailedAreNotInForce) {
  EXPECT_FALSE(client_->SetTenant("root", {.bytes_per_s = 1}).ok());
  Create("alice");
  EXPECT_FALSE(client_->SetTenant("alice", {.max_bytes = uint64_t{1} << 63, .bytes_per_s = 1}).ok());
  for (const TenantId id : {TenantId::kRoot, TenantId{3}})
    EXPECT_FALSE(rates_.Open({.tenant = id}, clock_.Now()).HasRates());
}

TEST_F(TenantsTest, AreListedByNumberPageByPage) {
  constexpr size_t kTenants = base::kMaxListPage + 2;
  ASSERT_TRUE(
      thread_
          ->Run([&]() -> rt::Task<Status> {
            for (size_t i = 0; i < kTenants; ++i)
              FB_CO_TRY((co_await tenants_->Create(thread_->reactor(), fmt::format("t{}", i), {})).status());
            co_return Status();
          })
          .ok());
  const Result<std::vector<Tenant>> all = client_->ListTenants();
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  ASSERT_EQ(all->size(), kTenants);
  for (size_t i = 0; i < kTenants; ++i) EXPECT_EQ((*all)[i].record.name, fmt::format("t{}", i));
}

TEST_F(TenantsTest, AKeysSecretIsToldOnceAndFoundByItsId) {
  Create("alice");
  Create("bob");
  const Result<ControlClient::CreatedKey> made = client_->CreateKey("alice");
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made->key.tenant, TenantId{3});
  EXPECT_EQ(made->key.id.size(), kAccessKeyIdBytes);
  EXPECT_TRUE(made->key.id.starts_with("FB"));
  EXPECT_EQ(made->secret.size(), 64U);
  const Result<ControlClient::CreatedKey> other = client_->CreateKey("bob");
  ASSERT_TRUE(other.ok());
  EXPECT_NE(other->secret, made->secret);
  for (const bool restarted : {false, true}) {
    if (restarted) Restart();
    const Result<AccessKeyWithSecret> found = keys_->Find(made->key.id);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(found->key.tenant, TenantId{3});
    EXPECT_EQ(base::ToHex(found->secret.view()), made->secret);
    EXPECT_EQ(client_->ListKeys("")->size(), 2U);
    ASSERT_EQ(client_->ListKeys("alice")->size(), 1U);
    EXPECT_EQ(client_->ListKeys("alice")->front().id, made->key.id);
  }
  EXPECT_EQ(client_->ListKeys("carol").status().code(), Code::kNotFound);
  EXPECT_TRUE(client_->DeleteKey(made->key.id).ok());
  EXPECT_EQ(client_->DeleteKey(made->key.id).code(), Code::kNotFound);
  EXPECT_EQ(keys_->Find(made->key.id).status().code(), Code::kNotFound);
}

TEST_F(TenantsTest, NoSecretIsAtRestInThePlain) {
  Create("alice");
  const Result<ControlClient::CreatedKey> made = client_->CreateKey("alice");
  ASSERT_TRUE(made.ok());
  const auto records = thread_->Run([&] { return records_->List(thread_->reactor(), "access-key/"); });
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(records->size(), 1U);
  const std::string at_rest = base::ToHex(records->front().value);
  EXPECT_EQ(at_rest.find(made->secret), std::string::npos);
  EXPECT_EQ(at_rest.find(made->secret.substr(0, 16)), std::string::npos);
}

TEST_F(TenantsTest, KeysGoWithTheirTenant) {
  Create("alice");
  Create("bob");
  const std::string hers = client_->CreateKey("alice")->key.id;
  const std::string his = client_->CreateKey("bob")->key.id;
  ASSERT_TRUE(client_->DeleteTenant("alice").ok());
  EXPECT_EQ(keys_->Find(hers).status().code(), Code::kNotFound);
  // A crash between the tenant's end and its keys': the record is left.
  ASSERT_TRUE(thread_->Run([&] { return tenants_->Delete(thread_->reactor(), TenantId{4}); }).ok());
  EXPECT_TRUE(keys_->Find(his).ok());
  Restart();
  EXPECT_EQ(keys_->Find(his).status().code(), Code::kNotFound);
  EXPECT_TRUE(thread_->Run([&] { return records_->List(thread_->reactor(), "access-key/"); })->empty());
}

// That they are the root tenant's only is in the matrix (policy_matrix_test.cc).

// ---- records ----

TEST(TenantRecord, HasTheDocumentedBytes) {
  const TenantRecord record{.id = TenantId{3},
                            .name = "alice",
                            .created = base::WallTime(std::chrono::seconds(1'700'000'000)),
                            .rates = {.bytes_per_s = 100 * base::kMiB, .operations_per_s = 1000}};
  EXPECT_EQ(TenantRecordKey(record.id), "tenant/0000000000000003");
  EXPECT_EQ(base::ToHex(EncodeTenantRecord(record)), "0105616c69636500002a36fe9c971780808032e80700");
  EXPECT_EQ(*DecodeTenantRecord(TenantRecordKey(record.id), EncodeTenantRecord(record)), record);
}

TEST(TenantRecord, NonsenseIsRefused) {
  const std::string good = "0105616c69636500002a36fe9c971780808032e80700";
  const auto decode = [](std::string_view key, const std::string& hex) {
    return DecodeTenantRecord(key, FromHexText(hex)).status().code();
  };
  const std::string key = "tenant/0000000000000003";
  EXPECT_EQ(decode(key, good), Code::kOk);
  for (size_t length = 0; length < good.size(); length += 2)
    EXPECT_EQ(decode(key, good.substr(0, length)), Code::kDataLoss) << length;
  EXPECT_EQ(decode(key, good + "00"), Code::kDataLoss);
  EXPECT_EQ(decode(key, "00" + good.substr(2)), Code::kDataLoss);
  EXPECT_EQ(decode(key, "02" + good.substr(2)), Code::kFailedPrecondition);
  EXPECT_EQ(decode(key, "0105414c49434500002a36fe9c971780808032e80700"), Code::kDataLoss) << "the name ALICE";
  EXPECT_EQ(decode(key, good.substr(0, 44 - 2) + "8080808010"), Code::kDataLoss) << "2^32 transfers";
  for (const char* bad : {"tenant/0000000000000002", "tenant/3", "tenant/000000000000000A", "tenant/", "",
                          "tenant/000000000000000g", "tenant/00000000000000003"})
    EXPECT_EQ(decode(bad, good), Code::kDataLoss) << bad;
}

TEST(AccessKeyRecord, IsReadAsWrittenAndNonsenseIsRefused) {
  SealedAccessKey record{.key = {.id = "FBABCDEFGHJKLMNPQRST",
                                 .tenant = TenantId{3},
                                 .created = base::WallTime(std::chrono::seconds(1'700'000'000))},
                         .sealed = Bytes(auth::Sealer::kSealedBytes, std::byte{0xab})};
  const std::string key = AccessKeyRecordKey(record.key.id);
  EXPECT_EQ(key, "access-key/FBABCDEFGHJKLMNPQRST");
  const Bytes good = EncodeAccessKey(record);
  std::string expected = "010300002a36fe9c9717";
  for (size_t i = 0; i < auth::Sealer::kSealedBytes; ++i) expected += "ab";
  EXPECT_EQ(base::ToHex(good), expected);
  EXPECT_EQ(*DecodeAccessKey(key, good), record);
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_EQ(DecodeAccessKey(key, ByteView(good).first(length)).status().code(), Code::kDataLoss) << length;
  Bytes newer = good;
  newer[0] = std::byte{2};
  EXPECT_EQ(DecodeAccessKey(key, newer).status().code(), Code::kFailedPrecondition);
  for (const char* bad : {"access-key/", "access-key/FBabcdefghjklmnpqrst", "access-key/FBABCDEFGHJKLMNPQRS",
                          "tenant/FBABCDEFGHJKLMNPQRST"})
    EXPECT_EQ(DecodeAccessKey(bad, good).status().code(), Code::kDataLoss) << bad;
  record.key.tenant = TenantId::kRoot;
  EXPECT_EQ(DecodeAccessKey(key, EncodeAccessKey(record)).status().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace forebay::control
