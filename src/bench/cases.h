// SPDX-License-Identifier: Apache-2.0
// Case: one line of a benchmark: a load, the limit of the machine that it is compared with in the same run,
// and how far it came. The limit is measured before and after the load and averaged, since machines are
// noisy. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "bench/limits.h"
#include "bench/load.h"

namespace forebay::bench {

/// What a load can be compared with.
enum class LimitKind : uint8_t {
  kStream,              // raw loopback stream, blocks of the object's size
  kCopy,                // memcpy of blocks of the object's size
  kEcho,                // bare request/response of the same sizes on the same reactor
  kDeviceOrStream,      // the smaller of direct device reads and the stream
  kFlushedWrite,        // direct writes in rounds of the depth, each round flushed
  kSingleFlushedWrite,  // one write and one flush at a time
};

struct Case {
  LoadSpec load;
  LimitKind limit = LimitKind::kStream;
  unsigned connections = 1;
  std::string device_directory = ".";  // for device limits: a directory on the device of the store
};

/// Which limit fits a load: see the README of this folder.
LimitKind ChooseLimit(const LoadSpec& load);
/// "raw loopback stream", for people.
std::string_view LimitName(LimitKind kind);

struct CaseReport {
  LoadReport load;
  LimitKind limit = LimitKind::kStream;
  double limit_bytes_per_second = 0;
  double limit_operations_per_second = 0;
  double limit_cpu_seconds_per_gib = 0;

  /// Achieved / limit, in operations for echo and single writes, in bytes otherwise.
  double fraction() const;
};

/// Connects with the given number of connections.
using CaseConnector = std::function<std::expected<std::unique_ptr<Client>, Error>(unsigned connections)>;

/// Where payload goes by shared memory the limit of a stream gives way to that of memcpy.
std::expected<CaseReport, Error> RunCase(const Case& spec, const CaseConnector& connect);

}  // namespace forebay::bench
