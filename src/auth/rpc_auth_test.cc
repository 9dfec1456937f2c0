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
  RpcAuthenticator authenticator_{[this](std::string_view id) { return Lookup(id); }, clock_};
};

TEST_F(RpcAuthTest, AGoodProofNamesItsCredential) {
  const Result<Credentials> caller = authenticator_.Verify(kMethod, Sign());
  ASSERT_TRUE(caller.ok()) << caller.status().ToString();
  EXPECT_EQ(caller->id, root_.id);
  EXPECT_EQ(caller->tenant, TenantId::kRoot);
}

// The tag is from Python's hmac module, following docs/security.md.
TEST_F(RpcAuthTest, AcceptsAProofMadeByAnotherImplementation) {
  Credentials known;
  known.id = "root-00000001";
  for (size_t i = 0; i < Secret::kSize; ++i) known.secret.mutable_view()[i] = static_cast<std::byte>(i);
  RpcAuthenticator authenticator([&](std::string_view) { return known; }, clock_);
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
    ExpectRefused(Verify(text), "is not `v1 <credential id>");
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
  RpcAuthenticator restarted([this](std::string_view id) { return Lookup(id); }, clock_);
  ExpectRefused(restarted.Verify(kMethod, proof).status(), "before the oldest time");
  EXPECT_TRUE(restarted.Verify(kMethod, Sign()).ok());
}

}  // namespace
}  // namespace forebay::auth
