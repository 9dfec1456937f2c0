// SPDX-License-Identifier: Apache-2.0
// Names for runs of bytes. Spans borrow for the call; Bytes owns.
// Thread-safe: holds no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace forebay {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;
using MutableByteView = std::span<std::byte>;

inline ByteView AsBytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view AsText(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

namespace base {

/// True when offset + length neither overflows nor passes `size`. The one form for values that came from outside.
constexpr bool RangeFits(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

constexpr uint64_t RoundDown(uint64_t value, uint64_t power_of_two) { return value & ~(power_of_two - 1); }
/// The caller guarantees that value + power_of_two does not overflow.
constexpr uint64_t RoundUp(uint64_t value, uint64_t power_of_two) {
  return (value + power_of_two - 1) & ~(power_of_two - 1);
}
constexpr uint64_t DivideUp(uint64_t value, uint64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;

/// Lowercase hex, two digits a byte.
std::string ToHex(ByteView bytes);
/// False unless `hex` is exactly 2 * out.size() hex digits.
bool FromHex(std::string_view hex, MutableByteView out);
/// "1.5 MiB", "512 B": for people.
std::string FormatSize(uint64_t size_bytes);
/// Reads "4096", "64K", "1MiB", "2g" (powers of 1024). False on anything else or overflow.
bool ParseSize(std::string_view text, uint64_t* size_bytes);

}  // namespace base
}  // namespace forebay
