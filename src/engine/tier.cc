// SPDX-License-Identifier: Apache-2.0
#include "engine/tier.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace forebay::engine {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

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
  const uint64_t now = inserted_bytes_.load(kRelaxed);  // under the lock: no entry here is younger
  const uint64_t burst = bytes_.load(kRelaxed) / kBurstShare;
  const auto& entries = found->second.entries;
  const size_t begin = first.block - key.block;
  const size_t end = std::min(entries.size(), begin + blocks.size());
  for (size_t i = begin; i < end; ++i) {
    if (entries[i] == nullptr) continue;
    Entry& entry = *entries[i];
    blocks[i - begin] = entry.block;
    if (entry.uses == kMaxUses || now - entry.counted_at < burst) continue;
    ++entry.uses;
    entry.counted_at = now;
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
  entry->counted_at = inserted_bytes_.fetch_add(footprint, kRelaxed) + footprint;
  inserted_.fetch_add(1, kRelaxed);
  const Level level = TakeGhost(shard, key) ? kMain : kSmall;
  if (level == kMain) ghost_hits_.fetch_add(1, kRelaxed);
  bytes_.fetch_add(footprint, kRelaxed);
  if (level == kSmall) small_bytes_.fetch_add(footprint, kRelaxed);
  blocks_.fetch_add(1, kRelaxed);
  Push(shard, level, *entry);
}

bool Tier::EvictOne() {
  for (size_t looks = 0;; ++looks) {
    // Shares and ages are those of the whole tier: its shards are one cache, whatever falls to each.
    const Level level = small_bytes_.load(kRelaxed) * kSmallShare > bytes_.load(kRelaxed) ? kSmall : kMain;
    Shard* const shard = ShardOfOldest(level);
    if (shard == nullptr) return EvictAny();
    if (TryEvict(*shard, level, looks < kMaxSpared)) return true;
  }
}

Tier::Shard* Tier::ShardOfOldest(Level level) {
  Shard* shard = nullptr;
  uint64_t oldest = kNone;
  for (Shard& candidate : shards_) {
    const uint64_t number = candidate.oldest[level].load(kRelaxed);
    if (number >= oldest) continue;
    oldest = number;
    shard = &candidate;
  }
  return shard;
}

bool Tier::TryEvict(Shard& shard, Level level, bool spare) {
  std::unique_ptr<Entry> victim;  // freed outside of the lock
  base::MutexLock lock(shard.mutex);
  const Entry* const oldest = shard.queues[level].oldest;
  if (oldest == nullptr) return false;  // others were faster
  if (oldest->uses == 0 || !spare) {
    victim = Drop(shard, level);
    return true;
  }
  Entry& entry = Pop(shard, level);
  if (level == kSmall) {
    entry.uses = 0;
    small_bytes_.fetch_sub(Footprint(entry.block), kRelaxed);
    promoted_.fetch_add(1, kRelaxed);
  } else {
    --entry.uses;
  }
  Push(shard, kMain, entry);
  return false;
}

bool Tier::EvictAny() {
  for (Shard& shard : shards_) {
    std::unique_ptr<Entry> victim;  // freed outside of the lock
    base::MutexLock lock(shard.mutex);
    for (const Level level : {kSmall, kMain}) {
      if (shard.queues[level].oldest == nullptr) continue;
      victim = Drop(shard, level);
      return true;
    }
  }
  return false;
}

std::unique_ptr<Tier::Entry> Tier::Drop(Shard& shard, Level level) {
  const Entry& entry = Pop(shard, level);
  const BlockKey key = entry.key;
  const uint64_t footprint = Footprint(entry.block);
  const auto run = shard.runs.find(RunOf(key));
  std::unique_ptr<Entry> dropped = std::move(run->second.entries[key.block - run->first.block]);
  if (--run->second.held == 0) shard.runs.erase(run);
  bytes_.fetch_sub(footprint, kRelaxed);
  blocks_.fetch_sub(1, kRelaxed);
  if (level == kSmall) {
    small_bytes_.fetch_sub(footprint, kRelaxed);
    AddGhost(shard, key);
  } else {
    evicted_main_.fetch_add(1, kRelaxed);
  }
  return dropped;
}

void Tier::Push(Shard& shard, Level level, Entry& entry) {
  Queue& queue = shard.queues[level];
  entry.number = next_number_.fetch_add(1, kRelaxed);
  entry.newer = nullptr;
  if (queue.newest != nullptr) {
    queue.newest->newer = &entry;
  } else {
    queue.oldest = &entry;
    shard.oldest[level].store(entry.number, kRelaxed);
  }
  queue.newest = &entry;
}

Tier::Entry& Tier::Pop(Shard& shard, Level level) {
  Queue& queue = shard.queues[level];
  Entry& entry = *queue.oldest;
  queue.oldest = entry.newer;
  if (queue.oldest == nullptr) queue.newest = nullptr;
  shard.oldest[level].store(queue.oldest != nullptr ? queue.oldest->number : kNone, kRelaxed);
  return entry;
}

void Tier::AddGhost(Shard& shard, const BlockKey& key) {
  const uint64_t number = evicted_small_.fetch_add(1, kRelaxed);
  const uint64_t remembered = blocks_.load(kRelaxed);
  while (!shard.ghost_order.empty() && number - shard.ghost_order.front().number >= remembered) {
    const Ghost& old = shard.ghost_order.front();
    // It may have come back, and gone again, since.
    if (const auto found = shard.ghosts.find(old.key); found != shard.ghosts.end() && found->second == old.number)
      shard.ghosts.erase(found);
    shard.ghost_order.pop_front();
  }
  shard.ghosts[key] = number;
  shard.ghost_order.push_back({key, number});
}

bool Tier::TakeGhost(Shard& shard, const BlockKey& key) {
  const auto found = shard.ghosts.find(key);
  if (found == shard.ghosts.end()) return false;
  const uint64_t number = found->second;
  shard.ghosts.erase(found);
  return evicted_small_.load(kRelaxed) - number <= blocks_.load(kRelaxed);
}

TierStats Tier::stats() const {
  return {.inserted = inserted_.load(kRelaxed),
          .ghost_hits = ghost_hits_.load(kRelaxed),
          .promoted = promoted_.load(kRelaxed),
          .evicted_small = evicted_small_.load(kRelaxed),
          .evicted_main = evicted_main_.load(kRelaxed)};
}

}  // namespace forebay::engine
