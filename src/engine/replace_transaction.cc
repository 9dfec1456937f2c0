// SPDX-License-Identifier: Apache-2.0
#include "engine/replace_transaction.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "engine/object_change.h"
#include "store/checks.h"
#include "store/conditions.h"

namespace forebay::engine {
namespace {

using meta::Family;

class ReplaceTransaction final : public ObjectChange {
 public:
  ReplaceTransaction(Core& core, PublishRequest request, PublishOutcome* outcome)
      : ObjectChange(core, request.bucket_name, request.bucket, request.key, request.condition),
        request_(std::move(request)),
        replaced_(*request_.replaces),
        rows_(core, request_),
        outcome_(outcome) {}

  Status Prepare(meta::View& view, meta::Batch& batch) override {
    FB_ASSIGN(const store::BucketInfo bucket, FindUnversioned(view, bucket_name_, bucket_, "changed by a part"));
    SetBucket(bucket);
    rows_.SetCache(cache_);
    FB_ASSIGN(std::optional<CurrentVersion> current, FindCurrent(view, bucket_, key_));
    if (!current || current->newest.record.delete_marker || IsExpired(key_, current->newest))
      return store::NoSuchObject(bucket_name_, key_);
    old_ = *std::move(current);
    FB_TRY(store::CheckCondition(condition_, old_.newest.record.etag, bucket_name_, key_));
    FB_TRY(Plan(view));
    usage_change_.bytes = static_cast<int64_t>(new_size_) - static_cast<int64_t>(old_.newest.record.size_bytes);
    FB_TRY(DisplaceForQuota(view));
    references_.DropUnchanged();
    FB_TRY(references_.Plan(view));
    FB_TRY(view.CheckRoom(references_.RowBytes() + rows_.RowBytes()));
    FB_TRY(CheckQuota());
    BeginChange();
    victims_.Apply(batch);
    references_.Apply(batch, *core_.commits);
    WriteVersion(batch);
    outcome_->prepared = true;
    return {};
  }
  bool needs_data_flush() const override { return !request_.content.extents.empty(); }
  bool frees_space() const override { return request_.size_bytes == 0 && replaced_.begin < replaced_.end; }

 private:
  Status Plan(meta::View& view) {
    const ObjectRecord& old = old_.newest.record;
    FB_TRY(CheckUnchanged());
    const uint64_t after = replaced_.to_the_end ? 0 : old.size_bytes - replaced_.end;
    FB_TRY(store::CheckObjectSize(replaced_.begin, request_.size_bytes));
    new_size_ = replaced_.begin + request_.size_bytes + after;
    is_inline_ = request_.runs.empty() && request_.content.extents.empty() && replaced_.begin == 0 && after == 0;
    was_segmented_ = old.storage == Storage::kSegmented;
    is_segmented_ = !is_inline_ && new_size_ > kSegmentBytes;
    FB_TRY(ReadMap(view));
    if (replaced_.version == 0) {
      if (PiecesOf(old_map_, map_begin_, replaced_.begin, replaced_.end) != replaced_.pieces) return WasChanged();
    }
    references_.Remove(old_map_);
    if (is_inline_) return {};
    MakeRuns();
    return rows_.Split(map_begin_, is_segmented_ ? kSegmentBytes : UINT64_MAX, kMaxOverwrittenPieces, references_);
  }

  Status WasChanged() const {
    return Status::Aborted("`{}/{}` was changed at the same place meanwhile", bucket_name_, key_);
  }

  Status CheckUnchanged() const {
    const ObjectRecord& old = old_.newest.record;
    if (replaced_.version != 0 && replaced_.version != old_.newest.version) return WasChanged();
    if (replaced_.version == 0 && old.storage == Storage::kInline) return WasChanged();
    const bool same_end =
        replaced_.to_the_end ? old.size_bytes == replaced_.object_bytes : old.size_bytes >= replaced_.end;
    return same_end ? Status() : WasChanged();
  }

  /// All pieces of the segments that get other rows, or none.
  Status ReadMap(meta::View& view) {
    const ObjectRecord& old = old_.newest.record;
    if (old.storage == Storage::kMap) old_map_ = old.pieces;
    if (!was_segmented_) return {};
    old_segments_ = SegmentCount(old.size_bytes);
    first_ = is_segmented_ ? replaced_.begin / kSegmentBytes : 0;
    map_begin_ = first_ * kSegmentBytes;
    last_ = replaced_.to_the_end ? old_segments_ : std::max(base::DivideUp(replaced_.end, kSegmentBytes), first_);
    for (uint64_t segment = first_; segment < last_; ++segment) {
      FB_ASSIGN(const std::vector<Piece> pieces, ReadSegment(view, old_.newest, segment));
      old_map_.insert(old_map_.end(), pieces.begin(), pieces.end());
    }
    return {};
  }

  /// What was around the run, with the new content in its place.
  void MakeRuns() {
    uint64_t map_end = map_begin_;
    for (const Piece& piece : old_map_) map_end += piece.length;
    std::vector<ContentRun> runs;
    AddKept(map_begin_, replaced_.begin, runs);
    runs.insert(runs.end(), request_.runs.begin(), request_.runs.end());
    if (!replaced_.to_the_end) AddKept(replaced_.end, map_end, runs);
    request_.runs = std::move(runs);
  }
  void AddKept(uint64_t begin, uint64_t end, std::vector<ContentRun>& runs) const {
    for (const Piece& piece : PiecesOf(old_map_, map_begin_, begin, end))
      runs.push_back({.is_new = false, .extent = piece.extent, .offset = piece.offset, .length = piece.length});
  }

  uint32_t NewChecksum() const {
    const ObjectRecord& old = old_.newest.record;
    if (!replaced_.to_the_end)
      return base::Crc32cReplace(old.crc32c, replaced_.crc32c, request_.crc32c, old.size_bytes - replaced_.end);
    const uint32_t before = base::Crc32cWithout(old.crc32c, replaced_.crc32c, replaced_.end - replaced_.begin);
    return base::Crc32cCombine(before, request_.crc32c, request_.size_bytes);
  }

  void WriteVersion(meta::Batch& batch) {
    const ObjectRecord& old = old_.newest.record;
    const uint64_t version = core_.commits->NextVersion();
    ObjectRecord record;
    // Rows are replaced under their number only where a reader of the old version reads them as of one moment.
    record.content = was_segmented_ && is_segmented_ ? old.content : version;
    record.size_bytes = new_size_;
    record.crc32c = NewChecksum();
    record.etag = store::DefaultETag(version, record.crc32c);
    record.modified_ns = PutTime(core_, cache_);
    record.metadata = old.metadata;
    record.attributes = old.attributes;
    DeleteOldRows(batch);
    if (is_inline_) {
      record.storage = Storage::kInline;
      batch.Put(Family::kInline, NumberKey(record.content), request_.content.inline_content);
    } else {
      record.storage = is_segmented_ ? Storage::kSegmented : Storage::kMap;
      std::vector<Piece> pieces = rows_.Write(batch, references_, nullptr);
      if (is_segmented_) {
        WriteSegments(batch, record.content, map_begin_, pieces);
      } else {
        record.pieces = std::move(pieces);
      }
    }
    const std::string row_key = EncodeObjectKey(bucket_, key_, version);
    batch.Put(Family::kObjects, row_key, EncodeObject(row_key, record));
    if (cache_) EnterCache(core_, batch, {bucket_, version}, key_, record);
    outcome_->info = InfoOf(key_, version, record);
  }

  void DeleteOldRows(meta::Batch& batch) const {
    const ObjectRecord& old = old_.newest.record;
    batch.Delete(Family::kObjects, old_.row_key);
    if (cache_) LeaveCache(core_, batch, {bucket_, old_.newest.version});
    if (old.storage == Storage::kInline) batch.Delete(Family::kInline, NumberKey(old.content));
    for (uint64_t segment = is_segmented_ ? SegmentCount(new_size_) : 0; segment < old_segments_; ++segment)
      batch.Delete(Family::kMaps, SegmentKey(old.content, static_cast<uint32_t>(segment)));
  }

  PublishRequest request_;
  const ReplacedRange& replaced_;
  ContentRows rows_;
  PublishOutcome* const outcome_;  // borrowed from the committing coroutine
  CurrentVersion old_;
  uint64_t new_size_ = 0;
  bool is_inline_ = false;
  bool was_segmented_ = false;
  bool is_segmented_ = false;
  uint64_t old_segments_ = 0;  // rows of the old map; 0 unless it was segmented
  uint64_t first_ = 0;         // of them: those that get other rows
  uint64_t last_ = 0;
  uint64_t map_begin_ = 0;      // where the old map begins
  std::vector<Piece> old_map_;  // of the segments first to last, or all of it
};

}  // namespace

std::vector<Piece> PiecesOf(const std::vector<Piece>& map, uint64_t map_begin, uint64_t begin, uint64_t end) {
  std::vector<Piece> pieces;
  uint64_t at = map_begin;
  for (const Piece& piece : map) {
    const uint64_t from = std::max(at, begin);
    const uint64_t to = std::min(at + piece.length, end);
    if (from < to) {
      const uint64_t offset = piece.extent == kHole ? 0 : piece.offset + (from - at);
      const bool goes_on = !pieces.empty() && pieces.back().extent == piece.extent &&
                           (piece.extent == kHole || pieces.back().offset + pieces.back().length == offset);
      if (goes_on) {
        pieces.back().length += to - from;
      } else {
        pieces.push_back({.extent = piece.extent, .offset = offset, .length = to - from});
      }
    }
    at += piece.length;
  }
  return pieces;
}

std::unique_ptr<meta::Transaction> MakeReplace(Core& core, PublishRequest request, PublishOutcome* outcome) {
  return std::make_unique<ReplaceTransaction>(core, std::move(request), outcome);
}

}  // namespace forebay::engine
