// SPDX-License-Identifier: Apache-2.0
// OperationLog: what several stores did to their media, in one order, with marks of what was promised in between: the
// record from which the crash laboratory builds the images that a power cut at any point could leave. Each operation has
// a beginning and an end, as numbers of one sequence; what had not ended at the cut is as uncertain as what was not
// flushed. RecordingDevice writes it; a recording file system and a workload's acknowledgements can, too.
// Thread-safe. Keeps the data of every write in memory: for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/random.h"
#include "device/memory_device.h"

namespace forebay::device {

class OperationLog {
 public:
  enum class Kind : uint8_t { kWrite, kFlush, kMark };
  static constexpr uint64_t kNotYet = 0;

  struct Entry {
    Kind kind = Kind::kMark;
    std::string store;          ///< which device or file; for a mark, what is promised
    uint64_t begin = kNotYet;   ///< numbers start at 1
    uint64_t end = kNotYet;     ///< kNotYet: not ended, or failed
    uint64_t offset = 0;
    Bytes data;
  };

  /// Notes the beginning of an operation and gives its number, for End.
  uint64_t Begin(Kind kind, std::string store, uint64_t offset, Bytes data);
  /// Notes the end of a successful operation. A failed one is left without an end.
  void End(uint64_t begin);
  /// Notes a promise ("put 17 is acknowledged") at this point of the sequence; its number.
  uint64_t Mark(std::string text);

  /// The number that was given last: the log's end as a point for a crash.
  uint64_t last() const;
  std::vector<Entry> entries() const;

  /// The device `store` after a power cut right after number `point`: it began with the content of `before`, has all
  /// writes that ended before the beginning of a flush that ended by `point`, and of the others that began by then what
  /// `mode` says.
  std::unique_ptr<MemoryDevice> CrashedDevice(std::string_view store, uint64_t point, ByteView before,
                                              base::Random& random, CrashMode mode) const;

 private:
  mutable base::Mutex mutex_;
  uint64_t last_ FB_GUARDED_BY(mutex_) = 0;
  std::vector<Entry> entries_ FB_GUARDED_BY(mutex_);  // by begin
};

}  // namespace forebay::device
