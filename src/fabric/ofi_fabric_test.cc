// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_fabric.h"

#include "fabric/fabric_suite.h"
#include "fabric/ofi_fixture.h"

namespace forebay::fabric {
namespace {

INSTANTIATE_TEST_SUITE_P(Ofi, FabricSuite, testing::ValuesIn(OfiFactories()),
                         [](const auto& info) { return info.param.name; });

TEST(OfiFabricTest, SuiteRunsOverARealDevice) {
  const auto address = RdmaAddress();
  if (!address.ok()) GTEST_SKIP() << address.status().message();
  EXPECT_EQ(OfiFactories().size(), 2u);
}

}  // namespace
}  // namespace forebay::fabric
