// SPDX-License-Identifier: Apache-2.0
// Where tests of the ucx mover can run: finds an address that belongs to an RDMA device, or says why there is
// none. For tests only; used on the test's thread.
#pragma once

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "fabric/fabric_fixture.h"
#include "fabric/ucx_fabric.h"

namespace forebay::fabric {

/// "10.9.0.1:0", or empty when no RDMA device has an IPv4 address here.
inline std::string UcxAddress() {
  std::set<std::string> interfaces;
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", none)) {
    std::ifstream file(device.path() / "ports/1/gid_attrs/ndevs/0");
    std::string name;
    if (file >> name) interfaces.insert(name);
  }
  ifaddrs* all = nullptr;
  if (interfaces.empty() || getifaddrs(&all) != 0) return "";
  std::string address;
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET || !interfaces.contains(at->ifa_name))
      continue;
    char text[INET_ADDRSTRLEN];
    const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    if (inet_ntop(AF_INET, &ipv4->sin_addr, text, sizeof(text)) != nullptr)
      address = std::string(text) + ":0";
  }
  freeifaddrs(all);
  return address;
}

/// Has every case that asks for the fabric skipped where there is no device.
inline void SkipWithoutDevice() {
  if (UcxAddress().empty())
    GTEST_SKIP() << "no RDMA device with an IPv4 address here (`rdma link` lists them): run it in the guest";
}

inline FabricFactory UcxOverRc() {
  return {.name = "rc",
          .address = UcxAddress(),
          .make = [](base::Random& random) -> std::unique_ptr<Fabric> {
            SkipWithoutDevice();
            if (testing::Test::IsSkipped()) return nullptr;
            return *UcxFabric::Open(random, "rc");
          },
          .transfers_pass_a_stopped_owner = true};
}

}  // namespace forebay::fabric
