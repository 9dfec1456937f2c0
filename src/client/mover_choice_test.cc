// SPDX-License-Identifier: Apache-2.0
#include "client/mover_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "fabric/memory_fabric.h"
#include "fabric/tcp_fabric.h"

namespace forebay::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class MoverChoiceTest : public testing::Test {
 protected:
  base::SecureRandom random_;
  fabric::MemoryFabric memory_{random_};
  fabric::TcpFabric tcp_{random_};
  const MoverChoice both_{.fabrics = {&memory_, &tcp_}, .notes = {"ofi;verbs: no RDMA device"}};
  std::vector<std::string> notes_;
};

TEST_F(MoverChoiceTest, TheClientsOrderCounts) {
  const auto ways = WaysTo(both_, {{"tcp", "127.0.0.1:1"}, {"memory", "here"}}, notes_);
  ASSERT_TRUE(ways.ok()) << ways.status().ToString();
  ASSERT_EQ(ways->size(), 2u);
  EXPECT_EQ((*ways)[0].fabric, &memory_);
  EXPECT_EQ((*ways)[0].address, "here");
  EXPECT_EQ((*ways)[1].fabric, &tcp_);
  EXPECT_EQ((*ways)[1].address, "127.0.0.1:1");
  EXPECT_TRUE(notes_.empty());
}

TEST_F(MoverChoiceTest, WhatTheServerDoesNotOfferOrWeDoNotKnowIsLeftOut) {
  const auto ways = WaysTo(both_, {{"quantum", "x"}, {"tcp", "127.0.0.1:1"}}, notes_);
  ASSERT_TRUE(ways.ok()) << ways.status().ToString();
  ASSERT_EQ(ways->size(), 1u);
  EXPECT_EQ(ways->front().fabric, &tcp_);
  EXPECT_THAT(notes_, ElementsAre("memory: the server does not offer it"));
  EXPECT_EQ(ReasonOf(both_, "tcp", notes_),
            "tcp is the best that both sides have; ofi;verbs: no RDMA device; memory: the server does not "
            "offer it");
}

TEST_F(MoverChoiceTest, NothingInCommonSaysWhatEachSideHas) {
  const auto ways = WaysTo(MoverChoice::Only(memory_), {{"tcp", "127.0.0.1:1"}}, notes_);
  EXPECT_EQ(ways.status().code(), Code::kUnavailable);
  EXPECT_THAT(std::string(ways.status().message()),
              testing::AllOf(HasSubstr("`tcp`"), HasSubstr("`memory`")));
  EXPECT_EQ(WaysTo(both_, {}, notes_).status().code(), Code::kUnavailable);
}

TEST_F(MoverChoiceTest, OneThatIsAskedForByNameIsTheOnlyOne) {
  const fabric::Movers movers(random_, fabric::Side::kClient);
  const auto choice = MoverChoice::Of(movers, "tcp");
  ASSERT_TRUE(choice.ok()) << choice.status().ToString();
  EXPECT_THAT(choice->fabrics, ElementsAre(movers.Find("tcp")));
  EXPECT_EQ(ReasonOf(*choice, "tcp", {}), "tcp was asked for");
  const auto unknown = MoverChoice::Of(movers, "carrier-pigeon");
  EXPECT_EQ(unknown.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("tcp"));
}

TEST_F(MoverChoiceTest, WithoutANameItIsWhatTheMachineHas) {
  const fabric::Movers movers(random_, fabric::Side::kClient);
  const auto choice = MoverChoice::Of(movers, "");
  ASSERT_TRUE(choice.ok()) << choice.status().ToString();
  EXPECT_EQ(choice->fabrics, movers.automatic());
  EXPECT_EQ(choice->fabrics.back(), movers.Find("tcp"));  // the last resort
}

}  // namespace
}  // namespace forebay::client
