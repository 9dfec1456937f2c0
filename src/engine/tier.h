// SPDX-License-Identifier: Apache-2.0
// Tier: verified extent blocks in arena memory, so that a hot read touches neither disk nor copy. Keyed by
// extent and block, which never change their meaning, so nothing here is ever stale. Evicts the least
// recently used block of a shard; whoever reads an evicted block keeps its memory until it is done.
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "base/arena.h"
#include "base/mutex.h"

namespace forebay::engine {

struct BlockKey {
  uint64_t extent = 0;
  uint32_t block = 0;
  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};

struct BlockKeyHash {
  size_t operator()(const BlockKey& key) const {
    return static_cast<size_t>((key.extent * 0x9e3779b97f4a7c15 + key.block) * 0xff51afd7ed558ccd >> 7);
  }
};

class Tier {
 public:
  /// Holds at most `limit_bytes`; 0 holds nothing.
  explicit Tier(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// The block, or an empty buffer.
  base::Buffer Lookup(const BlockKey& key);
  /// Adds a verified block, unless somebody waits for memory.
  void Insert(const BlockKey& key, const base::Buffer& block);
  /// Drops one block; false when there is none. Its memory is free once nobody reads it.
  bool EvictOne();
  /// Until as many releases nothing is inserted: what readers give back goes to those who wait for memory.
  void HoldInserts() { holds_.fetch_add(1); }
  void ReleaseInserts() { holds_.fetch_sub(1); }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kShards = 64;

  struct Entry {
    BlockKey key;
    base::Buffer block;
  };
  struct Shard {
    base::Mutex mutex;
    std::list<Entry> order FB_GUARDED_BY(mutex);  // most recently used first
    std::unordered_map<BlockKey, std::list<Entry>::iterator, BlockKeyHash> blocks FB_GUARDED_BY(mutex);
  };

  Shard& ShardOf(const BlockKey& key) { return shards_[(BlockKeyHash()(key) >> 40) % kShards]; }

  const uint64_t limit_bytes_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<size_t> holds_{0};
  std::atomic<size_t> next_victim_{0};
  std::array<Shard, kShards> shards_;
};

}  // namespace forebay::engine
