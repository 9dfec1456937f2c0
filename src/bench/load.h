// SPDX-License-Identifier: Apache-2.0
// Load: gets or puts of one size against a running server, with a fixed number in flight, and what came of
// it: rates, latency percentiles and CPU time. Objects live in a bucket of their own that is removed at the
// end. Thread-safe: each run has its own clients and threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "bench/histogram.h"
#include "forebay/client.h"

namespace forebay::bench {

enum class Operation : uint8_t { kGet, kPut };
enum class Heat : uint8_t {
  kHot,   // every object was read before and fits the server's memory tier
  kCold,  // every object is read once after it was put: from the device
};

/// What others may see of a load while it runs, and do to it. Thread-safe.
struct LoadWatch {
  std::atomic<bool> running = false;    // from the first request on
  std::atomic<uint64_t> operations = 0;  // objects, so far
  std::atomic<bool> stop = false;       // ends it before its time
};

struct LoadSpec {
  Operation operation = Operation::kGet;
  uint64_t object_bytes = 1 << 20;
  unsigned depth = 8;    // in flight per thread: single requests, or batches
  unsigned threads = 1;  // clients, each with a thread and connections of its own
  unsigned batch = 1;    // objects of one request, gets only
  uint64_t objects = 0;  // distinct objects; 0 chooses: hot 64 MiB or 1,024 objects, cold what 2 GiB hold
  Heat heat = Heat::kHot;
  std::chrono::milliseconds duration{5000};
  /// Requests that begin in a second, due one after the other, of which up to depth x threads are in flight; each one's latency
  /// counts from when it was due. 0: each begins when another one ends.
  double requests_per_second = 0;
  LoadWatch* watch = nullptr;  // borrowed for the run
};

struct LoadReport {
  std::string path;  // how payload went, for people: "tcp to 127.0.0.1:7401"
  double seconds = 0;
  uint64_t operations = 0;  // objects
  uint64_t bytes = 0;
  double client_cpu_seconds = 0;
  // 0 for whoever may not ask the server:
  double server_cpu_seconds = 0;
  uint64_t device_flushes = 0;
  Histogram latency;  // of requests, nanoseconds

  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
  double operations_per_second() const { return seconds > 0 ? static_cast<double>(operations) / seconds : 0; }
};

/// Makes a client with one connection.
using Connector = std::function<std::expected<std::unique_ptr<Client>, Error>()>;

/// Checks the spec, prepares, runs, cleans up. InvalidArgument names what is out of bounds; any failed
/// request ends the run with its error.
std::expected<LoadReport, Error> RunLoad(const LoadSpec& spec, const Connector& connect);

}  // namespace forebay::bench
