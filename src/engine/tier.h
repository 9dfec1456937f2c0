// SPDX-License-Identifier: Apache-2.0
// Tier: verified extent blocks in arena memory, so that a hot read touches neither disk nor copy. Keyed by
// extent and block, which never change their meaning, so nothing here is ever stale. Evicts by S3-FIFO: what
// nobody uses again leaves a small queue soon, what is used stays in the main queue, whose order no hit changes.
// Whoever reads an evicted block keeps its memory until it is done. Neighbours lie in runs, since a large read
// asks for many: one lock and one look for sixteen of them. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
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

/// What became of blocks, counted since the tier was made. Those held: inserted less both evicted.
struct TierStats {
  uint64_t inserted = 0;
  uint64_t ghost_hits = 0;     // of them, right into the main queue: they had left the small one not long ago
  uint64_t promoted = 0;       // from the small to the main queue, since they were used
  uint64_t evicted_small = 0;  // from the small queue: not used, or one of too many used ones
  uint64_t evicted_main = 0;
};

class Tier {
 public:
  /// Blocks of an extent that are looked up at once, at most: from a multiple of this on.
  static constexpr uint32_t kRunBlocks = 16;
  /// The small queue gives the next block while it has more than this part of the bytes that are held.
  static constexpr uint64_t kSmallShare = 10;
  /// Uses of a block count once while less than this part of the bytes that are held was inserted: a reader that
  /// takes a block in small steps, or several that come at once, use it once. Half of the way through the small queue.
  static constexpr uint64_t kBurstShare = 20;
  /// A block's uses are counted up to this.
  static constexpr uint8_t kMaxUses = 3;
  /// EvictOne spares so many blocks that were used; the next one goes all the same, since a caller waits.
  static constexpr size_t kMaxSpared = 64;

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
  /// Exact while nobody inserts or evicts.
  TierStats stats() const;

 private:
  static constexpr size_t kShards = 16;
  static constexpr uint64_t kNone = UINT64_MAX;
  enum Level : uint8_t { kSmall, kMain };
  static constexpr size_t kLevels = 2;

  struct Entry {
    const BlockKey key;
    base::Buffer block;
    uint64_t number = 0;      // when it joined its queue; of all shards' queues the lowest is the oldest
    uint64_t counted_at = 0;  // inserted_bytes_ when its last use counted, or when it came
    Entry* newer = nullptr;   // in its queue
    uint8_t uses = 0;
  };
  struct Queue {
    Entry* oldest = nullptr;
    Entry* newest = nullptr;
  };
  /// A key that left the small queue: remembered until as many others left it as blocks are held, and dropped when
  /// the next one comes to its shard.
  struct Ghost {
    BlockKey key;
    uint64_t number = 0;  // of evicted_small_
  };
  /// As long as its last block asks for: most extents have one.
  struct Run {
    std::vector<std::unique_ptr<Entry>> entries;  // by block; null: not here
    uint32_t held = 0;                            // of them, those that are
  };
  struct Shard {
    base::Mutex mutex;
    std::unordered_map<BlockKey, Run, BlockKeyHash> runs FB_GUARDED_BY(mutex);  // by their first block; none is empty
    std::array<Queue, kLevels> queues FB_GUARDED_BY(mutex);
    std::unordered_map<BlockKey, uint64_t, BlockKeyHash> ghosts FB_GUARDED_BY(mutex);  // their numbers
    std::deque<Ghost> ghost_order FB_GUARDED_BY(mutex);  // the oldest first; those that came back too
    // The number of each queue's oldest, or kNone: written under the lock, read by who looks for a victim.
    std::array<std::atomic<uint64_t>, kLevels> oldest{kNone, kNone};
  };

  static BlockKey RunOf(const BlockKey& key) { return {key.extent, key.block / kRunBlocks * kRunBlocks}; }
  Shard& ShardOf(const BlockKey& run) { return shards_[(BlockKeyHash()(run) >> 40) % kShards]; }
  /// The shard that has the oldest block of all at this level; null when there is none.
  Shard* ShardOfOldest(Level level);
  /// Drops the oldest block of one queue, or, if that was used and is to be spared, moves it on. True: dropped.
  bool TryEvict(Shard& shard, Level level, bool spare) FB_EXCLUDES(shard.mutex);
  /// Drops some block; false when each shard was seen empty, under its lock.
  bool EvictAny();
  /// Takes the oldest block of a queue, of which there is one, out of the tier.
  std::unique_ptr<Entry> Drop(Shard& shard, Level level) FB_REQUIRES(shard.mutex);
  void Push(Shard& shard, Level level, Entry& entry) FB_REQUIRES(shard.mutex);
  Entry& Pop(Shard& shard, Level level) FB_REQUIRES(shard.mutex);
  void AddGhost(Shard& shard, const BlockKey& key) FB_REQUIRES(shard.mutex);
  /// Forgets the ghost; whether there was one that was not too old.
  bool TakeGhost(Shard& shard, const BlockKey& key) FB_REQUIRES(shard.mutex);

  const uint64_t limit_bytes_;
  // Both are read by each lookup.
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> inserted_bytes_{0};  // only goes up: the time by which uses are told from bursts
  std::atomic<uint64_t> small_bytes_{0};     // of bytes_
  std::atomic<uint64_t> blocks_{0};          // as many ghosts are remembered
  std::atomic<uint64_t> next_number_{0};
  std::atomic<size_t> holds_{0};
  std::atomic<uint64_t> inserted_{0};
  std::atomic<uint64_t> ghost_hits_{0};
  std::atomic<uint64_t> promoted_{0};
  std::atomic<uint64_t> evicted_small_{0};  // also the time by which ghosts age
  std::atomic<uint64_t> evicted_main_{0};
  std::array<Shard, kShards> shards_;
};

}  // namespace forebay::engine
