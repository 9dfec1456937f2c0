// SPDX-License-Identifier: Apache-2.0
#include "fabric/shm_fabric.h"

#include "fabric/fabric_suite.h"

namespace forebay::fabric {
namespace {

std::unique_ptr<Fabric> WithRing(base::Random& random, size_t bytes) {
  return std::make_unique<ShmFabric>(random, ShmOptions{.ring_bytes = bytes});
}

// Once as it is, and once with a ring that every transfer goes around many times.
INSTANTIATE_TEST_SUITE_P(
    Shm, FabricSuite,
    testing::Values(
        FabricFactory{"shm", "@", [](base::Random& random) { return std::make_unique<ShmFabric>(random); }},
        FabricFactory{"shm_small_ring", "@", [](base::Random& random) { return WithRing(random, 4096); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
