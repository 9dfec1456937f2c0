// SPDX-License-Identifier: Apache-2.0
// How RocksDB stores a CRC32C: masked, since the data beside it may itself hold CRCs. Private to meta.
// Thread-safe: pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace forebay::meta {

constexpr uint32_t kChecksumMask = 0xa282ead8;

constexpr uint32_t MaskChecksum(uint32_t crc) { return std::rotr(crc, 15) + kChecksumMask; }
constexpr uint32_t UnmaskChecksum(uint32_t masked) { return std::rotl(masked - kChecksumMask, 15); }

}  // namespace forebay::meta
