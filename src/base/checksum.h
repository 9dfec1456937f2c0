// SPDX-License-Identifier: Apache-2.0
// CRC32C (Castagnoli, RFC 3720 appendix B.4), the content checksum of blocks, messages and payloads. Checksums of
// neighbouring runs combine without reading the bytes again: a full-object checksum costs nothing when its blocks
// have been verified.
// Thread-safe: pure functions.
#pragma once

#include "base/bytes.h"

namespace forebay::base {

/// The CRC32C of nothing.
constexpr uint32_t kCrc32cEmpty = 0;

/// CRC32C of `bytes`. Check value: Crc32c("123456789") = 0xe3069283.
uint32_t Crc32c(ByteView bytes);
/// CRC32C of A followed by `bytes`, where `crc` is the CRC32C of A.
uint32_t Crc32cExtend(uint32_t crc, ByteView bytes);
/// CRC32C of A followed by B, from the checksums of both and the length of B. O(log length_b).
uint32_t Crc32cCombine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b);

}  // namespace forebay::base
