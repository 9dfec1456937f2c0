// SPDX-License-Identifier: Apache-2.0
#include "auth/session_table.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace forebay::auth {
namespace {

using namespace std::chrono_literals;

class SessionTableTest : public ::testing::Test {
 protected:
  Result<OpenedSession> Open(TenantId tenant = TenantId::kRoot) {
    auto grant = std::make_shared<Grant>(Grant::Root("root-1"));
    grant->tenant = tenant;
    return table_.Open(std::move(grant), secret_, client_nonce_);
  }

  base::FakeClock clock_;
  base::SeededRandom random_{3};
  const Secret secret_ = Secret::Generate(random_);
  const SessionNonce client_nonce_{std::byte{9}};
  SessionTable table_{clock_, random_, {.max_sessions = 4, .lifetime = 1h}};
};

TEST_F(SessionTableTest, BothSidesHaveTheSameKey) {
  const Result<OpenedSession> opened = Open();
  ASSERT_TRUE(opened.ok());
  EXPECT_NE(opened->id, 0U);
  const Result<SessionGrant> grant = table_.Bind(opened->id, nullptr);
  ASSERT_TRUE(grant.ok());
  EXPECT_EQ(grant->grant->tenant, TenantId::kRoot);
  EXPECT_TRUE(grant->key == opened->key);
  EXPECT_TRUE(grant->key ==
              SessionKeyOf(secret_, client_nonce_, opened->server_nonce, opened->id, TenantId::kRoot));
}

TEST_F(SessionTableTest, SessionsShareNothing) {
  const Result<OpenedSession> first = Open();
  const Result<OpenedSession> second = Open();
  EXPECT_NE(first->id, second->id);
  EXPECT_NE(first->server_nonce, second->server_nonce);
  EXPECT_FALSE(first->key == second->key);
}

TEST_F(SessionTableTest, BindsOnce) {
  const uint64_t id = Open()->id;
  EXPECT_TRUE(table_.Find(id).ok());
  EXPECT_TRUE(table_.Find(id).ok());  // looking binds nothing
  EXPECT_TRUE(table_.Bind(id, nullptr).ok());
  EXPECT_EQ(table_.Bind(id, nullptr).status().code(), Code::kUnauthenticated);
  EXPECT_EQ(table_.Find(id).status().code(), Code::kUnauthenticated);
  table_.Release(id);
  EXPECT_EQ(table_.Bind(id, nullptr).status().code(), Code::kUnauthenticated);  // a session lives for one connection
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(SessionTableTest, UnknownIdsAreRefused) {
  EXPECT_EQ(table_.Bind(0, nullptr).status().code(), Code::kUnauthenticated);
  EXPECT_EQ(table_.Bind(12345, nullptr).status().code(), Code::kUnauthenticated);
  table_.Release(12345);
}

TEST_F(SessionTableTest, ExpiresUnlessBound) {
  const uint64_t idle = Open()->id;
  const uint64_t bound = Open()->id;
  ASSERT_TRUE(table_.Bind(bound, nullptr).ok());
  clock_.Advance(1h);
  EXPECT_EQ(table_.Bind(idle, nullptr).status().code(), Code::kUnauthenticated);
  ASSERT_TRUE(Open().ok());  // sweeps
  EXPECT_EQ(table_.size(), 2U);
  EXPECT_TRUE(table_.Close(bound, TenantId::kRoot).ok());  // still there
}

TEST_F(SessionTableTest, WallClockJumpsDoNotMatter) {
  const uint64_t id = Open()->id;
  clock_.JumpWall(24h);
  EXPECT_TRUE(table_.Find(id).ok());
  clock_.JumpWall(-48h);
  EXPECT_TRUE(table_.Bind(id, nullptr).ok());
}

TEST_F(SessionTableTest, AFullTableRefusesUntilSomeExpire) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Open().status().code(), Code::kResourceExhausted);
  clock_.Advance(1h);
  EXPECT_TRUE(Open().ok());
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(SessionTableTest, ReleaseOfAnUnboundSessionDoesNothing) {
  const uint64_t id = Open()->id;
  table_.Release(id);
  EXPECT_TRUE(table_.Bind(id, nullptr).ok());
}

TEST_F(SessionTableTest, CloseEndsAnIdleSession) {
  const uint64_t id = Open()->id;
  EXPECT_TRUE(table_.Close(id, TenantId::kRoot).ok());
  EXPECT_EQ(table_.Bind(id, nullptr).status().code(), Code::kUnauthenticated);
  EXPECT_EQ(table_.Close(id, TenantId::kRoot).code(), Code::kNotFound);
}

TEST_F(SessionTableTest, CloseIsSeenByTheConnectionAndKeepsItsPlaceUntilRelease) {
  const uint64_t id = Open()->id;
  const SessionGrant grant = *table_.Bind(id, nullptr);
  EXPECT_TRUE(grant.state().ok());
  EXPECT_TRUE(table_.Close(id, TenantId::kRoot).ok());
  EXPECT_EQ(grant.state().code(), Code::kUnavailable);
  EXPECT_EQ(table_.size(), 1U);
  table_.Release(id);
  EXPECT_EQ(table_.size(), 0U);
  EXPECT_EQ(grant.state().code(), Code::kUnavailable);
}

TEST_F(SessionTableTest, AnotherTenantCannotClose) {
  const uint64_t id = Open(TenantId{2})->id;
  EXPECT_EQ(table_.Close(id, TenantId::kRoot).code(), Code::kNotFound);
  EXPECT_TRUE(table_.Close(id, TenantId{2}).ok());
}

TEST_F(SessionTableTest, OfManyThreadsOneBinds) {
  const uint64_t id = Open()->id;
  std::atomic<int> bound = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { bound += table_.Bind(id, nullptr).ok() ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bound, 1);
}

TEST_F(SessionTableTest, RevokingEndsWhatItNamesAndTellsTheBound) {
  const OpenedSession bound = *Open(TenantId{7});
  const OpenedSession unbound = *Open(TenantId{7});
  const OpenedSession other = *Open(TenantId{8});
  int told = 0;
  const SessionGrant grant = *table_.Bind(bound.id, [&told] { ++told; });
  ASSERT_TRUE(table_.Bind(other.id, [&told] { told += 100; }).ok());
  const auto of_seven = [](const Grant& candidate) { return candidate.tenant == TenantId{7}; };
  EXPECT_EQ(table_.Revoke(of_seven), 2U);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(grant.state().code(), Code::kUnauthenticated);
  EXPECT_FALSE(table_.Find(unbound.id).ok());
  EXPECT_EQ(table_.Revoke(of_seven), 0U) << "once";
  table_.Release(bound.id);
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(SessionTableTest, ASessionEndsWithItsGrant) {
  auto grant = std::make_shared<Grant>(Grant::Root("root-1"));
  grant->expires = clock_.WallNow() + 10min;
  const OpenedSession opened = *table_.Open(grant, secret_, client_nonce_);
  EXPECT_EQ(opened.expiry, clock_.Now() + 10min);
  EXPECT_EQ(table_.Find(opened.id)->expiry, clock_.Now() + 10min);
  clock_.Advance(10min);
  EXPECT_FALSE(table_.Find(opened.id).ok());
}

}  // namespace
}  // namespace forebay::auth
