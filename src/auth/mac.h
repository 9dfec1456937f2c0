// SPDX-License-Identifier: Apache-2.0
// MessageMac: HMAC-SHA256 (RFC 2104) under one key, for millions of short messages a second: the two keyed
// blocks are hashed once, at construction, and each message starts from copies of those states without any
// allocation. Immutable after construction; Compute and Verify may be called from several threads at once.
#pragma once

#include <array>
#include <span>

#include "base/bytes.h"

namespace forebay::auth {

class MessageMac {
 public:
  static constexpr size_t kSize = 32;
  /// Verify refuses anything shorter: fewer bytes can be guessed.
  static constexpr size_t kMinTagSize = 16;
  using Tag = std::array<std::byte, kSize>;

  /// `key` of any length is copied into the state; keys below 16 bytes are weak.
  explicit MessageMac(ByteView key);
  ~MessageMac();
  MessageMac(const MessageMac& other) = default;
  MessageMac& operator=(const MessageMac& other) = default;

  /// The tag of the concatenated parts.
  Tag Compute(std::span<const ByteView> parts) const;
  template <typename... Parts>
  Tag Compute(const Parts&... parts) const {
    const ByteView views[] = {ByteView(parts)...};
    return Compute(std::span<const ByteView>(views));
  }

  /// True when `tag` is the tag of the parts, whole or cut to its first 16 or more bytes. In constant time.
  bool Verify(ByteView tag, std::span<const ByteView> parts) const;
  template <typename... Parts>
  bool Verify(ByteView tag, const Parts&... parts) const {
    const ByteView views[] = {ByteView(parts)...};
    return Verify(tag, std::span<const ByteView>(views));
  }

 private:
  // A hash state (SHA256_CTX), opaque here to keep OpenSSL out of the header.
  struct alignas(8) State {
    std::array<std::byte, 112> bytes;
  };

  State inner_;  // after the block key ^ ipad
  State outer_;  // after the block key ^ opad
};

}  // namespace forebay::auth
