// SPDX-License-Identifier: Apache-2.0
#include "fabric/memory_fabric.h"

#include "fabric/fabric_suite.h"

namespace forebay::fabric {
namespace {

INSTANTIATE_TEST_SUITE_P(Memory, FabricSuite,
                         testing::Values(FabricFactory{"memory", "anywhere:0", [](base::Random& random) {
                           return std::make_unique<MemoryFabric>(random);
                         }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
