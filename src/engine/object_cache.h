// SPDX-License-Identifier: Apache-2.0
// ObjectCache: the current versions of objects that were looked at lately. Coherent with the metadata: from
// the moment a transaction prepares a change of a key until its outcome is known the key is not cached, and
// whoever loaded a row before that cannot add it afterwards (each shard counts its changes). Bounded in
// bytes, least recently used first. Thread-safe; each call takes one short lock.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "engine/object_state.h"

namespace forebay::engine {

class ObjectCache {
 public:
  explicit ObjectCache(uint64_t limit_bytes) : limit_per_shard_(limit_bytes / kShards) {}

  struct Found {
    ObjectStatePtr state;     // null when it is not cached
    uint64_t generation = 0;  // to hand to Insert after having loaded it
  };
  Found Lookup(uint64_t bucket, std::string_view key);
  /// Adds what was loaded after Lookup gave `generation`, unless something changed since.
  void Insert(const ObjectStatePtr& state, uint64_t generation);

  /// Around each change of a key: after BeginChange it is not cached, until as many EndChange.
  void BeginChange(uint64_t bucket, std::string_view key);
  /// `state` is the new current version; null when there is none or it is not known.
  void EndChange(uint64_t bucket, std::string_view key, const ObjectStatePtr& state);

  /// Around a change of where the bytes of objects are, of whatever objects: meanwhile nothing is cached, and what was
  /// is forgotten.
  void BeginChangeOfAll();
  void EndChangeOfAll();

 private:
  static constexpr size_t kShards = 64;

  struct Name {
    uint64_t bucket;
    std::string_view key;  // of the entry's own state
    friend bool operator==(const Name&, const Name&) = default;
  };
  struct Hash {
    size_t operator()(const Name& name) const {
      return std::hash<std::string_view>()(name.key) ^ static_cast<size_t>(name.bucket * 0x9e3779b97f4a7c15);
    }
  };
  struct Shard {
    base::Mutex mutex;
    uint64_t generation FB_GUARDED_BY(mutex) = 0;
    uint64_t bytes FB_GUARDED_BY(mutex) = 0;
    size_t changing_all FB_GUARDED_BY(mutex) = 0;
    std::list<ObjectStatePtr> order FB_GUARDED_BY(mutex);  // most recently used first
    std::unordered_map<Name, std::list<ObjectStatePtr>::iterator, Hash> entries FB_GUARDED_BY(mutex);
    std::map<std::pair<uint64_t, std::string>, size_t> changing FB_GUARDED_BY(mutex);
  };

  Shard& ShardOf(const Name& name) { return shards_[(Hash()(name) >> 17) % kShards]; }
  static void Erase(Shard& shard, const Name& name) FB_REQUIRES(shard.mutex);
  void Add(Shard& shard, const ObjectStatePtr& state) FB_REQUIRES(shard.mutex);

  const uint64_t limit_per_shard_;
  std::array<Shard, kShards> shards_;
};

}  // namespace forebay::engine
