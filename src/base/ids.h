// SPDX-License-Identifier: Apache-2.0
// The identities that cross layers. Strong types, so that a tenant cannot be passed where a session is wanted.
// Immutable after construction.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "base/bytes.h"
#include "base/random.h"

namespace forebay {

/// A tenant's number; 0 is no tenant, 1 the root tenant of every store. 2 is the server itself, for what it keeps
/// of its own in the store: no credential, capability or session is ever of this tenant.
enum class TenantId : uint64_t { kNone = 0, kRoot = 1, kSystem = 2 };
/// The lowest number of a tenant that somebody created.
constexpr uint64_t kFirstTenant = 3;

/// 128 random bits, chosen by the initiator of an operation; all zero is "none".
struct OperationId {
  std::array<std::byte, 16> bytes{};

  static OperationId Generate(base::Random& random) {
    OperationId id;
    random.Fill(id.bytes);
    return id;
  }
  bool IsNone() const { return *this == OperationId{}; }
  std::string ToString() const { return base::ToHex(bytes); }
  friend auto operator<=>(const OperationId&, const OperationId&) = default;
};

/// RFC 4122 version 4.
struct Uuid {
  std::array<std::byte, 16> bytes{};

  static Uuid Generate(base::Random& random);
  /// "8-4-4-4-12" lowercase hex.
  std::string ToString() const;
  static bool Parse(std::string_view text, Uuid* out);
  friend auto operator<=>(const Uuid&, const Uuid&) = default;
};

}  // namespace forebay

template <>
struct std::hash<forebay::OperationId> {
  size_t operator()(const forebay::OperationId& id) const noexcept {
    size_t value = 0;
    std::memcpy(&value, id.bytes.data(), sizeof(value));  // random bits are a hash already
    return value;
  }
};
