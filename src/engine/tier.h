// SPDX-License-Identifier: Apache-2.0
// Tier: verified extent blocks in arena memory, so that a hot read touches neither disk nor copy. Keyed by
// extent and block, which never change their meaning, so nothing here is ever stale. Evicts the least
// recently used block of a shard; whoever reads an evicted block keeps its memory until it is done. Neighbours
// lie in runs, since a large read asks for many: one lock and one look for sixteen of them. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

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
  /// Blocks of an extent that are looked up at once, at most: from a multiple of this on.
  static constexpr uint32_t kRunBlocks = 16;

  /// Holds at most `limit_bytes`; 0 holds nothing.
  explicit Tier(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// The block, or an empty buffer.
  base::Buffer Lookup(const BlockKey& key);
  /// As many neighbours from `first` on as there are `blocks`, which are empty: those that are here. All of one run.
  void LookupRun(const BlockKey& first, std::span<base::Buffer> blocks);
  /// Adds a verified block, unless somebody waits for memory.
  void Insert(const BlockKey& key, const base::Buffer& block);
  /// Drops one block; false when there is none. Its memory is free once nobody reads it.
  bool EvictOne();
  /// Until as many releases nothing is inserted: what readers give back goes to those who wait for memory.
  void HoldInserts() { holds_.fetch_add(1); }
  void ReleaseInserts() { holds_.fetch_sub(1); }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kShards = 16;

  struct Entry {
    const BlockKey key;
    base::Buffer block;
    Entry* newer = nullptr;  // in the order of use
    Entry* older = nullptr;
  };
  /// As long as its last block asks for: most extents have one.
  struct Run {
    std::vector<std::unique_ptr<Entry>> entries;  // by block; null: not here
    uint32_t held = 0;                            // of them, those that are
  };
  struct Shard {
    base::Mutex mutex;
    std::unordered_map<BlockKey, Run, BlockKeyHash> runs FB_GUARDED_BY(mutex);  // by their first block; none is empty
    Entry* newest FB_GUARDED_BY(mutex) = nullptr;
    Entry* oldest FB_GUARDED_BY(mutex) = nullptr;
  };

  static BlockKey RunOf(const BlockKey& key) { return {key.extent, key.block / kRunBlocks * kRunBlocks}; }
  Shard& ShardOf(const BlockKey& run) { return shards_[(BlockKeyHash()(run) >> 40) % kShards]; }
  /// Takes a chain, each the newer neighbour of the one before, out of the order, and puts it in as the newest.
  static void Unlink(Shard& shard, Entry& oldest, Entry& newest) FB_REQUIRES(shard.mutex);
  static void Link(Shard& shard, Entry& oldest, Entry& newest) FB_REQUIRES(shard.mutex);

  const uint64_t limit_bytes_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<size_t> holds_{0};
  std::atomic<size_t> next_victim_{0};
  std::array<Shard, kShards> shards_;
};

}  // namespace forebay::engine
