// SPDX-License-Identifier: Apache-2.0
// ForEachSurvivor: which sectors of one unflushed write are found on the media after a power cut. Shared by the devices
// and replays that model one.
// Thread-safe: a pure function of its arguments.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/random.h"
#include "device/memory_device.h"

namespace forebay::device {

/// Calls `store(begin, length)` for each run of the write's `size` bytes that survives.
template <typename F>
void ForEachSurvivor(uint64_t size, base::Random& random, CrashMode mode, F store) {
  enum Fate : uint8_t { kAbsent, kPresent, kTornAnywhere, kTornBehind, kFates };
  uint64_t fate = mode == CrashMode::kDropAll ? kAbsent : kPresent;
  if (mode == CrashMode::kRandom) fate = random.Below(kFates);
  if (fate == kAbsent) return;
  // A drive that writes front to back leaves a beginning; one that sorts its cache leaves any sectors.
  const uint64_t whole = fate == kTornBehind ? random.Below(size / kSector + 1) * kSector : size;
  for (uint64_t begin = 0; begin < whole; begin += kSector) {
    if (fate == kTornAnywhere && random.Below(2) == 0) continue;
    store(begin, std::min(kSector, whole - begin));
  }
}

}  // namespace forebay::device
