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
/// CRC32C of A, where `crc` is that of A followed by B: Crc32cCombine undone. O(log length_b).
uint32_t Crc32cWithout(uint32_t crc, uint32_t crc_b, uint64_t length_b);
/// CRC32C of what has checksum `crc` after a run of it, followed by `length_after` more bytes, was replaced by one of the
/// same length; `before` and `now` are the checksums of the run. O(log length_after).
uint32_t Crc32cReplace(uint32_t crc, uint32_t before, uint32_t now, uint64_t length_after);
/// CRC32C of `length` zero bytes. O(log length).
uint32_t Crc32cZeros(uint64_t length);

}  // namespace forebay::base
