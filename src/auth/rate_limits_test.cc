// SPDX-License-Identifier: Apache-2.0
#include "auth/rate_limits.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace forebay::auth {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kTenant = static_cast<TenantId>(7);
constexpr base::TimePoint kStart{seconds(1000)};

CapabilityId IdOf(uint8_t number) {
  CapabilityId id{};
  id[0] = std::byte{number};
  return id;
}

GrantedBlock BlockOf(uint8_t number, const RateGrant& rates) {
  return {.id = IdOf(number), .rates = rates, .digest = std::to_string(number)};
}

/// A grant from a chain of one block for each of `rates`.
Grant GrantWith(const std::vector<RateGrant>& rates, uint8_t first_id = 1) {
  Grant grant{.tenant = kTenant};
  for (const RateGrant& rate : rates) grant.blocks.push_back(BlockOf(first_id++, rate));
  return grant;
}

/// When charge after charge of `charge` may begin, each made as soon as the one before it began.
std::vector<base::Duration> Starts(RateAccounts& accounts, const RateCharge& charge, int count) {
  std::vector<base::Duration> starts;
  base::TimePoint now = kStart;
  for (int i = 0; i < count; ++i) {
    now = *accounts.Charge(charge, now, base::kNever);
    starts.push_back(now - kStart);
  }
  return starts;
}

TEST(RateLimitsTest, WhatHasNoRatesNeverWaits) {
  RateLimits limits;
  RateAccounts accounts = limits.Open(GrantWith({{}}), kStart);
  EXPECT_FALSE(accounts.HasRates());
  EXPECT_FALSE(accounts.LimitsTransfers());
  EXPECT_EQ(*accounts.Charge({.operations = 1'000'000, .bytes = UINT64_MAX}, kStart, kStart), kStart);
}

TEST(RateLimitsTest, OperationsAreSpacedByTheRateAfterABurst) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.operations_per_s = 50});
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  EXPECT_TRUE(accounts.HasRates());
  // 20 ms each: the burst of 100 ms holds five more than the first, then one comes every 20 ms.
  EXPECT_EQ(Starts(accounts, {.operations = 1}, 9),
            (std::vector<base::Duration>{milliseconds(0), milliseconds(0), milliseconds(0), milliseconds(0), milliseconds(0),
                                         milliseconds(0), milliseconds(20), milliseconds(40), milliseconds(60)}));
}

TEST(RateLimitsTest, OneLargeChargeBeginsAtOnceAndTheNextWaitsForIt) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.bytes_per_s = 10 * base::kMiB});
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  // 4 MiB last 400 ms; the burst forgives 100 of them, once.
  EXPECT_EQ(Starts(accounts, {.bytes = 4 * base::kMiB}, 4),
            (std::vector<base::Duration>{milliseconds(0), milliseconds(300), milliseconds(700), milliseconds(1100)}));
}

TEST(RateLimitsTest, OverTimeTheRateIsKeptToTheByte) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.bytes_per_s = 1'000'000});
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  base::TimePoint now = kStart;
  uint64_t moved = 0;
  for (;;) {
    const uint64_t size = 1 + moved * 7919 % 9000;
    const base::TimePoint start = *accounts.Charge({.bytes = size}, now, base::kNever);
    if (start > kStart + seconds(10)) break;
    now = start;
    moved += size;
  }
  // Ten seconds, the burst of 0.1 s and at most one charge more.
  EXPECT_GE(moved, 10'100'000U - 9000U);
  EXPECT_LE(moved, 10'100'000U + 9000U);
}

TEST(RateLimitsTest, TimeThatPassedIdleIsNotSaved) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.operations_per_s = 10});
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  EXPECT_EQ(*accounts.Charge({.operations = 1}, kStart, base::kNever), kStart);
  const base::TimePoint later = kStart + std::chrono::hours(1);
  EXPECT_EQ(*accounts.Charge({.operations = 1}, later, base::kNever), later);
  EXPECT_EQ(*accounts.Charge({.operations = 1}, later, base::kNever), later);
  EXPECT_EQ(*accounts.Charge({.operations = 1}, later, base::kNever), later + milliseconds(100));
}

TEST(RateLimitsTest, AWaitThatIsTooLongIsRefusedAndChargesNothing) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.bytes_per_s = base::kMiB});
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  ASSERT_TRUE(accounts.Charge({.bytes = 8 * base::kMiB}, kStart, kStart).ok());
  const auto refused = accounts.Charge({.bytes = 1}, kStart, kStart + seconds(5));
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("tenant 7 may move 1.0 MiB a second"), std::string::npos) << refused.status().message();
  EXPECT_NE(refused.status().message().find("7900 ms"), std::string::npos) << refused.status().message();
  EXPECT_EQ(*accounts.Charge({.bytes = 1}, kStart, base::kNever), kStart + milliseconds(7900));
}

TEST(RateLimitsTest, ARefundMakesRoomAgain) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.operations_per_s = 1});
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  EXPECT_EQ(*accounts.Charge({.operations = 1}, kStart, base::kNever), kStart);
  EXPECT_EQ(*accounts.Charge({.operations = 1}, kStart, base::kNever), kStart + milliseconds(900));
  accounts.Refund({.operations = 1});
  EXPECT_EQ(*accounts.Charge({.operations = 1}, kStart, base::kNever), kStart + milliseconds(900));
}

TEST(RateLimitsTest, AllThatWasNarrowedFromACapabilitySharesItsRate) {
  RateLimits limits;
  RateAccounts one = limits.Open({.tenant = kTenant, .blocks = {BlockOf(1, {.operations_per_s = 10}), BlockOf(2, {})}}, kStart);
  RateAccounts other = limits.Open({.tenant = kTenant, .blocks = {BlockOf(1, {.operations_per_s = 10}), BlockOf(3, {})}}, kStart);
  EXPECT_EQ(*one.Charge({.operations = 2}, kStart, base::kNever), kStart);
  EXPECT_EQ(*other.Charge({.operations = 1}, kStart, base::kNever), kStart + milliseconds(100));
}

TEST(RateLimitsTest, EachAccountOfAChainIsAsked) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.operations_per_s = 1000});
  RateAccounts slow = limits.Open(GrantWith({{.operations_per_s = 10}, {.operations_per_s = 2}}), kStart);
  EXPECT_EQ(*slow.Charge({.operations = 1}, kStart, base::kNever), kStart);
  EXPECT_EQ(*slow.Charge({.operations = 1}, kStart, base::kNever), kStart + milliseconds(400));
  const auto refused = slow.Charge({.operations = 1}, kStart, kStart);
  EXPECT_NE(refused.status().message().find("capability 0200"), std::string::npos) << refused.status().message();
  // The tenant's others are held to the tenant's rate alone, of which two are used up.
  RateAccounts others = limits.Open(GrantWith({}), kStart);
  EXPECT_EQ(*others.Charge({.operations = 98}, kStart, base::kNever), kStart);
  EXPECT_EQ(*others.Charge({.operations = 1}, kStart, base::kNever), kStart);
  EXPECT_EQ(*others.Charge({.operations = 1}, kStart, base::kNever), kStart + milliseconds(1));
}

TEST(RateLimitsTest, TenantsDoNotShareEvenTheIdOfACapability) {
  RateLimits limits;
  Grant foreign = GrantWith({{.operations_per_s = 1}});
  foreign.tenant = static_cast<TenantId>(8);
  RateAccounts theirs = limits.Open(foreign, kStart);
  RateAccounts ours = limits.Open(GrantWith({{.operations_per_s = 1}}), kStart);
  EXPECT_EQ(*theirs.Charge({.operations = 1000}, kStart, base::kNever), kStart);
  EXPECT_EQ(*ours.Charge({.operations = 1}, kStart, kStart), kStart);
}

TEST(RateLimitsTest, AnIdThatItsHolderChoseReachesNoOtherAccount) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.operations_per_s = 1});
  RateAccounts ours = limits.Open(GrantWith({{.operations_per_s = 2}}), kStart);
  EXPECT_EQ(*ours.Charge({.operations = 1}, kStart, base::kNever), kStart);
  // One says that it is the tenant's account, one that it is ours; each with rates to its liking.
  GrantedBlock zero{.id = {}, .rates = {.operations_per_s = UINT64_MAX}, .digest = "a"};
  GrantedBlock same{.id = IdOf(1), .rates = {.operations_per_s = UINT64_MAX}, .digest = "b"};
  RateAccounts liar = limits.Open({.tenant = kTenant, .blocks = {zero, same}}, kStart);
  EXPECT_EQ(*ours.Charge({.operations = 1}, kStart, base::kNever), kStart + milliseconds(900)) << "the tenant's rate";
  limits.SetTenant(kTenant, {});
  EXPECT_EQ(*ours.Charge({.operations = 1}, kStart, base::kNever), kStart + milliseconds(900)) << "and ours";
}

TEST(RateLimitsTest, ANewRateHoldsForThoseWhoAreConnected) {
  RateLimits limits;
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  limits.SetTenant(kTenant, {.operations_per_s = 1});
  EXPECT_TRUE(accounts.HasRates());
  EXPECT_EQ(*accounts.Charge({.operations = 1}, kStart, base::kNever), kStart);
  EXPECT_EQ(*accounts.Charge({.operations = 1}, kStart, base::kNever), kStart + milliseconds(900));
  limits.SetTenant(kTenant, {});
  EXPECT_FALSE(accounts.HasRates());
  EXPECT_EQ(*accounts.Charge({.operations = 100}, kStart, kStart), kStart);
}

TEST(RateLimitsTest, WhatWasOwedAtALowerRateIsNotOwedAtAHigherOne) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.bytes_per_s = 1});
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  ASSERT_TRUE(accounts.Charge({.bytes = base::kMiB}, kStart, kStart).ok());  // twelve days' worth
  limits.SetTenant(kTenant, {.bytes_per_s = 1});
  EXPECT_FALSE(accounts.Charge({.bytes = 1}, kStart, kStart + seconds(60)).ok());
  limits.SetTenant(kTenant, {.bytes_per_s = base::kMiB});
  EXPECT_EQ(*accounts.Charge({.bytes = 1}, kStart, kStart), kStart);
}

TEST(RateLimitsTest, ReconnectingDoesNotEraseWhatIsOwed) {
  RateLimits limits;
  const Grant grant = GrantWith({{.operations_per_s = 1}});
  { (void)limits.Open(grant, kStart).Charge({.operations = 5}, kStart, base::kNever); }
  RateAccounts again = limits.Open(grant, kStart);
  EXPECT_EQ(*again.Charge({.operations = 1}, kStart, base::kNever), kStart + milliseconds(4900));
}

TEST(RateLimitsTest, TheTableIsBoundedAndForgetsWhatOwesNothingFirst) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.operations_per_s = 1'000'000'000});
  const Grant in_debt = GrantWith({{.operations_per_s = 1}}, 0xff);
  (void)limits.Open(in_debt, kStart).Charge({.operations = 3600}, kStart, base::kNever);
  for (uint32_t i = 0; i < 3 * kMaxIdleRateAccounts; ++i) {
    Grant grant = GrantWith({{.operations_per_s = 1}});
    grant.blocks[0].digest += fmt::format(" {}", i);
    (void)limits.Open(grant, kStart);
    EXPECT_LE(limits.accounts(), kMaxIdleRateAccounts + 4);
  }
  EXPECT_EQ(*limits.Open(in_debt, kStart).Charge({.operations = 1}, kStart, base::kNever), kStart + milliseconds(3'599'900));
}

/// Counts how often it was told to begin.
struct Waiting {
  int begun = 0;
  TransferTurn turn{[this] { ++begun; }};
};

TEST(TransferTurnTest, TransfersBeyondTheLimitWaitInOrder) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.transfers = 2});
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  EXPECT_TRUE(accounts.LimitsTransfers());
  Waiting one;
  Waiting two;
  Waiting three;
  Waiting four;
  EXPECT_TRUE(accounts.BeginTransfer(one.turn));
  EXPECT_TRUE(accounts.BeginTransfer(two.turn));
  EXPECT_FALSE(accounts.BeginTransfer(three.turn));
  EXPECT_FALSE(accounts.BeginTransfer(four.turn));
  accounts.EndTransfer();
  EXPECT_EQ(three.begun, 1);
  EXPECT_EQ(four.begun, 0);
  accounts.EndTransfer();
  EXPECT_EQ(four.begun, 1);
  accounts.EndTransfer();
  accounts.EndTransfer();
}

TEST(TransferTurnTest, WhoGivesUpLeavesTheTurnToTheNext) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.transfers = 1});
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  Waiting one;
  Waiting two;
  Waiting three;
  EXPECT_TRUE(accounts.BeginTransfer(one.turn));
  EXPECT_FALSE(accounts.BeginTransfer(two.turn));
  EXPECT_FALSE(accounts.BeginTransfer(three.turn));
  EXPECT_FALSE(accounts.Abandon(two.turn));
  accounts.EndTransfer();
  EXPECT_EQ(two.begun, 0);
  EXPECT_EQ(three.begun, 1);
  EXPECT_TRUE(accounts.Abandon(three.turn)) << "it had begun: whoever gives up must end it";
  accounts.EndTransfer();
  EXPECT_TRUE(accounts.BeginTransfer(two.turn));
  accounts.EndTransfer();
}

TEST(TransferTurnTest, RoomInOneAccountIsNotEnough) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.transfers = 2});
  RateAccounts narrow = limits.Open(GrantWith({{.transfers = 1}}), kStart);
  RateAccounts wide = limits.Open(GrantWith({}), kStart);
  Waiting one;
  Waiting two;
  Waiting three;
  Waiting four;
  EXPECT_TRUE(narrow.BeginTransfer(one.turn));
  EXPECT_TRUE(wide.BeginTransfer(two.turn));
  EXPECT_FALSE(narrow.BeginTransfer(three.turn));
  EXPECT_FALSE(wide.BeginTransfer(four.turn));
  wide.EndTransfer();  // room for the tenant, none for the capability: the tenant's next begins
  EXPECT_EQ(three.begun, 0);
  EXPECT_EQ(four.begun, 1);
  narrow.EndTransfer();
  EXPECT_EQ(three.begun, 1);
  wide.EndTransfer();
  narrow.EndTransfer();
}

TEST(TransferTurnTest, WhoWaitsInOneAccountAfterAnotherKeepsItsPlace) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.transfers = 2});
  RateAccounts narrow = limits.Open(GrantWith({{.transfers = 1}}), kStart);
  RateAccounts wide = limits.Open(GrantWith({}), kStart);
  Waiting one;
  Waiting two;
  Waiting first;
  Waiting second;
  EXPECT_TRUE(narrow.BeginTransfer(one.turn));
  EXPECT_TRUE(wide.BeginTransfer(two.turn));
  EXPECT_FALSE(narrow.BeginTransfer(first.turn));  // for the tenant's
  EXPECT_FALSE(wide.BeginTransfer(second.turn));
  narrow.EndTransfer();
  EXPECT_EQ(first.begun, 1);
  EXPECT_EQ(second.begun, 0);
  wide.EndTransfer();
  EXPECT_EQ(second.begun, 1);
  wide.EndTransfer();
  narrow.EndTransfer();
}

TEST(TransferTurnTest, AHigherLimitLetsThoseWhoWaitBegin) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.transfers = 1});
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  Waiting one;
  Waiting two;
  EXPECT_TRUE(accounts.BeginTransfer(one.turn));
  EXPECT_FALSE(accounts.BeginTransfer(two.turn));
  limits.SetTenant(kTenant, {});
  EXPECT_EQ(two.begun, 1);
  accounts.EndTransfer();
  accounts.EndTransfer();
}

TEST(TransferTurnTest, ManyThreadsNeverExceedTheLimit) {
  RateLimits limits;
  limits.SetTenant(kTenant, {.transfers = 3});
  RateAccounts accounts = limits.Open(GrantWith({}), kStart);
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<bool> begun = false;
        TransferTurn turn([&begun] {
          begun = true;
          begun.notify_one();
        });
        if (!accounts.BeginTransfer(turn)) begun.wait(false);
        const int now = ++running;
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {}
        --running;
        accounts.EndTransfer();
      }
    });
  }
  threads.clear();
  EXPECT_LE(most, 3);
  EXPECT_GE(most, 1);
}

}  // namespace
}  // namespace forebay::auth
