// SPDX-License-Identifier: Apache-2.0
// The rows of cache-class buckets: the order in which their objects go, pins, and what all of it takes of the devices.
// docs/formats/metadata.md has their grammar. Decoders take hostile bytes, as those of rows.h. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::engine {

// In Family::kSystem. The bucket and the version follow the prefixes, big-endian.
constexpr std::string_view kCacheOrderPrefix = "engine/cache/order/";
constexpr std::string_view kCachePinPrefix = "engine/cache/pin/";
constexpr std::string_view kCacheTotalsKey = "engine/cache/totals";

struct CachedName {
  uint64_t bucket = 0;
  uint64_t version = 0;
  friend auto operator<=>(const CachedName&, const CachedName&) = default;
};

/// One object of a cache bucket. The rows of a bucket stand in the order in which their versions came.
struct OrderRecord {
  std::string key;
  uint64_t size_bytes = 0;
  uint64_t put_ms = 0;  // since 1970 on the store's clock; what its ttl counts from
  friend bool operator==(const OrderRecord&, const OrderRecord&) = default;
};

struct PinRecord {
  uint64_t until_ms = 0;
  uint64_t size_bytes = 0;
  friend bool operator==(const PinRecord&, const PinRecord&) = default;
};

struct CacheTotals {
  uint64_t device_bytes = 0;  // of extents of cache objects, in whole units
  uint64_t clock_ms = 0;      // the store's, when the row was written
  friend bool operator==(const CacheTotals&, const CacheTotals&) = default;
};

/// All rows of one bucket start with this.
std::string OrderPrefix(uint64_t bucket);
std::string EncodeOrderKey(const CachedName& name);
Result<CachedName> DecodeOrderKey(std::string_view row_key);
std::string EncodeOrder(std::string_view row_key, const OrderRecord& record);
Result<OrderRecord> DecodeOrder(std::string_view row_key, std::string_view value);

std::string EncodePinKey(const CachedName& name);
Result<CachedName> DecodePinKey(std::string_view row_key);
std::string EncodePin(std::string_view row_key, const PinRecord& record);
Result<PinRecord> DecodePin(std::string_view row_key, std::string_view value);

std::string EncodeCacheTotals(const CacheTotals& totals);
Result<CacheTotals> DecodeCacheTotals(std::string_view value);

}  // namespace forebay::engine
