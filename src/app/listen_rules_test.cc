// SPDX-License-Identifier: Apache-2.0
#include "app/listen_rules.h"

#include <gtest/gtest.h>

namespace forebay::app {
namespace {

bool Says(const Status& status, std::string_view words) {
  return status.code() == Code::kInvalidArgument && status.message().find(words) != std::string_view::npos;
}

constexpr ListenRules kNothing, kTls{.tls = true}, kPlainData{.plaintext_data = true},
    kPlainBoth{.plaintext_data = true, .plaintext_control = true};

TEST(ListenRulesTest, OnLoopbackAnythingGoes) {
  for (const std::string address : {"127.0.0.1:7400", "127.8.8.8:0", "[::1]:7400"}) {
    for (const ListenRules& rules : {kNothing, kTls, kPlainData, kPlainBoth}) {
      EXPECT_TRUE(rules.CheckControl(address).ok());
      EXPECT_TRUE(rules.CheckData("--data-listen", address, false).ok());
    }
  }
}

TEST(ListenRulesTest, TheControlPlaneBeyondLoopbackNeedsTlsOrTwoFlags) {
  for (const std::string address : {"10.0.0.5:7400", "192.0.2.1:0", "[2001:db8::1]:7400"}) {
    EXPECT_TRUE(Says(kNothing.CheckControl(address), "--tls DIR"));
    EXPECT_TRUE(Says(kNothing.CheckControl(address), address));
    EXPECT_TRUE(Says(kPlainData.CheckControl(address), "--allow-plaintext-control"));
    EXPECT_TRUE(kTls.CheckControl(address).ok());
    EXPECT_TRUE(kPlainBoth.CheckControl(address).ok());
  }
}

TEST(ListenRulesTest, EveryAddressIsForTlsOnly) {
  for (const std::string address : {"0.0.0.0:7400", "[::]:7400"}) {
    EXPECT_TRUE(kTls.CheckControl(address).ok());
    for (const ListenRules& rules : {kNothing, kPlainData, kPlainBoth})
      EXPECT_TRUE(Says(rules.CheckControl(address), "--tls DIR"));
    for (const ListenRules& rules : {kNothing, kTls, kPlainBoth})
      EXPECT_TRUE(Says(rules.CheckData("--data-listen", address, true), "name one that they can reach"));
  }
}

TEST(ListenRulesTest, DataBeyondLoopbackIsEncryptedOrAllowedInTheClear) {
  const std::string address = "10.0.0.5:7401";
  EXPECT_TRUE(Says(kNothing.CheckData("--data-listen", address, false), "--allow-plaintext"));
  EXPECT_TRUE(Says(kTls.CheckData("--data-listen", address, false), "would not be encrypted"));
  EXPECT_TRUE(kTls.CheckData("--data-listen", address, true).ok());
  EXPECT_TRUE(kPlainData.CheckData("--data-listen", address, false).ok());
}

TEST(ListenRulesTest, FlagsThatContradictEachOther) {
  for (const ListenRules& rules : {kNothing, kTls, kPlainData, kPlainBoth}) EXPECT_TRUE(rules.Check().ok());
  EXPECT_TRUE(Says(ListenRules{.plaintext_control = true}.Check(), "only with --allow-plaintext"));
  EXPECT_TRUE(
      Says((ListenRules{.tls = true, .plaintext_data = true, .plaintext_control = true}.Check()), "--tls"));
}

TEST(ListenRulesTest, WhatIsNoAddressIsRefused) {
  for (const std::string address : {"", "store1:7400", "10.0.0.5", "10.0.0.5:99999"})
    EXPECT_TRUE(Says(kTls.CheckControl(address), "--listen")) << address;
}

TEST(ListenRulesTest, CommandsOnTheMachineUseLoopbackWhereTheServerIsEverywhere) {
  EXPECT_EQ(LocalAddress("0.0.0.0:7400"), "127.0.0.1:7400");
  EXPECT_EQ(LocalAddress("[::]:7400"), "[::1]:7400");
  EXPECT_EQ(LocalAddress("10.0.0.5:7400"), "10.0.0.5:7400");
}

}  // namespace
}  // namespace forebay::app
