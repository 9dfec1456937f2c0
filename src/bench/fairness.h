// SPDX-License-Identifier: Apache-2.0
// Fairness: what a modest tenant gets while a greedy one takes all it can get, against what it gets alone, in one run. First both
// take all they can, for what the server gives the two of them; then the modest one, alone and beside the greedy one, asks for
// one object after another, which shows how long it waits; then it asks for a part of all at a steady rate, which shows
// whether it gets it. The clients share a machine here, and would not elsewhere: so the greedy one yields the processors, and
// what is measured is the server. What the machine itself makes a thread wait is measured beside it. Thread-safe.
#pragma once

#include <chrono>

#include "bench/load.h"

namespace forebay::bench {

struct FairnessSpec {
  uint64_t object_bytes = 4096;
  unsigned greedy_connections = 64;
  unsigned greedy_depth = 256;      // requests in flight, over all of its connections
  double asks_for = 0.5;            // what the modest one asks for at its steady rate, of what the server gives both
  unsigned modest_connections = 8;  // at that rate
  unsigned modest_depth = 64;       // requests in flight, at most, at that rate
  std::chrono::milliseconds duration{5000};  // of each of the five loads
  bool greedy_yields = true;  // the greedy one's threads get only the processor time that nobody else wants
};

/// A load of the modest tenant.
struct ModestRun {
  LoadReport modest;
  double greedy_operations_per_second = 0;  // meanwhile; 0: it was alone
  /// By how many nanoseconds a thread that wakes every millisecond woke late, each millisecond counted: what this machine, busy
  /// as it was, makes any request that comes at its time wait.
  Histogram lateness;

  /// Its part of all operations.
  double share() const;
};

struct FairnessReport {
  double both_operations_per_second = 0;  // when both take all they can
  ModestRun single_alone;                 // one object after another
  ModestRun single_beside;
  ModestRun steady_alone;  // at the steady rate
  ModestRun steady_beside;

  /// The modest one's p99 beside the greedy one, one object after another, in multiples of its p99 alone.
  double p99_ratio() const;
};

/// Each connector makes a client of that tenant with the given number of connections.
using TenantConnector = std::function<std::expected<std::unique_ptr<Client>, Error>(unsigned connections)>;

std::expected<FairnessReport, Error> RunFairness(const FairnessSpec& spec, const TenantConnector& greedy,
                                                 const TenantConnector& modest);

}  // namespace forebay::bench
