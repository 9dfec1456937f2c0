// SPDX-License-Identifier: Apache-2.0
#include "base/limits.h"

#include <algorithm>

namespace forebay::base {
namespace {

bool IsNameCharacter(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-'; }
bool IsNameEdge(char c) { return c != '.' && c != '-'; }
/// Would be taken for an address where the bucket is a part of a host name.
bool LooksLikeAddress(std::string_view name) {
  return std::ranges::count(name, '.') == 3 &&
         std::ranges::all_of(name, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

/// Bytes of the well-formed sequence at the start of `text` (RFC 3629), 0 when there is none.
size_t SequenceLength(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    if (!tail(1) || !tail(2)) return 0;
    if (lead == 0xe0 && at(1) < 0xa0) return 0;  // overlong
    if (lead == 0xed && at(1) > 0x9f) return 0;  // surrogate
    return 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (lead == 0xf0 && at(1) < 0x90) return 0;
    if (lead == 0xf4 && at(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

Status CheckKey(std::string_view key) {
  if (key.empty()) return Status::InvalidArgument("the object key is empty; write BUCKET/KEY");
  if (key.size() > kMaxKeyBytes)
    return Status::InvalidArgument("the object key has {} bytes; at most {} are allowed", key.size(), kMaxKeyBytes);
  if (key.find('\0') != std::string_view::npos) return Status::InvalidArgument("the object key holds a NUL byte");
  if (!IsUtf8(key)) return Status::InvalidArgument("the object key is not valid UTF-8");
  return {};
}

Status CheckBucketName(std::string_view name) {
  const bool fits = name.size() >= kMinBucketNameBytes && name.size() <= kMaxBucketNameBytes &&
                    std::ranges::all_of(name, IsNameCharacter) && IsNameEdge(name.front()) && IsNameEdge(name.back()) &&
                    name.find("..") == std::string_view::npos && !LooksLikeAddress(name);
  if (fits) return {};
  return Status::InvalidArgument(
      "`{}` is not a bucket name: {} to {} of a-z, 0-9, '.', '-', starting and ending with a letter or digit, and no "
      "IP address",
      name.size() <= kMaxBucketNameBytes && IsUtf8(name) ? name : std::string_view("(unprintable)"), kMinBucketNameBytes,
      kMaxBucketNameBytes);
}

}  // namespace forebay::base
