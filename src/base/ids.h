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

/// A UUIDv7 (RFC 9562), chosen by the initiator of an operation and kept over its retries: 48 bits of
/// milliseconds since 1970 on the server's clock, and 74 random bits. All zero is "none".
struct OperationId {
  std::array<std::byte, 16> bytes{};

  static constexpr uint64_t kMaxUnixMs = (uint64_t{1} << 48) - 1;

  /// Later times than kMaxUnixMs become it.
  static OperationId Generate(uint64_t unix_ms, base::Random& random);
  bool IsNone() const { return *this == OperationId{}; }
  /// Whether it is a UUIDv7: nothing else has a time.
  bool HasTime() const;
  uint64_t unix_ms() const;
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
    std::memcpy(&value, id.bytes.data() + sizeof(value), sizeof(value));  // random bits are a hash already
    return value;
  }
};
