// SPDX-License-Identifier: Apache-2.0
// ScrubSchedule: when a server scrubs its store by itself, and how fast. Immutable after Open: a plain value.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/clock.h"

namespace forebay::app {

/// Of a scrub for which nobody names a rate: 4 TiB a day.
constexpr uint64_t kDefaultScrubRate = 50 * base::kMiB;

struct ScrubSchedule {
  std::optional<base::Duration> every{};  // from the beginning of one pass to that of the next; none: when asked only
  uint64_t bytes_per_second = kDefaultScrubRate;  // 0: no limit
};

}  // namespace forebay::app
