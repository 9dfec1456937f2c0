// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_fabric.h"

#include <gtest/gtest.h>

#include "fabric/fabric_suite.h"
#include "fabric/ucx_fixture.h"

namespace forebay::fabric {
namespace {

INSTANTIATE_TEST_SUITE_P(Ucx, FabricSuite, testing::Values(UcxOverRc()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
