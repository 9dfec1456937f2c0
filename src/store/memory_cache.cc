// SPDX-License-Identifier: Apache-2.0
// The cache buckets of MemoryStore: what expires, what a quota displaces, and pins. It never runs out of space, so it
// evicts for no other reason.
#include <map>
#include <optional>
#include <utility>

#include "store/cache_class.h"
#include "store/checks.h"
#include "store/memory_store.h"
#include "store/quota.h"

namespace forebay::store {

base::WallTime MemoryStore::TimeOf(const Bucket& bucket) const {
  return IsCache(bucket.info) ? WallTimeOf(operation_time_ms()) : clock_.WallNow();
}

bool MemoryStore::IsPinned(const Bucket& bucket, uint64_t version) const {
  const auto pin = bucket.pins.find(version);
  return pin != bucket.pins.end() && pin->second > operation_time_ms();
}

void MemoryStore::Expire(Bucket& bucket) {
  if (bucket.info.ttl.count() == 0) return;
  std::vector<VersionPointer> expired;
  const uint64_t now_ms = operation_time_ms();
  for (const auto& [key, version] : bucket.objects)
    if (store::IsExpired(version->info.modified, bucket.info.ttl, now_ms) && !IsPinned(bucket, version->info.version))
      expired.push_back(version);
  for (const VersionPointer& version : expired) {
    UsageChange change;
    change.Remove(version->info.size_bytes);
    AddUsage(change, &tenants_[bucket.info.owner]);
    TakeOut(bucket, *version);
  }
}

void MemoryStore::MakeRoom(const Bucket& bucket, std::string_view key, const UsageChange& change) {
  const TenantId owner = bucket.info.owner;
  if (!CheckQuota(owner, {.quota = UsageOf(owner).quota}, change).ok()) return;  // it would not fit into an empty store
  std::map<uint64_t, std::pair<Bucket*, VersionPointer>> others;  // by version: the oldest first
  for (auto& [name, other] : buckets_) {
    if (!IsCache(other.info) || other.info.owner != owner) continue;
    for (const auto& [name_of, version] : other.objects) {
      const bool is_own = &other == &bucket && name_of == key;
      if (!is_own && !IsPinned(other, version->info.version)) others[version->info.version] = {&other, version};
    }
  }
  TenantUsage usage = UsageOf(owner);
  auto end = others.begin();
  for (; !CheckQuota(owner, usage, change).ok(); ++end) {
    if (end == others.end()) return;  // all of them would not be enough: they stay
    UsageChange evicted;
    evicted.Remove(end->second.second->info.size_bytes);
    AddUsage(evicted, &usage);
  }
  for (auto one = others.begin(); one != end; ++one) TakeOut(*one->second.first, *one->second.second);
  tenants_[owner] = usage;
}

PinnedUsage MemoryStore::PinnedOf(TenantId owner) const {
  PinnedUsage pinned;
  for (const auto& [name, bucket] : buckets_) {
    if (bucket.info.owner != owner || bucket.pins.empty()) continue;
    for (const auto& [key, version] : bucket.objects) {
      if (!IsPinned(bucket, version->info.version)) continue;
      ++pinned.objects;
      pinned.bytes += version->info.size_bytes;
    }
  }
  return pinned;
}

Status MemoryStore::ChangePin(TenantId tenant, std::string_view bucket, const std::string& key,
                              std::optional<std::chrono::milliseconds> time) {
  const base::MutexLock lock(mutex_);
  FB_ASSIGN(Bucket * in, FindBucket(tenant, bucket));
  FB_TRY(CheckCanPin(in->info));
  const auto object = in->objects.find(key);
  if (object == in->objects.end()) return NoSuchObject(bucket, key);
  const ObjectInfo& info = object->second->info;
  in->pins.erase(info.version);
  if (!time) return {};
  FB_TRY(CheckPinned(PinnedOf(in->info.owner), info.size_bytes, arena_.size_bytes()));
  in->pins[info.version] = operation_time_ms() + static_cast<uint64_t>(time->count());
  return {};
}

rt::Task<Status> MemoryStore::Pin(const Context& context, std::string bucket, std::string key,
                                  std::chrono::milliseconds time) {
  FB_CO_TRY(CheckDeadline(context, "pin"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_TRY(CheckPinTime(time));
  co_return ChangePin(context.tenant, bucket, key, time);
}

rt::Task<Status> MemoryStore::Unpin(const Context& context, std::string bucket, std::string key) {
  FB_CO_TRY(CheckDeadline(context, "unpin"));
  FB_CO_TRY(base::CheckKey(key));
  co_return ChangePin(context.tenant, bucket, key, std::nullopt);
}

}  // namespace forebay::store
