// SPDX-License-Identifier: Apache-2.0
#include "base/ids.h"

#include <algorithm>

namespace forebay {
namespace {

constexpr size_t kTimeBytes = 6;  // of an operation's id, big-endian

/// Puts version and variant into their places.
void Stamp(std::array<std::byte, 16>& bytes, std::byte version) {
  bytes[6] = (bytes[6] & std::byte{0x0f}) | version;
  bytes[8] = (bytes[8] & std::byte{0x3f}) | std::byte{0x80};
}

}  // namespace

OperationId OperationId::Generate(uint64_t unix_ms, base::Random& random) {
  OperationId id;
  random.Fill(MutableByteView(id.bytes).subspan(kTimeBytes));
  unix_ms = std::min(unix_ms, kMaxUnixMs);
  for (size_t i = kTimeBytes; i-- > 0; unix_ms >>= 8) id.bytes[i] = static_cast<std::byte>(unix_ms);
  Stamp(id.bytes, std::byte{0x70});
  return id;
}

bool OperationId::HasTime() const {
  return (bytes[6] & std::byte{0xf0}) == std::byte{0x70} && (bytes[8] & std::byte{0xc0}) == std::byte{0x80};
}

uint64_t OperationId::unix_ms() const {
  uint64_t ms = 0;
  for (size_t i = 0; i < kTimeBytes; ++i) ms = ms << 8 | static_cast<uint64_t>(bytes[i]);
  return ms;
}

Uuid Uuid::Generate(base::Random& random) {
  Uuid id;
  random.Fill(id.bytes);
  Stamp(id.bytes, std::byte{0x40});
  return id;
}

std::string Uuid::ToString() const {
  std::string hex = base::ToHex(bytes);
  for (const size_t at : {20, 16, 12, 8}) hex.insert(at, 1, '-');
  return hex;
}

bool Uuid::Parse(std::string_view text, Uuid* out) {
  if (text.size() != 36) return false;
  std::string hex;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash != (text[i] == '-')) return false;
    if (!dash) hex.push_back(text[i]);
  }
  return base::FromHex(hex, out->bytes);
}

}  // namespace forebay
