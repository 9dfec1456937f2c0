// SPDX-License-Identifier: Apache-2.0
// Durations as people write them: a number and a unit, `60s`, `15m`, `24h`, `7d`, `500ms`. Thread-safe: pure functions.
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace forebay::app {

/// Nothing when `text` is not a whole number above 0 with a unit, or when it is longer than a thousand years.
inline std::optional<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  uint64_t factor = 0;
  if (unit == "ms") factor = 1;
  if (unit == "s") factor = 1000;
  if (unit == "m") factor = 60'000;
  if (unit == "h") factor = 3'600'000;
  if (unit == "d") factor = 86'400'000;
  constexpr uint64_t kMost = 86'400'000ULL * 365'000;
  if (error != std::errc() || factor == 0 || number == 0 || number > kMost / factor) return std::nullopt;
  return std::chrono::milliseconds(number * factor);
}

}  // namespace forebay::app
