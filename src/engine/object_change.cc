// SPDX-License-Identifier: Apache-2.0
#include "engine/object_change.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "store/checks.h"
#include "store/conditions.h"

namespace forebay::engine {

using meta::Family;

void WriteSegments(meta::Batch& batch, uint64_t content, uint64_t begin, const std::vector<Piece>& pieces) {
  uint64_t end = begin;
  size_t first = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    end += pieces[i].length;
    if (end % kSegmentBytes != 0 && i + 1 != pieces.size()) continue;
    const std::string key = SegmentKey(content, static_cast<uint32_t>((end - 1) / kSegmentBytes));
    batch.Put(Family::kMaps, key, EncodePieces(key, std::span(pieces).subspan(first, i + 1 - first)));
    first = i + 1;
  }
}

Result<std::vector<Piece>> ReadSegment(meta::View& view, const NewestVersion& version, uint64_t segment) {
  const std::string key = SegmentKey(version.record.content, static_cast<uint32_t>(segment));
  FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kMaps, key));
  if (!row)
    return Status::DataLoss("segment {} of version {} has no row; run forebay fsck", segment, version.version);
  return DecodePieces(key, *row, SegmentLength(version.record.size_bytes, segment));
}

Result<std::optional<CurrentVersion>> FindCurrent(meta::View& view, uint64_t bucket, const std::string& key) {
  FB_ASSIGN(auto row, view.First(Family::kObjects, FirstVersion(bucket, key), EndOfVersions(bucket, key)));
  if (!row) return std::optional<CurrentVersion>();
  FB_ASSIGN(NewestVersion newest, DecodeVersion(row->first, row->second));
  return std::optional(CurrentVersion{std::move(row->first), std::move(newest)});
}

Result<std::optional<CurrentVersion>> FindVersion(meta::View& view, uint64_t bucket, const std::string& key,
                                                  uint64_t version) {
  std::string row_key = EncodeObjectKey(bucket, key, version);
  FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kObjects, row_key));
  if (!row) return std::optional<CurrentVersion>();
  FB_ASSIGN(NewestVersion found, DecodeVersion(row_key, *row));
  return std::optional(CurrentVersion{std::move(row_key), std::move(found)});
}

Result<TenantId> OwnerOfBucket(meta::View& view, const std::string& name, uint64_t id) {
  FB_ASSIGN(const store::BucketInfo bucket, FindBucketRow(view, name, id));
  return bucket.owner;
}

Result<store::BucketInfo> FindUnversioned(meta::View& view, const std::string& name, uint64_t id,
                                          std::string_view what) {
  FB_ASSIGN(store::BucketInfo bucket, FindBucketRow(view, name, id));
  if (bucket.versioning != store::Versioning::kOff) return store::KeepsVersions(name, what);
  return bucket;
}

Result<store::BucketInfo> FindBucketRow(meta::View& view, const std::string& name, uint64_t id) {
  FB_ASSIGN(const std::optional<std::string> row, view.Get(Family::kBuckets, name));
  if (!row) return store::NoSuchBucket(name);
  FB_ASSIGN(BucketRecord bucket, DecodeBucket(name, *row));
  if (bucket.id != id) return store::NoSuchBucket(name);
  return std::move(bucket.info);
}

Status Removal::Plan(meta::View& view, const CurrentVersion& current, ReferenceChanges& references) {
  const ObjectRecord& record = current.newest.record;
  row_key_ = current.row_key;
  content_ = record.content;
  storage_ = record.storage;
  references.Remove(record.pieces);
  if (storage_ != Storage::kSegmented) return {};
  for (uint64_t segment = 0; segment < SegmentCount(record.size_bytes); ++segment) {
    FB_ASSIGN(const std::vector<Piece> part, ReadSegment(view, current.newest, segment));
    references.Remove(part);
    map_rows_.push_back(SegmentKey(content_, static_cast<uint32_t>(segment)));
  }
  return {};
}

void Removal::Apply(meta::Batch& batch, Core& core) const {
  batch.Delete(Family::kObjects, row_key_);
  if (const Result<ObjectKey> key = DecodeObjectKey(row_key_); key.ok() && core.buckets.IsCache(key->bucket))
    LeaveCache(core, batch, {key->bucket, key->version});
  if (storage_ == Storage::kInline) batch.Delete(Family::kInline, NumberKey(content_));  // a marker has none
  for (const std::string& key : map_rows_) batch.Delete(Family::kMaps, key);
}

void ObjectChange::Done(const Status& outcome) {
  if (!changing_) return;
  changing_ = false;
  victims_.Done(outcome);
  core_.cache.EndChange(bucket_, key_, outcome.ok() ? new_state_ : nullptr);
  EndOthers();
  if (!outcome.ok()) return;
  core_.epochs.Retire(references_.TakeFreed());
  core_.commits->tenants().Publish(owner_);
}

Result<ObjectChange::Planned> ObjectChange::PlanRemoval(meta::View& view) {
  FB_ASSIGN(const store::BucketInfo bucket, FindBucketRow(view, bucket_name_, bucket_));
  SetBucket(bucket);
  FB_ASSIGN(std::optional<CurrentVersion> current, FindCurrent(view, bucket_, key_));
  std::optional<std::string_view> etag;
  const bool shows = current && !current->newest.record.delete_marker && !IsExpired(key_, current->newest);
  if (shows) etag = current->newest.record.etag;
  FB_TRY(store::CheckCondition(condition_, etag, bucket_name_, key_));
  Planned planned{.is_there = etag.has_value(),
                  .keeps = bucket.versioning == store::Versioning::kOn,
                  .versioned = bucket.versioning != store::Versioning::kOff};
  if (!current) return planned;
  const ObjectRecord& newest = current->newest.record;
  planned.null_version = newest.kept ? newest.null_version : current->newest.version;
  if (planned.keeps || planned.null_version == 0) return planned;
  if (newest.kept) {
    FB_ASSIGN(current, FindVersion(view, bucket_, key_, planned.null_version));
    if (!current) return planned;  // it was deleted since
  }
  FB_TRY(removal_.Plan(view, *current, references_));
  usage_change_.Remove(current->newest.record.size_bytes);
  planned.removes = true;
  return planned;
}

Status ContentRows::CheckSources(meta::View& view) const {
  for (const SourceVersion& source : request_.sources) {
    FB_TRY(FindBucketRow(view, source.bucket_name, source.bucket).status());
    FB_ASSIGN(const std::optional<CurrentVersion> current, FindCurrent(view, source.bucket, source.key));
    if (!current || current->newest.version != source.version)
      return Status::Aborted("`{}/{}` was replaced while it was being used", source.bucket_name, source.key);
  }
  return {};
}

Status ContentRows::Split(uint64_t begin, uint64_t segment_bytes, size_t segment_pieces, ReferenceChanges& references) {
  const std::vector<NewExtent>& extents = request_.content.extents;
  if (request_.runs.empty())
    for (size_t i = 0; i < extents.size(); ++i)
      request_.runs.push_back({.is_new = true, .extent = i, .offset = 0, .length = extents[i].length_bytes});
  new_references_.assign(extents.size(), 0);
  const auto too_many = [this](size_t limit) {
    return Status::InvalidArgument(
        "`{}/{}` would be made of more than {} pieces in a row that are too small: put the content instead",
        request_.bucket_name, request_.key, limit);
  };
  uint64_t at = begin;
  size_t in_segment = 0;
  for (ContentRun run : std::exchange(request_.runs, {})) {
    while (run.length != 0) {
      ContentRun part = run;
      part.length = std::min(run.length, segment_bytes - at % segment_bytes);
      if (part.is_new) {
        ++new_references_[part.extent];
      } else {
        references.Add(part.extent);
      }
      if (at % segment_bytes == 0) in_segment = 0;
      if (++in_segment > segment_pieces) return too_many(segment_pieces);
      if (request_.runs.size() == kMaxObjectPieces) return too_many(kMaxObjectPieces);
      at += part.length;
      if (run.is_new || run.extent != kHole) run.offset += part.length;
      run.length -= part.length;
      request_.runs.push_back(part);
    }
  }
  return {};
}

uint64_t ContentRows::RowBytes() const {
  constexpr uint64_t kPieceBytes = 12;
  constexpr uint64_t kSegmentRowBytes = 40;
  uint64_t bytes = request_.runs.size() * kPieceBytes;
  uint64_t length = 0;
  for (const ContentRun& run : request_.runs) length += run.length;
  bytes += SegmentCount(length) * kSegmentRowBytes;
  for (const NewExtent& extent : request_.content.extents)
    bytes += ReferenceChanges::kRowBytes + extent.checksums.size() * sizeof(uint32_t);
  return bytes;
}

Status ContentRows::Check(const ReferenceChanges& references) const {
  for (const ContentRun& run : request_.runs) {
    if (run.is_new || run.extent == kHole) continue;
    const ExtentRecord& record = references.record(run.extent);
    FB_TRY(CheckPlace(run.extent, record, core_.devices));
    if (!base::RangeFits(run.offset, run.length, record.length_bytes))
      return Status::DataLoss("extent {} is shorter than maps of it say; run forebay fsck", run.extent);
  }
  return {};
}

std::vector<Piece> ContentRows::Write(meta::Batch& batch, const ReferenceChanges& references, ObjectState* state) {
  std::vector<uint64_t> new_ids;
  for (size_t i = 0; i < request_.content.extents.size(); ++i) {
    NewExtent& extent = request_.content.extents[i];
    const uint64_t id = core_.commits->NextExtent();
    ExtentRecord record;
    record.device = extent.run.device;
    record.first_unit = extent.run.first_unit;
    record.length_bytes = extent.length_bytes;
    record.references = new_references_[i];
    record.cache = cache_;
    record.checksums = std::move(extent.checksums);
    const std::string key = NumberKey(id);
    batch.Put(Family::kExtents, key, EncodeExtent(key, record));
    core_.commits->MarkUsed(extent.run);
    if (cache_) core_.commits->MarkCache(extent.run, true);
    new_ids.push_back(id);
    if (state != nullptr) state->extents.push_back({id, std::move(record)});
  }
  std::vector<Piece> pieces;
  pieces.reserve(request_.runs.size());
  for (const ContentRun& run : request_.runs)
    pieces.push_back(
        {.extent = run.is_new ? new_ids[run.extent] : run.extent, .offset = run.offset, .length = run.length});
  if (state != nullptr) Resolve(references, *state);
  return pieces;
}

void ContentRows::Resolve(const ReferenceChanges& references, ObjectState& state) const {
  state.pieces.reserve(request_.runs.size());
  std::unordered_map<uint64_t, uint32_t> shared;  // by number: the place among the state's
  uint64_t begin = 0;
  for (const ContentRun& run : request_.runs) {
    auto index = static_cast<uint32_t>(run.extent);
    if (!run.is_new && run.extent == kHole) {
      index = kHoleIndex;
    } else if (!run.is_new) {
      const auto [known, added] = shared.try_emplace(run.extent, static_cast<uint32_t>(state.extents.size()));
      if (added) state.extents.push_back({run.extent, references.record(run.extent)});
      index = known->second;
    }
    state.pieces.push_back({.begin = begin, .length = run.length, .extent = index, .offset = run.offset});
    begin += run.length;
  }
}

Status PublishTransaction::Prepare(meta::View& view, meta::Batch& batch) {
  FB_TRY(PlanMore(view));
  const store::UsageChange put = store::UsageChange::Put(request_.size_bytes);
  usage_change_.objects += put.objects;
  usage_change_.bytes += put.bytes;
  FB_ASSIGN(const Planned planned, PlanRemoval(view));
  rows_.SetCache(cache_);
  FB_TRY(rows_.CheckSources(view));
  FB_TRY(rows_.Split(0, request_.size_bytes > kSegmentBytes ? kSegmentBytes : UINT64_MAX, kMaxSegmentPieces, references_));
  FB_TRY(DisplaceForQuota(view));
  FB_TRY(references_.Plan(view));
  FB_TRY(view.CheckRoom(references_.RowBytes() + rows_.RowBytes()));
  FB_TRY(rows_.Check(references_));
  FB_TRY(CheckQuota());
  BeginChange();
  victims_.Apply(batch);
  if (planned.removes) removal_.Apply(batch, core_);
  references_.Apply(batch, *core_.commits);
  WriteVersion(batch, planned);
  ApplyMore(batch);
  outcome_->prepared = true;
  outcome_->info = new_state_->info;
  return {};
}

void PublishTransaction::WriteVersion(meta::Batch& batch, const Planned& planned) {
  const uint64_t version = core_.commits->NextVersion();
  ObjectRecord record;
  record.kept = planned.keeps;
  if (planned.keeps) record.null_version = planned.null_version;
  record.content = version;
  record.size_bytes = request_.size_bytes;
  record.crc32c = request_.crc32c;
  record.etag =
      request_.etag.empty() ? store::DefaultETag(version, request_.crc32c) : std::move(request_.etag);
  record.modified_ns = PutTime(core_, cache_);
  record.metadata = std::move(request_.metadata);
  record.attributes = std::move(request_.attributes);

  auto state = std::make_shared<ObjectState>();
  state->bucket = bucket_;
  const std::vector<Piece> pieces = rows_.Write(batch, references_, state.get());
  if (pieces.empty()) {
    record.storage = Storage::kInline;
    batch.Put(Family::kInline, NumberKey(version), request_.content.inline_content);
    state->inline_content = std::move(request_.content.inline_content);
  } else if (request_.size_bytes <= kSegmentBytes) {
    record.storage = Storage::kMap;
    record.pieces = pieces;
  } else {
    record.storage = Storage::kSegmented;
    WriteSegments(batch, version, 0, pieces);
  }
  const std::string row_key = EncodeObjectKey(bucket_, key_, version);
  batch.Put(Family::kObjects, row_key, EncodeObject(row_key, record));
  if (cache_) EnterCache(core_, batch, {bucket_, version}, key_, record);
  state->info = InfoOf(key_, version, record);
  new_state_ = std::move(state);
}

}  // namespace forebay::engine
