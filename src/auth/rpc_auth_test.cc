// SPDX-License-Identifier: Apache-2.0
#include "auth/rpc_auth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay::auth {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::string_view kMethod = "/forebay.control.v1.Buckets/List";

class RpcAuthTest : public ::testing::Test {
 protected:
  std::optional<Credentials> Lookup(std::string_view id) const {
    if (id == root_.id) return root_;
    return std::nullopt;
  }
  std::string Sign() { return SignRpc(root_, kMethod, clock_.WallNow(), random_); }
  Status Verify(std::string_view proof, std::string_view method = kMethod) {
    return authenticator_.Verify(method, proof).status();
  }
  void ExpectRefused(const Status& status, const std::string& says) {
    EXPECT_EQ(status.code(), Code::kUnauthenticated);
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
  }

  base::SeededRandom random_{11};
  base::FakeClock clock_;
  const Credentials root_ = Credentials::Generate(random_);
  RpcAuthenticator authenticator_{[this](std::string_view id) { return Lookup(id); }, nullptr, clock_};
};

TEST_F(RpcAuthTest, AGoodProofNamesItsCredential) {
  const Result<Proven> caller = authenticator_.Verify(kMethod, Sign());
  ASSERT_TRUE(caller.ok()) << caller.status().ToString();
  EXPECT_EQ(caller->grant->name, "credential " + root_.id);
  EXPECT_EQ(caller->grant->tenant, TenantId::kRoot);
  EXPECT_EQ(caller->secret, root_.secret);
}

// The tag is from Python's hmac module, following docs/security.md.
TEST_F(RpcAuthTest, AcceptsAProofMadeByAnotherImplementation) {
  Credentials known;
  known.id = "root-00000001";
  for (size_t i = 0; i < Secret::kSize; ++i) known.secret.mutable_view()[i] = static_cast<std::byte>(i);
  RpcAuthenticator authenticator([&](std::string_view) { return known; }, nullptr, clock_);
  const std::string proof =
      "v1 root-00000001 1700000001000 000102030405060708090a0b0c0d0e0f "
      "7b7b47f018e99bf084ab591e4dfa8d599a7ad052adb75b5df05d1bbc53405bae";
  EXPECT_TRUE(authenticator.Verify(kMethod, proof).ok());
}

TEST_F(RpcAuthTest, AProofIsGoodOnce) {
  const std::string proof = Sign();
  EXPECT_TRUE(Verify(proof).ok());
  ExpectRefused(Verify(proof), "used before");
  clock_.Advance(300s);
  ExpectRefused(Verify(proof), "used before");
  clock_.Advance(1ms);
  ExpectRefused(Verify(proof), "behind");
}

TEST_F(RpcAuthTest, AProofIsGoodForItsMethodOnly) {
  ExpectRefused(Verify(Sign(), "/forebay.control.v1.Buckets/Delete"), "not made with its secret");
}

TEST_F(RpcAuthTest, AnotherSecretIsRefused) {
  Credentials other = Credentials::Generate(random_);
  ExpectRefused(Verify(SignRpc(other, kMethod, clock_.WallNow(), random_)), "does not know credential");
  other.id = root_.id;
  ExpectRefused(Verify(SignRpc(other, kMethod, clock_.WallNow(), random_)), "not made with its secret");
}

TEST_F(RpcAuthTest, ClocksMayDifferByTheStatedTimeAndNoMore) {
  clock_.Advance(1000s);
  const base::WallTime now = clock_.WallNow();
  EXPECT_TRUE(Verify(SignRpc(root_, kMethod, now + 300s, random_)).ok());
  EXPECT_TRUE(Verify(SignRpc(root_, kMethod, now - 300s, random_)).ok());
  ExpectRefused(Verify(SignRpc(root_, kMethod, now + 301s, random_)), "301 s ahead of");
  ExpectRefused(Verify(SignRpc(root_, kMethod, now - 301s, random_)), "301 s behind");
}

TEST_F(RpcAuthTest, EveryFlippedByteIsRefused) {
  const std::string proof = Sign();
  for (size_t i = 0; i < proof.size(); ++i) {
    std::string changed = proof;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_EQ(Verify(changed).code(), Code::kUnauthenticated) << changed;
  }
  EXPECT_TRUE(Verify(proof).ok());  // none of them used it up
}

TEST_F(RpcAuthTest, MalformedProofsAreRefused) {
  const std::string proof = Sign();
  const std::string long_id = "v1 " + std::string(65, 'a') + proof.substr(proof.find(' ', 3));
  for (const std::string& text :
       {std::string(), std::string("v1"), std::string("v1    "), proof + " ", " " + proof, proof + " x",
        "v2" + proof.substr(2), proof.substr(0, proof.size() - 1), proof + "0",
        proof.substr(0, proof.rfind(' ')), long_id, std::string(100'000, ' '),
        std::string("v1 a -1 ") + proof.substr(proof.size() - 97),
        std::string("v1 a 9999999999999999999 ") + proof.substr(proof.size() - 97)}) {
    ExpectRefused(Verify(text), "neither `v1 <credential id>");
  }
}

TEST_F(RpcAuthTest, AClockThatGoesBackNeverLetsAProofInTwice) {
  const std::string proof = Sign();
  EXPECT_TRUE(Verify(proof).ok());
  clock_.JumpWall(24h);
  EXPECT_TRUE(Verify(Sign()).ok());  // forgets what is a day old
  clock_.JumpWall(-24h);
  ExpectRefused(Verify(proof), "before the oldest time");
  clock_.Advance(1ms);
  EXPECT_TRUE(Verify(Sign()).ok());  // and new ones go on
}

TEST_F(RpcAuthTest, AProofFromBeforeARestartIsRefused) {
  const std::string proof = Sign();
  EXPECT_TRUE(Verify(proof).ok());
  clock_.Advance(1ms);
  RpcAuthenticator restarted([this](std::string_view id) { return Lookup(id); }, nullptr, clock_);
  ExpectRefused(restarted.Verify(kMethod, proof).status(), "before the oldest time");
  EXPECT_TRUE(restarted.Verify(kMethod, Sign()).ok());
}

// ---- by a capability ----

class CapabilityProofTest : public RpcAuthTest {
 protected:
  CapabilityProofTest() {
    CapabilityBlock block;
    random_.Fill(block.id);
    block.issuer = SigningKeyOf(server_);
    block.holder = SigningKeyOf(holder_);
    block.tenant = TenantId{7};
    block.rights = RightSet::Proven().With(Right::kGet);
    block.issued = clock_.WallNow();
    block.expires = block.issued + 1h;
    held_.emplace(*Capability::Issue(block, server_), holder_);
  }
  std::string Sign() { return SignRpc(*held_, kMethod, clock_.WallNow(), random_); }
  Result<Proven> VerifyHeld(std::string_view proof, std::string_view method = kMethod) {
    return with_capabilities_.Verify(method, proof);
  }

  const Secret server_ = Secret::Generate(random_);
  const Secret holder_ = Secret::Generate(random_);
  std::optional<HeldCapability> held_;
  Status good_;  // what the check says
  RpcAuthenticator with_capabilities_{
      [this](std::string_view id) { return Lookup(id); },
      [this](const Capability& capability) -> Result<Grant> {
        FB_TRY(good_);
        FB_TRY(capability.CheckSignatures());
        return capability.ToGrant();
      },
      clock_};
};

TEST_F(CapabilityProofTest, AGoodProofGivesWhatTheCapabilityAllows) {
  const Result<Proven> caller = VerifyHeld(Sign());
  ASSERT_TRUE(caller.ok()) << caller.status().ToString();
  EXPECT_EQ(caller->grant->tenant, TenantId{7});
  EXPECT_EQ(caller->grant->rights.ToString(), "get");
  EXPECT_FALSE(caller->secret.has_value());
  EXPECT_EQ(caller->holder, held_->capability().holder());
}

TEST_F(CapabilityProofTest, OnlyItsHolderCanProveIt) {
  const HeldCapability stolen(held_->capability(), Secret::Generate(random_));
  ExpectRefused(VerifyHeld(SignRpc(stolen, kMethod, clock_.WallNow(), random_)).status(), "not made with its holder's key");
}

TEST_F(CapabilityProofTest, IsGoodOnceForOneMethodWithinTime) {
  const std::string proof = Sign();
  ExpectRefused(VerifyHeld(proof, "/forebay.control.v1.Buckets/Create").status(), "not made with its holder's key");
  EXPECT_TRUE(VerifyHeld(proof).ok());
  ExpectRefused(VerifyHeld(proof).status(), "used before");
  const std::string late = Sign();
  clock_.Advance(301s);
  ExpectRefused(VerifyHeld(late).status(), "behind");
}

TEST_F(CapabilityProofTest, ACapabilityThatIsNotGoodIsRefusedWithTheReason) {
  good_ = Status::Unauthenticated("it was revoked");
  ExpectRefused(VerifyHeld(Sign()).status(), "it was revoked");
  ExpectRefused(Verify(Sign()), "takes no capabilities");
}

TEST_F(CapabilityProofTest, AChangedDigitAnywhereIsRefused) {
  const std::string proof = Sign();
  for (size_t i = 0; i < proof.size(); i += 7) {
    std::string changed = proof;
    changed[i] = changed[i] == '0' ? '1' : '0';
    if (changed == proof) continue;
    EXPECT_EQ(VerifyHeld(changed).status().code(), Code::kUnauthenticated) << i;
  }
  EXPECT_TRUE(VerifyHeld(proof).ok());
}

}  // namespace
}  // namespace forebay::auth
