// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace forebay::base {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The shift of a unit such as "", "b", "k", "kb", "kib"; -1 when it is none.
int UnitShift(std::string_view unit) {
  std::string lower;
  for (const char c : unit) lower.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  if (lower.empty() || lower == "b") return 0;
  constexpr std::string_view kUnits = "kmgtp";
  const size_t at = kUnits.find(lower[0]);
  if (at == std::string_view::npos) return -1;
  const std::string rest = lower.substr(1);
  if (!rest.empty() && rest != "b" && rest != "ib") return -1;
  return static_cast<int>(10 * (at + 1));
}

}  // namespace

std::string ToHex(ByteView bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    out.push_back(kDigits[std::to_integer<unsigned>(b) >> 4]);
    out.push_back(kDigits[std::to_integer<unsigned>(b) & 15]);
  }
  return out;
}

bool FromHex(std::string_view hex, MutableByteView out) {
  if (hex.size() != out.size() * 2) return false;
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = HexDigit(hex[2 * i]);
    const int low = HexDigit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::byte>(high * 16 + low);
  }
  return true;
}

std::string FormatSize(uint64_t size_bytes) {
  constexpr std::array<std::string_view, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(size_bytes);
  size_t unit = 0;
  while (value >= (unit == 0 ? 1024 : 1023.95) && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", size_bytes);
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

bool ParseSize(std::string_view text, uint64_t* size_bytes) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  const int shift = UnitShift(text.substr(static_cast<size_t>(end - text.data())));
  if (shift < 0 || number > (UINT64_MAX >> shift)) return false;
  *size_bytes = number << shift;
  return true;
}

}  // namespace forebay::base
