// SPDX-License-Identifier: Apache-2.0
#include "base/ids.h"

namespace forebay {

Uuid Uuid::Generate(base::Random& random) {
  Uuid id;
  random.Fill(id.bytes);
  id.bytes[6] = (id.bytes[6] & std::byte{0x0f}) | std::byte{0x40};
  id.bytes[8] = (id.bytes[8] & std::byte{0x3f}) | std::byte{0x80};
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
