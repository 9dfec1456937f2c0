// SPDX-License-Identifier: Apache-2.0
// The copies of a block: where a device is a mirror, a block that is wrong on one side is taken from the other, and
// written again where it was wrong. Reactor-local in each call. The caller sees to it that the block's units are not
// given to anybody else meanwhile (an epoch).
#pragma once

#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "base/status.h"
#include "engine/devices.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::engine {

/// What was found.
struct BlockCopies {
  bool right = false;     // one of them is right, and was read
  uint32_t wrong = 0;     // copies that are not right, or could not be read
  uint32_t repaired = 0;  // of these, what was written again
  Status failure{};       // of the last copy that could not be read or repaired
  bool none_there = false;  // every side is lost; `failure` says so
};

/// Whether what is wrong is written again.
enum class Mending : bool { kNo, kYes };

/// Whether bytes of the device, as many as `memory` has, are the block's.
using BlockCheck = std::function<bool(ByteView content)>;

/// Reads every copy of the block at `offset` of a device; `memory` (whole units) has a right one afterwards, if there is one. Writes that
/// one over those that are wrong, unless told otherwise; who flushes the device next makes that durable. A copy of a side that is lost or not there
/// does not count.
rt::Task<BlockCopies> CheckCopies(rt::Reactor& reactor, Devices& devices, uint32_t device, uint64_t offset,
                                  MutableByteView memory, const BlockCheck& is_right,
                                  Mending mending = Mending::kYes);

}  // namespace forebay::engine
