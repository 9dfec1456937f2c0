// SPDX-License-Identifier: Apache-2.0
#include "engine/tier.h"

#include <algorithm>
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
  const auto& entries = found->second.entries;
  const size_t begin = first.block - key.block;
  const size_t end = std::min(entries.size(), begin + blocks.size());
  for (size_t i = begin; i < end;) {
    if (entries[i] == nullptr) {
      ++i;
      continue;
    }
    // Those that were used one after another last time, too, move together.
    Entry& oldest = *entries[i];
    Entry* newest = nullptr;
    do {
      newest = entries[i].get();
      blocks[i - begin] = newest->block;
      ++i;
    } while (i < end && entries[i] != nullptr && newest->newer == entries[i].get());
    if (shard.newest == newest) continue;
    Unlink(shard, oldest, *newest);
    Link(shard, oldest, *newest);
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
  Run& place = shard.runs[run];
  const size_t index = key.block - run.block;
  if (index >= place.entries.size()) place.entries.resize(index + 1);
  std::unique_ptr<Entry>& entry = place.entries[index];
  if (entry != nullptr) return;
  block.Freeze();  // many will read it, none writes: movers may keep what they made of it
  entry = std::make_unique<Entry>(key, block);
  ++place.held;
  Link(shard, *entry, *entry);
  bytes_.fetch_add(footprint, std::memory_order_relaxed);
}

bool Tier::EvictOne() {
  const size_t first = next_victim_.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[(first + i) % kShards];
    std::unique_ptr<Entry> victim;  // freed outside of the lock
    base::MutexLock lock(shard.mutex);
    if (shard.oldest == nullptr) continue;
    const BlockKey key = shard.oldest->key;
    Unlink(shard, *shard.oldest, *shard.oldest);
    const auto run = shard.runs.find(RunOf(key));
    victim = std::move(run->second.entries[key.block - run->first.block]);
    bytes_.fetch_sub(Footprint(victim->block), std::memory_order_relaxed);
    if (--run->second.held == 0) shard.runs.erase(run);
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
