// SPDX-License-Identifier: Apache-2.0
// What the control plane tells of the data plane: the ways to it, and what has moved on each of them.
// Thread-safe: values.
#pragma once

#include <cstdint>
#include <string>

namespace forebay::control {

/// One way to a server's data plane.
struct DataEndpoint {
  std::string fabric;   // "tcp"
  std::string address;  // in the fabric's own form: "host:port" for tcp
  friend bool operator==(const DataEndpoint&, const DataEndpoint&) = default;
};

/// What a server moved over one fabric since it started. In: into the server, for puts; out: to clients, for
/// gets.
struct FabricTraffic {
  std::string fabric;
  uint64_t connections = 0;                      // now
  uint64_t transfers_in = 0, transfers_out = 0;  // one-sided, that were delivered
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t copied_bytes =
      0;  // of these, by the server's processors, the kernel included; an RDMA adapter copies none
  friend bool operator==(const FabricTraffic&, const FabricTraffic&) = default;
};

}  // namespace forebay::control
