// SPDX-License-Identifier: Apache-2.0
#include "engine/transactions.h"

#include <set>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "engine/cache_transactions.h"
#include "engine/object_change.h"
#include "engine/upload_rows.h"
#include "store/checks.h"
#include "store/conditions.h"
#include "store/tenancy.h"

namespace forebay::engine {
namespace {

using meta::Family;

class DeleteTransaction final : public ObjectChange {
 public:
  DeleteTransaction(Core& core, std::string bucket_name, uint64_t bucket, std::string key,
                    store::Condition condition)
      : ObjectChange(core, std::move(bucket_name), bucket, std::move(key), std::move(condition)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const Planned planned, PlanRemoval(view));
    if (!planned.is_there) return store::NoSuchObject(bucket_name_, key_);
    FB_TRY(references_.Plan(view));
    if (planned.versioned) {
      // It adds a row. What is kept for deletes is for those that take some away.
      if (!planned.removes) FB_TRY(view.CheckRoom(base::kMiB));
      usage_change_.objects += 1;
      FB_TRY(core_.commits->tenants().Check(owner_, usage_change_));
    }
    BeginChange();
    if (planned.removes) removal_.Apply(batch, core_);
    references_.Apply(batch, *core_.commits);
    if (planned.versioned) WriteMarker(batch, planned);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }

 private:
  void WriteMarker(meta::Batch& batch, const Planned& planned) {
    ObjectRecord record;
    record.delete_marker = true;
    record.kept = planned.keeps;
    if (planned.keeps) record.null_version = planned.null_version;
    record.modified_ns = core_.clock.WallNow().time_since_epoch().count();
    const std::string row_key = EncodeObjectKey(bucket_, key_, core_.commits->NextVersion());
    batch.Put(Family::kObjects, row_key, EncodeObject(row_key, record));
  }
};

/// The row of a version, which stays under its key.
class SetAttributesTransaction final : public ObjectChange {
 public:
  SetAttributesTransaction(Core& core, std::string bucket_name, uint64_t bucket, std::string key, uint64_t version,
                           store::AttributeChange change)
      : ObjectChange(core, std::move(bucket_name), bucket, std::move(key), change.condition),
        version_(version),
        change_(std::move(change)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const store::BucketInfo bucket, FindBucketRow(view, bucket_name_, bucket_));
    SetBucket(bucket);
    FB_ASSIGN(CurrentVersion found, Find(view));
    ObjectRecord& record = found.newest.record;
    FB_TRY(store::CheckCondition(condition_, record.etag, bucket_name_, key_));
    FB_ASSIGN(record.attributes, store::ChangedAttributes(std::move(record.attributes), change_));
    BeginChange();
    batch.Put(Family::kObjects, found.row_key, EncodeObject(found.row_key, record));
    return {};
  }
  bool needs_data_flush() const override { return false; }

 private:
  Result<CurrentVersion> Find(meta::View& view) {
    if (version_ == 0) {
      FB_ASSIGN(std::optional<CurrentVersion> current, FindCurrent(view, bucket_, key_));
      if (!current || current->newest.record.delete_marker || IsExpired(key_, current->newest))
        return store::NoSuchObject(bucket_name_, key_);
      return *std::move(current);
    }
    FB_ASSIGN(std::optional<CurrentVersion> found, FindVersion(view, bucket_, key_, version_));
    if (!found || found->newest.record.delete_marker || IsExpired(key_, found->newest))
      return store::NoSuchVersion(bucket_name_, key_, version_);
    return *std::move(found);
  }

  const uint64_t version_;  // 0: the current one
  const store::AttributeChange change_;
};

class DeleteVersionTransaction final : public ObjectChange {
 public:
  DeleteVersionTransaction(Core& core, std::string bucket_name, uint64_t bucket, std::string key, uint64_t version)
      : ObjectChange(core, std::move(bucket_name), bucket, std::move(key), {}), version_(version) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const store::BucketInfo bucket, FindBucketRow(view, bucket_name_, bucket_));
    SetBucket(bucket);
    FB_ASSIGN(const std::optional<CurrentVersion> found, FindVersion(view, bucket_, key_, version_));
    if (!found || IsExpired(key_, found->newest)) return store::NoSuchVersion(bucket_name_, key_, version_);
    FB_TRY(removal_.Plan(view, *found, references_));
    FB_TRY(references_.Plan(view));
    usage_change_.Remove(found->newest.record.size_bytes);
    BeginChange();
    removal_.Apply(batch, core_);
    references_.Apply(batch, *core_.commits);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }

 private:
  const uint64_t version_;
};

/// The row of a version under another key, as a later one; its content stays under the number it has, and a pin goes with it.
void MoveRow(meta::Batch& batch, Core& core, const CurrentVersion& current, uint64_t bucket, bool cache,
             const std::string& to) {
  const uint64_t version = core.commits->NextVersion();
  batch.Delete(Family::kObjects, current.row_key);
  const std::string row_key = EncodeObjectKey(bucket, to, version);
  batch.Put(Family::kObjects, row_key, EncodeObject(row_key, current.newest.record));
  if (!cache) return;
  const CachedName before{bucket, current.newest.version};
  const std::optional<Pins::Pin> pin = core.pins.Take(before);
  CacheOrder::Remove(batch, before);
  EnterCache(core, batch, {bucket, version}, to, current.newest.record);
  if (!pin) return;
  batch.Delete(Family::kSystem, EncodePinKey(before));
  WritePin(core, batch, {bucket, version}, *pin);
}

/// The change of the key `to`, and of `from`.
class RenameTransaction final : public ObjectChange {
 public:
  RenameTransaction(Core& core, std::string bucket_name, uint64_t bucket, std::string from, std::string to,
                    store::RenameOptions options)
      : ObjectChange(core, std::move(bucket_name), bucket, std::move(to), std::move(options.target)),
        from_(std::move(from)),
        from_condition_(std::move(options.source)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const store::BucketInfo bucket, FindUnversioned(view, bucket_name_, bucket_, "renamed"));
    SetBucket(bucket);
    FB_ASSIGN(const std::optional<CurrentVersion> source, FindCurrent(view, bucket_, from_));
    if (!source || source->newest.record.delete_marker || IsExpired(from_, source->newest))
      return store::NoSuchObject(bucket_name_, from_);
    FB_TRY(store::CheckCondition(from_condition_, source->newest.record.etag, bucket_name_, from_));
    FB_ASSIGN(const Planned planned, PlanRemoval(view));
    FB_TRY(references_.Plan(view));
    BeginChange();
    core_.cache.BeginChange(bucket_, from_);
    if (planned.removes) removal_.Apply(batch, core_);
    references_.Apply(batch, *core_.commits);
    MoveRow(batch, core_, *source, bucket_, cache_, key_);
    return {};
  }
  bool needs_data_flush() const override { return false; }

 private:
  void EndOthers() override { core_.cache.EndChange(bucket_, from_, nullptr); }

  const std::string from_;
  const store::Condition from_condition_;
};

/// Of the rows of one rename of a prefix: they are all in memory, and in one batch.
constexpr uint64_t kMaxRenameBytes = 128 * base::kMiB;

class RenamePrefixTransaction final : public meta::Transaction {
 public:
  RenamePrefixTransaction(Core& core, std::string bucket_name, uint64_t bucket, std::string from, std::string to,
                          std::shared_ptr<store::ObjectInfo> renamed)
      : core_(core),
        bucket_name_(std::move(bucket_name)),
        bucket_(bucket),
        from_(std::move(from)),
        to_(std::move(to)),
        renamed_(std::move(renamed)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const store::BucketInfo bucket, FindUnversioned(view, bucket_name_, bucket_, "renamed"));
    cache_ = store::IsCache(bucket);
    FB_TRY(Plan(view));
    if (moves_.empty()) return store::NothingToRename(bucket_name_, from_);
    FB_TRY(CheckTargets(view));
    FB_TRY(references_.Plan(view));
    FB_TRY(view.CheckRoom(row_bytes_));
    expired_.Apply(batch);
    references_.Apply(batch, *core_.commits);
    for (const Move& move : moves_) {
      core_.cache.BeginChange(bucket_, move.from);
      core_.cache.BeginChange(bucket_, move.to);
      MoveRow(batch, core_, move.current, bucket_, cache_, move.to);
    }
    changing_ = true;
    renamed_->version = moves_.size();
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool durable() const override { return !cache_; }
  void Done(const Status& outcome) override {
    if (!changing_) return;
    expired_.Done(outcome);
    if (outcome.ok()) core_.epochs.Retire(references_.TakeFreed());
    for (const Move& move : moves_) {
      core_.cache.EndChange(bucket_, move.from, nullptr);
      core_.cache.EndChange(bucket_, move.to, nullptr);
    }
  }

 private:
  struct Move {
    std::string from;
    std::string to;
    CurrentVersion current;
  };

  Status Plan(meta::View& view) {
    std::string at = BucketPrefix(bucket_) + from_;
    const std::string end = PrefixEnd(at);
    while (true) {
      FB_ASSIGN(auto row, view.First(Family::kObjects, at, end));
      if (!row) return {};
      FB_ASSIGN(const ObjectKey name, DecodeObjectKey(row->first));
      const std::string key(name.key);
      at = PrefixEnd(ObjectPrefix(bucket_, key));  // beyond its older versions
      FB_ASSIGN(NewestVersion newest, DecodeVersion(row->first, row->second));
      const base::WallTime modified{base::Duration(newest.record.modified_ns)};
      if (newest.record.delete_marker || core_.IsExpired(bucket_, newest.version, modified)) continue;
      if (moves_.size() == base::kMaxRenamed) return store::TooManyToRename(bucket_name_, from_);
      FB_ASSIGN(std::string to, store::RenamedKey(key, from_, to_));
      row_bytes_ += 2 * row->first.size() + to.size() + row->second.size();
      if (row_bytes_ > kMaxRenameBytes) return store::TooManyToRename(bucket_name_, from_);
      moves_.push_back({.from = key,
                        .to = std::move(to),
                        .current = {.row_key = std::move(row->first), .newest = std::move(newest)}});
    }
  }

  /// A new key may be that of an object only when that goes away too.
  Status CheckTargets(meta::View& view) {
    const std::string begin = BucketPrefix(bucket_) + to_;
    FB_ASSIGN(const auto any, view.First(Family::kObjects, begin, PrefixEnd(begin)));
    if (!any) return {};
    std::set<std::string_view> moved;
    for (const Move& move : moves_) moved.insert(move.from);
    for (const Move& move : moves_) {
      if (moved.contains(move.to)) continue;
      FB_ASSIGN(const std::optional<CurrentVersion> target, FindCurrent(view, bucket_, move.to));
      if (!target) continue;
      const NewestVersion& newest = target->newest;
      if (!core_.IsExpired(bucket_, newest.version, base::WallTime(base::Duration(newest.record.modified_ns))))
        return store::RenameInTheWay(bucket_name_, move.from, move.to);
      FB_TRY(expired_.Add(view, {{bucket_, newest.version}, {.key = move.to}}).status());
    }
    return {};
  }

  Core& core_;
  const std::string bucket_name_;
  const uint64_t bucket_;
  const std::string from_;
  const std::string to_;
  const std::shared_ptr<store::ObjectInfo> renamed_;  // shared: who waits may leave at its deadline
  std::vector<Move> moves_;
  uint64_t row_bytes_ = 0;  // roughly, of what it writes
  ReferenceChanges references_;
  Victims expired_{core_, references_};  // which have the new names
  bool cache_ = false;
  bool changing_ = false;
};

class CreateBucketTransaction final : public meta::Transaction {
 public:
  CreateBucketTransaction(Core& core, store::BucketInfo info) : core_(core) {
    bucket_.info = std::move(info);
  }

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    const std::string& name = bucket_.info.name;
    FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kBuckets, name));
    if (row) return Status::AlreadyExists("bucket `{}` exists already", name);
    // Members of one group may pass the limit together, by at most the size of a group.
    if (store::CountsAsBucket(bucket_.info.owner) && core_.buckets.size() >= base::kMaxBuckets)
      return Status::ResourceExhausted("there are {} buckets already, which is the limit: delete some first",
                                       base::kMaxBuckets);
    bucket_.id = core_.commits->NextBucket();
    bucket_.info.created = core_.clock.WallNow();
    batch.Put(Family::kBuckets, name, EncodeBucket(name, bucket_));
    core_.commits->tenants().Add(bucket_.info.owner, {.buckets = 1});
    prepared_ = true;
    return {};
  }
  bool needs_data_flush() const override { return false; }
  void Done(const Status& outcome) override {
    if (!prepared_ || !outcome.ok()) return;
    core_.buckets.Add(bucket_);
    if (store::IsCache(bucket_.info)) core_.order.AddBucket(bucket_.id, bucket_.info.owner);
    core_.commits->tenants().Publish(bucket_.info.owner);
  }

 private:
  Core& core_;
  BucketRecord bucket_;
  bool prepared_ = false;
};

class UpdateBucketTransaction final : public meta::Transaction {
 public:
  UpdateBucketTransaction(Core& core, TenantId tenant, std::string name, store::BucketSettings settings)
      : core_(core), tenant_(tenant), name_(std::move(name)), settings_(settings) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kBuckets, name_));
    if (!row) return store::NoSuchBucket(name_);
    FB_ASSIGN(bucket_, DecodeBucket(name_, *row));
    if (!store::Sees(tenant_, bucket_.info.owner)) return store::NoSuchBucket(name_);
    FB_ASSIGN(bucket_.info, store::ChangedSettings(std::move(bucket_.info), settings_));
    batch.Put(Family::kBuckets, name_, EncodeBucket(name_, bucket_));
    prepared_ = true;
    return {};
  }
  bool needs_data_flush() const override { return false; }
  void Done(const Status& outcome) override {
    if (prepared_ && outcome.ok()) core_.buckets.Add(bucket_);
  }

 private:
  Core& core_;
  const TenantId tenant_;
  const std::string name_;
  const store::BucketSettings settings_;
  BucketRecord bucket_;
  bool prepared_ = false;
};

class DeleteBucketTransaction final : public meta::Transaction {
 public:
  DeleteBucketTransaction(Core& core, TenantId tenant, std::string name)
      : core_(core), tenant_(tenant), name_(std::move(name)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kBuckets, name_));
    if (!row) return store::NoSuchBucket(name_);
    FB_ASSIGN(const BucketRecord bucket, DecodeBucket(name_, *row));
    if (!store::Sees(tenant_, bucket.info.owner)) return store::NoSuchBucket(name_);
    const std::string prefix = BucketPrefix(bucket.id);
    FB_ASSIGN(const auto object, view.First(Family::kObjects, prefix, PrefixEnd(prefix)));
    if (object)
      return Status::FailedPrecondition(
          "bucket `{}` holds objects, or versions of deleted ones: delete them first, with: forebay rm {}/KEY", name_, name_);
    const std::string uploads = UploadsPrefix(bucket.id);
    FB_ASSIGN(const auto upload, view.First(Family::kSystem, uploads, PrefixEnd(uploads)));
    if (upload)
      return Status::FailedPrecondition("bucket `{}` holds uploads: complete them or give them up first", name_);
    batch.Delete(Family::kBuckets, name_);
    owner_ = bucket.info.owner;
    bucket_ = bucket.id;
    core_.commits->tenants().Add(owner_, {.buckets = -1});
    prepared_ = true;
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }
  void Done(const Status& outcome) override {
    if (!prepared_ || !outcome.ok()) return;
    core_.buckets.Remove(name_);
    core_.order.RemoveBucket(bucket_);
    core_.commits->tenants().Publish(owner_);
  }

 private:
  Core& core_;
  const TenantId tenant_;
  const std::string name_;
  TenantId owner_ = TenantId::kNone;
  uint64_t bucket_ = 0;
  bool prepared_ = false;
};

class SetQuotaTransaction final : public meta::Transaction {
 public:
  SetQuotaTransaction(Core& core, TenantId tenant, store::Quota quota)
      : core_(core), tenant_(tenant), quota_(quota) {}

  Status Prepare(meta::View& /*view*/, meta::Batch& /*batch*/) override {
    return core_.commits->tenants().SetQuota(tenant_, quota_);  // the group's batch takes the row
  }
  bool needs_data_flush() const override { return false; }
  void Done(const Status& outcome) override {
    if (outcome.ok()) core_.commits->tenants().Publish(tenant_);
  }

 private:
  Core& core_;
  const TenantId tenant_;
  const store::Quota quota_;
};

}  // namespace

std::unique_ptr<meta::Transaction> MakePublish(Core& core, PublishRequest request, PublishOutcome* outcome) {
  return std::make_unique<PublishTransaction>(core, std::move(request), outcome);
}

std::unique_ptr<meta::Transaction> MakeRename(Core& core, std::string bucket_name, uint64_t bucket, std::string from,
                                              std::string to, store::RenameOptions options) {
  return std::make_unique<RenameTransaction>(core, std::move(bucket_name), bucket, std::move(from), std::move(to),
                                             std::move(options));
}

std::unique_ptr<meta::Transaction> MakeRenamePrefix(Core& core, std::string bucket_name, uint64_t bucket,
                                                    std::string from, std::string to,
                                                    std::shared_ptr<store::ObjectInfo> renamed) {
  return std::make_unique<RenamePrefixTransaction>(core, std::move(bucket_name), bucket, std::move(from),
                                                   std::move(to), std::move(renamed));
}

std::unique_ptr<meta::Transaction> MakeDelete(Core& core, std::string bucket_name, uint64_t bucket,
                                              std::string key, store::Condition condition) {
  return std::make_unique<DeleteTransaction>(core, std::move(bucket_name), bucket, std::move(key),
                                             std::move(condition));
}

std::unique_ptr<meta::Transaction> MakeSetAttributes(Core& core, std::string bucket_name, uint64_t bucket,
                                                     std::string key, uint64_t version, store::AttributeChange change) {
  return std::make_unique<SetAttributesTransaction>(core, std::move(bucket_name), bucket, std::move(key), version,
                                                    std::move(change));
}

std::unique_ptr<meta::Transaction> MakeDeleteVersion(Core& core, std::string bucket_name, uint64_t bucket,
                                                     std::string key, uint64_t version) {
  return std::make_unique<DeleteVersionTransaction>(core, std::move(bucket_name), bucket, std::move(key), version);
}

std::unique_ptr<meta::Transaction> MakeUpdateBucket(Core& core, TenantId tenant, std::string name,
                                                    store::BucketSettings settings) {
  return std::make_unique<UpdateBucketTransaction>(core, tenant, std::move(name), settings);
}

std::unique_ptr<meta::Transaction> MakeCreateBucket(Core& core, store::BucketInfo info) {
  return std::make_unique<CreateBucketTransaction>(core, std::move(info));
}

std::unique_ptr<meta::Transaction> MakeDeleteBucket(Core& core, TenantId tenant, std::string name) {
  return std::make_unique<DeleteBucketTransaction>(core, tenant, std::move(name));
}

std::unique_ptr<meta::Transaction> MakeSetQuota(Core& core, TenantId tenant, store::Quota quota) {
  return std::make_unique<SetQuotaTransaction>(core, tenant, quota);
}

}  // namespace forebay::engine
