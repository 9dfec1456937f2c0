// SPDX-License-Identifier: Apache-2.0
#include "store/cache_class.h"

#include "base/bytes.h"

namespace forebay::store {

Status CheckClass(const BucketInfo& bucket) {
  if (!IsCache(bucket)) {
    if (bucket.ttl.count() == 0) return {};
    return Status::FailedPrecondition("bucket `{}` is durable, so nothing in it expires: a ttl is for cache buckets",
                                      bucket.name);
  }
  if (bucket.versioning != Versioning::kOff)
    return Status::FailedPrecondition("bucket `{}` is a cache, which keeps no versions", bucket.name);
  if (bucket.ttl.count() < 0 || bucket.ttl > kMaxTtl)
    return Status::InvalidArgument("a ttl of {} ms: it is at most {} days", bucket.ttl.count(), kMaxTtl / std::chrono::hours(24));
  return {};
}

bool IsExpired(base::WallTime modified, std::chrono::milliseconds ttl, uint64_t now_ms) {
  if (ttl.count() == 0) return false;
  const auto modified_ms = std::chrono::floor<std::chrono::milliseconds>(modified.time_since_epoch()).count();
  // Both in range: a ttl is at most kMaxTtl, and 2^63 ns are less than 2^44 ms.
  return modified_ms + ttl.count() <= static_cast<int64_t>(now_ms & INT64_MAX);
}

base::WallTime WallTimeOf(uint64_t now_ms) {
  constexpr auto kLatest = std::chrono::floor<std::chrono::milliseconds>(base::Duration::max());
  const std::chrono::milliseconds since_1970(static_cast<int64_t>(now_ms & INT64_MAX));
  return base::WallTime(std::min(since_1970, kLatest));
}

Status CheckPinTime(std::chrono::milliseconds time) {
  if (time.count() > 0 && time <= kMaxPinTime) return {};
  return Status::InvalidArgument("a pin of {} ms: it is at least 1 ms and at most {} hours", time.count(),
                                 kMaxPinTime / std::chrono::hours(1));
}

Status CheckCanPin(const BucketInfo& bucket) {
  if (IsCache(bucket)) return {};
  return Status::FailedPrecondition("bucket `{}` is durable: what is in it stays without a pin", bucket.name);
}

Status CheckPinned(const PinnedUsage& pinned, uint64_t size_bytes, uint64_t capacity_bytes) {
  if (pinned.objects >= kMaxPins)
    return Status::ResourceExhausted("{} objects are pinned already, which is the most: unpin some, or wait until pins end",
                                     pinned.objects);
  const uint64_t most = capacity_bytes / kMaxPinnedShare;
  if (size_bytes > most || pinned.bytes > most - size_bytes)
    return Status::ResourceExhausted("{} are pinned already, and {} more would be above the {} that a tenant may pin: unpin some, or "
                                     "wait until pins end",
                                     base::FormatSize(pinned.bytes), base::FormatSize(size_bytes), base::FormatSize(most));
  return {};
}

Status CachedObjectIsGone(std::string_view bucket, std::string_view key) {
  return Status::NotFound("object `{}/{}` is gone: bucket `{}` is a cache, and its content did not last; put it again", bucket,
                          key, bucket);
}

}  // namespace forebay::store
