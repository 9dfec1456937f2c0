// SPDX-License-Identifier: Apache-2.0
// The parts of a repair about buckets, extents and space.
#include <algorithm>

#include "engine/block_check.h"
#include "engine/block_owners.h"
#include "engine/engine.h"
#include "engine/repair_planner.h"
#include "base/clock.h"
#include "device/aligned_bytes.h"

namespace forebay::engine {

bool RepairPlan::empty() const {
  return fills.empty() && std::ranges::all_of(rows, [](const std::vector<Row>& stage) { return stage.empty(); });
}

rt::Task<Result<RepairPlan>> PlanRepair(rt::Reactor& reactor, Devices& devices, meta::MetaStore& meta,
                                        RepairOptions options) {
  if (options.remove_damaged) options.verify_data = true;
  RepairPlanner planner(reactor, devices, meta, options);
  co_return co_await planner.Run();
}

rt::Task<Result<RepairPlan>> RepairPlanner::Run() {
  FB_CO_TRY(co_await ReadHeads());
  FB_CO_TRY(ReadCounters());
  FB_CO_TRY(PlanBuckets());
  FB_CO_TRY(co_await PlanExtents());
  FB_CO_TRY(LoadSpace());
  FB_CO_TRY(PlanUploads());
  FB_CO_TRY(PlanObjects());
  FB_CO_TRY(PlanParts());
  FB_CO_TRY(PlanLeftovers());
  FB_CO_TRY(co_await PlanOverlaps());
  FB_CO_TRY(PlanReferences());
  FB_CO_TRY(PlanGroups());
  MakeLostBuckets();
  FB_CO_TRY(PlanOperations());
  FB_CO_TRY(PlanTenants());
  FB_CO_TRY(PlanScrub());
  FB_CO_TRY(PlanCaches());
  FB_CO_TRY(PlanCounters());
  co_return std::move(plan_);
}

void RepairPlanner::Remove(Stage stage, Family family, std::string_view key, std::string_view value,
                           std::string what) {
  plan_.rows[stage].push_back({family, std::string(key), std::nullopt});
  if (family == Family::kObjects)
    if (const Result<ObjectKey> object = DecodeObjectKey(key); object.ok()) cached_.erase({object->bucket, object->version});
  plan_.lost.push_back({family, std::string(key), std::string(value), std::move(what)});
}

rt::Task<Status> RepairPlanner::ReadHeads() {
  FB_CO_ASSIGN(superblocks_, co_await ReadSuperblocks(reactor_, devices_));
  const Uuid store = superblocks_[0].store;
  FB_CO_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kSystem, kIdentityKey));
  const Result<Identity> identity = row ? DecodeIdentity(*row) : Status::NotFound("it has no row");
  if (identity.ok() && identity->store != store)
    co_return Status::FailedPrecondition(
        "the metadata belongs to store {}, the data devices to store {}: put together what belongs together",
        identity->store.ToString(), store.ToString());
  if (!identity.ok() && identity.status().code() == Code::kFailedPrecondition) co_return identity.status();
  if (identity.ok()) co_return Status();
  Act("the row that says which store the metadata belongs to is written again, as the devices say: {}",
      store.ToString());
  if (row) Remove(RepairPlan::kReserve, Family::kSystem, kIdentityKey, *row, "the identity of the store");
  Put(RepairPlan::kReserve, Family::kSystem, kIdentityKey, EncodeIdentity(store));
  co_return Status();
}

Status RepairPlanner::ReadCounters() {
  FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kSystem, kCountersKey));
  if (!row) return {};
  const Result<Counters> counters = DecodeCounters(*row);
  if (counters.ok()) {
    counters_row_ = *counters;
    counters_ = *counters;
    return {};
  }
  // Numbers of what was deleted are not known any more: far above all that is there, none is given out twice.
  constexpr uint64_t kGap = uint64_t{1} << 32;
  counters_ = {.next_extent = kGap, .next_version = kGap, .next_bucket = kGap};
  Act("the counters do not decode, and are set far above all numbers that are in use");
  Remove(RepairPlan::kReserve, Family::kSystem, kCountersKey, *row, "the counters");
  return {};
}

// ---- buckets ----

Status RepairPlanner::PlanBuckets() {
  FB_TRY(ReadBuckets());
  // Which buckets objects are in that have no row.
  std::vector<uint64_t> missing;
  const std::unique_ptr<meta::Scan> scan = meta_.NewScan(Family::kObjects, {});
  for (scan->Seek({}); scan->Valid();) {
    const Result<ObjectKey> key = DecodeObjectKey(scan->key());
    if (!key.ok() || key->bucket == UINT64_MAX) {
      scan->Next();
      continue;
    }
    if (!buckets_.contains(key->bucket)) missing.push_back(key->bucket);
    scan->Seek(BucketPrefix(key->bucket + 1));
  }
  FB_TRY(scan->status());
  const bool paired = missing.size() == 1 && broken_buckets_.size() == 1;  // it is that one's row which is damaged
  for (const uint64_t id : missing) {
    (void)BucketOf(id);
    Bucket& bucket = lost_buckets_.at(id);
    if (paired) bucket.name = broken_buckets_.front();
    if (bucket.name.starts_with('_')) bucket.owner = TenantId::kSystem;
  }
  return {};
}

Status RepairPlanner::ReadBuckets() {
  return ForEach(Family::kBuckets, {}, {}, [&](std::string_view name, std::string_view value) -> Status {
    const Result<BucketRecord> bucket = DecodeBucket(name, value);
    if (!bucket.ok()) {
      broken_buckets_.emplace_back(name);
      Act("the row of bucket `{}` is moved aside: {}", name, bucket.status().message());
      Remove(RepairPlan::kRemove, Family::kBuckets, name, value, fmt::format("the row of bucket `{}`", name));
      return {};
    }
    if (!buckets_.emplace(bucket->id, Bucket{std::string(name), bucket->info.owner, store::IsCache(bucket->info)}).second) {
      Act("the row of bucket `{}` is moved aside: bucket `{}` has the same number {}, and keeps the objects", name,
          buckets_.at(bucket->id).name, bucket->id);
      Remove(RepairPlan::kRemove, Family::kBuckets, name, value, fmt::format("the row of bucket `{}`", name));
      return {};
    }
    counters_.next_bucket = std::max(counters_.next_bucket, bucket->id + 1);
    ++usages_[bucket->info.owner].buckets;
    return {};
  });
}

const RepairPlanner::Bucket& RepairPlanner::BucketOf(uint64_t id) {
  if (const auto found = buckets_.find(id); found != buckets_.end()) return found->second;
  if (const auto found = lost_buckets_.find(id); found != lost_buckets_.end()) return found->second;
  counters_.next_bucket = std::max(counters_.next_bucket, id + 1);
  // Only objects of caches have an order.
  const std::unique_ptr<meta::Scan> order = meta_.NewScan(Family::kSystem, PrefixEnd(OrderPrefix(id)));
  order->Seek(OrderPrefix(id));
  return lost_buckets_.emplace(id, Bucket{fmt::format("lost-{}", id), TenantId::kRoot, order->Valid()}).first->second;
}

void RepairPlanner::MakeLostBuckets() {
  for (auto& [id, bucket] : lost_buckets_) {
    const auto taken = [this](const std::string& name) {
      return std::ranges::any_of(buckets_, [&](const auto& one) { return one.second.name == name; });
    };
    while (taken(bucket.name)) bucket.name += "-again";
    Act("bucket `{}` is made for the objects of number {}, whose bucket is not there; its owner is {}", bucket.name,
        id, bucket.owner == TenantId::kSystem ? "the server" : "root");
    Put(RepairPlan::kRefer, Family::kBuckets, bucket.name,
        EncodeBucket(bucket.name,
                     {.id = id,
                      .info = {.name = bucket.name,
                               .owner = bucket.owner,
                               .bucket_class = bucket.cache ? store::BucketClass::kCache : store::BucketClass::kDurable}}));
    // A row of that name that is moved aside goes before it comes.
    std::erase_if(plan_.rows[RepairPlan::kRemove], [&bucket](const RepairPlan::Row& row) {
      return row.family == Family::kBuckets && row.key == bucket.name;
    });
    ++usages_[bucket.owner].buckets;
  }
}

// ---- extents ----

rt::Task<Status> RepairPlanner::PlanExtents() {
  const std::unique_ptr<meta::Scan> scan = meta_.NewScan(Family::kExtents, {});
  for (scan->Seek({}); scan->Valid(); scan->Next()) {
    const Result<uint64_t> id = DecodeNumberKey(scan->key());
    const Result<ExtentRecord> record = DecodeExtent(scan->key(), scan->value());
    Status sane = id.ok() ? record.status() : id.status();
    if (id.ok()) counters_.next_extent = std::max(counters_.next_extent, *id + 1);
    if (sane.ok()) sane = CheckPlace(*id, *record, devices_);
    if (!sane.ok()) {
      Act("the row of an extent is moved aside: {}", sane.message());
      Remove(RepairPlan::kForget, Family::kExtents, scan->key(), scan->value(), "an extent");
      continue;
    }
    Extent extent{.id = *id,
                  .run = {.device = record->device,
                          .first_unit = record->first_unit,
                          .units = static_cast<uint32_t>(record->units())},
                  .length_bytes = record->length_bytes,
                  .block_shift = record->block_shift,
                  .references = record->references,
                  .cache = record->cache};
    if (options_.verify_data) co_await VerifyExtent(*record, extent);
    extents_.push_back(std::move(extent));
  }
  co_return scan->status();
}

rt::Task<void> RepairPlanner::VerifyExtent(const ExtentRecord& record, Extent& extent) {
  if (record.cache) co_return;  // what is not there is gone, and no damage
  constexpr uint64_t kRunBytes = uint64_t{1} << kMaxBlockShift;
  std::vector<BlockRun> runs;
  AddRuns(extent.id, record, kRunBytes, runs);
  device::AlignedBytes memory(kRunBytes);
  extent.damaged.clear();
  for (const BlockRun& run : runs) {
    const RunCheck check = co_await CheckRun(reactor_, devices_, run, memory.writable(), Mending::kNo);
    for (const BadBlock& bad : check.damaged)
      extent.damaged.push_back(static_cast<uint32_t>((run.begin >> record.block_shift) + bad.block));
  }
}

namespace {

using UsedUnits = std::map<std::pair<uint32_t, uint32_t>, GroupBitmap>;

void AddUnits(const UnitRun& run, UsedUnits& used) {
  for (uint64_t unit = run.first_unit; unit < run.first_unit + run.units; ++unit) {
    GroupBitmap& bitmap = used[{run.device, static_cast<uint32_t>(unit / kGroupUnits)}];
    bitmap[unit % kGroupUnits / 64] |= uint64_t{1} << (unit % 64);
  }
}

}  // namespace

Status RepairPlanner::LoadSpace() {
  std::vector<Allocator::DeviceSpace> spaces;
  spaces.reserve(superblocks_.size());
  for (const Superblock& superblock : superblocks_)
    spaces.push_back({.size_bytes = superblock.size_bytes, .data_start = superblock.data_start});
  space_ = std::make_unique<Allocator>(spaces);
  for (uint32_t id = 0; id < spaces.size(); ++id)
    if (devices_.absent(id)) space_->SetOpen(id, false);
  UsedUnits used;
  for (const Extent& extent : extents_) AddUnits(extent.run, used);
  for (const auto& [group, bitmap] : used)
    FB_TRY(space_->Load({.device = group.first, .group = group.second}, bitmap));
  return {};
}

std::optional<UnitRun> RepairPlanner::Reserve(uint64_t bytes) {
  const auto units = static_cast<uint32_t>(base::DivideUp(bytes, device::kUnit));
  const Result<UnitRun> run = space_->Reserve(units);
  if (!run.ok()) return std::nullopt;
  reserved_.push_back(*run);
  if (run->units >= units) {
    reserved_.back().units = units;
    return reserved_.back();
  }
  reserved_.pop_back();
  space_->Release(*run);
  return std::nullopt;
}

/// The one with fewer damaged blocks stays where it is. The other is copied elsewhere as it is, so that each of its
/// blocks that still matches can be read.
rt::Task<Status> RepairPlanner::PlanOverlaps() {
  std::vector<Extent*> by_place;
  for (Extent& extent : extents_)
    if (extent.seen != 0) by_place.push_back(&extent);
  const auto place = [](const Extent* extent) { return std::pair(extent->run.device, extent->run.first_unit); };
  std::ranges::sort(by_place, {}, place);
  const auto end_of = [](const Extent* extent) { return extent->run.first_unit + extent->run.units; };
  for (size_t begin = 0; begin < by_place.size();) {
    uint64_t reach = end_of(by_place[begin]);
    size_t end = begin + 1;
    for (; end < by_place.size() && by_place[end]->run.device == by_place[begin]->run.device &&
           by_place[end]->run.first_unit < reach;
         ++end)
      reach = std::max(reach, end_of(by_place[end]));
    std::vector<Extent*> cluster(by_place.begin() + static_cast<ptrdiff_t>(begin),
                                 by_place.begin() + static_cast<ptrdiff_t>(end));
    begin = end;
    if (cluster.size() == 1) continue;
    for (Extent* extent : cluster) {
      FB_CO_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kExtents, NumberKey(extent->id)));
      if (!row) co_return Status::Internal("the row of extent {} went away", extent->id);
      FB_CO_ASSIGN(const ExtentRecord record, DecodeExtent(NumberKey(extent->id), *row));
      co_await VerifyExtent(record, *extent);
    }
    std::ranges::sort(cluster, {},
                      [](const Extent* extent) { return std::pair(extent->damaged.size(), extent->id); });
    std::vector<const Extent*> kept;
    for (Extent* extent : cluster) {
      const bool overlaps = std::ranges::any_of(kept, [&](const Extent* other) {
        return extent->run.first_unit < end_of(other) && other->run.first_unit < end_of(extent);
      });
      if (overlaps) {
        FB_CO_TRY(Move(*extent));
      } else {
        kept.push_back(extent);
      }
    }
  }
  co_return Status();
}

Status RepairPlanner::Move(Extent& extent) {
  const std::optional<UnitRun> run = Reserve(extent.length_bytes);
  if (!run) {
    GiveUp("extent {} overlaps another one, and there is no room for a copy of it: delete objects, then repair again",
           extent.id);
    return {};
  }
  FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kExtents, NumberKey(extent.id)));
  FB_ASSIGN(ExtentRecord record, DecodeExtent(NumberKey(extent.id), row.value_or(std::string())));
  plan_.fills.push_back({.device = run->device,
                         .offset = run->offset_bytes(),
                         .length = extent.run.length_bytes(),
                         .copy = true,
                         .from_device = extent.run.device,
                         .from_offset = extent.run.offset_bytes()});
  Act("extent {} overlaps one whose content matches better: it moves from unit {} of {} to unit {} of {}", extent.id,
      extent.run.first_unit, devices_.at(extent.run.device).name(), run->first_unit,
      devices_.at(run->device).name());
  std::vector<ExtentRange> ranges;
  for (const uint32_t block : extent.damaged) {
    const uint64_t begin = uint64_t{block} << extent.block_shift;
    ranges.push_back({.extent = extent.id,
                      .begin = begin,
                      .end = std::min(begin + (uint64_t{1} << extent.block_shift), extent.length_bytes)});
  }
  if (!ranges.empty()) {
    constexpr size_t kMostOwners = 100;
    FB_ASSIGN(const std::vector<std::vector<BlockOwner>> owners,
              FindOwners(meta_, ranges, kMostOwners, [] { return true; }));
    for (const std::vector<BlockOwner>& block : owners)
      for (const BlockOwner& owner : block)
        Act("  {} is damaged at offset {}: the other extent's content stands there", owner.name, owner.offset);
  }
  extent.run = *run;
  record.device = run->device;
  record.first_unit = run->first_unit;
  record.references = extent.seen;
  extent.references = extent.seen;
  Put(RepairPlan::kAdd, Family::kExtents, NumberKey(extent.id), EncodeExtent(NumberKey(extent.id), record));
  return {};
}

Status RepairPlanner::PlanReferences() {
  for (const Extent& extent : extents_) {
    if (extent.seen == extent.references) continue;
    const std::string key = NumberKey(extent.id);
    FB_ASSIGN(const std::optional<std::string> row, meta_.Get(Family::kExtents, key));
    if (extent.seen == 0) {
      Act("extent {} goes: no object refers to it; {} come back", extent.id,
          base::FormatSize(extent.run.length_bytes()));
      Remove(RepairPlan::kForget, Family::kExtents, key, row.value_or(std::string()),
             fmt::format("extent {}, that no object refers to", extent.id));
      continue;
    }
    FB_ASSIGN(ExtentRecord record, DecodeExtent(key, row.value_or(std::string())));
    record.references = extent.seen;
    Act("extent {} has {} references and counts {}: that is corrected", extent.id, extent.seen, extent.references);
    Put(RepairPlan::kAdd, Family::kExtents, key, EncodeExtent(key, record));
  }
  for (const auto& [key, record] : new_extents_) Put(RepairPlan::kAdd, Family::kExtents, key, EncodeExtent(key, record));
  return {};
}

Status RepairPlanner::PlanGroups() {
  UsedUnits used;
  for (const Extent& extent : extents_)
    if (extent.seen != 0) AddUnits(extent.run, used);
  for (const UnitRun& run : reserved_) AddUnits(run, used);
  // What the plan takes is in use from its first commit on, beside all that is so now.
  UsedUnits reserved;
  for (const UnitRun& run : reserved_) AddUnits(run, reserved);
  uint64_t groups = 0;
  UsedUnits missing = used;
  FB_TRY(ForEach(Family::kGroups, {}, {}, [&](std::string_view key, std::string_view value) -> Status {
    const Result<GroupName> name = DecodeGroupKey(key);
    const Result<GroupBitmap> row = DecodeGroup(key, value);
    if (!name.ok()) {
      Act("a free-space row is moved aside: {}", name.status().message());
      Remove(RepairPlan::kRelease, Family::kGroups, key, value, "a free-space row");
      return {};
    }
    const std::pair at(name->device, name->group);
    GroupBitmap expected{};
    if (const auto found = used.find(at); found != used.end()) expected = found->second;
    missing.erase(at);
    if (row.ok() && *row == expected) return {};
    ++groups;
    GroupBitmap both = expected;
    for (size_t word = 0; word < both.size() && row.ok(); ++word) both[word] |= (*row)[word];
    if (reserved.contains(at)) Put(RepairPlan::kReserve, Family::kGroups, key, EncodeGroup(key, both));
    Put(RepairPlan::kRelease, Family::kGroups, key, EncodeGroup(key, expected));
    return {};
  }));
  for (const auto& [at, bitmap] : missing) {
    ++groups;
    const std::string key = GroupKey(at.first, at.second);
    Put(RepairPlan::kReserve, Family::kGroups, key, EncodeGroup(key, bitmap));
  }
  if (groups != 0) Act("the free space of {} groups is written anew, as the extents say", groups);
  return {};
}

}  // namespace forebay::engine
