// SPDX-License-Identifier: Apache-2.0
#include "engine/tier.h"

#include <bit>
#include <utility>

namespace forebay::engine {
namespace {

/// What a block takes of the arena.
uint64_t Footprint(const base::Buffer& block) {
  return std::bit_ceil(base::RoundUp(block.size(), base::Arena::kPage));
}

}  // namespace

base::Buffer Tier::Lookup(const BlockKey& key) {
  base::Buffer block;
  LookupRun(key, {&block, 1});
  return block;
}

void Tier::LookupRun(const BlockKey& first, std::span<base::Buffer> blocks) {
  const BlockKey key = RunOf(first);
  Shard& shard = ShardOf(key);
  base::MutexLock lock(shard.mutex);
  const auto found = shard.runs.find(key);
  if (found == shard.runs.end()) return;
  Entry* const entries = &found->second->entries[first.block - key.block];
  for (size_t i = 0; i < blocks.size();) {
    if (entries[i].block.empty()) {
      ++i;
      continue;
    }
    // Those that were used one after another last time, too, move together.
    const size_t begin = i;
    do {
      blocks[i] = entries[i].block;
      ++i;
    } while (i < blocks.size() && entries[i - 1].newer == &entries[i]);
    if (shard.newest == &entries[i - 1]) continue;
    Unlink(shard, entries[begin], entries[i - 1]);
    Link(shard, entries[begin], entries[i - 1]);
  }
}

void Tier::Insert(const BlockKey& key, const base::Buffer& block) {
  const uint64_t footprint = Footprint(block);
  if (footprint > limit_bytes_) return;
  while (bytes_.load() + footprint > limit_bytes_ && EvictOne()) {
  }
  const BlockKey run = RunOf(key);
  Shard& shard = ShardOf(run);
  base::MutexLock lock(shard.mutex);
  // Looked at under the lock: whoever holds inserts empties each shard afterwards.
  if (holds_.load() != 0) return;
  std::unique_ptr<Run>& place = shard.runs[run];
  if (place == nullptr) place = std::make_unique<Run>(run);
  Entry& entry = place->entries[key.block - run.block];
  if (!entry.block.empty()) return;
  block.Freeze();  // many will read it, none writes: movers may keep what they made of it
  entry.block = block;
  ++place->held;
  Link(shard, entry, entry);
  bytes_.fetch_add(footprint, std::memory_order_relaxed);
}

bool Tier::EvictOne() {
  const size_t first = next_victim_.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[(first + i) % kShards];
    base::Buffer victim;  // freed outside of the lock
    base::MutexLock lock(shard.mutex);
    if (shard.oldest == nullptr) continue;
    Entry& entry = *shard.oldest;
    Unlink(shard, entry, entry);
    std::swap(victim, entry.block);
    bytes_.fetch_sub(Footprint(victim), std::memory_order_relaxed);
    if (--entry.run->held == 0) shard.runs.erase(BlockKey(entry.run->key));
    return true;
  }
  return false;
}

void Tier::Unlink(Shard& shard, Entry& oldest, Entry& newest) {
  (newest.newer != nullptr ? newest.newer->older : shard.newest) = oldest.older;
  (oldest.older != nullptr ? oldest.older->newer : shard.oldest) = newest.newer;
  newest.newer = nullptr;
  oldest.older = nullptr;
}

void Tier::Link(Shard& shard, Entry& oldest, Entry& newest) {
  oldest.older = shard.newest;
  (shard.newest != nullptr ? shard.newest->newer : shard.oldest) = &oldest;
  shard.newest = &newest;
}

}  // namespace forebay::engine
