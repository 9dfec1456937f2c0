// SPDX-License-Identifier: Apache-2.0
// Scrubs: what reads all of a server's store and compares it with its checksums, for Admin/StartScrub, GetScrub and
// StopScrub. Implemented by whoever knows the store's engine; a server without one has no such calls. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace forebay::control {

enum class ScrubPhase : uint8_t { kNever, kRunning, kStopped, kFinished, kFailed };

struct ScrubOwner {
  std::string name;  // "object `bucket/key` (version 7)"
  uint64_t offset = 0;
  friend bool operator==(const ScrubOwner&, const ScrubOwner&) = default;
};

struct ScrubDamage {
  std::string device;
  uint64_t unit = 0;  // of 4096 bytes
  uint64_t extent = 0;
  bool unreadable = false;           // the device gave an error; else the content is not what was written
  bool repaired = false;             // it was wrong on one side of a mirror, and was written again from the other
  std::vector<ScrubOwner> owners{};  // none: nobody's any more, or not looked for yet
  friend bool operator==(const ScrubDamage&, const ScrubDamage&) = default;
};

/// Of the pass in progress, or of the last one.
struct ScrubReport {
  ScrubPhase phase = ScrubPhase::kNever;
  base::WallTime started{};
  base::WallTime ended{};  // the epoch while it has not
  uint64_t bytes_per_second = 0;  // 0: no limit
  uint64_t total_bytes = 0;   // in use at the beginning
  uint64_t passed_bytes = 0;  // of them
  uint64_t verified_bytes = 0;  // of content
  uint64_t damaged_blocks = 0;
  uint64_t repaired_blocks = 0;
  uint64_t damaged_rows = 0;  // of the metadata
  std::string reason{};       // why it failed
  std::vector<ScrubDamage> damage{};  // the first of the damaged and repaired blocks
  friend bool operator==(const ScrubReport&, const ScrubReport&) = default;
};

class Scrubs {
 public:
  virtual ~Scrubs() = default;
  /// Goes on with a pass that was stopped, or begins one (`anew`: begins one in any case). `bytes_per_second` 0: no
  /// limit. Does not block. FailedPrecondition while one is running.
  virtual Status Start(uint64_t bytes_per_second, bool anew) = 0;
  virtual Result<ScrubReport> Get() = 0;
  /// Stops the running one soon; it is fine when there is none.
  virtual Status Stop() = 0;
};

}  // namespace forebay::control
