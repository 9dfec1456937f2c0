// SPDX-License-Identifier: Apache-2.0
// NonceCache: remembers which (time, nonce) pairs were used, so that each is good once. Nonces are kept in
// buckets of one second of the time that their sender stated, and a bucket is forgotten when its time is out
// of the window, or early when the cache is full. Invariant: nothing at or before the latest forgotten time
// is accepted again, whatever the clock does; a full cache or a clock that jumped makes the window smaller,
// never a replay possible. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_set>

#include "base/bytes.h"
#include "base/mutex.h"

namespace forebay::auth {

using RpcNonce = std::array<std::byte, 16>;

class NonceCache {
 public:
  /// About 16 MiB when full; at 1,000 calls a second it holds four minutes.
  static constexpr size_t kDefaultLimit = 256 * 1024;

  /// Refuses what was stated before `start_ms`. `limit` is at least 1.
  NonceCache(int64_t start_ms, int64_t window_ms, size_t limit);

  enum class Answer : uint8_t {
    kFresh,   // first use; now remembered
    kReplay,  // used before
    kTooOld,  // may have been used before: older than the window, or than what was forgotten
  };
  /// Uses up `nonce`, stated to be made at `stated_ms`. The caller has checked that this is within the window
  /// of `now_ms`.
  Answer Use(int64_t now_ms, int64_t stated_ms, const RpcNonce& nonce);

  size_t size() const;
  /// Times up to this one are refused.
  int64_t floor_ms() const;

 private:
  struct Hash {
    size_t operator()(const RpcNonce& nonce) const noexcept;
  };
  struct Bucket {
    int64_t latest_ms = 0;
    std::unordered_set<RpcNonce, Hash> nonces;
  };

  void ForgetOldest() FB_REQUIRES(mutex_);

  const int64_t window_ms_;
  const size_t limit_;
  mutable base::Mutex mutex_;
  std::map<int64_t, Bucket> buckets_ FB_GUARDED_BY(mutex_);  // by second stated
  size_t size_ FB_GUARDED_BY(mutex_) = 0;
  int64_t floor_ms_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::auth
