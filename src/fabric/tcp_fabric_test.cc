// SPDX-License-Identifier: Apache-2.0
#include "fabric/tcp_fabric.h"

#include "fabric/fabric_suite.h"

namespace forebay::fabric {
namespace {

INSTANTIATE_TEST_SUITE_P(Tcp, FabricSuite,
                         testing::Values(FabricFactory{"tcp", "127.0.0.1:0", [](base::Random& random) {
                           return std::make_unique<TcpFabric>(random);
                         }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
