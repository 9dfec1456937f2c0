// SPDX-License-Identifier: Apache-2.0
#include "base/codec.h"

#include <algorithm>

namespace forebay::base {

void Encoder::U64BigEndian(uint64_t value) {
  char raw[8];
  for (size_t i = 0; i < 8; ++i) raw[i] = static_cast<char>(value >> (56 - 8 * i));
  out_->append(raw, sizeof(raw));
}

void Encoder::Varint(uint64_t value) {
  while (value >= 0x80) {
    out_->push_back(static_cast<char>((value & 0x7f) | 0x80));
    value >>= 7;
  }
  out_->push_back(static_cast<char>(value));
}

uint64_t Decoder::U64BigEndian() {
  if (!Need(8)) return 0;
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = (value << 8) | static_cast<unsigned char>(rest_[i]);
  rest_.remove_prefix(8);
  return value;
}

uint64_t Decoder::Varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (!Need(1)) return 0;
    const auto byte = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    if (shift == 63 && byte > 1) break;  // would not fit 64 bits
    if (shift != 0 && byte == 0) break;  // longer than needed: each value has one encoding
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  failed_ = true;
  return 0;
}

std::string_view Decoder::Raw(uint64_t length) {
  if (!Need(length)) return {};
  const std::string_view bytes = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return bytes;
}

void Decoder::Raw(MutableByteView out) {
  const std::string_view bytes = Raw(out.size());
  if (failed_) {
    std::ranges::fill(out, std::byte{0});
    return;
  }
  std::memcpy(out.data(), bytes.data(), bytes.size());
}

std::string_view Decoder::Blob(uint64_t limit) {
  const uint64_t length = Varint();
  if (length > limit) failed_ = true;
  return Raw(length);
}

Status Decoder::Finish(std::string_view what) const {
  if (failed_) return Status::DataLoss("{} is malformed: a field is cut short or out of range", what);
  if (!rest_.empty()) return Status::DataLoss("{} is malformed: {} bytes follow its last field", what, rest_.size());
  return {};
}

}  // namespace forebay::base
