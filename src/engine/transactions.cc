// SPDX-License-Identifier: Apache-2.0
#include "engine/transactions.h"

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

/// The bucket may have been deleted, or even made anew, since the request looked it up.
Status CheckBucketIsThere(meta::View& view, const std::string& name, uint64_t id) {
  FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kBuckets, name));
  if (!row) return store::NoSuchBucket(name);
  FB_ASSIGN(const BucketRecord bucket, DecodeBucket(name, *row));
  return bucket.id == id ? Status() : store::NoSuchBucket(name);
}

/// Takes one version out, with whatever only it refers to.
class Removal {
 public:
  /// Reads all that is needed.
  Status Plan(meta::View& view, const CurrentVersion& current) {
    row_key_ = current.row_key;
    version_ = current.newest.version;
    storage_ = current.newest.record.storage;
    std::vector<Piece> pieces = current.newest.record.pieces;
    if (storage_ == Storage::kSegmented) {
      for (uint64_t segment = 0; segment < SegmentCount(current.newest.record.size_bytes); ++segment) {
        const std::string key = SegmentKey(version_, static_cast<uint32_t>(segment));
        FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kMaps, key));
        if (!row)
          return Status::DataLoss("segment {} of version {} has no row; run forebay fsck", segment, version_);
        FB_ASSIGN(const std::vector<Piece> part,
                  DecodePieces(key, *row, SegmentLength(current.newest.record.size_bytes, segment)));
        pieces.insert(pieces.end(), part.begin(), part.end());
        map_rows_.push_back(key);
      }
    }
    for (const Piece& piece : pieces) ++references_[piece.extent];
    for (const auto& [extent, count] : references_) {
      const std::string key = NumberKey(extent);
      FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kExtents, key));
      if (!row)
        return Status::DataLoss("extent {} of version {} has no row; run forebay fsck", extent, version_);
      FB_ASSIGN(ExtentRecord record, DecodeExtent(key, *row));
      if (record.references < count)
        return Status::DataLoss("extent {} counts {} references and version {} has {}; run forebay fsck",
                                extent, record.references, version_, count);
      record.references -= count;
      extents_.emplace_back(extent, std::move(record));
    }
    return {};
  }

  void Apply(meta::Batch& batch, GroupCommit& commits) {
    batch.Delete(Family::kObjects, row_key_);
    if (storage_ == Storage::kInline) batch.Delete(Family::kInline, NumberKey(version_));
    for (const std::string& key : map_rows_) batch.Delete(Family::kMaps, key);
    for (const auto& [extent, record] : extents_) {
      const std::string key = NumberKey(extent);
      if (record.references != 0) {
        batch.Put(Family::kExtents, key, EncodeExtent(key, record));
        continue;
      }
      batch.Delete(Family::kExtents, key);
      const UnitRun run{.device = record.device,
                        .first_unit = record.first_unit,
                        .units = static_cast<uint32_t>(record.units())};
      commits.MarkFree(run);
      freed_.push_back(run);
    }
  }

  /// What nothing refers to any more once the change is durable.
  std::vector<UnitRun> TakeFreed() { return std::exchange(freed_, {}); }

 private:
  std::string row_key_;
  uint64_t version_ = 0;
  Storage storage_ = Storage::kInline;
  std::vector<std::string> map_rows_;
  std::map<uint64_t, uint64_t> references_;
  std::vector<std::pair<uint64_t, ExtentRecord>> extents_;
  std::vector<UnitRun> freed_;
};

/// What puts and deletes have in common: a key whose current version is replaced.
class ObjectChange : public meta::Transaction {
 public:
  void Done(const Status& outcome) final {
    if (!changing_) return;
    changing_ = false;
    core_.cache.EndChange(bucket_, key_, outcome.ok() ? new_state_ : nullptr);
    if (outcome.ok()) core_.epochs.Retire(removal_.TakeFreed());
  }

 protected:
  ObjectChange(Core& core, std::string bucket_name, uint64_t bucket, std::string key,
               store::Condition condition)
      : core_(core),
        bucket_name_(std::move(bucket_name)),
        bucket_(bucket),
        key_(std::move(key)),
        condition_(std::move(condition)) {}

  /// Reads the current version and decides. Gives whether there is one.
  Result<bool> PlanRemoval(meta::View& view) {
    FB_TRY(CheckBucketIsThere(view, bucket_name_, bucket_));
    FB_ASSIGN(const std::optional<CurrentVersion> current, FindCurrent(view, bucket_, key_));
    std::optional<std::string_view> etag;
    if (current && !current->newest.record.delete_marker) etag = current->newest.record.etag;
    FB_TRY(store::CheckCondition(condition_, etag, bucket_name_, key_));
    if (!current) return false;
    FB_TRY(removal_.Plan(view, *current));
    return true;
  }

  /// After this Prepare cannot fail.
  void BeginChange() {
    changing_ = true;
    core_.cache.BeginChange(bucket_, key_);
  }

  Core& core_;
  const std::string bucket_name_;
  const uint64_t bucket_;
  const std::string key_;
  const store::Condition condition_;
  Removal removal_;
  ObjectStatePtr new_state_;

 private:
  bool changing_ = false;
};

class PutTransaction final : public ObjectChange {
 public:
  PutTransaction(Core& core, PutRequest request, PutOutcome* outcome)
      : ObjectChange(core, request.bucket_name, request.bucket, request.key, request.condition),
        request_(std::move(request)),
        outcome_(outcome) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const bool replaces, PlanRemoval(view));
    BeginChange();
    if (replaces) removal_.Apply(batch, *core_.commits);
    WriteVersion(batch);
    outcome_->prepared = true;
    outcome_->info = new_state_->info;
    return {};
  }
  bool needs_data_flush() const override { return !request_.extents.empty(); }

 private:
  void WriteVersion(meta::Batch& batch) {
    const uint64_t version = core_.commits->NextVersion();
    ObjectRecord record;
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
      batch.Put(Family::kInline, NumberKey(version), request_.inline_content);
      state->inline_content = std::move(request_.inline_content);
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

  /// One row for each extent, and the object's map of them.
  std::vector<Piece> WriteExtents(meta::Batch& batch, ObjectState& state) {
    std::vector<Piece> pieces;
    uint64_t begin = 0;
    for (NewExtent& extent : request_.extents) {
      const uint64_t id = core_.commits->NextExtent();
      ExtentRecord record;
      record.device = extent.run.device;
      record.first_unit = extent.run.first_unit;
      record.length_bytes = extent.length_bytes;
      record.checksums = std::move(extent.checksums);
      const std::string key = NumberKey(id);
      batch.Put(Family::kExtents, key, EncodeExtent(key, record));
      core_.commits->MarkUsed(extent.run);
      pieces.push_back({.extent = id, .offset = 0, .length = extent.length_bytes});
      state.pieces.push_back({.begin = begin,
                              .length = extent.length_bytes,
                              .extent = static_cast<uint32_t>(state.extents.size()),
                              .offset = 0});
      state.extents.push_back({id, std::move(record)});
      begin += extent.length_bytes;
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

  PutRequest request_;
  PutOutcome* const outcome_;  // borrowed from the committing coroutine
};

class DeleteTransaction final : public ObjectChange {
 public:
  DeleteTransaction(Core& core, std::string bucket_name, uint64_t bucket, std::string key,
                    store::Condition condition)
      : ObjectChange(core, std::move(bucket_name), bucket, std::move(key), std::move(condition)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const bool is_there, PlanRemoval(view));
    if (!is_there) return store::NoSuchObject(bucket_name_, key_);
    BeginChange();
    removal_.Apply(batch, *core_.commits);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }
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
    prepared_ = true;
    return {};
  }
  bool needs_data_flush() const override { return false; }
  void Done(const Status& outcome) override {
    if (prepared_ && outcome.ok()) core_.buckets.Add(bucket_);
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
    prepared_ = true;
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }
  void Done(const Status& outcome) override {
    if (prepared_ && outcome.ok()) core_.buckets.Remove(name_);
  }

 private:
  Core& core_;
  const TenantId tenant_;
  const std::string name_;
  bool prepared_ = false;
};

}  // namespace

std::unique_ptr<meta::Transaction> MakePut(Core& core, PutRequest request, PutOutcome* outcome) {
  return std::make_unique<PutTransaction>(core, std::move(request), outcome);
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

}  // namespace forebay::engine
