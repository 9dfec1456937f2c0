// SPDX-License-Identifier: Apache-2.0
// Fairness: what a modest tenant gets while a greedy one takes all it can get, against what it gets alone, in one run: first both
// take all they can, for what the server gives the two of them; then the modest one asks for a part of that at a steady rate,
// alone and beside the greedy one. The clients share a machine here, and would not elsewhere: so the greedy one yields the
// processors, and what is measured is the server. Thread-safe.
#pragma once

#include <chrono>

#include "bench/load.h"

namespace forebay::bench {

struct FairnessSpec {
  uint64_t object_bytes = 4096;
  unsigned greedy_connections = 64;
  unsigned greedy_depth = 256;  // requests in flight, over all of its connections
  unsigned modest_connections = 8;
  unsigned modest_depth = 64;  // requests in flight, at most
  double asks_for = 0.5;       // of what the server gives both; 0: one request after another, modest_depth of them at once
  std::chrono::milliseconds duration{5000};  // of each of the three loads
  bool greedy_yields = true;  // the greedy one's threads get only the processor time that nobody else wants
};

struct FairnessReport {
  double both_operations_per_second = 0;  // when both take all they can
  LoadReport modest_alone;
  LoadReport modest;                        // beside the greedy one
  double greedy_operations_per_second = 0;  // meanwhile

  /// The modest one's part of all operations while both ran.
  double share() const;
  /// Its p99 beside the greedy one, in multiples of its p99 alone.
  double p99_ratio() const;
};

/// Each connector makes a client of that tenant with the given number of connections.
using TenantConnector = std::function<std::expected<std::unique_ptr<Client>, Error>(unsigned connections)>;

std::expected<FairnessReport, Error> RunFairness(const FairnessSpec& spec, const TenantConnector& greedy,
                                                 const TenantConnector& modest);

}  // namespace forebay::bench
