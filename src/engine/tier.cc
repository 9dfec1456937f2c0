// SPDX-License-Identifier: Apache-2.0
#include "engine/tier.h"

#include <bit>

namespace forebay::engine {
namespace {

/// What a block takes of the arena.
uint64_t Footprint(const base::Buffer& block) {
  return std::bit_ceil(base::RoundUp(block.size(), base::Arena::kPage));
}

}  // namespace

base::Buffer Tier::Lookup(const BlockKey& key) {
  Shard& shard = ShardOf(key);
  base::MutexLock lock(shard.mutex);
  const auto found = shard.blocks.find(key);
  if (found == shard.blocks.end()) return {};
  shard.order.splice(shard.order.begin(), shard.order, found->second);
  return found->second->block;
}

void Tier::Insert(const BlockKey& key, const base::Buffer& block) {
  const uint64_t footprint = Footprint(block);
  if (footprint > limit_bytes_) return;
  while (bytes_.load() + footprint > limit_bytes_ && EvictOne()) {
  }
  Shard& shard = ShardOf(key);
  base::MutexLock lock(shard.mutex);
  // Looked at under the lock: whoever holds inserts empties each shard afterwards.
  if (holds_.load() != 0) return;
  const auto [place, is_new] = shard.blocks.try_emplace(key);
  if (!is_new) return;
  block.Freeze();  // many will read it, none writes: movers may keep what they made of it
  shard.order.push_front({key, block});
  place->second = shard.order.begin();
  bytes_.fetch_add(footprint, std::memory_order_relaxed);
}

bool Tier::EvictOne() {
  const size_t first = next_victim_.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[(first + i) % kShards];
    base::Buffer victim;  // freed outside of the lock
    base::MutexLock lock(shard.mutex);
    if (shard.order.empty()) continue;
    Entry& entry = shard.order.back();
    victim = std::move(entry.block);
    bytes_.fetch_sub(Footprint(victim), std::memory_order_relaxed);
    shard.blocks.erase(entry.key);
    shard.order.pop_back();
    return true;
  }
  return false;
}

}  // namespace forebay::engine
