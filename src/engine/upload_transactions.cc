// SPDX-License-Identifier: Apache-2.0
#include "engine/upload_transactions.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "engine/object_change.h"
#include "store/checks.h"

namespace forebay::engine {
namespace {

using meta::Family;

struct StoredPart {
  std::string row_key;
  uint32_t number = 0;
  PartRecord record;
};

/// All parts of an upload, in order.
Result<std::vector<StoredPart>> PartsOf(meta::View& view, uint64_t upload) {
  std::vector<StoredPart> parts;
  std::string at = PartsPrefix(upload);
  const std::string end = PrefixEnd(at);
  while (true) {
    FB_ASSIGN(auto row, view.First(Family::kSystem, at, end));
    if (!row) return parts;
    FB_ASSIGN(const PartKey key, DecodePartKey(row->first));
    FB_ASSIGN(PartRecord record, DecodePart(row->first, row->second));
    at = row->first + '\0';
    parts.push_back({.row_key = std::move(row->first), .number = key.number, .record = std::move(record)});
  }
}

Result<UploadRecord> UploadOf(meta::View& view, const UploadTarget& upload) {
  const std::string key = EncodeUploadKey(upload.bucket, upload.name.key, upload.name.id);
  FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kSystem, key));
  if (!row) return store::NoSuchUpload(upload.name);
  return DecodeUpload(key, *row);
}

UploadTarget TargetOf(const PublishRequest& request) {
  return {.name = {.bucket = request.bucket_name, .key = request.key, .id = request.upload}, .bucket = request.bucket};
}

class CreateUploadTransaction final : public meta::Transaction {
 public:
  CreateUploadTransaction(Core& core, std::string bucket_name, uint64_t bucket, std::string key,
                          store::UserMetadata metadata, std::shared_ptr<store::ObjectInfo> begun)
      : core_(core),
        bucket_name_(std::move(bucket_name)),
        bucket_(bucket),
        key_(std::move(key)),
        metadata_(std::move(metadata)),
        begun_(std::move(begun)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_TRY(OwnerOfBucket(view, bucket_name_, bucket_).status());
    begun_->version = core_.commits->NextVersion();
    begun_->modified = core_.clock.WallNow();
    const std::string row_key = EncodeUploadKey(bucket_, key_, begun_->version);
    batch.Put(Family::kSystem, row_key,
              EncodeUpload(row_key, {.created_ns = begun_->modified.time_since_epoch().count(),
                                     .metadata = std::move(metadata_)}));
    return {};
  }
  bool needs_data_flush() const override { return false; }
  void Done(const Status& /*outcome*/) override {}

 private:
  Core& core_;
  const std::string bucket_name_;
  const uint64_t bucket_;
  const std::string key_;
  store::UserMetadata metadata_;
  const std::shared_ptr<store::ObjectInfo> begun_;  // shared: who waits may leave at its deadline
};

/// What changes of uploads that publish nothing have in common.
class UploadChange : public meta::Transaction {
 public:
  void Done(const Status& outcome) final {
    if (!prepared_ || !outcome.ok()) return;
    core_.epochs.Retire(references_.TakeFreed());
    core_.commits->tenants().Publish(owner_);
  }

 protected:
  explicit UploadChange(Core& core) : core_(core) {}

  /// After this Prepare cannot fail.
  void BeginChange() {
    prepared_ = true;
    core_.commits->tenants().Add(owner_, usage_change_);
  }

  Core& core_;
  ReferenceChanges references_;
  TenantId owner_ = TenantId::kNone;
  store::UsageChange usage_change_;

 private:
  bool prepared_ = false;
};

class PutPartTransaction final : public UploadChange {
 public:
  bool durable() const override { return !cache_; }
  PutPartTransaction(Core& core, PublishRequest request, PublishOutcome* outcome)
      : UploadChange(core), request_(std::move(request)), rows_(core, request_), outcome_(outcome) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const store::BucketInfo bucket, FindBucketRow(view, request_.bucket_name, request_.bucket));
    owner_ = bucket.owner;
    cache_ = store::IsCache(bucket);
    rows_.SetCache(cache_);
    FB_TRY(UploadOf(view, TargetOf(request_)).status());
    const std::string row_key = EncodePartKey(request_.upload, request_.part);
    FB_ASSIGN(const std::optional<std::string> before, view.Get(Family::kSystem, row_key));
    usage_change_.bytes = static_cast<int64_t>(request_.size_bytes);
    if (before) {
      FB_ASSIGN(const PartRecord record, DecodePart(row_key, *before));
      usage_change_.bytes -= static_cast<int64_t>(record.size_bytes);
      references_.Remove(record.pieces);
    }
    FB_TRY(rows_.CheckSources(view));
    FB_TRY(rows_.Split(0, UINT64_MAX, kMaxPartPieces, references_));
    FB_TRY(references_.Plan(view));
    FB_TRY(view.CheckRoom(references_.RowBytes() + rows_.RowBytes()));
    FB_TRY(rows_.Check(references_));
    FB_TRY(core_.commits->tenants().Check(owner_, usage_change_));
    BeginChange();
    references_.Apply(batch, *core_.commits);
    WritePart(batch, row_key);
    outcome_->prepared = true;
    return {};
  }
  bool needs_data_flush() const override { return !request_.content.extents.empty(); }

 private:
  void WritePart(meta::Batch& batch, const std::string& row_key) {
    PartRecord record;
    record.size_bytes = request_.size_bytes;
    record.crc32c = request_.crc32c;
    record.etag = request_.etag.empty() ? store::DefaultETag(core_.commits->NextVersion(), request_.crc32c)
                                        : std::move(request_.etag);
    record.modified_ns = core_.clock.WallNow().time_since_epoch().count();
    record.pieces = rows_.Write(batch, references_, nullptr);
    batch.Put(Family::kSystem, row_key, EncodePart(row_key, record));
    outcome_->info.key = request_.key;
    outcome_->info.size_bytes = record.size_bytes;
    outcome_->info.crc32c = record.crc32c;
    outcome_->info.etag = std::move(record.etag);
    outcome_->info.modified = base::WallTime(base::Duration(record.modified_ns));
  }

  PublishRequest request_;
  ContentRows rows_;
  PublishOutcome* const outcome_;  // borrowed from the committing coroutine
  bool cache_ = false;
};

class CompleteUploadTransaction final : public PublishTransaction {
 public:
  using PublishTransaction::PublishTransaction;

 private:
  Status PlanMore(meta::View& view) override {
    FB_TRY(OwnerOfBucket(view, request_.bucket_name, request_.bucket).status());
    const UploadTarget upload = TargetOf(request_);
    FB_ASSIGN(UploadRecord record, UploadOf(view, upload));
    FB_ASSIGN(const std::vector<StoredPart> parts, PartsOf(view, request_.upload));
    rows_to_delete_.push_back(EncodeUploadKey(upload.bucket, upload.name.key, upload.name.id));
    for (const StoredPart& part : parts) {
      rows_to_delete_.push_back(part.row_key);
      references_.Remove(part.record.pieces);
      usage_change_.bytes -= static_cast<int64_t>(part.record.size_bytes);
    }
    for (const store::PartRef& named : request_.parts) FB_TRY(Take(named, parts));
    request_.metadata = std::move(record.metadata);
    return store::CheckContent(request_.expected_crc32c, request_.crc32c, request_.bucket_name, request_.key);
  }
  void ApplyMore(meta::Batch& batch) override {
    for (const std::string& key : rows_to_delete_) batch.Delete(Family::kSystem, key);
  }

  /// Adds the content of a part to what is published.
  Status Take(const store::PartRef& named, const std::vector<StoredPart>& parts) {
    const auto part = std::ranges::lower_bound(parts, named.number, {}, &StoredPart::number);
    const bool is_there = part != parts.end() && part->number == named.number;
    std::optional<std::string_view> etag;
    if (is_there) etag = part->record.etag;
    FB_TRY(store::CheckNamedPart(named, etag));
    FB_TRY(store::CheckObjectSize(request_.size_bytes, part->record.size_bytes));
    for (const Piece& piece : part->record.pieces)
      request_.runs.push_back(
          {.is_new = false, .extent = piece.extent, .offset = piece.offset, .length = piece.length});
    request_.crc32c = base::Crc32cCombine(request_.crc32c, part->record.crc32c, part->record.size_bytes);
    request_.size_bytes += part->record.size_bytes;
    return {};
  }

  std::vector<std::string> rows_to_delete_;
};

class AbortUploadTransaction final : public UploadChange {
 public:
  AbortUploadTransaction(Core& core, UploadTarget upload) : UploadChange(core), upload_(std::move(upload)) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(owner_, OwnerOfBucket(view, upload_.name.bucket, upload_.bucket));
    FB_TRY(UploadOf(view, upload_).status());
    FB_ASSIGN(const std::vector<StoredPart> parts, PartsOf(view, upload_.name.id));
    for (const StoredPart& part : parts) {
      references_.Remove(part.record.pieces);
      usage_change_.bytes -= static_cast<int64_t>(part.record.size_bytes);
    }
    FB_TRY(references_.Plan(view));
    BeginChange();
    batch.Delete(Family::kSystem, EncodeUploadKey(upload_.bucket, upload_.name.key, upload_.name.id));
    for (const StoredPart& part : parts) batch.Delete(Family::kSystem, part.row_key);
    references_.Apply(batch, *core_.commits);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }

 private:
  const UploadTarget upload_;
};

}  // namespace

std::unique_ptr<meta::Transaction> MakeCreateUpload(Core& core, std::string bucket_name, uint64_t bucket,
                                                    std::string key, store::UserMetadata metadata,
                                                    std::shared_ptr<store::ObjectInfo> begun) {
  return std::make_unique<CreateUploadTransaction>(core, std::move(bucket_name), bucket, std::move(key),
                                                   std::move(metadata), std::move(begun));
}

std::unique_ptr<meta::Transaction> MakePutPart(Core& core, PublishRequest request, PublishOutcome* outcome) {
  return std::make_unique<PutPartTransaction>(core, std::move(request), outcome);
}

std::unique_ptr<meta::Transaction> MakeCompleteUpload(Core& core, PublishRequest request, PublishOutcome* outcome) {
  return std::make_unique<CompleteUploadTransaction>(core, std::move(request), outcome);
}

std::unique_ptr<meta::Transaction> MakeAbortUpload(Core& core, UploadTarget upload) {
  return std::make_unique<AbortUploadTransaction>(core, std::move(upload));
}

// ---- lookups ----

Status FindUpload(meta::MetaStore& meta, const UploadTarget& upload) {
  const std::string key = EncodeUploadKey(upload.bucket, upload.name.key, upload.name.id);
  FB_ASSIGN(const std::optional<std::string> row, meta.Get(Family::kSystem, key));
  return row ? DecodeUpload(key, *row).status() : store::NoSuchUpload(upload.name);
}

Result<store::PartPage> ListParts(meta::MetaStore& meta, const UploadTarget& upload, uint32_t start_after,
                                  uint32_t limit) {
  store::PartPage page;
  const std::unique_ptr<meta::Scan> scan =
      meta.NewScan(Family::kSystem, PrefixEnd(PartsPrefix(upload.name.id)));
  FB_TRY(FindUpload(meta, upload));  // after the scan began: it was there all the time
  if (start_after >= base::kMaxParts) return page;
  for (scan->Seek(EncodePartKey(upload.name.id, start_after + 1)); scan->Valid(); scan->Next()) {
    page.truncated = page.parts.size() == limit;
    if (page.truncated) break;
    FB_ASSIGN(const PartKey key, DecodePartKey(scan->key()));
    FB_ASSIGN(PartRecord record, DecodePart(scan->key(), scan->value()));
    page.parts.push_back({.number = key.number,
                          .size_bytes = record.size_bytes,
                          .etag = std::move(record.etag),
                          .crc32c = record.crc32c,
                          .modified = base::WallTime(base::Duration(record.modified_ns))});
  }
  FB_TRY(scan->status());
  return page;
}

Result<store::UploadPage> ListUploads(meta::MetaStore& meta, uint64_t bucket,
                                      const store::UploadListOptions& options) {
  const std::string prefix = UploadsPrefix(bucket) + options.prefix;
  const std::unique_ptr<meta::Scan> scan = meta.NewScan(Family::kSystem, PrefixEnd(prefix));
  std::string from = prefix;
  if (!options.after_key.empty())
    from = std::max(from, EncodeUploadKey(bucket, options.after_key, options.after_id) + '\0');
  store::UploadPage page;
  for (scan->Seek(from); scan->Valid(); scan->Next()) {
    page.truncated = page.uploads.size() == options.limit;
    if (page.truncated) break;
    FB_ASSIGN(const UploadKey key, DecodeUploadKey(scan->key()));
    FB_ASSIGN(UploadRecord record, DecodeUpload(scan->key(), scan->value()));
    page.uploads.push_back({.id = key.upload,
                            .key = std::string(key.key),
                            .created = base::WallTime(base::Duration(record.created_ns)),
                            .metadata = std::move(record.metadata)});
  }
  FB_TRY(scan->status());
  return page;
}

}  // namespace forebay::engine
