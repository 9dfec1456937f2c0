// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_fabric.h"

#include "fabric/fabric_suite.h"

namespace forebay::fabric {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Ofi, FabricSuite,
    testing::Values(FabricFactory{
        .name = "tcp",
        .address = "127.0.0.1:0",
        .make = [](base::Random& random) { return *OfiFabric::Open({.provider = "tcp"}, random); },
        .read_deadline_ends_the_connection = true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
