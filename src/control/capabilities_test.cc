// SPDX-License-Identifier: Apache-2.0
// Capabilities over the control plane: issued, used for calls and sessions, listed, revoked, across restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/control_suite.h"
#include "rt/gate.h"

namespace forebay::control {
namespace {

using ::testing::HasSubstr;

class CapabilitiesTest : public ControlTest {
 protected:
  IssueTerms Terms(std::string bucket = "models", std::string prefix = "p/") {
    seed_ = auth::Secret::Generate(random_);
    return {.holder = auth::SigningKeyOf(seed_),
            .bucket = std::move(bucket),
            .prefix = std::move(prefix),
            .rights = auth::RightSet::Proven().With(auth::Right::kGet),
            .ttl = 60s};
  }
  auth::HeldCapability Issue(const IssueTerms& terms) {
    Result<auth::Capability> made = client_->IssueCapability(terms);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return {*std::move(made), seed_};
  }
  auth::HeldCapability Issue() {
    EXPECT_TRUE(client_->CreateBucket("models", store::BucketClass::kDurable, Operation()).ok());
    Put("models", "p/x");
    Put("models", "q/x");
    return Issue(Terms());
  }
  /// A new authority over the same records, as after a restart of the server.
  void Restart() {
    client_.reset();
    server_->Shutdown(5s);
    server_.reset();
    authority_ = std::make_unique<CapabilityAuthority>(CapabilityAuthority::Parts{.keys = *signing_keys_,
                                                                                  .sessions = sessions_,
                                                                                  .records = *records_,
                                                                                  .clock = trusted_clock_,
                                                                                  .random = random_});
    ASSERT_TRUE(thread_->Run([this] { return authority_->Load(thread_->reactor()); }).ok());
    Start({.listen = "127.0.0.1:0", .version = "1.2.3"});
  }
  static void ExpectCode(const Status& status, Code code, const std::string& says) {
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
  }
  /// A tenant besides root.
  TenantId Seven() { return client_->CreateTenant("seven", {})->record.id; }
  static auth::CapabilityId IdOf(const auth::HeldCapability& held) { return held.capability().blocks().back().id; }

  auth::Secret seed_;
};

TEST_F(CapabilitiesTest, AllowsWhatItSaysAndNothingElse) {
  const auto holder = Connect(Issue());
  EXPECT_TRUE(holder->Stat("models", "p/x").ok());
  ExpectCode(holder->Stat("models", "q/x").status(), Code::kPermissionDenied, "the right `get` on `models/q/x` is missing");
  ExpectCode(holder->List("models", {.prefix = "q/"}).status(), Code::kPermissionDenied, "the right `list` on `models/q/*`");
  ExpectCode(holder->Delete("models", "p/x", {}, Operation()), Code::kPermissionDenied, "the right `delete`");
  ExpectCode(holder->ListBuckets().status(), Code::kPermissionDenied, "the right `list`");
  ExpectCode(holder->Stats().status(), Code::kPermissionDenied, "the right `admin` on the whole server");
  ExpectCode(holder->Space().status(), Code::kPermissionDenied, "the right `admin` on the whole server");
  ExpectCode(holder->IssueCapability(Terms()).status(), Code::kPermissionDenied, "the right `admin`");
  EXPECT_TRUE(holder->Health().ok());
}

TEST_F(CapabilitiesTest, BothSidesOfASessionHaveTheSameKey) {
  const auto holder = Connect(Issue());
  const Result<ClientSession> session = holder->OpenSession();
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  const Result<auth::SessionGrant> grant = sessions_.Bind(session->id, nullptr);
  ASSERT_TRUE(grant.ok());
  EXPECT_EQ(grant->key, session->key);
  EXPECT_EQ(grant->grant->prefix, "p/");
  EXPECT_EQ(grant->expiry, clock_.Now() + 60s);
  EXPECT_LE(session->expires_in, 60s);
}

TEST_F(CapabilitiesTest, ExpiresByTheServersClockWhicheverWayItJumps) {
  const auto holder = Connect(Issue());
  for (const base::Duration jump : {base::Duration(1h), base::Duration(365 * 24h)}) {
    clock_.JumpWall(-jump);
    EXPECT_TRUE(holder->Health().ok());
    clock_.JumpWall(jump);
  }
  EXPECT_TRUE(holder->Stat("models", "p/x").ok());
  clock_.Advance(60s);
  ExpectCode(holder->Stat("models", "p/x").status(), Code::kUnauthenticated, "expired");
  ExpectCode(holder->OpenSession().status(), Code::kUnauthenticated, "expired");
  // Set back, it stays expired.
  for (const base::Duration jump : {base::Duration(1h), base::Duration(365 * 24h)}) {
    clock_.JumpWall(-jump);
    EXPECT_EQ(holder->Stat("models", "p/x").status().code(), Code::kUnauthenticated);
    clock_.JumpWall(jump);
  }
}

TEST_F(CapabilitiesTest, AJumpForwardEndsItAndWhatIsIssuedThenIsGood) {
  const auto before = Connect(Issue());
  clock_.JumpWall(1h);
  ExpectCode(before->Stat("models", "p/x").status(), Code::kUnauthenticated, "expired");
  clock_.JumpWall(-1h);
  ExpectCode(before->Stat("models", "p/x").status(), Code::kUnauthenticated, "expired");
  const auto after = Connect(Issue(Terms()));
  EXPECT_TRUE(after->Stat("models", "p/x").ok());
}

TEST_F(CapabilitiesTest, WhatExpiredStaysExpiredOverARestartWithAClockSetBack) {
  const auth::HeldCapability held = Issue();
  clock_.Advance(120s);
  Issue(Terms());  // a use, which makes the time durable
  clock_.JumpWall(-90s);
  auth::TrustedClock fresh(clock_);
  CapabilityAuthority restarted({.keys = *signing_keys_, .sessions = sessions_, .records = *records_, .clock = fresh, .random = random_});
  EXPECT_TRUE(restarted.Check(held.capability()).ok()) << "its clock says so, as long as nothing was loaded";
  ASSERT_TRUE(thread_->Run([&] { return restarted.Load(thread_->reactor()); }).ok());
  ExpectCode(restarted.Check(held.capability()).status(), Code::kUnauthenticated, "expired");
}

TEST_F(CapabilitiesTest, ARevokedOneIsRefusedAndItsSessionsEnd) {
  const auth::HeldCapability held = Issue();
  const auto holder = Connect(held);
  const auto child = Connect(*held.Narrow({.prefix = "p/x"}, clock_.WallNow(), random_));
  ASSERT_TRUE(holder->OpenSession().ok());
  const Result<ClientSession> of_child = child->OpenSession();
  ASSERT_TRUE(of_child.ok());
  int told = 0;
  ASSERT_TRUE(sessions_.Bind(of_child->id, [&told] { ++told; }).ok());
  const Result<uint64_t> ended = client_->RevokeCapability(IdOf(held));
  ASSERT_TRUE(ended.ok()) << ended.status().ToString();
  EXPECT_EQ(*ended, 2U);
  EXPECT_EQ(told, 1);
  ExpectCode(holder->Stat("models", "p/x").status(), Code::kUnauthenticated, "revoked");
  ExpectCode(child->OpenSession().status(), Code::kUnauthenticated, "revoked");
  Restart();
  ExpectCode(Connect(held)->Stat("models", "p/x").status(), Code::kUnauthenticated, "revoked");
}

TEST_F(CapabilitiesTest, ANarrowedOneIsRevokedByItself) {
  const auth::HeldCapability held = Issue();
  const auth::HeldCapability child = *held.Narrow({}, clock_.WallNow(), random_);
  ASSERT_TRUE(client_->RevokeCapability(IdOf(child)).ok());
  EXPECT_FALSE(Connect(child)->Stat("models", "p/x").ok());
  EXPECT_TRUE(Connect(held)->Stat("models", "p/x").ok());
}

TEST_F(CapabilitiesTest, ATenantsEpochRevokesAllOfIt) {
  const auth::HeldCapability held = Issue();
  IssueTerms terms = Terms("", "");
  terms.tenant = Seven();
  const auth::HeldCapability other = Issue(terms);
  EXPECT_TRUE(client_->RevokeTenant(TenantId::kRoot).ok());
  EXPECT_FALSE(Connect(held)->Stat("models", "p/x").ok());
  EXPECT_TRUE(Connect(other)->OpenSession().ok());
  Restart();
  EXPECT_FALSE(Connect(held)->Stat("models", "p/x").ok());
  EXPECT_TRUE(Connect(Issue(Terms()))->Stat("models", "p/x").ok()) << "a new one is of the new epoch";
}

TEST_F(CapabilitiesTest, AnAdministratorOfATenantHandsOutNoMoreThanItHas) {
  IssueTerms terms = Terms("", "");
  terms.tenant = Seven();
  terms.rights = auth::RightSet::Proven().With(auth::Right::kAdmin).With(auth::Right::kGet);
  const auto admin = Connect(Issue(terms));
  EXPECT_TRUE(admin->IssueCapability(Terms("theirs", "")).ok());
  IssueTerms more = Terms("theirs", "");
  more.rights = auth::RightSet::All();
  ExpectCode(admin->IssueCapability(more).status(), Code::kPermissionDenied, "holds the rights get,admin");
  more = Terms("theirs", "");
  more.tenant = TenantId::kRoot;
  ExpectCode(admin->IssueCapability(more).status(), Code::kPermissionDenied, "is of tenant");
  more = Terms("theirs", "");
  more.ttl = 61s;
  ExpectCode(admin->IssueCapability(more).status(), Code::kPermissionDenied, "expires before");
  ExpectCode(admin->RevokeTenant(TenantId::kRoot).status(), Code::kPermissionDenied, "may not revoke");
  ExpectCode(admin->RotateKey(true).status(), Code::kPermissionDenied, "the whole server");
}

TEST_F(CapabilitiesTest, WhoIsRevokedWhileItIssuesGetsNothing) {
  IssueTerms terms = Terms("", "");
  terms.tenant = Seven();
  terms.rights = auth::RightSet::All();
  const auth::HeldCapability admin = Issue(terms);
  const auth::Grant by = admin.capability().ToGrant();  // as the door found it, before
  ASSERT_TRUE(client_->RevokeCapability(IdOf(admin)).ok());
  const auto issued =
      thread_->Run([&] { return authority_->Issue(thread_->reactor(), by, Terms("theirs", "")); });
  EXPECT_FALSE(issued.ok());
  for (const IssuedCapability& one : *client_->ListCapabilities()) EXPECT_TRUE(one.revoked);
}

TEST_F(CapabilitiesTest, TheRootTenantsAreForItsOwnBuckets) {
  const TenantId seven = Seven();
  EXPECT_TRUE(client_->CreateBucket("hers", store::BucketClass::kDurable, Operation(), {}, "seven").ok());
  IssueTerms terms = Terms("hers", "");
  terms.tenant = TenantId::kRoot;
  ExpectCode(client_->IssueCapability(terms).status(), Code::kInvalidArgument, "issue the capability for that tenant");
  terms.tenant = TenantId::kNone;
  EXPECT_EQ(Issue(terms).capability().blocks()[0].tenant, seven) << "the owner's, when none is named";
}

TEST_F(CapabilitiesTest, EpochsRaisedAtTheSameTimeAreAllKept) {
  const TenantId seven = Seven();
  const auth::Grant root = auth::Grant::Root("root-1");
  thread_->Run([&]() -> rt::Task<void> {
    rt::Gate gate(thread_->reactor());
    for (int i = 0; i < 8; ++i)
      thread_->reactor().Spawn(gate, [&]() -> rt::Task<void> {
        EXPECT_TRUE((co_await authority_->RevokeTenant(thread_->reactor(), root, seven)).ok());
      });
    co_await gate.Close();
  });
  Restart();
  IssueTerms terms = Terms("", "");
  terms.tenant = seven;
  EXPECT_EQ(Issue(terms).capability().blocks()[0].epoch, 8U);
}

TEST_F(CapabilitiesTest, ListsOnesOwnUntilTheyExpire) {
  const auth::HeldCapability held = Issue();
  IssueTerms terms = Terms("", "");
  terms.tenant = Seven();
  terms.rights = auth::RightSet::All();
  const auto admin = Connect(Issue(terms));
  EXPECT_EQ(client_->ListCapabilities()->size(), 2U);
  const auto theirs = *admin->ListCapabilities();
  ASSERT_EQ(theirs.size(), 1U);
  EXPECT_EQ(theirs[0].block.tenant, terms.tenant);
  EXPECT_FALSE(theirs[0].revoked);
  ASSERT_TRUE(client_->RevokeCapability(IdOf(held)).ok());
  const auto all = *client_->ListCapabilities();
  EXPECT_EQ(std::ranges::count(all, true, &IssuedCapability::revoked), 1);
  clock_.Advance(60s);
  EXPECT_TRUE(client_->ListCapabilities()->empty());
}

TEST_F(CapabilitiesTest, ARotationInterruptsNobodyUnlessOldKeysAreDropped) {
  const auto before = Connect(Issue());
  ASSERT_TRUE(before->OpenSession().ok());
  EXPECT_EQ(*client_->RotateKey(false), 0U);
  EXPECT_TRUE(before->Stat("models", "p/x").ok());
  EXPECT_EQ(*client_->RotateKey(true), 1U);
  ExpectCode(before->Stat("models", "p/x").status(), Code::kUnauthenticated, "issue a new one");
  EXPECT_TRUE(Connect(Issue(Terms()))->Stat("models", "p/x").ok());
}

TEST_F(CapabilitiesTest, TermsWithoutMeaningAreRefused) {
  EXPECT_TRUE(client_->CreateBucket("models", store::BucketClass::kDurable, Operation()).ok());
  IssueTerms terms = Terms();
  terms.ttl = 91 * 24h;
  ExpectCode(client_->IssueCapability(terms).status(), Code::kInvalidArgument, "90 days");
  terms = Terms();
  terms.ttl = {};
  ExpectCode(client_->IssueCapability(terms).status(), Code::kInvalidArgument, "90 days");
  terms = Terms();
  terms.rights = auth::RightSet::Proven();
  ExpectCode(client_->IssueCapability(terms).status(), Code::kInvalidArgument, "rights");
  ExpectCode(client_->IssueCapability(Terms("", "p/")).status(), Code::kInvalidArgument, "no bucket");
  ExpectCode(client_->IssueCapability(Terms("missing", "")).status(), Code::kNotFound, "missing");
  terms = Terms();
  for (const TenantId nobody : {TenantId::kSystem, TenantId{99}}) {
    terms.tenant = nobody;
    ExpectCode(client_->IssueCapability(terms).status(), Code::kNotFound, "tenant");
  }
}

}  // namespace
}  // namespace forebay::control
