// SPDX-License-Identifier: Apache-2.0
// CacheOrder: which objects of cache-class buckets go next when space is needed: the oldest first, but one that was used
// since gets a second chance (CLOCK). The order stands in rows, one for each object, written and removed in the batch of
// the object's own row (cache_rows.h), so an opened store knows it without having looked at it: of each bucket it is kept
// in memory where the hand stands. Uses are bits in memory, by hash: an object may be spared for the use of another one.
// NoteUse and has_buckets are thread-safe; everything else belongs to the committer's thread, or to Open before there is a
// commit.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "engine/cache_rows.h"
#include "meta/meta_store.h"

namespace forebay::engine {

struct CachedObject {
  CachedName name;
  OrderRecord record;
};

/// Goes through the objects of some buckets, oldest first.
class OrderWalk {
 public:
  /// From `version` on, unless the bucket has something to come already.
  void Offer(uint64_t bucket, uint64_t version);
  void Remove(uint64_t bucket);
  /// Nothing at the end. After an error the walk goes on behind the row.
  Result<std::optional<CachedObject>> Next(meta::View& view);
  /// Buckets in which it has found nothing at all, since this was asked last.
  std::vector<uint64_t> TakeEmpty() { return std::exchange(empty_, {}); }

 private:
  std::set<std::pair<uint64_t, uint64_t>> heads_;  // version and bucket: the bucket's next row is that, or later
  std::map<uint64_t, uint64_t> at_;                // the same by bucket
  std::vector<uint64_t> empty_;
};

class CacheOrder {
 public:
  void AddBucket(uint64_t bucket, TenantId owner);
  void RemoveBucket(uint64_t bucket);
  bool has_buckets() const { return has_buckets_.load(std::memory_order_relaxed); }
  const std::map<uint64_t, TenantId>& buckets() const { return buckets_; }

  /// Of an object that is being published: its row.
  void Add(meta::Batch& batch, const CachedName& name, const OrderRecord& record);
  static void Remove(meta::Batch& batch, const CachedName& name);

  /// The next object under the hand, which goes on; nothing at the end of a round, and then the next one begins.
  Result<std::optional<CachedObject>> Next(meta::View& view);
  /// How many have begun.
  uint64_t rounds() const { return rounds_; }
  /// All objects in a tenant's buckets.
  OrderWalk WalkOf(TenantId owner) const;

  void NoteUse(uint64_t version) { WordOf(version).fetch_or(BitOf(version), std::memory_order_relaxed); }
  /// Whether it was used since this was asked last.
  bool TakeUse(uint64_t version) {
    const uint64_t bit = BitOf(version);
    return (WordOf(version).fetch_and(~bit, std::memory_order_relaxed) & bit) != 0;
  }

 private:
  static constexpr size_t kUseWords = size_t{1} << 16;  // 4 million bits

  static uint64_t HashOf(uint64_t version) { return version * 0x9e3779b97f4a7c15; }
  static uint64_t BitOf(uint64_t version) { return uint64_t{1} << ((HashOf(version) >> 20) % 64); }
  std::atomic<uint64_t>& WordOf(uint64_t version) { return uses_[(HashOf(version) >> 32) % kUseWords]; }

  std::map<uint64_t, TenantId> buckets_;  // with their owners
  std::set<uint64_t> occupied_;           // of them: all that may hold something
  OrderWalk hand_;
  uint64_t rounds_ = 0;
  std::atomic<bool> has_buckets_{false};
  std::array<std::atomic<uint64_t>, kUseWords> uses_{};
};

}  // namespace forebay::engine
