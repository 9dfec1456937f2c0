// SPDX-License-Identifier: Apache-2.0
// The policy: one table that says for each operation of each plane which right it needs. What has no row is
// denied, so an operation that is added without a decision cannot be called. A test holds the table against
// the service descriptors. Immutable: a constant table.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace forebay::auth {

enum class Right : uint8_t {
  kPublic,   // nothing: anyone who reaches the port
  kSession,  // any valid credential: open and close one's own sessions
  kRead,
  kWrite,
  kList,
  kDelete,
  kAdmin,
};

/// A set of rights. Anonymous callers hold kPublic only.
class RightSet {
 public:
  constexpr RightSet() = default;
  static constexpr RightSet All() { return RightSet(~uint32_t{0}); }
  constexpr RightSet With(Right right) const { return RightSet(bits_ | Bit(right)); }
  constexpr bool Has(Right right) const { return (bits_ & Bit(right)) != 0; }

 private:
  explicit constexpr RightSet(uint32_t bits) : bits_(bits) {}
  static constexpr uint32_t Bit(Right right) { return uint32_t{1} << static_cast<unsigned>(right); }
  uint32_t bits_ = 1;  // kPublic
};

struct PolicyRow {
  std::string_view operation;  // "/forebay.control.v1.Buckets/List", or "data/Get" on the data plane
  Right right;
};

std::span<const PolicyRow> PolicyTable();

/// The right that `operation` needs; PermissionDenied when the table has no row for it.
Result<Right> RightFor(std::string_view operation);

/// Ok when a caller with `held` may do `operation`; PermissionDenied otherwise.
Status CheckPolicy(std::string_view operation, RightSet held);

}  // namespace forebay::auth
