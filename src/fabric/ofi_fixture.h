// SPDX-License-Identifier: Apache-2.0
// Which providers the tests of the ofi fabric run over: `tcp` everywhere, `verbs` where there is an RDMA
// device with an address. For tests only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "fabric/fabric_fixture.h"
#include "fabric/ofi_fabric.h"

namespace forebay::fabric {

/// The address of an RDMA device of this machine, or why there is none.
inline Result<std::string> RdmaAddress() {
  base::SecureRandom random;
  FB_ASSIGN(const auto fabric, OfiFabric::Open({.provider = "verbs"}, random));
  FB_ASSIGN(const auto addresses, fabric->Addresses());
  return addresses.front();
}

inline FabricFactory OfiFactory(std::string provider, std::string address) {
  const bool device = provider == "verbs";
  return {
      .name = provider,
      .address = std::move(address),
      .make = [provider](base::Random& random) { return *OfiFabric::Open({.provider = provider}, random); },
      .transfers_pass_a_stopped_owner = device,
      .read_deadline_ends_the_connection = true};
}

inline std::vector<FabricFactory> OfiFactories() {
  std::vector<FabricFactory> factories = {OfiFactory("tcp", "127.0.0.1:0")};
  if (const auto address = RdmaAddress(); address.ok())
    factories.push_back(OfiFactory("verbs", *address + ":0"));
  return factories;
}

}  // namespace forebay::fabric
