// SPDX-License-Identifier: Apache-2.0
// What rates do to calls: work on buckets and objects waits or is refused, administration goes on.
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/control_suite.h"

namespace forebay::control {
namespace {

using ::testing::HasSubstr;

class ControlRatesTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    ASSERT_TRUE(client_->CreateTenant("alice", {.operations_per_s = 1}).ok());
    ASSERT_TRUE(client_->CreateBucket("models", store::BucketClass::kDurable, Operation(), {}, "alice").ok());
    Put("models", "x");
    alice_ = Connect(Issue({.tenant = TenantId{3}, .rights = auth::RightSet::All(), .ttl = 1h}));
    store_->ForgetCalls();
  }

  auth::HeldCapability Issue(IssueTerms terms) {
    auth::Secret seed = auth::Secret::Generate(random_);
    terms.holder = auth::SigningKeyOf(seed);
    Result<auth::Capability> made = client_->IssueCapability(terms);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return {*std::move(made), std::move(seed)};
  }
  void UseUp(const auth::Grant& grant, uint64_t operations) {
    EXPECT_TRUE(
        rates_.Open(grant, clock_.Now()).Charge({.operations = operations}, clock_.Now(), base::kNever).ok());
  }
  void UseUp(uint64_t operations) { UseUp({.tenant = TenantId{3}}, operations); }
  /// What alice's next operation would be told if it could not wait. Charges nothing, which calls would
  /// notice.
  std::string Refusal() {
    const auto refused = rates_.Open({.tenant = TenantId{3}}, clock_.Now())
                             .Charge({.operations = 1}, clock_.Now(), clock_.Now());
    return std::string(refused.status().message());
  }
  /// A Stat of alice's, who has used up one operation; it waits when this returns.
  std::future<Status> StartWaiting() {
    auto call = std::async(std::launch::async, [this] { return alice_->Stat("models", "x").status(); });
    while (Refusal().find("wait 1900 ms") == std::string::npos) std::this_thread::yield();
    return call;
  }
  void Pass(base::Duration time) {
    clock_.Advance(time);
    thread_->reactor().Post([] {});  // to look at the clock
  }

  std::unique_ptr<ControlClient> alice_;
};

TEST_F(ControlRatesTest, ACallWaitsForItsRate) {
  EXPECT_TRUE(alice_->List("models", {}).ok());
  std::future<Status> stat = StartWaiting();
  Pass(899ms);  // a second, but for the burst
  EXPECT_EQ(stat.wait_for(10ms), std::future_status::timeout);
  EXPECT_EQ(store_->calls(), 1);
  Pass(1ms);
  EXPECT_TRUE(stat.get().ok());
  EXPECT_EQ(store_->calls(), 2);
}

TEST_F(ControlRatesTest, ALongWaitIsRefusedAtOnceAndSaysWhose) {
  UseUp(60);
  for (const Status& status :
       {alice_->List("models", {}).status(), alice_->Stat("models", "x").status(),
        alice_->Delete("models", "x", {}, Operation()), alice_->GetBucket("models").status()}) {
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("tenant 3 has 1 operations a second"));
  }
  EXPECT_EQ(store_->calls(), 0);
  EXPECT_THAT(Refusal(), HasSubstr("wait 59900 ms")) << "what was refused is not charged";
}

TEST_F(ControlRatesTest, ACallThatChangesManyObjectsOwesOperations) {
  for (int i = 0; i < 250; ++i) Put("models", "many/" + std::to_string(i));
  ASSERT_TRUE(alice_->RenamePrefix("models", "many/", "more/", Operation()).ok());
  // One for the call and two for 250 objects: the next waits three seconds but for the burst of a tenth.
  EXPECT_THAT(Refusal(), HasSubstr("wait 2900 ms"));
}

TEST_F(ControlRatesTest, NoCallWaitsBeyondItsDeadline) {
  UseUp(5);
  EXPECT_EQ(alice_->Stat("models", "x", 2s).status().code(), Code::kResourceExhausted);
}

TEST_F(ControlRatesTest, AdministrationSessionsAndHealthAreFree) {
  const auth::HeldCapability held = Issue({.tenant = TenantId::kRoot,
                                           .rights = auth::RightSet::All(),
                                           .ttl = 1h,
                                           .rates = {.operations_per_s = 1}});
  const auto admin = Connect(held);
  UseUp(held.capability().ToGrant(), 60);
  const Status refused = admin->Stat("models", "x").status();
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("capability "));
  EXPECT_TRUE(admin->SetTenant("alice", {.operations_per_s = 0}).ok());
  EXPECT_TRUE(admin->Health().ok());
  EXPECT_TRUE(admin->Stats().ok());
  EXPECT_TRUE(admin->ListBuckets().ok());
  EXPECT_TRUE(admin->ListCapabilities().ok());
  EXPECT_TRUE(admin->CloseSession(admin->OpenSession()->id).ok());
}

TEST_F(ControlRatesTest, ALimitThatIsLiftedHoldsNobodyBackAnyMore) {
  UseUp(60);
  EXPECT_EQ(alice_->Stat("models", "x").status().code(), Code::kResourceExhausted);
  ASSERT_TRUE(client_->SetTenant("alice", {.operations_per_s = 0}).ok());
  EXPECT_TRUE(alice_->Stat("models", "x").ok());
}

TEST_F(ControlRatesTest, HalfOfTheCallsInProgressMayWait) {
  Start({.listen = "127.0.0.1:0", .max_calls = 2});
  alice_ = Connect(Issue({.tenant = TenantId{3}, .rights = auth::RightSet::All(), .ttl = 1h}));
  UseUp(1);
  std::future<Status> waits = StartWaiting();
  Status refused;
  do {  // until gRPC has let go of earlier calls
    refused = alice_->Stat("models", "x").status();
  } while (refused.message().find("are in progress") != std::string_view::npos);
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("wait for the rate limits"));
  EXPECT_THAT(Refusal(), HasSubstr("wait 1900 ms")) << "what was refused is not charged";
  Pass(1s);
  EXPECT_TRUE(waits.get().ok());
}

TEST_F(ControlRatesTest, WhoIsRevokedWhileHeWaitsGetsNothing) {
  UseUp(1);
  std::future<Status> waits = StartWaiting();
  ASSERT_TRUE(client_->RevokeTenant(TenantId{3}).ok());
  store_->ForgetCalls();
  Pass(1s);
  EXPECT_EQ(waits.get().code(), Code::kUnauthenticated);
  EXPECT_EQ(store_->calls(), 0);
}

TEST_F(ControlRatesTest, ACallThatEndsWaitsNoMoreAndPaysNothing) {
  UseUp(1);
  std::future<Status> waits = StartWaiting();
  server_->Shutdown(10ms);  // waits for all calls; the clock stands still
  EXPECT_FALSE(waits.get().ok());
  EXPECT_EQ(store_->calls(), 0);
  EXPECT_THAT(Refusal(), HasSubstr("wait 900 ms"));
}

}  // namespace
}  // namespace forebay::control
