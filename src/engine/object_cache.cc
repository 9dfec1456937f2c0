// SPDX-License-Identifier: Apache-2.0
#include "engine/object_cache.h"

#include "base/check.h"

namespace forebay::engine {

ObjectCache::Found ObjectCache::Lookup(uint64_t bucket, std::string_view key) {
  const Name name{bucket, key};
  Shard& shard = ShardOf(name);
  base::MutexLock lock(shard.mutex);
  const auto found = shard.entries.find(name);
  if (found == shard.entries.end()) return {nullptr, shard.generation};
  shard.order.splice(shard.order.begin(), shard.order, found->second);
  return {*found->second, shard.generation};
}

void ObjectCache::Insert(const ObjectStatePtr& state, uint64_t generation) {
  const Name name{state->bucket, state->info.key};
  Shard& shard = ShardOf(name);
  base::MutexLock lock(shard.mutex);
  if (shard.generation != generation || shard.entries.contains(name)) return;
  if (!shard.changing.empty() && shard.changing.contains({state->bucket, state->info.key})) return;
  Add(shard, state);
}

void ObjectCache::BeginChange(uint64_t bucket, std::string_view key) {
  const Name name{bucket, key};
  Shard& shard = ShardOf(name);
  base::MutexLock lock(shard.mutex);
  Erase(shard, name);
  ++shard.changing[{bucket, std::string(key)}];
}

void ObjectCache::EndChange(uint64_t bucket, std::string_view key, const ObjectStatePtr& state) {
  const Name name{bucket, key};
  Shard& shard = ShardOf(name);
  base::MutexLock lock(shard.mutex);
  ++shard.generation;
  const auto found = shard.changing.find({bucket, std::string(key)});
  FB_CHECK(found != shard.changing.end());
  // Of several changes in one group only the last one's state is current.
  if (--found->second != 0) return;
  shard.changing.erase(found);
  if (state != nullptr) Add(shard, state);
}

void ObjectCache::BeginChangeOfAll() {
  for (Shard& shard : shards_) {
    base::MutexLock lock(shard.mutex);
    ++shard.changing_all;
    shard.entries.clear();  // before the states that its keys point into
    shard.order.clear();
    shard.bytes = 0;
  }
}

void ObjectCache::EndChangeOfAll() {
  for (Shard& shard : shards_) {
    base::MutexLock lock(shard.mutex);
    ++shard.generation;
    FB_CHECK(shard.changing_all-- > 0);
  }
}

void ObjectCache::Erase(Shard& shard, const Name& name) {
  const auto found = shard.entries.find(name);
  if (found == shard.entries.end()) return;
  const auto place = found->second;
  shard.bytes -= (*place)->footprint();
  shard.entries.erase(found);  // before the state that its key points into
  shard.order.erase(place);
}

void ObjectCache::Add(Shard& shard, const ObjectStatePtr& state) {
  const uint64_t footprint = state->footprint();
  if (footprint > limit_per_shard_ || shard.changing_all != 0) return;
  while (shard.bytes + footprint > limit_per_shard_)
    Erase(shard, {shard.order.back()->bucket, shard.order.back()->info.key});
  shard.order.push_front(state);
  shard.entries.emplace(Name{state->bucket, state->info.key}, shard.order.begin());
  shard.bytes += footprint;
}

}  // namespace forebay::engine
