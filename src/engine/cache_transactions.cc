// SPDX-License-Identifier: Apache-2.0
#include "engine/cache_transactions.h"

#include <utility>

#include "engine/object_change.h"
#include "store/cache_class.h"

namespace forebay::engine {

using meta::Family;

// ---- what object_change.h declares of caches ----

void EnterCache(Core& core, meta::Batch& batch, const CachedName& name, const std::string& key, const ObjectRecord& record) {
  constexpr int64_t kNsInMs = 1'000'000;
  core.order.Add(batch, name,
                 {.key = key,
                  .size_bytes = record.size_bytes,
                  .put_ms = static_cast<uint64_t>(std::max<int64_t>(record.modified_ns / kNsInMs, 0))});
  core.commits->NoteCacheTime(core.operations.NowMs());
}

void LeaveCache(Core& core, meta::Batch& batch, const CachedName& name) {
  CacheOrder::Remove(batch, name);
  if (core.pins.Take(name)) batch.Delete(Family::kSystem, EncodePinKey(name));
}

int64_t PutTime(const Core& core, bool cache) {
  const base::WallTime now = cache ? store::WallTimeOf(core.operations.NowMs()) : core.clock.WallNow();
  return now.time_since_epoch().count();
}

Result<bool> Victims::Add(meta::View& view, const CachedObject& object) {
  const auto owner = core_.order.buckets().find(object.name.bucket);
  FB_ASSIGN(const std::optional<CurrentVersion> found,
            FindVersion(view, object.name.bucket, object.record.key, object.name.version));
  if (!found || owner == core_.order.buckets().end()) {
    stale_.push_back(object.name);
    return false;
  }
  Victim victim{.name = object.name,
                .key = object.record.key,
                .owner = owner->second,
                .size_bytes = found->newest.record.size_bytes};
  FB_TRY(victim.removal.Plan(view, *found, references_));
  names_.insert(object.name);
  bytes_ += victim.size_bytes;
  victims_.push_back(std::move(victim));
  return true;
}

void Victims::Apply(meta::Batch& batch) {
  applied_ = true;
  for (const CachedName& name : stale_) CacheOrder::Remove(batch, name);
  for (const Victim& victim : victims_) {
    core_.cache.BeginChange(victim.name.bucket, victim.key);
    store::UsageChange change;
    change.Remove(victim.size_bytes);
    core_.commits->tenants().Add(victim.owner, change);
    victim.removal.Apply(batch, core_);
  }
}

void Victims::Done(const Status& outcome) {
  if (!std::exchange(applied_, false)) return;
  for (const Victim& victim : victims_) {
    core_.cache.EndChange(victim.name.bucket, victim.key, nullptr);
    if (outcome.ok()) core_.commits->tenants().Publish(victim.owner);
  }
}

bool ObjectChange::IsExpired(const std::string& /*key*/, const NewestVersion& version) const {
  return cache_ && core_.IsExpired(bucket_, version.version, base::WallTime(base::Duration(version.record.modified_ns)));
}

Status ObjectChange::CheckQuota() const {
  store::UsageChange all = usage_change_;
  all.objects -= static_cast<int64_t>(victims_.count());
  all.bytes -= static_cast<int64_t>(victims_.bytes());
  return core_.commits->tenants().Check(owner_, all);
}

Status ObjectChange::DisplaceForQuota(meta::View& view) {
  if (!cache_ || CheckQuota().ok()) return {};
  const uint64_t now_ms = core_.operations.NowMs();
  for (const bool spare_used : {true, false}) {
    OrderWalk walk = core_.order.WalkOf(owner_);
    while (victims_.count() < kMaxDisplaced && !CheckQuota().ok()) {
      FB_ASSIGN(const std::optional<CachedObject> object, walk.Next(view));
      if (!object) break;
      const bool is_own = object->name.bucket == bucket_ && object->record.key == key_;
      if (is_own || victims_.Has(object->name) || core_.pins.Holds(object->name, now_ms)) continue;
      if (core_.order.TakeUse(object->name.version) && spare_used) continue;
      FB_TRY(victims_.Add(view, *object).status());
    }
  }
  return {};
}

// ---- transactions ----

namespace {

class EvictTransaction final : public meta::Transaction {
 public:
  EvictTransaction(Core& core, uint64_t want_bytes, std::shared_ptr<EvictionOutcome> outcome)
      : core_(core), want_bytes_(want_bytes), outcome_(std::move(outcome)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    now_ms_ = core_.operations.NowMs();
    FB_TRY(ChooseExpired(view));
    outcome_->expired = victims_.count();
    FB_TRY(Choose(view));
    FB_TRY(references_.Plan(view));
    outcome_->evicted = victims_.count() - outcome_->expired;
    outcome_->freed_bytes = victims_.bytes();
    outcome_->rounds = core_.order.rounds();
    victims_.Apply(batch);
    references_.Apply(batch, *core_.commits);
    for (const CachedName& name : core_.pins.TakeEnded(now_ms_, kMaxEvictedAtOnce))
      batch.Delete(Family::kSystem, EncodePinKey(name));
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }
  bool durable() const override { return false; }
  void Done(const Status& outcome) override {
    victims_.Done(outcome);
    if (!outcome.ok()) return;
    core_.epochs.Retire(references_.TakeFreed());
    core_.cache_counts.expired.fetch_add(outcome_->expired, std::memory_order_relaxed);
    core_.cache_counts.evicted.fetch_add(outcome_->evicted, std::memory_order_relaxed);
    core_.cache_counts.evicted_bytes.fetch_add(outcome_->freed_bytes - expired_bytes_, std::memory_order_relaxed);
  }

 private:
  /// From the oldest of each bucket with a ttl on: some buckets at a time.
  Status ChooseExpired(meta::View& view) {
    constexpr size_t kBuckets = 64;
    // Pinned ones, which stay at the beginning, are as many as a tenant may have.
    constexpr size_t kMostLooks = 16 * kMaxLookedAtAtOnce;
    size_t looked_at = 0;
    if (!core_.buckets.has_ttl()) return {};
    const auto buckets = core_.buckets.WithTtl(core_.next_expiry_bucket, kBuckets);
    core_.next_expiry_bucket = buckets.size() < kBuckets ? 0 : buckets.back().first + 1;
    for (const auto& [bucket, ttl] : buckets) {
      OrderWalk walk;
      walk.Offer(bucket, 1);
      while (victims_.count() < kMaxEvictedAtOnce && ++looked_at <= kMostLooks) {
        FB_ASSIGN(const std::optional<CachedObject> object, walk.Next(view));
        if (!object) break;
        const base::WallTime put = store::WallTimeOf(object->record.put_ms);
        if (!store::IsExpired(put, ttl, now_ms_)) break;
        if (!core_.pins.Holds(object->name, now_ms_)) FB_TRY(victims_.Add(view, *object).status());
      }
    }
    expired_bytes_ = victims_.bytes();
    return {};
  }

  Status Choose(meta::View& view) {
    constexpr int kRounds = 2;  // in the first one each second chance is taken
    int rounds = 0;
    size_t looked_at = 0;
    while (victims_.bytes() < want_bytes_ && victims_.count() < kMaxEvictedAtOnce && ++looked_at <= kMaxLookedAtAtOnce) {
      FB_ASSIGN(const std::optional<CachedObject> object, core_.order.Next(view));
      if (!object && ++rounds == kRounds) break;
      if (!object) continue;
      if (victims_.Has(object->name) || core_.pins.Holds(object->name, now_ms_)) continue;
      if (!core_.order.TakeUse(object->name.version)) FB_TRY(victims_.Add(view, *object).status());
    }
    return {};
  }

  Core& core_;
  const uint64_t want_bytes_;
  const std::shared_ptr<EvictionOutcome> outcome_;
  ReferenceChanges references_;
  Victims victims_{core_, references_};
  uint64_t now_ms_ = 0;
  uint64_t expired_bytes_ = 0;
};

class RemoveGoneTransaction final : public meta::Transaction {
 public:
  RemoveGoneTransaction(Core& core, uint64_t bucket, std::string key, uint64_t version)
      : core_(core), object_{.name = {bucket, version}, .record = {.key = std::move(key)}} {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_TRY(victims_.Add(view, object_).status());
    FB_TRY(references_.Plan(view));
    victims_.Apply(batch);
    references_.Apply(batch, *core_.commits);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }
  bool durable() const override { return false; }
  void Done(const Status& outcome) override {
    victims_.Done(outcome);
    if (!outcome.ok()) return;
    core_.epochs.Retire(references_.TakeFreed());
    core_.cache_counts.gone.fetch_add(victims_.count(), std::memory_order_relaxed);
  }

 private:
  Core& core_;
  const CachedObject object_;
  ReferenceChanges references_;
  Victims victims_{core_, references_};
};

class PinTransaction final : public meta::Transaction {
 public:
  PinTransaction(Core& core, std::string bucket_name, uint64_t bucket, std::string key,
                 std::optional<std::chrono::milliseconds> time)
      : core_(core), bucket_name_(std::move(bucket_name)), bucket_(bucket), key_(std::move(key)), time_(time) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    const uint64_t now_ms = core_.operations.NowMs();
    FB_ASSIGN(const store::BucketInfo bucket, FindBucketRow(view, bucket_name_, bucket_));
    FB_TRY(store::CheckCanPin(bucket));
    FB_ASSIGN(const std::optional<CurrentVersion> current, FindCurrent(view, bucket_, key_));
    if (!current || current->newest.record.delete_marker) return store::NoSuchObject(bucket_name_, key_);
    const ObjectRecord& record = current->newest.record;
    const CachedName name{bucket_, current->newest.version};
    if (core_.IsExpired(bucket_, name.version, base::WallTime(base::Duration(record.modified_ns))))
      return store::NoSuchObject(bucket_name_, key_);
    if (time_) FB_TRY(CheckRoom(bucket.owner, name, record.size_bytes, now_ms));
    for (const CachedName& ended : core_.pins.TakeEnded(now_ms, kMaxEvictedAtOnce))
      batch.Delete(Family::kSystem, EncodePinKey(ended));
    if (time_) {
      const uint64_t until_ms = now_ms + static_cast<uint64_t>(time_->count());
      WritePin(core_, batch, name, {{.until_ms = until_ms, .size_bytes = record.size_bytes}, bucket.owner});
    } else if (core_.pins.Take(name)) {
      batch.Delete(Family::kSystem, EncodePinKey(name));
    }
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool durable() const override { return false; }
  void Done(const Status& /*outcome*/) override {}

 private:
  /// A pin that there is already does not count.
  Status CheckRoom(TenantId owner, const CachedName& name, uint64_t size_bytes, uint64_t now_ms) {
    if (core_.pins.Holds(name, now_ms)) return {};
    return store::CheckPinned(core_.pins.Of(owner, now_ms), size_bytes, core_.allocator.capacity_bytes());
  }

  Core& core_;
  const std::string bucket_name_;
  const uint64_t bucket_;
  const std::string key_;
  const std::optional<std::chrono::milliseconds> time_;
};

class EnterCacheTransaction final : public meta::Transaction {
 public:
  EnterCacheTransaction(Core& core, std::vector<CachedObject> objects) : core_(core), objects_(std::move(objects)) {}
  Status Prepare(meta::View& /*view*/, meta::Batch& batch) override {
    for (const CachedObject& object : objects_) core_.order.Add(batch, object.name, object.record);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }  // no, but a store that is full must open
  void Done(const Status& /*outcome*/) override {}

 private:
  Core& core_;
  const std::vector<CachedObject> objects_;
};

}  // namespace

void WritePin(Core& core, meta::Batch& batch, const CachedName& name, const Pins::Pin& pin) {
  const std::string key = EncodePinKey(name);
  batch.Put(Family::kSystem, key, EncodePin(key, pin.record));
  core.pins.Set(name, pin);
}

std::unique_ptr<meta::Transaction> MakeEvict(Core& core, uint64_t want_bytes, std::shared_ptr<EvictionOutcome> outcome) {
  return std::make_unique<EvictTransaction>(core, want_bytes, std::move(outcome));
}

std::unique_ptr<meta::Transaction> MakeRemoveGone(Core& core, uint64_t bucket, std::string key, uint64_t version) {
  return std::make_unique<RemoveGoneTransaction>(core, bucket, std::move(key), version);
}

std::unique_ptr<meta::Transaction> MakePin(Core& core, std::string bucket_name, uint64_t bucket, std::string key,
                                           std::optional<std::chrono::milliseconds> time) {
  return std::make_unique<PinTransaction>(core, std::move(bucket_name), bucket, std::move(key), time);
}

std::unique_ptr<meta::Transaction> MakeEnterCache(Core& core, std::vector<CachedObject> objects) {
  return std::make_unique<EnterCacheTransaction>(core, std::move(objects));
}

}  // namespace forebay::engine
