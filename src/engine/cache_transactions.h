// SPDX-License-Identifier: Apache-2.0
// Transactions of cache-class buckets: eviction, expiry, the removal of what is gone, pins, and the order of what an older
// program put. None of them is durable by itself. Who may call: eviction.cc and Engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core.h"
#include "meta/meta_store.h"

namespace forebay::engine {

/// What one of them looks at and takes out, at most.
constexpr size_t kMaxEvictedAtOnce = 256;
constexpr size_t kMaxLookedAtAtOnce = 1024;
/// Objects that a put displaces for its owner's quota.
constexpr size_t kMaxDisplaced = 10'000;

struct EvictionOutcome {
  uint64_t expired = 0;
  uint64_t evicted = 0;        // objects, without those that had expired
  uint64_t freed_bytes = 0;    // of their content, with those that had expired
  uint64_t rounds = 0;         // that the hand has begun so far
};

/// Takes out some that have expired, then others until `want_bytes` of content are free or kMaxLookedAtAtOnce were looked
/// at. `outcome` is shared with whoever waits, maybe no longer than its deadline.
std::unique_ptr<meta::Transaction> MakeEvict(Core& core, uint64_t want_bytes, std::shared_ptr<EvictionOutcome> outcome);
/// Takes out one version whose content is not there any more, if it still is its key's.
std::unique_ptr<meta::Transaction> MakeRemoveGone(Core& core, uint64_t bucket, std::string key, uint64_t version);
/// Without `time` it ends the pin.
std::unique_ptr<meta::Transaction> MakePin(Core& core, std::string bucket_name, uint64_t bucket, std::string key,
                                           std::optional<std::chrono::milliseconds> time);
/// Writes the rows of the order for objects that an older program put.
std::unique_ptr<meta::Transaction> MakeEnterCache(Core& core, std::vector<CachedObject> objects);

void WritePin(Core& core, meta::Batch& batch, const CachedName& name, const Pins::Pin& pin);

}  // namespace forebay::engine
