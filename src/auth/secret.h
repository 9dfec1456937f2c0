// SPDX-License-Identifier: Apache-2.0
// Secret: 32 bytes of key material. Wiped when destroyed, moved from or overwritten; it has no formatter, no
// stream operator and compares in constant time, so that it cannot reach a log by accident, and lies in memory that no
// core file holds. Reactor-local: like any value.
#pragma once

#include "auth/secret_slots.h"
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
    random.Fill(*secret.bytes_);
    return secret;
  }
  Secret(const Secret& other) { *bytes_ = *other.bytes_; }
  Secret(Secret&& other) noexcept { std::swap(bytes_, other.bytes_); }
  Secret& operator=(const Secret& other) {
    *bytes_ = *other.bytes_;
    return *this;
  }
  Secret& operator=(Secret&& other) noexcept {
    if (this != &other) {
      std::swap(bytes_, other.bytes_);
      Wipe(*other.bytes_);
    }
    return *this;
  }
  ~Secret() = default;  // the slot is wiped

  ByteView view() const { return *bytes_; }
  MutableByteView mutable_view() { return *bytes_; }
  friend bool operator==(const Secret& a, const Secret& b) { return EqualInConstantTime(*a.bytes_, *b.bytes_); }

 private:
  SecretSlotPtr bytes_ = NewSecretSlot();  // never null
};

static_assert(sizeof(SecretSlot) == Secret::kSize);

}  // namespace forebay::auth
