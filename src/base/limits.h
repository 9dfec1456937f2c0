// SPDX-License-Identifier: Apache-2.0
// Every limit that more than one layer knows. Reaching one is a tested, clear refusal. Sizes in bytes.
// Immutable: constants and pure functions.
#pragma once

#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace forebay::base {

constexpr size_t kMaxKeyBytes = 1024;
constexpr size_t kMinBucketNameBytes = 3;
constexpr size_t kMaxBucketNameBytes = 63;
constexpr size_t kMaxBuckets = 10'000;
constexpr size_t kMaxTenants = 10'000;
/// Results of operations that a store keeps, some 100 bytes each: 100,000 operations a second for a quarter
/// of an hour.
constexpr uint64_t kMaxOperations = 90'000'000;
constexpr size_t kMaxUserMetadataBytes = 8 * kKiB;
constexpr size_t kMaxETagBytes = 64;
constexpr uint64_t kMaxObjectBytes = 5 * kGiB * 1024;
/// Entries of one page of a listing.
constexpr uint32_t kMaxListPage = 1000;
/// Parts of one upload, numbered from 1.
constexpr uint32_t kMaxParts = 10'000;
constexpr uint64_t kMaxPartBytes = 5 * kGiB;
/// Objects that one compose call takes from.
constexpr size_t kMaxSources = 10'000;
/// Objects that one rename of a prefix moves: all of them are one commit.
constexpr size_t kMaxRenamed = 100'000;
/// Items of one batch request.
constexpr uint32_t kMaxBatchItems = 256;
/// A control message on the data plane (header, body and inline payload).
constexpr size_t kMaxMessageBytes = 256 * kKiB;
/// Payload that rides inside a message instead of a one-sided transfer.
constexpr size_t kMaxInlineBytes = 8 * kKiB;
/// One chunk of a pipelined transfer.
constexpr size_t kMaxChunkBytes = kMiB;
/// One one-sided transfer of a get: neighbouring chunks that are there together.
constexpr size_t kMaxTransferBytes = 2 * kMiB;

/// 1 to kMaxKeyBytes bytes of UTF-8 without NUL; InvalidArgument says which rule is broken.
Status CheckKey(std::string_view key);
/// S3's rules: 3 to 63 of [a-z0-9.-], starting and ending with a letter or digit, no "..", not an IP address.
Status CheckBucketName(std::string_view name);
/// Well-formed UTF-8 (no overlong forms, no surrogates).
bool IsUtf8(std::string_view text);

}  // namespace forebay::base
