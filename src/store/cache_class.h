// SPDX-License-Identifier: Apache-2.0
// What the class of a bucket means, the same in every backend: when an object has expired, which settings and pins make
// sense, and what is said of an object that is gone. Thread-safe: pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "store/object_store.h"

namespace forebay::store {

inline bool IsCache(const BucketInfo& bucket) { return bucket.bucket_class == BucketClass::kCache; }

/// FailedPrecondition: a ttl of a durable bucket, versions in a cache bucket; InvalidArgument: a ttl beyond the limit.
Status CheckClass(const BucketInfo& bucket);

/// Whether an object has expired at `now_ms` that was put, or written last, at `modified`.
bool IsExpired(base::WallTime modified, std::chrono::milliseconds ttl, uint64_t now_ms);
/// The time of a change in a cache bucket: by the clock that ttls go by.
base::WallTime WallTimeOf(uint64_t now_ms);

/// Of a request to pin: the bucket and the time.
Status CheckPinTime(std::chrono::milliseconds time);
Status CheckCanPin(const BucketInfo& bucket);
/// What a tenant has pinned.
struct PinnedUsage {
  uint64_t objects = 0;
  uint64_t bytes = 0;
};
/// ResourceExhausted when one more of `size_bytes` would be too much.
Status CheckPinned(const PinnedUsage& pinned, uint64_t size_bytes, uint64_t capacity_bytes);

/// NotFound: its content is not there any more.
Status CachedObjectIsGone(std::string_view bucket, std::string_view key);

}  // namespace forebay::store
