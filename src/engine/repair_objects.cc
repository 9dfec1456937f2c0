// SPDX-License-Identifier: Apache-2.0
// The parts of a repair about objects, their content, and uploads.
#include <algorithm>

#include "base/checksum.h"
#include "device/aligned_bytes.h"
#include "engine/repair_planner.h"
#include "store/quota.h"
#include "store/tenancy.h"

namespace forebay::engine {

// ---- pieces ----

RepairPlanner::Extent* RepairPlanner::Find(uint64_t id) {
  const auto found = std::ranges::lower_bound(extents_, id, {}, &Extent::id);
  return found != extents_.end() && found->id == id ? &*found : nullptr;
}

std::optional<Piece> RepairPlanner::StandIn(uint64_t length) {
  const std::optional<UnitRun> run = Reserve(length);
  if (!run) return std::nullopt;
  ExtentRecord record{.device = run->device, .first_unit = run->first_unit, .length_bytes = length};
  const uint64_t block_bytes = uint64_t{1} << record.block_shift;
  const device::AlignedBytes zeros(block_bytes);
  for (uint64_t begin = 0; begin < length; begin += block_bytes) {
    const uint64_t bytes = std::min(block_bytes, length - begin);
    record.checksums.push_back(~base::Crc32c(zeros.view().first(bytes)));  // it never matches
  }
  const uint64_t id = counters_.next_extent++;
  new_extents_.emplace_back(NumberKey(id), std::move(record));
  plan_.fills.push_back({.device = run->device, .offset = run->offset_bytes(), .length = run->length_bytes()});
  return Piece{.extent = id, .offset = 0, .length = length};
}

std::optional<std::vector<Piece>> RepairPlanner::StandIns(uint64_t length) {
  std::vector<Piece> pieces;
  while (length != 0) {
    const std::optional<Piece> piece = StandIn(std::min(length, kWriterExtentBytes));
    if (!piece) return std::nullopt;
    pieces.push_back(*piece);
    length -= piece->length;
  }
  return pieces;
}

RepairPlanner::Mended RepairPlanner::Mend(const std::vector<Piece>& pieces, bool stand_in) {
  Mended mended;
  uint64_t offset = 0;
  for (const Piece& piece : pieces) {
    const uint64_t at = std::exchange(offset, offset + piece.length);
    const Extent* const extent = piece.extent == kHole ? nullptr : Find(piece.extent);
    const bool there = piece.extent == kHole ||
                       (extent != nullptr && base::RangeFits(piece.offset, piece.length, extent->length_bytes));
    if (there) {
      const bool damaged = extent != nullptr && std::ranges::any_of(extent->damaged, [&](uint32_t block) {
                             const uint64_t begin = uint64_t{block} << extent->block_shift;
                             return begin < piece.offset + piece.length &&
                                    begin + (uint64_t{1} << extent->block_shift) > piece.offset;
                           });
      if (damaged && !mended.damaged_at) mended.damaged_at = at;
      mended.pieces.push_back(piece);
      continue;
    }
    mended.changed = true;
    if (!mended.damaged_at) mended.damaged_at = at;
    if (!stand_in) continue;
    const std::optional<std::vector<Piece>> others = StandIns(piece.length);
    mended.hopeless = mended.hopeless || !others;
    if (others) mended.pieces.insert(mended.pieces.end(), others->begin(), others->end());
  }
  return mended;
}

void RepairPlanner::GoBack(const Mark& mark) {
  new_extents_.resize(mark.extents);
  plan_.fills.resize(mark.fills);
  while (reserved_.size() > mark.runs) {
    space_->Release(reserved_.back());
    reserved_.pop_back();
  }
}

void RepairPlanner::Count(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces)
    if (Extent* const extent = piece.extent == kHole ? nullptr : Find(piece.extent)) ++extent->seen;
}

namespace {
/// What the time to live of an object counts from.
uint64_t PutMsOf(const ObjectRecord& record) {
  constexpr int64_t kNsInMs = 1'000'000;
  return static_cast<uint64_t>(std::max<int64_t>(record.modified_ns / kNsInMs, 0));
}
}  // namespace

void RepairPlanner::CountVersion(const Bucket& bucket, const ObjectRecord& record) {
  store::AddUsage(store::UsageChange::Put(record.size_bytes), &usages_[bucket.owner]);
}

// ---- objects ----

Status RepairPlanner::PlanObjects() {
  return ForEach(Family::kObjects, {}, {},
                 [this](std::string_view key, std::string_view value) { return PlanObject(key, value); });
}

Status RepairPlanner::PlanObject(std::string_view row_key, std::string_view value) {
  const Result<ObjectKey> key = DecodeObjectKey(row_key);
  if (!key.ok()) {
    Act("the row of an object is moved aside: {}", key.status().message());
    Remove(RepairPlan::kRemove, Family::kObjects, row_key, value, "an object without a name");
    return {};
  }
  counters_.next_version = std::max(counters_.next_version, key->version + 1);
  const Bucket& bucket = BucketOf(key->bucket);
  const std::string name = fmt::format("object `{}/{}` (version {})", bucket.name, key->key, key->version);
  Result<NewestVersion> version = DecodeVersion(row_key, value);
  if (!version.ok()) {
    Act("{} is lost, its row is moved aside: {}", name, version.status().message());
    Remove(RepairPlan::kRemove, Family::kObjects, row_key, value, name);
    return {};
  }
  counters_.next_version = std::max(counters_.next_version, version->record.content + 1);
  if (!version->record.kept) {
    const std::pair of(key->bucket, std::string(key->key));
    if (of == last_null_) {
      Act("{} stays as one that is kept: there is a newer one without that mark", name);
      version->record.kept = true;
      Put(RepairPlan::kRefer, Family::kObjects, row_key, EncodeObject(row_key, version->record));
    }
    last_null_ = of;
  }
  if (bucket.cache)
    cached_[{key->bucket, key->version}] = {.key = std::string(key->key),
                                            .size_bytes = version->record.size_bytes,
                                            .put_ms = PutMsOf(version->record)};
  if (version->record.delete_marker) {
    CountVersion(bucket, version->record);
    return {};
  }
  switch (version->record.storage) {
    case Storage::kInline:
      return PlanInline(row_key, value, name, *std::move(version));
    case Storage::kMap:
      return PlanMap(row_key, value, name, *std::move(version));
    case Storage::kSegmented:
      break;
  }
  return PlanSegments(row_key, value, name, *std::move(version));
}

bool RepairPlanner::TakeOwnContent(const Bucket& bucket, const std::string& name, NewestVersion& version) {
  const uint64_t own = version.version;
  if (version.record.content != own && !inline_contents_.contains(own) && !segments_.contains(own)) {
    version.record.content = own;
    if (version.record.storage == Storage::kInline) inline_contents_.insert(own);
    return true;
  }
  CountVersion(bucket, version.record);
  GiveUp("{} has the content of another object: copy it (forebay cp), then delete both", name);
  return false;
}

Status RepairPlanner::PlanInline(std::string_view row_key, std::string_view value, const std::string& name,
                                 NewestVersion version) {
  const Bucket& bucket = BucketOf(DecodeObjectKey(row_key)->bucket);
  ObjectRecord& record = version.record;
  const std::string content_key = NumberKey(record.content);
  FB_ASSIGN(const std::optional<std::string> content, meta_.Get(Family::kInline, content_key));
  const bool matches =
      content && content->size() == record.size_bytes && base::Crc32c(AsBytes(*content)) == record.crc32c;
  if (!matches) {
    Act("{} is lost, its row is moved aside: its content {}", name, content ? "is damaged" : "is not there");
    Remove(RepairPlan::kRemove, Family::kObjects, row_key, value, name);
    return {};
  }
  if (!inline_contents_.insert(record.content).second) {
    if (!TakeOwnContent(bucket, name, version)) return {};
    Act("{} gets content of its own: it has that of another object", name);
    Put(RepairPlan::kAdd, Family::kInline, NumberKey(record.content), *content);
    Put(RepairPlan::kRefer, Family::kObjects, row_key, EncodeObject(row_key, record));
  }
  CountVersion(bucket, record);
  return {};
}

Status RepairPlanner::PlanMap(std::string_view row_key, std::string_view value, const std::string& name,
                              NewestVersion version) {
  const Mark mark = Here();
  const Bucket& bucket = BucketOf(DecodeObjectKey(row_key)->bucket);
  const bool remove = options_.remove_damaged || bucket.cache;  // nobody promised that a cache's objects stay
  Mended mended = Mend(version.record.pieces, !remove);
  if (mended.damaged_at && remove) {
    Act("{} is removed: it is damaged at or after offset {}", name, *mended.damaged_at);
    Remove(RepairPlan::kRemove, Family::kObjects, row_key, value, name);
    return {};
  }
  CountVersion(bucket, version.record);
  Count(mended.changed && !mended.hopeless ? mended.pieces : version.record.pieces);
  if (mended.hopeless) {
    GoBack(mark);
    GiveUp("{}: content is lost, and there is no room for what stands for it: repair with --remove-damaged", name);
  } else if (mended.changed) {
    Act("{} has lost content from offset {} on, which fails to be read from now on; the rest can be read", name,
        *mended.damaged_at);
    version.record.pieces = std::move(mended.pieces);
    Put(RepairPlan::kRefer, Family::kObjects, row_key, EncodeObject(row_key, version.record));
  } else if (mended.damaged_at) {
    GiveUp("{} is damaged at or after offset {}; all else of it can be read, so it stays: put it again from a copy, or "
           "repair with --remove-damaged",
           name, *mended.damaged_at);
  }
  return {};
}

Status RepairPlanner::PlanSegments(std::string_view row_key, std::string_view value, const std::string& name,
                                   NewestVersion version) {
  const Bucket& bucket = BucketOf(DecodeObjectKey(row_key)->bucket);
  const bool remove = options_.remove_damaged || bucket.cache;
  ObjectRecord& record = version.record;
  const uint64_t count = SegmentCount(record.size_bytes);
  const uint64_t old_content = record.content;
  const bool shared = !segments_.emplace(record.content, count).second;
  if (shared && !TakeOwnContent(bucket, name, version)) return {};
  const uint64_t content = record.content;
  if (shared) Act("{} gets a map of its own: it has that of another object", name);
  if (shared) segments_.emplace(content, count);
  std::vector<RepairPlan::Row> rows;
  std::optional<uint64_t> damaged_at;
  std::vector<std::vector<Piece>> all;
  const Mark mark = Here();
  bool hopeless = false;
  bool lost = false;
  for (uint64_t segment = 0; segment < count; ++segment) {
    const std::string key = SegmentKey(old_content, static_cast<uint32_t>(segment));
    const std::string new_key = SegmentKey(content, static_cast<uint32_t>(segment));
    const uint64_t length = SegmentLength(record.size_bytes, segment);
    FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kMaps, key));
    const Result<std::vector<Piece>> pieces =
        row ? DecodePieces(key, *row, length) : Status::NotFound("it is not there");
    Mended mended;
    if (pieces.ok()) {
      mended = Mend(*pieces, !remove);
    } else {
      mended.changed = true;
      mended.damaged_at = 0;
      std::optional<std::vector<Piece>> stand_ins;
      if (!remove) stand_ins = StandIns(length);
      mended.hopeless = !stand_ins;
      mended.pieces = std::move(stand_ins).value_or(std::vector<Piece>());
      if (row && !mended.hopeless)
        plan_.lost.push_back({Family::kMaps, key, *row, fmt::format("segment {} of the map of {}", segment, name)});
    }
    if (mended.damaged_at && !damaged_at) damaged_at = segment * kSegmentBytes + *mended.damaged_at;
    hopeless = hopeless || mended.hopeless;
    lost = lost || mended.changed;
    if ((mended.changed || shared) && !mended.hopeless)
      rows.push_back({Family::kMaps, new_key, EncodePieces(new_key, mended.pieces)});
    all.push_back(std::move(mended.pieces));
  }
  if (damaged_at && remove) {
    Act("{} is removed: it is damaged at or after offset {}", name, *damaged_at);
    Remove(RepairPlan::kRemove, Family::kObjects, row_key, value, name);
    segments_.erase(content);  // its rows are left over, then
    return {};
  }
  CountVersion(bucket, record);
  for (const std::vector<Piece>& pieces : all) Count(pieces);
  if (hopeless) {
    GoBack(mark);
    GiveUp("{}: content is lost, and there is no room for what stands for it: repair with --remove-damaged", name);
    return {};
  }
  for (RepairPlan::Row& row : rows) plan_.rows[RepairPlan::kRefer].push_back(std::move(row));
  if (shared) {
    Put(RepairPlan::kRefer, Family::kObjects, row_key, EncodeObject(row_key, record));
  }
  if (lost) {
    Act("{} has lost content from offset {} on, which fails to be read from now on; the rest can be read", name,
        *damaged_at);
  } else if (damaged_at) {
    GiveUp("{} is damaged at or after offset {}; all else of it can be read, so it stays: put it again from a copy, or "
           "repair with --remove-damaged",
           name, *damaged_at);
  }
  return {};
}

// ---- uploads ----

Status RepairPlanner::PlanUploads() {
  return ForEach(Family::kSystem, kUploadPrefix, PrefixEnd(kUploadPrefix),
                 [this](std::string_view row_key, std::string_view value) -> Status {
                   const Result<UploadKey> key = DecodeUploadKey(row_key);
                   const Result<UploadRecord> record = DecodeUpload(row_key, value);
                   const Status sane = key.ok() ? record.status() : key.status();
                   if (!sane.ok()) {
                     Act("the row of an upload is moved aside: {}", sane.message());
                     Remove(RepairPlan::kRemove, Family::kSystem, row_key, value, "an upload");
                     return {};
                   }
                   counters_.next_version = std::max(counters_.next_version, key->upload + 1);
                   (void)BucketOf(key->bucket);
                   if (uploads_.emplace(key->upload, key->bucket).second) return {};
                   Act("the row of upload {:x} of `{}` is moved aside: another one has its number", key->upload,
                       key->key);
                   Remove(RepairPlan::kRemove, Family::kSystem, row_key, value, "an upload");
                   return {};
                 });
}

Status RepairPlanner::PlanParts() {
  return ForEach(
      Family::kSystem, kPartPrefix, PrefixEnd(kPartPrefix),
      [this](std::string_view row_key, std::string_view value) -> Status {
        const Result<PartKey> key = DecodePartKey(row_key);
        Result<PartRecord> record = DecodePart(row_key, value);
        const Status sane = key.ok() ? record.status() : key.status();
        if (!sane.ok()) {
          Act("the row of a part of an upload is moved aside: {}", sane.message());
          Remove(RepairPlan::kRemove, Family::kSystem, row_key, value, "a part of an upload");
          return {};
        }
        const std::string name = fmt::format("part {} of upload {:x}", key->number, key->upload);
        const auto upload = uploads_.find(key->upload);
        const Mended mended = upload == uploads_.end() ? Mended{} : Mend(record->pieces, false);
        if (upload == uploads_.end() || mended.changed || (mended.damaged_at && options_.remove_damaged)) {
          Act("{} goes: {}", name,
              upload == uploads_.end() ? "there is no such upload" : "content of it is lost, so it is to be sent again");
          Remove(RepairPlan::kRemove, Family::kSystem, row_key, value, name);
          return {};
        }
        Count(record->pieces);
        store::AddUsage({.bytes = static_cast<int64_t>(record->size_bytes)}, &usages_[BucketOf(upload->second).owner]);
        if (mended.damaged_at) GiveUp("{} is damaged at or after offset {}: send it again", name, *mended.damaged_at);
        return {};
      });
}

Status RepairPlanner::PlanLeftovers() {
  FB_TRY(ForEach(Family::kInline, {}, {}, [this](std::string_view key, std::string_view value) -> Status {
    const Result<uint64_t> number = DecodeNumberKey(key);
    if (number.ok() && inline_contents_.contains(*number)) return {};
    Act("inline content {} goes: no object has it", number.ok() ? fmt::format("{}", *number) : "without a number");
    Remove(RepairPlan::kForget, Family::kInline, key, value, "content that no object has");
    return {};
  }));
  return ForEach(Family::kMaps, {}, {}, [this](std::string_view key, std::string_view value) -> Status {
    const Result<SegmentName> name = DecodeSegmentKey(key);
    const auto found = name.ok() ? segments_.find(name->content) : segments_.end();
    if (found != segments_.end() && name->segment < found->second) return {};
    Act("a map row of {} goes: no object has it",
        name.ok() ? fmt::format("content {}", name->content) : std::string("no content"));
    Remove(RepairPlan::kForget, Family::kMaps, key, value, "a map row that no object has");
    return {};
  });
}

}  // namespace forebay::engine
