// SPDX-License-Identifier: Apache-2.0
// Right and RightSet: the things that a caller can be allowed. Immutable: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::auth {

enum class Right : uint8_t {
  kPublic,   // nothing: anyone who reaches the port
  kSession,  // any valid credential or capability: open and close one's own sessions
  kGet,      // read objects and what is known of them
  kPut,
  kList,
  kDelete,
  kAdmin,  // make and remove buckets, issue and revoke capabilities
};

/// "get"; what people write.
std::string_view NameOf(Right right);

/// A set of rights. Anonymous callers hold kPublic only.
class RightSet {
 public:
  constexpr RightSet() = default;
  /// Everything that can be granted, for who proved something.
  static constexpr RightSet All() { return FromBits(kAllBits); }
  /// What a proof of anything gives.
  static constexpr RightSet Proven() { return RightSet().With(Right::kSession); }

  constexpr RightSet With(Right right) const { return RightSet(bits_ | Bit(right)); }
  constexpr bool Has(Right right) const { return (bits_ & Bit(right)) != 0; }
  constexpr bool Contains(RightSet other) const { return (other.bits_ & ~bits_) == 0; }
  friend constexpr bool operator==(RightSet, RightSet) = default;

  /// As capabilities carry them: get 1, put 2, list 4, delete 8, admin 16. FromBits adds kSession; the caller has checked
  /// that no other bit is set.
  static constexpr uint32_t kAllBits = 31;
  constexpr uint32_t bits() const { return bits_ >> static_cast<unsigned>(Right::kGet); }
  static constexpr RightSet FromBits(uint32_t bits) {
    return RightSet(bits << static_cast<unsigned>(Right::kGet) | Bit(Right::kSession) | Bit(Right::kPublic));
  }

  /// "get,list"; "none".
  std::string ToString() const;
  /// Of "get,list" or "all"; InvalidArgument names what is no right.
  static Result<RightSet> Parse(std::string_view text);

 private:
  explicit constexpr RightSet(uint32_t bits) : bits_(bits) {}
  static constexpr uint32_t Bit(Right right) { return uint32_t{1} << static_cast<unsigned>(right); }
  uint32_t bits_ = Bit(Right::kPublic);
};

}  // namespace forebay::auth
