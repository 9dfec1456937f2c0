// SPDX-License-Identifier: Apache-2.0
// Secret: 32 bytes of key material. Wiped when destroyed, moved from or overwritten; it has no formatter, no
// stream operator and compares in constant time, so that it cannot reach a log by accident. Reactor-local:
// like any value.
#pragma once

#include <array>

#include "base/bytes.h"
#include "base/random.h"

namespace forebay::auth {

/// Overwrites `bytes` in a way that the compiler may not leave out.
void Wipe(MutableByteView bytes);
/// Compares in time that depends on the lengths only.
bool EqualInConstantTime(ByteView a, ByteView b);

class Secret {
 public:
  static constexpr size_t kSize = 32;

  /// All zero: for filling in.
  Secret() = default;
  static Secret Generate(base::Random& random) {
    Secret secret;
    random.Fill(secret.bytes_);
    return secret;
  }
  Secret(const Secret& other) = default;
  Secret(Secret&& other) noexcept : bytes_(other.bytes_) { Wipe(other.bytes_); }
  Secret& operator=(const Secret& other) = default;
  Secret& operator=(Secret&& other) noexcept {
    if (this != &other) {
      bytes_ = other.bytes_;
      Wipe(other.bytes_);
    }
    return *this;
  }
  ~Secret() { Wipe(bytes_); }

  ByteView view() const { return bytes_; }
  MutableByteView mutable_view() { return bytes_; }
  friend bool operator==(const Secret& a, const Secret& b) { return EqualInConstantTime(a.bytes_, b.bytes_); }

 private:
  std::array<std::byte, kSize> bytes_{};
};

}  // namespace forebay::auth
