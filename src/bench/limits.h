// SPDX-License-Identifier: Apache-2.0
// The machine's own limits, measured in the same run as the load, so that a result is a fraction of what this
// machine can do now and not a number of another day: a raw loopback stream, a bare request/response echo on
// our reactor, and what a file of the device gives for direct reads and for flushed writes. Each function
// blocks for about `duration` and uses threads of its own. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace forebay::bench {

struct Limit {
  double seconds = 0;
  uint64_t operations = 0;
  uint64_t bytes = 0;
  double cpu_seconds = 0;  // user and system time of this process, both ends

  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
  double operations_per_second() const { return seconds > 0 ? static_cast<double>(operations) / seconds : 0; }
};

/// One TCP connection over loopback: one thread sends blocks of `block_bytes` from memory with blocking
/// calls, another receives them whole into memory.
Result<Limit> MeasureStream(size_t block_bytes, std::chrono::milliseconds duration);

/// One thread copies blocks of `block_bytes` from place to place of memory that does not fit the processor's
/// caches.
Result<Limit> MeasureCopy(size_t block_bytes, std::chrono::milliseconds duration);

/// `connections` loopback connections, one request of `request_bytes` outstanding on each, answered by
/// `reply_bytes`; both ends on a reactor thread of their own.
Result<Limit> MeasureEcho(size_t request_bytes, size_t reply_bytes, unsigned connections,
                          std::chrono::milliseconds duration);

/// Direct reads of `block_bytes` at random places of a scratch file of `file_bytes` in `directory`, `depth`
/// in flight. The scratch file is written first and removed at the end.
Result<Limit> MeasureDeviceRead(const std::string& directory, size_t block_bytes, unsigned depth,
                                uint64_t file_bytes, std::chrono::milliseconds duration);

/// Rounds of `depth` direct writes of `block_bytes` in flight followed by one flush, over a file that was
/// written before; an operation is one write.
Result<Limit> MeasureFlushedWrite(const std::string& directory, size_t block_bytes, unsigned depth,
                                  uint64_t file_bytes, std::chrono::milliseconds duration);

}  // namespace forebay::bench
