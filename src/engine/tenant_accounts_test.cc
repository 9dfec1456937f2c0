// SPDX-License-Identifier: Apache-2.0
#include "engine/tenant_accounts.h"

#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "engine/rows.h"

namespace forebay::engine {
namespace {

using meta::Family;
using store::TenantUsage;

constexpr TenantId kAlice{3};
constexpr TenantId kBob{4};

TEST(TenantRow, IsReadAsWritten) {
  const TenantUsage usage{
      .objects = 3, .bytes = 100'010, .buckets = 1, .quota = {.max_bytes = 1'000'000, .max_objects = 20}};
  const std::string key = TenantKey(kAlice);
  EXPECT_EQ(base::ToHex(AsBytes(key)), "656e67696e652f74656e616e742f0000000000000003");
  EXPECT_EQ(*DecodeTenantKey(key), kAlice);
  EXPECT_EQ(base::ToHex(AsBytes(EncodeTenant(key, usage))), "0103aa8d060114c0843dd5c45887");
  EXPECT_EQ(*DecodeTenant(key, EncodeTenant(key, usage)), usage);
}

TEST(TenantRow, NonsenseIsDataLoss) {
  const std::string key = TenantKey(kAlice);
  const std::string good = EncodeTenant(key, {.objects = 3, .bytes = 5});
  EXPECT_EQ(DecodeTenant(TenantKey(kBob), good).status().code(), Code::kDataLoss) << "under another key";
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_EQ(DecodeTenant(key, bad).status().code(), Code::kDataLoss) << i;
    EXPECT_EQ(DecodeTenant(key, good.substr(0, i)).status().code(), Code::kDataLoss) << i;
  }
  EXPECT_EQ(DecodeTenant(key, EncodeTenant(key, {.bytes = store::kMaxUsage + 1})).status().code(),
            Code::kDataLoss);
  EXPECT_EQ(DecodeTenantKey(kTenantPrefix).status().code(), Code::kDataLoss);
  EXPECT_EQ(DecodeTenantKey(key + "x").status().code(), Code::kDataLoss);
  EXPECT_EQ(DecodeTenantKey(TenantKey(TenantId::kNone)).status().code(), Code::kDataLoss);
}

class TenantAccountsTest : public testing::Test {
 protected:
  void SetUp() override {
    const store::Context root = twins_.context();
    ASSERT_TRUE(twins_.CreateBucket().ok());
    ASSERT_TRUE(twins_.Run(twins_.engine().CreateBucket(root, {.name = "alice", .owner = kAlice})).ok());
    ASSERT_TRUE(twins_.Put("small", "inline content").ok());
    ASSERT_TRUE(twins_.Put("medium", RandomContent(1, 300'000)).ok());
  }

  TenantUsage Of(TenantId tenant) {
    const store::Context root = twins_.context();
    return *twins_.Run(twins_.engine().GetTenantUsage(root, tenant));
  }
  void SetQuota(TenantId tenant, store::Quota quota) {
    const store::Context root = twins_.context();
    ASSERT_TRUE(twins_.Run(twins_.engine().SetQuota(root, tenant, quota)).ok());
  }
  std::optional<std::string> Row(Family family, const std::string& key) {
    const auto found = twins_.media()->First(family, key, key + '\0');
    return found ? std::optional(found->second) : std::nullopt;
  }
  /// Takes the rows out, as a program wrote the store that had none.
  void ForgetAccounts() {
    for (const TenantId tenant : {TenantId::kRoot, kAlice, kBob})
      twins_.media()->Damage(Family::kSystem, TenantKey(tenant), std::nullopt);
  }

  TwinStore twins_;
};

TEST_F(TenantAccountsTest, AStoreFromBeforeIsCountedOnceAtOpen) {
  twins_.Close();
  ForgetAccounts();
  twins_.Reopen();
  const TenantUsage expected{.objects = 2, .bytes = 300'014, .buckets = 1};
  EXPECT_EQ(Of(TenantId::kRoot), expected);
  EXPECT_EQ(Of(kAlice), (TenantUsage{.buckets = 1}));
  ASSERT_TRUE(twins_.Delete("small").ok());
  EXPECT_EQ(Of(TenantId::kRoot), (TenantUsage{.objects = 1, .bytes = 300'000, .buckets = 1}));
  twins_.Close();
  const std::string key = TenantKey(kAlice);
  EXPECT_EQ(*DecodeTenant(key, *Row(Family::kSystem, key)), (TenantUsage{.buckets = 1}));
}

TEST_F(TenantAccountsTest, AStoreThatKeepsAccountsIsRefusedByAProgramThatDoesNot) {
  // What such a program knows is format 1 of the identity record; the format is its first byte.
  EXPECT_EQ((*Row(Family::kSystem, std::string(kIdentityKey)))[0], 5);
}

TEST_F(TenantAccountsTest, ADamagedAccountIsNamedAndTheStoreNotOpened) {
  twins_.Close();
  const std::string key = TenantKey(kAlice);
  std::string bad = *Row(Family::kSystem, key);
  bad[1] = static_cast<char>(bad[1] ^ 4);
  twins_.media()->Damage(Family::kSystem, key, bad);
  const Status opened = twins_.TryOpen();
  EXPECT_EQ(opened.code(), Code::kDataLoss);
  EXPECT_NE(opened.message().find("tenant row"), std::string_view::npos) << opened.ToString();
}

TEST_F(TenantAccountsTest, AnAccountWithNothingInItHasNoRow) {
  SetQuota(kBob, {.max_objects = 7});
  EXPECT_TRUE(Row(Family::kSystem, TenantKey(kBob)).has_value());
  twins_.Reopen();
  EXPECT_EQ(Of(kBob).quota.max_objects, 7U);
  SetQuota(kBob, {});
  EXPECT_FALSE(Row(Family::kSystem, TenantKey(kBob)).has_value());
  EXPECT_TRUE(Row(Family::kSystem, TenantKey(TenantId::kRoot)).has_value());
}

TEST_F(TenantAccountsTest, AChangeThatIsNotDurableIsNotSeen) {
  twins_.faults().fail_flushes = true;
  EXPECT_FALSE(twins_.Put("lost", "content").ok());
  EXPECT_EQ(Of(TenantId::kRoot), (TenantUsage{.objects = 2, .bytes = 300'014, .buckets = 1}));
  twins_.faults().fail_flushes = false;
  twins_.Reopen();
  EXPECT_EQ(Of(TenantId::kRoot), (TenantUsage{.objects = 2, .bytes = 300'014, .buckets = 1}));
}

}  // namespace
}  // namespace forebay::engine
