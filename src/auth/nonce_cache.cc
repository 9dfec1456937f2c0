// SPDX-License-Identifier: Apache-2.0
#include "auth/nonce_cache.h"

#include <algorithm>

#include "base/check.h"

namespace forebay::auth {

size_t NonceCache::Hash::operator()(const RpcNonce& nonce) const noexcept {
  size_t value = 0;
  std::memcpy(&value, nonce.data(), sizeof(value));  // chosen at random, by someone who holds a credential
  return value;
}

NonceCache::NonceCache(int64_t start_ms, int64_t window_ms, size_t limit)
    : window_ms_(window_ms), limit_(limit), floor_ms_(start_ms - 1) {
  FB_CHECK(limit_ > 0);
}

NonceCache::Answer NonceCache::Use(int64_t now_ms, int64_t stated_ms, const RpcNonce& nonce) {
  base::MutexLock lock(mutex_);
  while (!buckets_.empty() && buckets_.begin()->second.latest_ms < now_ms - window_ms_) ForgetOldest();
  if (stated_ms <= floor_ms_) return Answer::kTooOld;
  const auto bucket = buckets_.find(stated_ms / 1000);
  if (bucket != buckets_.end() && bucket->second.nonces.contains(nonce)) return Answer::kReplay;
  if (size_ == limit_) {
    ForgetOldest();
    if (stated_ms <= floor_ms_) return Answer::kTooOld;
  }
  Bucket& into = buckets_[stated_ms / 1000];
  into.nonces.insert(nonce);
  into.latest_ms = std::max(into.latest_ms, stated_ms);
  ++size_;
  return Answer::kFresh;
}

void NonceCache::ForgetOldest() {
  const auto oldest = buckets_.begin();
  floor_ms_ = std::max(floor_ms_, oldest->second.latest_ms);
  size_ -= oldest->second.nonces.size();
  buckets_.erase(oldest);
}

size_t NonceCache::size() const {
  base::MutexLock lock(mutex_);
  return size_;
}

int64_t NonceCache::floor_ms() const {
  base::MutexLock lock(mutex_);
  return floor_ms_;
}

}  // namespace forebay::auth
