// SPDX-License-Identifier: Apache-2.0
#include "engine/transactions.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/limits.h"
#include "store/checks.h"
#include "store/conditions.h"
#include "store/tenancy.h"

namespace forebay::engine {
namespace {

using meta::Family;

/// The newest version as the view has it, with the key of its row.
struct CurrentVersion {
  std::string row_key;
  NewestVersion newest;
};

Result<std::optional<CurrentVersion>> FindCurrent(meta::View& view, uint64_t bucket, const std::string& key) {
  FB_ASSIGN(auto row, view.First(Family::kObjects, FirstVersion(bucket, key), EndOfVersions(bucket, key)));
  if (!row) return std::optional<CurrentVersion>();
  FB_ASSIGN(NewestVersion newest, DecodeVersion(row->first, row->second));
  return std::optional(CurrentVersion{std::move(row->first), std::move(newest)});
}

/// The bucket may have been deleted, or even made anew, since the request looked it up. Gives whose it is.
Result<TenantId> OwnerOfBucket(meta::View& view, const std::string& name, uint64_t id) {
  FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kBuckets, name));
  if (!row) return store::NoSuchBucket(name);
  FB_ASSIGN(const BucketRecord bucket, DecodeBucket(name, *row));
  if (bucket.id != id) return store::NoSuchBucket(name);
  return bucket.info.owner;
}

/// Changes of how often extents are referred to. An extent that nothing refers to any more goes.
class ReferenceChanges {
 public:
  void Add(uint64_t extent) { ++changes_[extent].by; }
  void Remove(uint64_t extent) { --changes_[extent].by; }

  /// Reads all that is needed; DataLoss for an extent that is not there, or is referred to less often than is taken.
  Status Plan(meta::View& view) {
    for (auto& [extent, change] : changes_) {
      const std::string key = NumberKey(extent);
      FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kExtents, key));
      if (!row) return Status::DataLoss("extent {} is referred to and has no row; run forebay fsck", extent);
      FB_ASSIGN(change.record, DecodeExtent(key, *row));
      if (change.by < 0 && change.record.references < static_cast<uint64_t>(-change.by))
        return Status::DataLoss("extent {} counts {} references and has {} more; run forebay fsck", extent,
                                change.record.references, static_cast<uint64_t>(-change.by));
      change.record.references += static_cast<uint64_t>(change.by);
    }
    return {};
  }

  /// As planned, with the references that it will have; it is one that was added or removed.
  const ExtentRecord& record(uint64_t extent) const { return changes_.at(extent).record; }

  void Apply(meta::Batch& batch, GroupCommit& commits) {
    for (const auto& [extent, change] : changes_) {
      if (change.by == 0) continue;
      const std::string key = NumberKey(extent);
      if (change.record.references != 0) {
        batch.Put(Family::kExtents, key, EncodeExtent(key, change.record));
        continue;
      }
      batch.Delete(Family::kExtents, key);
      const UnitRun run{.device = change.record.device,
                        .first_unit = change.record.first_unit,
                        .units = static_cast<uint32_t>(change.record.units())};
      commits.MarkFree(run);
      freed_.push_back(run);
    }
  }

  /// What nothing refers to any more once the change is durable.
  std::vector<UnitRun> TakeFreed() { return std::exchange(freed_, {}); }

 private:
  struct Change {
    int64_t by = 0;
    ExtentRecord record{};
  };
  std::map<uint64_t, Change> changes_;
  std::vector<UnitRun> freed_;
};

/// Takes one version out, with whatever only it refers to.
class Removal {
 public:
  /// Reads all that is needed but the extents, which `references` does.
  Status Plan(meta::View& view, const CurrentVersion& current, ReferenceChanges& references) {
    const ObjectRecord& record = current.newest.record;
    row_key_ = current.row_key;
    content_ = record.content;
    storage_ = record.storage;
    for (const Piece& piece : record.pieces) references.Remove(piece.extent);
    if (storage_ != Storage::kSegmented) return {};
    for (uint64_t segment = 0; segment < SegmentCount(record.size_bytes); ++segment) {
      const std::string key = SegmentKey(content_, static_cast<uint32_t>(segment));
      FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kMaps, key));
      if (!row)
        return Status::DataLoss("segment {} of version {} has no row; run forebay fsck", segment,
                                current.newest.version);
      FB_ASSIGN(const std::vector<Piece> part,
                DecodePieces(key, *row, SegmentLength(record.size_bytes, segment)));
      for (const Piece& piece : part) references.Remove(piece.extent);
      map_rows_.push_back(key);
    }
    return {};
  }

  void Apply(meta::Batch& batch) const {
    batch.Delete(Family::kObjects, row_key_);
    if (storage_ == Storage::kInline) batch.Delete(Family::kInline, NumberKey(content_));
    for (const std::string& key : map_rows_) batch.Delete(Family::kMaps, key);
  }

 private:
  std::string row_key_;
  uint64_t content_ = 0;
  Storage storage_ = Storage::kInline;
  std::vector<std::string> map_rows_;
};

/// What puts, deletes and renames have in common: a key whose current version is replaced.
class ObjectChange : public meta::Transaction {
 public:
  void Done(const Status& outcome) final {
    if (!changing_) return;
    changing_ = false;
    core_.cache.EndChange(bucket_, key_, outcome.ok() ? new_state_ : nullptr);
    EndOthers();
    if (!outcome.ok()) return;
    core_.epochs.Retire(references_.TakeFreed());
    core_.commits->tenants().Publish(owner_);
  }

 protected:
  ObjectChange(Core& core, std::string bucket_name, uint64_t bucket, std::string key,
               store::Condition condition)
      : core_(core),
        bucket_name_(std::move(bucket_name)),
        bucket_(bucket),
        key_(std::move(key)),
        condition_(std::move(condition)) {}

  /// Reads the current version and decides. Gives whether there is one. Its references are taken away, but not
  /// planned yet.
  Result<bool> PlanRemoval(meta::View& view) {
    FB_ASSIGN(owner_, OwnerOfBucket(view, bucket_name_, bucket_));
    FB_ASSIGN(const std::optional<CurrentVersion> current, FindCurrent(view, bucket_, key_));
    std::optional<std::string_view> etag;
    if (current && !current->newest.record.delete_marker) etag = current->newest.record.etag;
    FB_TRY(store::CheckCondition(condition_, etag, bucket_name_, key_));
    if (!current) return false;
    FB_TRY(removal_.Plan(view, *current, references_));
    usage_change_.Remove(current->newest.record.size_bytes);
    return true;
  }

  /// After this Prepare cannot fail.
  void BeginChange() {
    changing_ = true;
    core_.cache.BeginChange(bucket_, key_);
    core_.commits->tenants().Add(owner_, usage_change_);
  }
  /// For a change that begins those of other keys too.
  virtual void EndOthers() {}

  Core& core_;
  const std::string bucket_name_;
  const uint64_t bucket_;
  const std::string key_;
  const store::Condition condition_;
  Removal removal_;
  ReferenceChanges references_;
  TenantId owner_ = TenantId::kNone;
  store::UsageChange usage_change_;
  ObjectStatePtr new_state_;

 private:
  bool changing_ = false;
};

class PublishTransaction final : public ObjectChange {
 public:
  PublishTransaction(Core& core, PublishRequest request, PublishOutcome* outcome)
      : ObjectChange(core, request.bucket_name, request.bucket, request.key, request.condition),
        request_(std::move(request)),
        outcome_(outcome) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    usage_change_ = store::UsageChange::Put(request_.size_bytes);
    FB_ASSIGN(const bool replaces, PlanRemoval(view));
    FB_TRY(CheckSources(view));
    SplitRuns();
    FB_TRY(references_.Plan(view));
    FB_TRY(CheckRuns());
    FB_TRY(core_.commits->tenants().Check(owner_, usage_change_));
    BeginChange();
    if (replaces) removal_.Apply(batch);
    references_.Apply(batch, *core_.commits);
    WriteVersion(batch);
    outcome_->prepared = true;
    outcome_->info = new_state_->info;
    return {};
  }
  bool needs_data_flush() const override { return !request_.content.extents.empty(); }

 private:
  Status CheckSources(meta::View& view) const {
    for (const SourceVersion& source : request_.sources) {
      FB_TRY(OwnerOfBucket(view, source.bucket_name, source.bucket).status());
      FB_ASSIGN(const std::optional<CurrentVersion> current, FindCurrent(view, source.bucket, source.key));
      if (!current || current->newest.version != source.version)
        return Status::Aborted("`{}/{}` was replaced while it was being used", source.bucket_name, source.key);
    }
    return {};
  }

  /// So that none crosses the border of a segment, and each segment has a map of its own.
  void SplitRuns() {
    const std::vector<NewExtent>& extents = request_.content.extents;
    if (request_.runs.empty())
      for (size_t i = 0; i < extents.size(); ++i)
        request_.runs.push_back({.is_new = true, .extent = i, .offset = 0, .length = extents[i].length_bytes});
    new_references_.assign(extents.size(), 0);
    const uint64_t segment = request_.size_bytes > kSegmentBytes ? kSegmentBytes : UINT64_MAX;
    uint64_t at = 0;
    for (ContentRun run : std::exchange(request_.runs, {})) {
      while (run.length != 0) {
        ContentRun part = run;
        part.length = std::min(run.length, segment - at % segment);
        if (part.is_new) {
          ++new_references_[part.extent];
        } else {
          references_.Add(part.extent);
        }
        at += part.length;
        run.offset += part.length;
        run.length -= part.length;
        request_.runs.push_back(part);
      }
    }
  }

  /// The extents are where their readers found them; the rows were read anew.
  Status CheckRuns() const {
    for (const ContentRun& run : request_.runs) {
      if (run.is_new) continue;
      const ExtentRecord& record = references_.record(run.extent);
      FB_TRY(CheckPlace(run.extent, record, core_.devices));
      if (!base::RangeFits(run.offset, run.length, record.length_bytes))
        return Status::DataLoss("extent {} is shorter than maps of it say; run forebay fsck", run.extent);
    }
    return {};
  }

  void WriteVersion(meta::Batch& batch) {
    const uint64_t version = core_.commits->NextVersion();
    ObjectRecord record;
    record.content = version;
    record.size_bytes = request_.size_bytes;
    record.crc32c = request_.crc32c;
    record.etag =
        request_.etag.empty() ? store::DefaultETag(version, request_.crc32c) : std::move(request_.etag);
    record.modified_ns = core_.clock.WallNow().time_since_epoch().count();
    record.metadata = std::move(request_.metadata);

    auto state = std::make_shared<ObjectState>();
    state->bucket = bucket_;
    const std::vector<Piece> pieces = WriteExtents(batch, *state);
    if (pieces.empty()) {
      record.storage = Storage::kInline;
      batch.Put(Family::kInline, NumberKey(version), request_.content.inline_content);
      state->inline_content = std::move(request_.content.inline_content);
    } else if (request_.size_bytes <= kSegmentBytes) {
      record.storage = Storage::kMap;
      record.pieces = pieces;
    } else {
      record.storage = Storage::kSegmented;
      WriteSegments(batch, version, pieces);
    }
    const std::string row_key = EncodeObjectKey(bucket_, key_, version);
    batch.Put(Family::kObjects, row_key, EncodeObject(row_key, record));
    state->info = InfoOf(key_, version, record);
    new_state_ = std::move(state);
  }

  /// One row for each new extent, and the object's map of all.
  std::vector<Piece> WriteExtents(meta::Batch& batch, ObjectState& state) {
    for (size_t i = 0; i < request_.content.extents.size(); ++i) {
      NewExtent& extent = request_.content.extents[i];
      const uint64_t id = core_.commits->NextExtent();
      ExtentRecord record;
      record.device = extent.run.device;
      record.first_unit = extent.run.first_unit;
      record.length_bytes = extent.length_bytes;
      record.references = new_references_[i];
      record.checksums = std::move(extent.checksums);
      const std::string key = NumberKey(id);
      batch.Put(Family::kExtents, key, EncodeExtent(key, record));
      core_.commits->MarkUsed(extent.run);
      state.extents.push_back({id, std::move(record)});
    }
    std::vector<Piece> pieces;
    pieces.reserve(request_.runs.size());
    state.pieces.reserve(request_.runs.size());
    std::unordered_map<uint64_t, uint32_t> shared;  // by number: the place among the state's
    uint64_t begin = 0;
    for (const ContentRun& run : request_.runs) {
      auto index = static_cast<uint32_t>(run.extent);
      if (!run.is_new) {
        const auto [known, added] = shared.try_emplace(run.extent, static_cast<uint32_t>(state.extents.size()));
        if (added) state.extents.push_back({run.extent, references_.record(run.extent)});
        index = known->second;
      }
      pieces.push_back({.extent = state.extents[index].id, .offset = run.offset, .length = run.length});
      state.pieces.push_back({.begin = begin, .length = run.length, .extent = index, .offset = run.offset});
      begin += run.length;
    }
    return pieces;
  }

  static void WriteSegments(meta::Batch& batch, uint64_t version, const std::vector<Piece>& pieces) {
    uint64_t end = 0;
    size_t first = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      end += pieces[i].length;
      if (end % kSegmentBytes != 0 && i + 1 != pieces.size()) continue;
      const std::string key = SegmentKey(version, static_cast<uint32_t>((end - 1) / kSegmentBytes));
      batch.Put(Family::kMaps, key, EncodePieces(key, std::span(pieces).subspan(first, i + 1 - first)));
      first = i + 1;
    }
  }

  PublishRequest request_;
  PublishOutcome* const outcome_;         // borrowed from the committing coroutine
  std::vector<uint64_t> new_references_;  // of the new extents
};

class DeleteTransaction final : public ObjectChange {
 public:
  DeleteTransaction(Core& core, std::string bucket_name, uint64_t bucket, std::string key,
                    store::Condition condition)
      : ObjectChange(core, std::move(bucket_name), bucket, std::move(key), std::move(condition)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const bool is_there, PlanRemoval(view));
    if (!is_there) return store::NoSuchObject(bucket_name_, key_);
    FB_TRY(references_.Plan(view));
    BeginChange();
    removal_.Apply(batch);
    references_.Apply(batch, *core_.commits);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }
};

/// The row of a version under another key, as a later one; its content stays under the number it has.
void MoveRow(meta::Batch& batch, GroupCommit& commits, const CurrentVersion& current, uint64_t bucket,
             const std::string& to) {
  batch.Delete(Family::kObjects, current.row_key);
  const std::string row_key = EncodeObjectKey(bucket, to, commits.NextVersion());
  batch.Put(Family::kObjects, row_key, EncodeObject(row_key, current.newest.record));
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
    FB_TRY(OwnerOfBucket(view, bucket_name_, bucket_).status());
    FB_ASSIGN(const std::optional<CurrentVersion> source, FindCurrent(view, bucket_, from_));
    if (!source || source->newest.record.delete_marker) return store::NoSuchObject(bucket_name_, from_);
    FB_TRY(store::CheckCondition(from_condition_, source->newest.record.etag, bucket_name_, from_));
    FB_ASSIGN(const bool replaces, PlanRemoval(view));
    FB_TRY(references_.Plan(view));
    BeginChange();
    core_.cache.BeginChange(bucket_, from_);
    if (replaces) removal_.Apply(batch);
    references_.Apply(batch, *core_.commits);
    MoveRow(batch, *core_.commits, *source, bucket_, key_);
    return {};
  }
  bool needs_data_flush() const override { return false; }

 private:
  void EndOthers() override { core_.cache.EndChange(bucket_, from_, nullptr); }

  const std::string from_;
  const store::Condition from_condition_;
};

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
    FB_TRY(OwnerOfBucket(view, bucket_name_, bucket_).status());
    FB_TRY(Plan(view));
    if (moves_.empty()) return store::NothingToRename(bucket_name_, from_);
    FB_TRY(CheckTargets(view));
    for (const Move& move : moves_) {
      core_.cache.BeginChange(bucket_, move.from);
      core_.cache.BeginChange(bucket_, move.to);
      MoveRow(batch, *core_.commits, move.current, bucket_, move.to);
    }
    changing_ = true;
    renamed_->version = moves_.size();
    return {};
  }
  bool needs_data_flush() const override { return false; }
  void Done(const Status& /*outcome*/) override {
    if (!changing_) return;
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
      if (newest.record.delete_marker) continue;
      if (moves_.size() == base::kMaxRenamed) return store::TooManyToRename(bucket_name_, from_);
      FB_ASSIGN(std::string to, store::RenamedKey(key, from_, to_));
      moves_.push_back({.from = key,
                        .to = std::move(to),
                        .current = {.row_key = std::move(row->first), .newest = std::move(newest)}});
    }
  }

  /// A new key may be that of an object only when that goes away too.
  Status CheckTargets(meta::View& view) const {
    const std::string begin = BucketPrefix(bucket_) + to_;
    FB_ASSIGN(const auto any, view.First(Family::kObjects, begin, PrefixEnd(begin)));
    if (!any) return {};
    for (const Move& move : moves_) {
      if (move.to.starts_with(from_)) continue;
      FB_ASSIGN(const std::optional<CurrentVersion> target, FindCurrent(view, bucket_, move.to));
      if (target) return store::RenameInTheWay(bucket_name_, move.from, move.to);
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
    core_.commits->tenants().Publish(bucket_.info.owner);
  }

 private:
  Core& core_;
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
          "bucket `{}` holds objects: delete them first, with: forebay rm {}/KEY", name_, name_);
    batch.Delete(Family::kBuckets, name_);
    owner_ = bucket.info.owner;
    core_.commits->tenants().Add(owner_, {.buckets = -1});
    prepared_ = true;
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }
  void Done(const Status& outcome) override {
    if (!prepared_ || !outcome.ok()) return;
    core_.buckets.Remove(name_);
    core_.commits->tenants().Publish(owner_);
  }

 private:
  Core& core_;
  const TenantId tenant_;
  const std::string name_;
  TenantId owner_ = TenantId::kNone;
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
