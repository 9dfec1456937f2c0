// SPDX-License-Identifier: Apache-2.0
#include "engine/fsck.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/checksum.h"
#include "device/aligned_bytes.h"
#include "engine/cache_rows.h"
#include "engine/engine.h"
#include "engine/loader.h"
#include "engine/operation_rows.h"
#include "engine/rows.h"
#include "engine/scrub_row.h"
#include "engine/superblock.h"
#include "engine/tenant_accounts.h"
#include "engine/upload_rows.h"
#include "store/cache_class.h"
#include "store/tenancy.h"

namespace forebay::engine {
namespace {

using meta::Family;

class Checker {
 public:
  Checker(rt::Reactor& reactor, Devices& devices, meta::MetaStore& meta, const FsckOptions& options)
      : reactor_(reactor), devices_(devices), meta_(meta), options_(options) {}

  rt::Task<Result<FsckReport>> Run() {
    co_await CheckHeads();
    FB_CO_TRY(CheckCounters());
    FB_CO_TRY(CheckBuckets());
    FB_CO_TRY(co_await CheckExtents());
    FB_CO_TRY(CheckObjects());
    FB_CO_TRY(CheckUploads());
    CheckReferences();
    CheckOverlaps();
    FB_CO_TRY(CheckFreeSpace());
    FB_CO_TRY(CheckNumbered(Family::kInline, "inline content", inline_contents_));
    FB_CO_TRY(CheckMapRows());
    FB_CO_TRY(CheckOperations());
    FB_CO_TRY(CheckTenants());
    FB_CO_TRY(CheckCaches());
    FB_CO_TRY(CheckScrub());
    co_return std::move(report_);
  }

 private:
  struct Extent {
    uint64_t id;
    UnitRun run;
    uint64_t length_bytes;
    uint64_t references;
    bool cache = false;
    uint64_t seen = 0;
    std::optional<uint64_t> damaged_at;  // the first block that does not match
  };

  template <typename... Args>
  void Error(fmt::format_string<Args...> format, Args&&... args) {
    ++report_.error_count;
    if (report_.errors.size() < options_.max_errors)
      report_.errors.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  void Error(const Status& status) { Error("{}", status.message()); }

  /// Calls `visit(key, value)` for each row of a family.
  template <typename Visit>
  Status ForEach(Family family, Visit visit) {
    const std::unique_ptr<meta::Scan> scan = meta_.NewScan(family, {});
    for (scan->Seek({}); scan->Valid(); scan->Next()) visit(scan->key(), scan->value());
    return scan->status();
  }

  rt::Task<void> CheckHeads();
  Status CheckCounters();
  Status CheckBuckets();
  rt::Task<Status> CheckExtents();
  rt::Task<void> VerifyExtent(const ExtentRecord& record, Extent& extent);
  Status CheckObjects();
  Status CheckObject(std::string_view row_key, std::string_view value);
  void CountObject(uint64_t bucket, uint64_t size_bytes);
  Status CheckInline(const std::string& name, const NewestVersion& version);
  Result<std::vector<Piece>> PiecesOf(const NewestVersion& version);
  /// Of an object of a cache bucket, or of another one.
  void CheckPieces(const std::string& name, const std::vector<Piece>& pieces, bool cache);
  Status CheckCaches();
  Status CheckUploads();
  void CheckReferences();
  void CheckOverlaps();
  Status CheckFreeSpace();
  Status CheckNumbered(Family family, std::string_view what, std::vector<uint64_t>& expected);
  Status CheckMapRows();
  Status CheckTenants();
  Status CheckOperations();
  bool IsCache(uint64_t bucket) const { return caches_.contains(bucket); }
  Status CheckScrub();

  rt::Reactor& reactor_;
  Devices& devices_;
  meta::MetaStore& meta_;
  const FsckOptions options_;
  FsckReport report_;
  std::optional<Uuid> store_;
  Counters counters_;
  std::map<uint64_t, std::string> buckets_;          // by id
  std::set<uint64_t> caches_;                        // buckets of that class
  std::vector<CachedName> cached_;                   // objects in them
  bool is_current_ = false;                          // the identity's format
  std::map<uint64_t, TenantId> owners_;              // of buckets, by id
  TenantUsages usages_;                              // as counted here, without quotas
  std::vector<Extent> extents_;                      // ascending by id
  std::vector<uint64_t> inline_contents_;            // of objects
  std::pair<uint64_t, std::string> last_null_;       // bucket and key of the null version that was looked at last
  std::map<uint64_t, std::pair<uint64_t, std::string>> uploads_;  // bucket and key, by id
  std::unordered_map<uint64_t, uint64_t> segments_;  // of segmented contents
  std::map<std::pair<uint32_t, uint32_t>, GroupBitmap>
      used_;  // by device and group: the union of all extents
};

rt::Task<void> Checker::CheckHeads() {
  const Result<std::vector<Superblock>> superblocks = co_await ReadSuperblocks(reactor_, devices_);
  if (!superblocks.ok()) {
    Error(superblocks.error());
    co_return;
  }
  store_ = (*superblocks)[0].store;
  for (const Superblock& superblock : *superblocks)
    if (!devices_.absent(superblock.device_id)) report_.capacity_bytes += superblock.size_bytes - superblock.data_start;
  const Result<Witness> witness = co_await ReadWitness(reactor_, devices_.at(devices_.witness_device()), *store_);
  if (!witness.ok()) {
    Error(witness.error());
  } else if (witness->commit > meta_.last_commit()) {
    Error("commit {} was acknowledged and the metadata ends at {}", witness->commit, meta_.last_commit());
  }
}

Status Checker::CheckCounters() {
  FB_ASSIGN(const std::optional<std::string> identity, meta_.Get(Family::kSystem, kIdentityKey));
  if (!identity) {
    Error("the metadata does not say of which store it is");
  } else if (const Result<Identity> found = DecodeIdentity(*identity); !found.ok()) {
    Error(found.error());
  } else if (is_current_ = found->current; store_ && found->store != *store_) {
    Error("the metadata belongs to store {}, the devices to store {}", found->store.ToString(), store_->ToString());
  }
  FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kSystem, kCountersKey));
  if (!row) return {};
  const Result<Counters> counters = DecodeCounters(*row);
  if (!counters.ok()) {
    Error(counters.error());
    // Without them no number can be called too high.
    counters_ = {.next_extent = UINT64_MAX, .next_version = UINT64_MAX, .next_bucket = UINT64_MAX};
    return {};
  }
  counters_ = *counters;
  return {};
}

Status Checker::CheckBuckets() {
  return ForEach(Family::kBuckets, [&](std::string_view name, std::string_view value) {
    const Result<BucketRecord> bucket = DecodeBucket(name, value);
    if (!bucket.ok()) return Error(bucket.error());
    if (store::CountsAsBucket(bucket->info.owner)) ++report_.buckets;
    owners_.emplace(bucket->id, bucket->info.owner);
    if (store::IsCache(bucket->info)) caches_.insert(bucket->id);
    ++usages_[bucket->info.owner].buckets;
    if (bucket->id >= counters_.next_bucket)
      Error("bucket `{}` has number {}, which was not given out", name, bucket->id);
    const auto [other, is_new] = buckets_.emplace(bucket->id, name);
    if (!is_new) Error("buckets `{}` and `{}` have the same number {}", name, other->second, bucket->id);
  });
}

rt::Task<Status> Checker::CheckExtents() {
  const std::unique_ptr<meta::Scan> scan = meta_.NewScan(Family::kExtents, {});
  for (scan->Seek({}); scan->Valid(); scan->Next()) {
    const Result<uint64_t> id = DecodeNumberKey(scan->key());
    const Result<ExtentRecord> record = DecodeExtent(scan->key(), scan->value());
    if (!id.ok() || !record.ok()) {
      Error(id.ok() ? record.error() : id.error());
      continue;
    }
    if (const Status place = CheckPlace(*id, *record, devices_); !place.ok()) {
      Error(place);
      continue;
    }
    if (*id >= counters_.next_extent) Error("extent {} has a number that was not given out", *id);
    Extent extent{.id = *id,
                  .run = {.device = record->device,
                          .first_unit = record->first_unit,
                          .units = static_cast<uint32_t>(record->units())},
                  .length_bytes = record->length_bytes,
                  .references = record->references,
                  .cache = record->cache};
    ++report_.extents;
    report_.extent_bytes += record->length_bytes;
    report_.used_bytes += extent.run.length_bytes();
    if (extent.cache) report_.cache_bytes += extent.run.length_bytes();
    if (options_.verify_data) co_await VerifyExtent(*record, extent);
    extents_.push_back(extent);
  }
  co_return scan->status();
}

rt::Task<void> Checker::VerifyExtent(const ExtentRecord& record, Extent& extent) {
  const uint64_t block_bytes = uint64_t{1} << record.block_shift;
  device::AlignedBytes memory(block_bytes);
  for (uint64_t block = 0; block < record.checksums.size(); ++block) {
    const uint64_t begin = block * block_bytes;
    const uint64_t content = std::min(block_bytes, record.length_bytes - begin);
    const MutableByteView view = memory.writable().first(base::RoundUp(content, device::kUnit));
    const uint64_t offset = record.first_unit * device::kUnit + begin;
    const uint32_t copies = devices_.at(record.device).copies();
    bool right = false;
    std::vector<std::string> wrong;
    for (uint32_t copy = 0; copy < copies; ++copy) {
      if (!devices_.IsCurrent(record.device, copy)) continue;
      const Status read = co_await devices_.ReadCopy(reactor_, record.device, copy, offset, {&view, 1});
      if (!read.ok())
        wrong.push_back(fmt::format("extent {} at {} cannot be read: {}", extent.id, begin, read.message()));
      else if (base::Crc32c(memory.view().first(content)) != record.checksums[block])
        wrong.push_back(fmt::format("extent {} at {} does not match its checksum: unit {} of {} is damaged", extent.id,
                                    begin, offset / device::kUnit, devices_.at(record.device).name()));
      else
        right = true;
    }
    if (record.cache) wrong.clear();  // no error: nobody flushed it, and objects that have it may be gone
    for (const std::string& text : wrong)
      Error("{}{}", text, right ? "; the other side has it, and a scrub writes it again" : "");
    if (right)
      report_.verified_bytes += content;
    else if (!extent.damaged_at)
      extent.damaged_at = begin;
  }
}

Status Checker::CheckObjects() {
  Status failure;
  FB_TRY(ForEach(Family::kObjects, [&](std::string_view key, std::string_view value) {
    if (failure.ok()) failure = CheckObject(key, value);
  }));
  return failure;
}

Status Checker::CheckObject(std::string_view row_key, std::string_view value) {
  const Result<ObjectKey> key = DecodeObjectKey(row_key);
  if (!key.ok()) {
    Error(key.error());
    return {};
  }
  const auto bucket = buckets_.find(key->bucket);
  const std::string name = fmt::format(
      "{}/{}", bucket == buckets_.end() ? fmt::format("(bucket {})", key->bucket) : bucket->second, key->key);
  if (bucket == buckets_.end()) Error("object `{}` is in a bucket that does not exist", name);
  if (key->version >= counters_.next_version)
    Error("object `{}` has version {}, which was not given out", name, key->version);
  const Result<NewestVersion> version = DecodeVersion(row_key, value);
  if (!version.ok()) {
    Error("object `{}`: {}", name, version.error().message());
    return {};
  }
  if (!version->record.kept) {
    const std::pair of(key->bucket, std::string(key->key));
    if (of == last_null_) Error("object `{}` has more than one null version; an older one is {}", name, key->version);
    last_null_ = of;
  }
  CountObject(key->bucket, version->record.size_bytes);
  if (version->record.delete_marker) return {};
  if (IsCache(key->bucket)) cached_.push_back({key->bucket, key->version});
  if (version->record.storage == Storage::kInline) return CheckInline(name, *version);
  const Result<std::vector<Piece>> pieces = PiecesOf(*version);
  if (pieces.ok()) {
    CheckPieces(name, *pieces, IsCache(key->bucket));
  } else {
    Error("object `{}`: {}", name, pieces.error().message());
  }
  return {};
}

void Checker::CountObject(uint64_t bucket, uint64_t size_bytes) {
  const auto owner = owners_.find(bucket);
  if (owner != owners_.end()) store::AddUsage(store::UsageChange::Put(size_bytes), &usages_[owner->second]);
  if (owner != owners_.end() && !store::CountsAsBucket(owner->second)) return;
  ++report_.objects;
  report_.object_bytes += size_bytes;
}

Status Checker::CheckInline(const std::string& name, const NewestVersion& version) {
  inline_contents_.push_back(version.record.content);
  FB_ASSIGN(const std::optional<std::string> content,
            meta_.Get(Family::kInline, NumberKey(version.record.content)));
  if (!content) {
    Error("object `{}` has no content: its row is missing", name);
  } else if (content->size() != version.record.size_bytes ||
             base::Crc32c(AsBytes(*content)) != version.record.crc32c) {
    Error("object `{}` does not match its checksum: its content in the metadata is damaged", name);
  }
  return {};
}

Result<std::vector<Piece>> Checker::PiecesOf(const NewestVersion& version) {
  if (version.record.storage == Storage::kMap) return version.record.pieces;
  const uint64_t count = SegmentCount(version.record.size_bytes);
  if (!segments_.emplace(version.record.content, count).second)
    return Status::DataLoss("another object has the same map, content {}", version.record.content);
  std::vector<Piece> pieces;
  for (uint64_t segment = 0; segment < count; ++segment) {
    const std::string key = SegmentKey(version.record.content, static_cast<uint32_t>(segment));
    FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kMaps, key));
    if (!row) return Status::DataLoss("segment {} of its map is missing", segment);
    FB_ASSIGN(const std::vector<Piece> part,
              DecodePieces(key, *row, SegmentLength(version.record.size_bytes, segment)));
    pieces.insert(pieces.end(), part.begin(), part.end());
  }
  return pieces;
}

void Checker::CheckPieces(const std::string& name, const std::vector<Piece>& pieces, bool cache) {
  uint64_t offset = 0;
  bool is_gone = false;
  for (const Piece& piece : pieces) {
    if (piece.extent == kHole) {
      offset += piece.length;
      continue;
    }
    const auto extent = std::ranges::lower_bound(extents_, piece.extent, {}, &Extent::id);
    if (extent == extents_.end() || extent->id != piece.extent) {
      Error("object `{}` at offset {}: extent {} does not exist", name, offset, piece.extent);
    } else {
      ++extent->seen;
      if (!base::RangeFits(piece.offset, piece.length, extent->length_bytes))
        Error("object `{}` at offset {}: extent {} is shorter than its map says", name, offset, piece.extent);
      if (extent->cache && !cache)
        Error("object `{}` at offset {}: extent {} is that of a cache, whose content may get lost", name, offset, piece.extent);
      is_gone |= extent->cache && extent->damaged_at;
      if (extent->damaged_at && !extent->cache) Error("object `{}` is damaged at or after offset {}", name, offset);
    }
    offset += piece.length;
  }
  if (is_gone) ++report_.cache_objects_gone;
}

Status Checker::CheckUploads() {
  const std::unique_ptr<meta::Scan> rows = meta_.NewScan(Family::kSystem, PrefixEnd(kUploadPrefix));
  for (rows->Seek(kUploadPrefix); rows->Valid(); rows->Next()) {
    const Result<UploadKey> key = DecodeUploadKey(rows->key());
    const Result<UploadRecord> record = DecodeUpload(rows->key(), rows->value());
    if (!key.ok() || !record.ok()) {
      Error(key.ok() ? record.error() : key.error());
      continue;
    }
    ++report_.uploads;
    if (!buckets_.contains(key->bucket))
      Error("upload {:x} of `{}` is in a bucket that does not exist", key->upload, key->key);
    if (key->upload >= counters_.next_version) Error("upload {:x} has a number that was not given out", key->upload);
    if (!uploads_.try_emplace(key->upload, key->bucket, std::string(key->key)).second)
      Error("there are two uploads {:x}", key->upload);
  }
  FB_TRY(rows->status());
  const std::unique_ptr<meta::Scan> parts = meta_.NewScan(Family::kSystem, PrefixEnd(kPartPrefix));
  for (parts->Seek(kPartPrefix); parts->Valid(); parts->Next()) {
    const Result<PartKey> key = DecodePartKey(parts->key());
    const Result<PartRecord> record = DecodePart(parts->key(), parts->value());
    if (!key.ok() || !record.ok()) {
      Error(key.ok() ? record.error() : key.error());
      continue;
    }
    const auto upload = uploads_.find(key->upload);
    if (upload == uploads_.end()) {
      Error("part {} of upload {:x} is left over: there is no such upload", key->number, key->upload);
    } else if (const auto owner = owners_.find(upload->second.first); owner != owners_.end()) {
      store::AddUsage({.bytes = static_cast<int64_t>(record->size_bytes)}, &usages_[owner->second]);
    }
    const bool cache = upload == uploads_.end() || IsCache(upload->second.first);
    CheckPieces(fmt::format("part {} of upload {:x}", key->number, key->upload), record->pieces, cache);
  }
  return parts->status();
}

void Checker::CheckReferences() {
  for (const Extent& extent : extents_) {
    if (extent.seen == 0) {
      Error("extent {} is a leak of {}: no object refers to it", extent.id,
            base::FormatSize(extent.run.length_bytes()));
    } else if (extent.seen != extent.references) {
      Error("extent {} counts {} references and has {}", extent.id, extent.references, extent.seen);
    }
  }
}

void Checker::CheckOverlaps() {
  for (const Extent& extent : extents_) {
    for (uint64_t unit = extent.run.first_unit; unit < extent.run.first_unit + extent.run.units; ++unit) {
      GroupBitmap& bitmap = used_[{extent.run.device, static_cast<uint32_t>(unit / kGroupUnits)}];
      uint64_t& word = bitmap[unit % kGroupUnits / 64];
      const uint64_t bit = uint64_t{1} << (unit % 64);
      if ((word & bit) != 0) {
        Error("extent {} overlaps another one at unit {} of {}", extent.id, unit,
              devices_.at(extent.run.device).name());
        break;
      }
      word |= bit;
    }
  }
}

Status Checker::CheckFreeSpace() {
  FB_TRY(ForEach(Family::kGroups, [&](std::string_view key, std::string_view value) {
    const Result<GroupName> name = DecodeGroupKey(key);
    const Result<GroupBitmap> row = DecodeGroup(key, value);
    if (!name.ok() || !row.ok()) return Error(name.ok() ? row.error() : name.error());
    GroupBitmap expected{};
    if (const auto found = used_.find({name->device, name->group}); found != used_.end()) {
      expected = found->second;
      used_.erase(found);
    }
    for (uint64_t unit = 0; unit < kGroupUnits; ++unit) {
      const bool in_row = ((*row)[unit / 64] >> (unit % 64) & 1) != 0;
      const bool in_extent = (expected[unit / 64] >> (unit % 64) & 1) != 0;
      if (in_row == in_extent) continue;
      // One error for a group: the first unit is enough to look for the cause.
      Error("unit {} of device {} is {}", name->group * kGroupUnits + unit, name->device,
            in_row ? "a leak: in use, but of no extent" : "free, but of an extent");
      return;
    }
  }));
  for (const auto& [group, bitmap] : used_)
    Error("group {} of device {} has extents and no free-space row", group.second, group.first);
  return {};
}

Status Checker::CheckNumbered(Family family, std::string_view what, std::vector<uint64_t>& expected) {
  std::ranges::sort(expected);
  if (const auto twice = std::ranges::adjacent_find(expected); twice != expected.end())
    Error("{} of content {} is that of two objects", what, *twice);
  return ForEach(family, [&](std::string_view key, std::string_view /*value*/) {
    const Result<uint64_t> number = DecodeNumberKey(key);
    if (!number.ok()) return Error(number.error());
    if (!std::ranges::binary_search(expected, *number))
      Error("{} of content {} is left over: no object has it", what, *number);
  });
}

Status Checker::CheckMapRows() {
  return ForEach(Family::kMaps, [&](std::string_view key, std::string_view /*value*/) {
    const Result<SegmentName> name = DecodeSegmentKey(key);
    if (!name.ok()) return Error(name.error());
    const auto found = segments_.find(name->content);
    if (found == segments_.end() || name->segment >= found->second)
      Error("map row {} of content {} is left over: no object has it", name->segment, name->content);
  });
}

Status Checker::CheckTenants() {
  Result<TenantUsages> accounts = ReadTenants(meta_);
  if (!accounts.ok()) {
    if (accounts.status().code() != Code::kDataLoss) return accounts.error();
    Error(accounts.error());
    return {};
  }
  if (!accounts->contains(TenantId::kRoot)) return {};  // from before there were any: the next start counts
  for (const auto& [tenant, usage] : usages_) accounts->try_emplace(tenant);
  for (const auto& [tenant, account] : *accounts) {
    store::TenantUsage counted = usages_[tenant];
    counted.quota = account.quota;
    if (counted == account) continue;
    Error(
        "the account of tenant {} says {} objects of {} bytes in {} buckets; there are {} of {} bytes in {}",
        static_cast<uint64_t>(tenant), account.objects, account.bytes, account.buckets, counted.objects,
        counted.bytes, counted.buckets);
  }
  return {};
}

Status Checker::CheckOperations() {
  FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kSystem, kOperationsKey));
  const Result<OperationsState> state = row ? DecodeOperations(*row) : OperationsState{};
  if (!state.ok()) Error(state.error());
  const std::unique_ptr<meta::Scan> scan = meta_.NewScan(Family::kSystem, PrefixEnd(kOperationPrefix));
  for (scan->Seek(kOperationPrefix); scan->Valid(); scan->Next()) {
    ++report_.operations;
    const Result<OperationKey> key = DecodeOperationKey(scan->key());
    const Result<store::OperationRecord> record = DecodeOperation(scan->key(), scan->value());
    if (!key.ok() || !record.ok()) Error(key.ok() ? record.error() : key.error());
  }
  if (state.ok() && state->count != report_.operations)
    Error("the results of {} operations are counted and {} are kept", state->count, report_.operations);
  return scan->status();
}

Status Checker::CheckCaches() {
  FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kSystem, kCacheTotalsKey));
  const Result<CacheTotals> totals = row ? DecodeCacheTotals(*row) : CacheTotals{};
  if (!totals.ok()) Error(totals.error());
  if (totals.ok() && totals->device_bytes != report_.cache_bytes)
    Error("{} bytes of the devices are counted for caches, and extents of caches have {}", totals->device_bytes,
          report_.cache_bytes);
  std::ranges::sort(cached_);
  auto expected = cached_.begin();
  const std::unique_ptr<meta::Scan> order = meta_.NewScan(Family::kSystem, PrefixEnd(kCacheOrderPrefix));
  for (order->Seek(kCacheOrderPrefix); order->Valid(); order->Next()) {
    const Result<CachedName> name = DecodeOrderKey(order->key());
    const Result<OrderRecord> record = DecodeOrder(order->key(), order->value());
    if (!name.ok() || !record.ok()) {
      Error(name.ok() ? record.error() : name.error());
      continue;
    }
    for (; expected != cached_.end() && *expected < *name; ++expected)
      Error("version {} of a cache bucket, number {}, is not in its order", expected->version, expected->bucket);
    const bool is_there = expected != cached_.end() && *expected == *name;
    FB_ASSIGN(const std::optional<std::string> object,
              meta_.Get(Family::kObjects, EncodeObjectKey(name->bucket, record->key, name->version)));
    if (!is_there || !object) Error("the order of bucket {} names `{}`, version {}, which is not there", name->bucket, record->key, name->version);
    if (is_there) ++expected;
  }
  FB_TRY(order->status());
  for (; is_current_ && expected != cached_.end(); ++expected)
    Error("version {} of a cache bucket, number {}, is not in its order", expected->version, expected->bucket);
  const std::unique_ptr<meta::Scan> pins = meta_.NewScan(Family::kSystem, PrefixEnd(kCachePinPrefix));
  for (pins->Seek(kCachePinPrefix); pins->Valid(); pins->Next()) {
    const Result<CachedName> name = DecodePinKey(pins->key());
    const Result<PinRecord> record = DecodePin(pins->key(), pins->value());
    if (!name.ok() || !record.ok()) {
      Error(name.ok() ? record.error() : name.error());
    } else if (!std::ranges::binary_search(cached_, *name)) {
      Error("version {} of bucket {} is pinned and not there", name->version, name->bucket);
    }
  }
  return pins->status();
}

Status Checker::CheckScrub() {
  FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kSystem, kScrubKey));
  if (!row) return {};
  if (const Result<ScrubState> state = DecodeScrub(*row); !state.ok()) Error(state.error());
  return {};
}

}  // namespace

rt::Task<Result<FsckReport>> CheckStore(rt::Reactor& reactor, Devices& devices, meta::MetaStore& meta,
                                        FsckOptions options) {
  Checker checker(reactor, devices, meta, options);
  co_return co_await checker.Run();
}

}  // namespace forebay::engine
