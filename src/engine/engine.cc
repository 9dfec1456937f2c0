// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/checksum.h"
#include "base/limits.h"
#include "engine/cache_transactions.h"
#include "engine/compose.h"
#include "engine/copy.h"
#include "engine/loader.h"
#include "engine/operations.h"
#include "engine/overwrite.h"
#include "engine/reader.h"
#include "engine/publish.h"
#include "engine/scrub.h"
#include "engine/transactions.h"
#include "engine/upload_transactions.h"
#include "engine/writer.h"
#include "store/cache_class.h"
#include "store/checks.h"
#include "store/conditions.h"
#include "store/operations.h"
#include "store/quota.h"
#include "store/replayed_writer.h"
#include "store/tenancy.h"

namespace forebay::engine {
namespace {

using meta::Family;

/// A put of so much is looked for before its content comes: to move that twice costs more than to look.
constexpr uint64_t kLookBeforeBytes = 64 * base::kKiB;

/// The first transaction of a store, and of one that an older program wrote: binds the metadata to the devices, and
/// says that this program has written. The accounts' rows, when there were none, go with it.
class IdentityTransaction final : public meta::Transaction {
 public:
  explicit IdentityTransaction(const Uuid& store) : store_(store) {}
  Status Prepare(meta::View& /*view*/, meta::Batch& batch) override {
    batch.Put(Family::kSystem, kIdentityKey, EncodeIdentity(store_));
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override {
    return true;
  }  // no, but it is small, and a store that is full must open
  void Done(const Status& /*outcome*/) override {}

 private:
  const Uuid store_;
};

Status LoadBuckets(meta::MetaStore& meta, BucketTable& buckets) {
  const std::unique_ptr<meta::Scan> scan = meta.NewScan(Family::kBuckets, {});
  for (scan->Seek({}); scan->Valid(); scan->Next()) {
    FB_ASSIGN(BucketRecord bucket, DecodeBucket(scan->key(), scan->value()));
    buckets.Add(std::move(bucket));
  }
  return scan->status();
}

Status LoadFreeSpace(meta::MetaStore& meta, Allocator& allocator) {
  const std::unique_ptr<meta::Scan> scan = meta.NewScan(Family::kGroups, {});
  for (scan->Seek({}); scan->Valid(); scan->Next()) {
    FB_ASSIGN(const GroupName name, DecodeGroupKey(scan->key()));
    FB_ASSIGN(const GroupBitmap bitmap, DecodeGroup(scan->key(), scan->value()));
    FB_TRY(allocator.Load(name, bitmap));
  }
  return scan->status();
}

Status LoadCounters(meta::MetaStore& meta, GroupCommit& commits) {
  FB_ASSIGN(const std::optional<std::string> row, meta.Get(Family::kSystem, kCountersKey));
  if (!row) return {};
  FB_ASSIGN(const Counters counters, DecodeCounters(*row));
  commits.SetCounters(counters);
  return {};
}

Status LoadCaches(meta::MetaStore& meta, Core& core) {
  std::map<uint64_t, TenantId> owners;
  for (const auto& [id, owner] : core.buckets.Caches()) {
    core.order.AddBucket(id, owner);
    owners.emplace(id, owner);
  }
  FB_ASSIGN(const std::optional<std::string> row, meta.Get(Family::kSystem, kCacheTotalsKey));
  if (row) {
    FB_ASSIGN(const CacheTotals totals, DecodeCacheTotals(*row));
    core.commits->SetCacheTotals(totals);
  }
  const std::unique_ptr<meta::Scan> scan = meta.NewScan(Family::kSystem, PrefixEnd(kCachePinPrefix));
  for (scan->Seek(kCachePinPrefix); scan->Valid(); scan->Next()) {
    FB_ASSIGN(const CachedName name, DecodePinKey(scan->key()));
    FB_ASSIGN(const PinRecord pin, DecodePin(scan->key(), scan->value()));
    core.pins.Set(name, {.record = pin, .owner = owners[name.bucket]});
  }
  return scan->status();
}

/// Objects that a program put which did not know the order, some at a time. Repeated, it does the same.
rt::Task<Status> EnterOldObjects(rt::Reactor& reactor, Core& core) {
  constexpr size_t kAtOnce = 10'000;
  constexpr int64_t kNsInMs = 1'000'000;
  for (const auto& [bucket, owner] : core.buckets.Caches()) {
    const std::unique_ptr<meta::Scan> scan = core.meta->NewScan(Family::kObjects, PrefixEnd(BucketPrefix(bucket)));
    scan->Seek(BucketPrefix(bucket));
    while (scan->Valid()) {
      std::vector<CachedObject> objects;
      for (; scan->Valid() && objects.size() < kAtOnce; scan->Next()) {
        FB_CO_ASSIGN(const ObjectKey name, DecodeObjectKey(scan->key()));
        FB_CO_ASSIGN(const ObjectRecord record, DecodeObject(scan->key(), scan->value()));
        if (record.delete_marker) continue;
        objects.push_back({.name = {bucket, name.version},
                           .record = {.key = std::string(name.key),
                                      .size_bytes = record.size_bytes,
                                      .put_ms = static_cast<uint64_t>(std::max<int64_t>(record.modified_ns / kNsInMs, 0))}});
      }
      FB_CO_TRY(co_await core.meta->Commit(reactor, MakeEnterCache(core, std::move(objects))));
    }
    FB_CO_TRY(scan->status());
  }
  co_return Status();
}

/// Gives whether it is of the format that this program writes. NotFound when the metadata is empty: a new store.
Result<bool> CheckIdentity(meta::MetaStore& meta, const Uuid& store) {
  FB_ASSIGN(const std::optional<std::string> row, meta.Get(Family::kSystem, kIdentityKey));
  if (!row) {
    const std::unique_ptr<meta::Scan> scan = meta.NewScan(Family::kObjects, {});
    scan->Seek({});
    FB_TRY(scan->status());
    if (scan->Valid())
      return Status::DataLoss("the metadata holds objects but does not say of which store: run forebay fsck");
    return Status::NotFound("the metadata is empty");
  }
  FB_ASSIGN(const Identity found, DecodeIdentity(*row));
  if (found.store == store) return found.current;
  return Status::FailedPrecondition(
      "the metadata belongs to store {}, the data devices to store {}: put together what belongs together",
      found.store.ToString(), store.ToString());
}

/// A block that every hole is read from.
Result<base::Buffer> MakeZeros(Memory& memory) {
  std::optional<std::vector<base::Buffer>> buffers = memory.TryAllocate({size_t{1} << kWriterBlockShift});
  if (!buffers) return Status::ResourceExhausted("the memory for content is smaller than one block: give it more");
  std::ranges::fill(buffers->front().writable(), std::byte{0});
  buffers->front().Freeze();
  return std::move(buffers->front());
}

}  // namespace

rt::Task<Status> Engine::Format(rt::Reactor& reactor, std::span<device::Device* const> devices, Uuid store) {
  for (uint32_t id = 0; id < devices.size(); ++id) {
    device::Device& device = *devices[id];
    if (device.size_bytes() < kMinDeviceBytes)
      co_return Status::InvalidArgument("{} has {} bytes; a data device needs at least {}", device.name(),
                                        device.size_bytes(), kMinDeviceBytes);
    const Superblock superblock{.store = store,
                                .device_id = id,
                                .device_count = static_cast<uint32_t>(devices.size()),
                                .size_bytes = device.size_bytes(),
                                .data_start = kDataStart};
    FB_CO_TRY(co_await WriteSuperblock(reactor, device, superblock));
  }
  co_return Status();
}

rt::Task<Result<std::vector<Superblock>>> ReadSuperblocks(rt::Reactor& reactor, const Devices& devices) {
  std::vector<Superblock> superblocks;
  const uint32_t first = devices.witness_device();
  FB_CO_ASSIGN(const Superblock of_first, co_await ReadSuperblock(reactor, devices.at(first)));
  for (uint32_t id = 0; id < devices.size(); ++id) {
    if (devices.absent(id)) {
      superblocks.push_back({.store = of_first.store,
                             .device_id = id,
                             .device_count = static_cast<uint32_t>(devices.size()),
                             .size_bytes = devices.at(id).size_bytes()});
      continue;
    }
    FB_CO_ASSIGN(const Superblock superblock, co_await ReadSuperblock(reactor, devices.at(id)));
    // It may be from before others were added.
    if (superblock.device_id != id || superblock.device_count > devices.size())
      co_return Status::FailedPrecondition(
          "{} is device {} of {}, not {} of {}: list the devices in their order", devices.at(id).name(),
          superblock.device_id + 1, superblock.device_count, id + 1, devices.size());
    if (superblock.store != of_first.store)
      co_return Status::FailedPrecondition("{} belongs to store {}, {} to store {}", devices.at(first).name(),
                                           of_first.store.ToString(), devices.at(id).name(),
                                           superblock.store.ToString());
    if (superblock.size_bytes > devices.at(id).size_bytes())
      co_return Status::DataLoss("{} has {} bytes and had {} when it was formatted: a part of it is missing",
                                 devices.at(id).name(), devices.at(id).size_bytes(), superblock.size_bytes);
    superblocks.push_back(superblock);
  }
  co_return superblocks;
}

rt::Task<Result<std::unique_ptr<Engine>>> Engine::Open(rt::Reactor& reactor, Parts parts,
                                                       EngineOptions options) {
  if (parts.devices.empty()) co_return Status::InvalidArgument("a store needs at least one data device");
  auto devices = std::make_unique<Devices>(std::move(parts.devices));
  FB_CO_ASSIGN(const std::vector<Superblock> superblocks, co_await ReadSuperblocks(reactor, *devices));
  const Uuid store = superblocks[0].store;
  FB_CO_ASSIGN(const Witness witness, co_await ReadWitness(reactor, devices->at(devices->witness_device()), store));

  std::vector<Allocator::DeviceSpace> spaces;
  spaces.reserve(superblocks.size());
  for (const Superblock& superblock : superblocks)
    spaces.push_back({.size_bytes = superblock.size_bytes, .data_start = superblock.data_start});
  auto core = std::make_unique<Core>(*devices, *parts.arena, spaces, options, *parts.clock, *parts.log);
  core->store = store;
  for (uint32_t id = 0; id < devices->size(); ++id)
    if (devices->absent(id)) core->allocator.SetOpen(id, false);
  FB_CO_ASSIGN(core->commits, GroupCommit::Create(*devices, store, witness, *parts.clock, *parts.log));
  FB_CO_ASSIGN(core->meta, parts.open_meta(witness.commit, *core->commits));

  const Result<bool> identity = CheckIdentity(*core->meta, store);
  if (!identity.ok() && (identity.error().code() != Code::kNotFound || witness.commit != 0))
    co_return identity.error();
  FB_CO_TRY(LoadCounters(*core->meta, *core->commits));
  FB_CO_TRY(LoadBuckets(*core->meta, core->buckets));
  FB_CO_TRY(LoadFreeSpace(*core->meta, core->allocator));
  FB_CO_TRY(core->commits->tenants().Load(*core->meta));
  FB_CO_TRY(core->operations.Load(*core->meta));
  FB_CO_TRY(LoadCaches(*core->meta, *core));
  // From here on the last commit is witnessed, whatever happens to the log. No commit is in progress yet.
  FB_CO_TRY(co_await core->commits->WriteWitness(reactor, core->meta->last_commit()));
  if (identity.ok() && !*identity) FB_CO_TRY(co_await EnterOldObjects(reactor, *core));
  if (!identity.value_or(false) || core->commits->tenants().changed())
    FB_CO_TRY(co_await core->meta->Commit(reactor, std::make_unique<IdentityTransaction>(store)));
  FB_CO_ASSIGN(core->zeros, MakeZeros(core->memory));
  core->pool = std::make_unique<rt::ThreadPool>(core->lookup_threads, "fb-lookup");
  co_return std::unique_ptr<Engine>(new Engine(std::move(devices), std::move(core)));
}

Engine::~Engine() = default;

rt::Task<void> Engine::Drain(rt::Reactor& reactor) { co_await core_->gates.Close(reactor); }

CopySource Engine::OpenForCopy() {
  EpochSet::Guard guard = core_->epochs.Enter();  // before the snapshot: what that knows stays where it is
  return {.devices = *devices_, .guard = std::move(guard), .moment = core_->meta->TakeSnapshot()};
}

ScrubSource Engine::OpenForScrub() {
  Core& core = *core_;
  return {.devices = *devices_,
          .epochs = core.epochs,
          .meta = *core.meta,
          .clock = core.clock,
          .log = core.log,
          .used_bytes = [&core] { return core.allocator.capacity_bytes() - core.allocator.free_bytes(); },
          .count_damage = [&core](uint64_t blocks) {
            core.damaged_blocks.fetch_add(blocks, std::memory_order_relaxed);
          }};
}

Result<uint64_t> Engine::FindBucket(const store::Context& context, const std::string& name) const {
  if (const uint64_t id = core_->buckets.IdOf(context.tenant, name); id != 0) return id;
  FB_TRY(store::CheckBucketName(context.tenant, name));
  return store::NoSuchBucket(name);
}

// ---- buckets ----

rt::Task<Status> Engine::CreateBucket(const store::Context& context, store::BucketInfo bucket) {
  FB_CO_TRY(store::CheckDeadline(context, "create bucket"));
  FB_CO_TRY(store::CheckNewBucket(context.tenant, &bucket));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  FB_CO_TRY(core_->health());
  store::Operation operation = store::CreateBucketOperation(context, bucket, operation_time_ms());
  co_return co_await CommitOnce(*core_, context, operation,
                                MakeCreateBucket(*core_, std::move(bucket)));
}

rt::Task<Status> Engine::DeleteBucket(const store::Context& context, std::string name) {
  FB_CO_TRY(store::CheckDeadline(context, "delete bucket"));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  store::Operation operation = store::DeleteBucketOperation(context, name, operation_time_ms());
  const Result<uint64_t> id = FindBucket(context, name);
  if (!id.ok() && operation.id.IsNone()) co_return id.error();
  FB_CO_TRY(core_->health());
  co_return co_await CommitOnce(
      *core_, context, operation,
      id.ok() ? MakeDeleteBucket(*core_, context.tenant, std::move(name)) : MakeRefusal(id.error()));
}

rt::Task<Status> Engine::UpdateBucket(const store::Context& context, std::string name, store::BucketSettings settings) {
  FB_CO_TRY(store::CheckDeadline(context, "update bucket"));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  store::Operation operation = store::UpdateBucketOperation(context, name, settings, operation_time_ms());
  const Result<uint64_t> id = FindBucket(context, name);
  if (!id.ok() && operation.id.IsNone()) co_return id.error();
  FB_CO_TRY(core_->health());
  co_return co_await CommitOnce(
      *core_, context, operation,
      id.ok() ? MakeUpdateBucket(*core_, context.tenant, std::move(name), settings) : MakeRefusal(id.error()));
}

rt::Task<Result<store::BucketInfo>> Engine::GetBucket(const store::Context& context, std::string name) {
  FB_CO_TRY(store::CheckDeadline(context, "get bucket"));
  FB_CO_TRY(store::CheckBucketName(context.tenant, name));
  std::optional<BucketRecord> bucket = core_->buckets.Find(context.tenant, name);
  if (!bucket) co_return store::NoSuchBucket(name);
  co_return std::move(bucket->info);
}

rt::Task<Result<std::vector<store::BucketInfo>>> Engine::ListBuckets(const store::Context& context) {
  FB_CO_TRY(store::CheckDeadline(context, "list buckets"));
  co_return core_->buckets.List(context.tenant);
}

// ---- objects ----

rt::Task<Result<std::unique_ptr<store::ObjectReader>>> Engine::Open(const store::Context& context,
                                                                    std::string bucket, std::string key,
                                                                    store::Condition condition) {
  FB_CO_TRY(store::CheckDeadline(context, "open"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, bucket));
  EpochSet::Guard guard = core_->epochs.Enter();  // before the lookup: what it finds stays readable
  Result<ObjectStatePtr> state = co_await FindObject(*core_, context, id, key);
  if (!state.ok()) co_return state.error().WithContext(fmt::format("open `{}/{}`", bucket, key));
  if (*state == nullptr) co_return store::NoSuchObject(bucket, key);
  FB_CO_TRY(store::CheckCondition(condition, (*state)->info.etag, bucket, key));
  if (core_->order.has_buckets()) core_->order.NoteUse((*state)->info.version);
  auto version =
      std::make_shared<const engine::OpenVersion>(*core_, std::move(bucket), *std::move(state), std::move(guard));
  co_return std::make_unique<Reader>(std::move(version));
}

rt::Task<Result<store::ObjectInfo>> Engine::Stat(const store::Context& context, std::string bucket,
                                                 std::string key) {
  FB_CO_TRY(store::CheckDeadline(context, "stat"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, bucket));
  Core& core = *core_;
  if (const ObjectCache::Found found = core.cache.Lookup(id, key); found.state != nullptr) {
    const store::ObjectInfo& info = found.state->info;
    if (core.IsExpired(id, info.version, info.modified)) co_return store::NoSuchObject(bucket, key);
    co_return info;
  }
  FB_CO_ASSIGN(const std::optional<NewestVersion> newest,
               co_await rt::Offload(context.reactor, *core.pool,
                                    [&core, id, key] { return FindNewest(*core.meta, id, key); }));
  if (!newest || ExpiredOf(core, id)(*newest)) co_return store::NoSuchObject(bucket, key);
  co_return InfoOf(key, newest->version, newest->record);
}

/// Looks the object up only when the put would be refused if it replaced nothing.
rt::Task<Status> Engine::CheckPutQuota(const store::Context& context, const std::string& bucket_name,
                                       uint64_t bucket, const std::string& key, uint64_t size_bytes) {
  Core& core = *core_;
  const TenantId owner = core.buckets.OwnerOf(bucket_name);
  const store::TenantUsage usage = core.commits->tenants().Of(owner);
  store::UsageChange change = store::UsageChange::Put(size_bytes);
  if (store::CheckQuota(owner, usage, change).ok()) co_return Status();
  // Older objects give way, unless it is too much alone.
  if (core.buckets.IsCache(bucket)) co_return store::CheckQuota(owner, {.quota = usage.quota}, change);
  if (core.buckets.VersioningOf(bucket_name) == store::Versioning::kSuspended) co_return Status();  // Commit knows
  FB_CO_ASSIGN(const std::optional<NewestVersion> newest,
               co_await rt::Offload(context.reactor, *core.pool,
                                    [&core, bucket, key] { return FindNewest(*core.meta, bucket, key); }));
  if (newest && core.buckets.VersioningOf(bucket_name) == store::Versioning::kOff)
    change.Remove(newest->record.size_bytes);
  co_return store::CheckQuota(owner, usage, change);
}

rt::Task<Status> Engine::CheckPutCondition(const store::Context& context, const std::string& bucket_name,
                                           uint64_t bucket, const std::string& key,
                                           const store::Condition& condition) {
  if (condition.kind == store::Condition::Kind::kNone) co_return Status();
  Core& core = *core_;
  std::optional<std::string> etag;
  if (const ObjectCache::Found found = core.cache.Lookup(bucket, key); found.state != nullptr) {
    const store::ObjectInfo& info = found.state->info;
    if (!core.IsExpired(bucket, info.version, info.modified)) etag = info.etag;
  } else {
    FB_CO_ASSIGN(std::optional<NewestVersion> newest,
                 co_await rt::Offload(context.reactor, *core.pool,
                                      [&core, bucket, key] { return FindNewest(*core.meta, bucket, key); }));
    if (newest && !ExpiredOf(core, bucket)(*newest)) etag = std::move(newest->record.etag);
  }
  co_return store::CheckCondition(condition, etag, bucket_name, key);
}

rt::Task<Result<uint64_t>> Engine::CheckPut(const store::Context& context, const std::string& bucket,
                                            const std::string& key, const store::PutOptions& options) {
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, bucket));
  FB_CO_TRY(core_->health());
  if (options.size_bytes && *options.size_bytes > core_->allocator.capacity_bytes())
    co_return Status::ResourceExhausted(
        "`{}/{}` of {} does not fit on the data devices, which hold {}: put less, or add a device", bucket, key,
        base::FormatSize(*options.size_bytes), base::FormatSize(core_->allocator.capacity_bytes()));
  FB_CO_TRY(co_await CheckPutCondition(context, bucket, id, key, options.condition));
  if (options.size_bytes) FB_CO_TRY(co_await CheckPutQuota(context, bucket, id, key, *options.size_bytes));
  co_return id;
}

rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> Engine::Put(const store::Context& context,
                                                                   std::string bucket, std::string key,
                                                                   store::PutOptions options) {
  FB_CO_TRY(store::CheckDeadline(context, "put"));
  FB_CO_TRY(store::CheckPut(key, options));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  const store::Operation operation = store::PutOperation(context, bucket, key, options, operation_time_ms());
  const Result<uint64_t> id = co_await CheckPut(context, bucket, key, options);
  const bool look = !options.size_bytes || *options.size_bytes >= kLookBeforeBytes;
  FB_CO_ASSIGN(std::optional<store::OperationRecord> earlier,
               co_await BeginPut(*core_, context, operation, id.status(), look));
  if (!earlier)
    co_return std::make_unique<Writer>(*core_, context.reactor, operation, std::move(bucket), *id,
                                       std::move(key), std::move(options));
  auto writer =
      std::make_unique<Writer>(*core_, context.reactor, operation, bucket, 0, key, store::PutOptions{});
  co_return std::make_unique<store::ReplayedWriter>(std::move(writer), *std::move(earlier), operation,
                                                    std::move(bucket), std::move(key), std::move(options));
}

rt::Task<Result<uint64_t>> Engine::CheckChange(const store::Context& context, const std::string& bucket,
                                               const std::string& key, const store::Condition& condition) {
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, bucket));
  FB_CO_TRY(core_->health());
  if (core_->buckets.VersioningOf(bucket) != store::Versioning::kOff)
    co_return store::KeepsVersions(bucket, "changed by a part");
  FB_CO_ASSIGN(const store::ObjectInfo info, co_await Stat(context, bucket, key));
  FB_CO_TRY(store::CheckCondition(condition, info.etag, bucket, key));
  co_return id;
}

rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> Engine::Overwrite(const store::Context& context,
                                                                         std::string bucket, std::string key,
                                                                         store::OverwriteOptions options) {
  FB_CO_TRY(store::CheckDeadline(context, "overwrite"));
  FB_CO_TRY(store::CheckOverwrite(key, options));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  const store::Operation operation = store::OverwriteOperation(context, bucket, key, options, operation_time_ms());
  const Result<uint64_t> id = co_await CheckChange(context, bucket, key, options.condition);
  const bool look = !options.size_bytes || *options.size_bytes >= kLookBeforeBytes;
  FB_CO_ASSIGN(std::optional<store::OperationRecord> earlier,
               co_await BeginPut(*core_, context, operation, id.status(), look));
  const store::PutOptions put{.size_bytes = options.size_bytes};
  auto writer = std::make_unique<OverwriteWriter>(*core_, context.reactor, operation, bucket, id.value_or(0), key,
                                                  std::move(options));
  if (!earlier) co_return writer;
  co_return std::make_unique<store::ReplayedWriter>(std::move(writer), *std::move(earlier), operation,
                                                    std::move(bucket), std::move(key), put);
}

rt::Task<Result<store::ObjectInfo>> Engine::Truncate(const store::Context& context, std::string bucket, std::string key,
                                                     uint64_t size_bytes, store::Condition condition) {
  FB_CO_TRY(store::CheckDeadline(context, "truncate"));
  FB_CO_TRY(store::CheckTruncate(key, size_bytes, condition));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  const store::Operation operation =
      store::TruncateOperation(context, bucket, key, size_bytes, condition, operation_time_ms());
  const Result<uint64_t> id = co_await CheckChange(context, bucket, key, condition);
  FB_CO_ASSIGN(const std::optional<store::OperationRecord> earlier,
               co_await BeginPut(*core_, context, operation, id.status(), true));
  if (earlier) co_return store::ResultOfPut(*earlier, key, {});
  co_return co_await TruncateObject(*core_, context, operation, std::move(bucket), *id, std::move(key), size_bytes,
                                    std::move(condition));
}

rt::Task<Status> Engine::SetAttributes(const store::Context& context, std::string bucket, std::string key,
                                       uint64_t version, store::AttributeChange change) {
  FB_CO_TRY(store::CheckDeadline(context, "set attributes"));
  FB_CO_TRY(store::CheckAttributes(key, change));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  store::Operation operation =
      store::SetAttributesOperation(context, bucket, key, version, change, operation_time_ms());
  const Result<uint64_t> id = FindBucket(context, bucket);
  if (!id.ok() && operation.id.IsNone()) co_return id.error();
  FB_CO_TRY(core_->health());
  co_return co_await CommitOnce(*core_, context, operation,
                                id.ok() ? MakeSetAttributes(*core_, std::move(bucket), *id, std::move(key), version,
                                                            std::move(change))
                                        : MakeRefusal(id.error()));
}

rt::Task<Result<store::ObjectInfo>> Engine::Compose(const store::Context& context, std::string bucket, std::string key,
                                                    std::vector<store::Source> sources, store::PutOptions options) {
  FB_CO_TRY(store::CheckDeadline(context, "compose"));
  FB_CO_TRY(store::CheckPut(key, options));
  FB_CO_TRY(store::CheckSources(sources));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  const store::Operation operation =
      store::ComposeOperation(context, bucket, key, sources, options, operation_time_ms());
  ComposeRequest request{.bucket_name = std::move(bucket), .bucket = 0, .key = std::move(key),
                         .sources = std::move(sources), .source_buckets = {}, .options = std::move(options)};
  const Status refused = co_await CheckCompose(context, &request);
  FB_CO_ASSIGN(const std::optional<store::OperationRecord> earlier,
               co_await BeginPut(*core_, context, operation, refused, true));
  if (earlier) co_return store::ResultOfPut(*earlier, request.key, request.options.metadata, request.options.attributes);
  co_return co_await ComposeObject(*core_, context, operation, std::move(request));
}

rt::Task<Status> Engine::CheckCompose(const store::Context& context, ComposeRequest* request) {
  FB_CO_ASSIGN(request->bucket,
               co_await CheckPut(context, request->bucket_name, request->key,
                                 {.condition = request->options.condition}));
  for (const store::Source& source : request->sources) {
    FB_CO_ASSIGN(const uint64_t id, FindBucket(context, source.bucket));
    request->source_buckets.push_back(id);
  }
  co_return Status();
}

rt::Task<Status> Engine::Rename(const store::Context& context, std::string bucket, std::string from, std::string to,
                                store::RenameOptions options) {
  FB_CO_TRY(store::CheckDeadline(context, "rename"));
  FB_CO_TRY(store::CheckRename(from, to, options));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  store::Operation operation = store::RenameOperation(context, bucket, from, to, options, operation_time_ms());
  const Result<uint64_t> id = FindBucket(context, bucket);
  if (!id.ok() && operation.id.IsNone()) co_return id.error();
  FB_CO_TRY(core_->health());
  co_return co_await CommitOnce(*core_, context, operation,
                                id.ok() ? MakeRename(*core_, std::move(bucket), *id, std::move(from), std::move(to),
                                                     std::move(options))
                                        : MakeRefusal(id.error()));
}

rt::Task<Result<uint64_t>> Engine::RenamePrefix(const store::Context& context, std::string bucket, std::string from,
                                                std::string to) {
  FB_CO_TRY(store::CheckDeadline(context, "rename"));
  FB_CO_TRY(store::CheckRenamePrefix(from, to));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  store::Operation operation = store::RenamePrefixOperation(context, bucket, from, to, operation_time_ms());
  const Result<uint64_t> id = FindBucket(context, bucket);
  if (!id.ok() && operation.id.IsNone()) co_return id.error();
  FB_CO_TRY(core_->health());
  // Shared with the commit, which goes on when the deadline comes first.
  auto renamed = std::make_shared<store::ObjectInfo>();
  FB_CO_ASSIGN(const auto earlier,
               co_await CommitOnce(*core_, context, operation,
                                   id.ok() ? MakeRenamePrefix(*core_, std::move(bucket), *id, std::move(from),
                                                              std::move(to), renamed)
                                           : MakeRefusal(id.error()),
                                   renamed));
  co_return earlier ? earlier->version : renamed->version;
}

rt::Task<Result<store::ListPage>> Engine::List(const store::Context& context, std::string bucket,
                                               store::ListOptions options) {
  FB_CO_TRY(store::CheckDeadline(context, "list"));
  FB_CO_TRY(store::CheckListOptions(options));
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, bucket));
  Core& core = *core_;
  co_return co_await rt::Offload(context.reactor, *core.pool, [&core, id, options = std::move(options)] {
    return ListObjects(*core.meta, id, ExpiredOf(core, id), options);
  });
}

rt::Task<Status> Engine::Delete(const store::Context& context, std::string bucket, std::string key,
                                store::Condition condition) {
  FB_CO_TRY(store::CheckDeadline(context, "delete"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  store::Operation operation = store::DeleteOperation(context, bucket, key, condition, operation_time_ms());
  const Result<uint64_t> id = FindBucket(context, bucket);
  if (!id.ok() && operation.id.IsNone()) co_return id.error();
  FB_CO_TRY(core_->health());
  co_return co_await CommitOnce(
      *core_, context, operation,
      id.ok() ? MakeDelete(*core_, std::move(bucket), *id, std::move(key), std::move(condition))
              : MakeRefusal(id.error()));
}

// ---- versions ----

rt::Task<Result<std::unique_ptr<store::ObjectReader>>> Engine::OpenVersion(const store::Context& context,
                                                                           std::string bucket, std::string key,
                                                                           uint64_t version) {
  FB_CO_TRY(store::CheckDeadline(context, "open"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, bucket));
  EpochSet::Guard guard = core_->epochs.Enter();  // before the lookup: what it finds stays readable
  ObjectStatePtr state = core_->cache.Lookup(id, key).state;
  if (state == nullptr || state->info.version != version) {
    Core& core = *core_;
    Result<ObjectStatePtr> loaded = co_await rt::Offload(context.reactor, *core.pool, [&core, id, key, version] {
      return LoadVersion(*core.meta, core.devices, id, key, version);
    });
    if (!loaded.ok()) co_return loaded.error().WithContext(fmt::format("open `{}/{}`", bucket, key));
    state = *std::move(loaded);
  }
  if (state == nullptr || core_->IsExpired(id, version, state->info.modified))
    co_return store::NoSuchVersion(bucket, key, version);
  if (core_->order.has_buckets()) core_->order.NoteUse(version);
  co_return std::make_unique<Reader>(
      std::make_shared<const engine::OpenVersion>(*core_, std::move(bucket), std::move(state), std::move(guard)));
}

rt::Task<Result<store::VersionInfo>> Engine::StatVersion(const store::Context& context, std::string bucket,
                                                         std::string key, uint64_t version) {
  FB_CO_TRY(store::CheckDeadline(context, "stat"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, bucket));
  Core& core = *core_;
  FB_CO_ASSIGN(std::optional<store::VersionInfo> found,
               co_await rt::Offload(context.reactor, *core.pool, [&core, id, key, version] {
                 return engine::StatVersion(*core.meta, id, key, version);
               }));
  if (!found || core.IsExpired(id, version, found->object.modified)) co_return store::NoSuchVersion(bucket, key, version);
  co_return *std::move(found);
}

rt::Task<Result<store::VersionPage>> Engine::ListVersions(const store::Context& context, std::string bucket,
                                                          store::VersionListOptions options) {
  FB_CO_TRY(store::CheckDeadline(context, "list versions"));
  FB_CO_TRY(store::CheckVersionList(options));
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, bucket));
  Core& core = *core_;
  co_return co_await rt::Offload(context.reactor, *core.pool, [&core, id, options = std::move(options)] {
    return engine::ListVersions(*core.meta, id, ExpiredOf(core, id), options);
  });
}

rt::Task<Status> Engine::DeleteVersion(const store::Context& context, std::string bucket, std::string key,
                                       uint64_t version) {
  FB_CO_TRY(store::CheckDeadline(context, "delete version"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  store::Operation operation = store::DeleteVersionOperation(context, bucket, key, version, operation_time_ms());
  const Result<uint64_t> id = FindBucket(context, bucket);
  if (!id.ok() && operation.id.IsNone()) co_return id.error();
  FB_CO_TRY(core_->health());
  co_return co_await CommitOnce(
      *core_, context, operation,
      id.ok() ? MakeDeleteVersion(*core_, std::move(bucket), *id, std::move(key), version) : MakeRefusal(id.error()));
}

// ---- uploads ----

rt::Task<Result<store::UploadInfo>> Engine::CreateUpload(const store::Context& context, std::string bucket,
                                                         std::string key, store::UserMetadata metadata) {
  FB_CO_TRY(store::CheckDeadline(context, "begin upload"));
  FB_CO_TRY(store::CheckUpload(key, metadata));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  store::Operation operation = store::CreateUploadOperation(context, bucket, key, metadata, operation_time_ms());
  const Result<uint64_t> id = FindBucket(context, bucket);
  if (!id.ok() && operation.id.IsNone()) co_return id.error();
  FB_CO_TRY(core_->health());
  auto begun = std::make_shared<store::ObjectInfo>();  // shared with the commit, which may end later
  FB_CO_ASSIGN(const auto earlier,
               co_await CommitOnce(*core_, context, operation,
                                   id.ok() ? MakeCreateUpload(*core_, std::move(bucket), *id, key, metadata, begun)
                                           : MakeRefusal(id.error()),
                                   begun));
  if (earlier) {
    FB_CO_ASSIGN(*begun, store::ResultOfPut(*earlier, key, {}));
  }
  co_return store::UploadInfo{.id = begun->version,
                              .key = std::move(key),
                              .created = begun->modified,
                              .metadata = std::move(metadata)};
}

rt::Task<Result<uint64_t>> Engine::CheckUpload(const store::Context& context, const store::UploadName& upload) {
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, upload.bucket));
  FB_CO_TRY(core_->health());
  Core& core = *core_;
  FB_CO_TRY(co_await rt::Offload(context.reactor, *core.pool, [&core, target = UploadTarget{upload, id}] {
    return FindUpload(*core.meta, target);
  }));
  co_return id;
}

rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> Engine::PutPart(const store::Context& context,
                                                                       store::UploadName upload, uint32_t number,
                                                                       store::PutOptions options) {
  FB_CO_TRY(store::CheckDeadline(context, "put part"));
  FB_CO_TRY(store::CheckPart(upload, number, options));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  const store::Operation operation =
      store::PutPartOperation(context, upload, number, options, operation_time_ms());
  options.condition = {};
  options.metadata.clear();
  options.attributes.clear();
  const Result<uint64_t> id = co_await CheckUpload(context, upload);
  const bool look = !options.size_bytes || *options.size_bytes >= kLookBeforeBytes;
  FB_CO_ASSIGN(std::optional<store::OperationRecord> earlier,
               co_await BeginPut(*core_, context, operation, id.status(), look));
  auto writer = std::make_unique<Writer>(*core_, context.reactor, operation, upload.bucket, id.value_or(0),
                                         upload.key, options);
  writer->PutPart(upload.id, number);
  if (!earlier) co_return writer;
  co_return std::make_unique<store::ReplayedWriter>(std::move(writer), *std::move(earlier), operation,
                                                    upload.bucket, upload.key, std::move(options));
}

rt::Task<Result<store::ObjectInfo>> Engine::CopyPart(const store::Context& context, store::UploadName upload,
                                                     uint32_t number, store::Source source) {
  FB_CO_TRY(store::CheckDeadline(context, "copy part"));
  FB_CO_TRY(store::CheckPart(upload, number, {}));
  FB_CO_TRY(store::CheckSources({source}));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  const store::Operation operation =
      store::CopyPartOperation(context, upload, number, source, operation_time_ms());
  ComposeRequest request{.bucket_name = upload.bucket, .bucket = 0, .key = upload.key, .sources = {}, .source_buckets = {},
                         .options = {}, .upload = upload.id, .part = number};
  const Result<uint64_t> id = co_await CheckUpload(context, upload);
  const Result<uint64_t> source_bucket = FindBucket(context, source.bucket);
  FB_CO_ASSIGN(const std::optional<store::OperationRecord> earlier,
               co_await BeginPut(*core_, context, operation, id.ok() ? source_bucket.status() : id.status(), true));
  if (earlier) co_return store::ResultOfPut(*earlier, upload.key, {});
  request.bucket = *id;
  request.sources.push_back(std::move(source));
  request.source_buckets.push_back(*source_bucket);
  co_return co_await ComposeObject(*core_, context, operation, std::move(request));
}

rt::Task<Result<store::PartPage>> Engine::ListParts(const store::Context& context, store::UploadName upload,
                                                    uint32_t start_after, uint32_t limit) {
  FB_CO_TRY(store::CheckDeadline(context, "list parts"));
  FB_CO_TRY(store::CheckPageLimit(limit));
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, upload.bucket));
  Core& core = *core_;
  co_return co_await rt::Offload(context.reactor, *core.pool,
                                 [&core, target = UploadTarget{std::move(upload), id}, start_after, limit] {
                                   return engine::ListParts(*core.meta, target, start_after, limit);
                                 });
}

rt::Task<Result<store::UploadPage>> Engine::ListUploads(const store::Context& context, std::string bucket,
                                                        store::UploadListOptions options) {
  FB_CO_TRY(store::CheckDeadline(context, "list uploads"));
  FB_CO_TRY(store::CheckUploadList(options));
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, bucket));
  Core& core = *core_;
  co_return co_await rt::Offload(context.reactor, *core.pool, [&core, id, options = std::move(options)] {
    return engine::ListUploads(*core.meta, id, options);
  });
}

rt::Task<Result<store::ObjectInfo>> Engine::CompleteUpload(const store::Context& context, store::UploadName upload,
                                                           std::vector<store::PartRef> parts,
                                                           store::CompleteOptions options) {
  FB_CO_TRY(store::CheckDeadline(context, "complete upload"));
  FB_CO_TRY(store::CheckComplete(upload, parts, options));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  const store::Operation operation =
      store::CompleteUploadOperation(context, upload, parts, options, operation_time_ms());
  const Result<uint64_t> id = FindBucket(context, upload.bucket);
  FB_CO_ASSIGN(const std::optional<store::OperationRecord> earlier,
               co_await BeginPut(*core_, context, operation, id.ok() ? core_->health() : id.status(), true));
  if (earlier) co_return store::ResultOfPut(*earlier, upload.key, {});
  co_return co_await Publish(*core_, context, operation,
                             {.bucket_name = std::move(upload.bucket),
                              .bucket = *id,
                              .key = std::move(upload.key),
                              .condition = std::move(options.condition),
                              .etag = std::move(options.etag),
                              .crc32c = base::kCrc32cEmpty,
                              .upload = upload.id,
                              .parts = std::move(parts),
                              .expected_crc32c = options.crc32c},
                             MakeCompleteUpload);
}

rt::Task<Status> Engine::AbortUpload(const store::Context& context, store::UploadName upload) {
  FB_CO_TRY(store::CheckDeadline(context, "abort upload"));
  FB_CO_TRY(store::CheckUpload(upload.key, {}));
  FB_CO_TRY(store::CheckOperationId(context.operation));
  store::Operation operation = store::AbortUploadOperation(context, upload, operation_time_ms());
  const Result<uint64_t> id = FindBucket(context, upload.bucket);
  if (!id.ok() && operation.id.IsNone()) co_return id.error();
  FB_CO_TRY(core_->health());
  co_return co_await CommitOnce(*core_, context, operation,
                                id.ok() ? MakeAbortUpload(*core_, {std::move(upload), *id})
                                        : MakeRefusal(id.error()));
}

// ---- caches ----

rt::Task<Status> Engine::Pin(const store::Context& context, std::string bucket, std::string key,
                             std::chrono::milliseconds time) {
  FB_CO_TRY(store::CheckPinTime(time));
  co_return co_await ChangePin(context, std::move(bucket), std::move(key), time);
}

rt::Task<Status> Engine::Unpin(const store::Context& context, std::string bucket, std::string key) {
  return ChangePin(context, std::move(bucket), std::move(key), std::nullopt);
}

rt::Task<Status> Engine::ChangePin(const store::Context& context, std::string bucket, std::string key,
                                   std::optional<std::chrono::milliseconds> time) {
  FB_CO_TRY(store::CheckDeadline(context, "pin"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_ASSIGN(const uint64_t id, FindBucket(context, bucket));
  FB_CO_TRY(core_->health());
  co_return co_await Commit(*core_, context, MakePin(*core_, std::move(bucket), id, std::move(key), time));
}

// ---- tenants ----

rt::Task<Status> Engine::SetQuota(const store::Context& context, TenantId tenant, store::Quota quota) {
  FB_CO_TRY(store::CheckDeadline(context, "set quota"));
  FB_CO_TRY(store::CheckSetQuota(context, tenant, quota));
  FB_CO_TRY(core_->health());
  co_return co_await Commit(*core_, context, MakeSetQuota(*core_, tenant, quota));
}

rt::Task<Result<store::TenantUsage>> Engine::GetTenantUsage(const store::Context& context, TenantId tenant) {
  FB_CO_TRY(store::CheckDeadline(context, "get tenant usage"));
  FB_CO_TRY(store::CheckMayAskUsage(context, tenant));
  co_return core_->commits->tenants().Of(tenant);
}

store::StoreUsage Engine::usage() const {
  const uint64_t capacity = core_->allocator.capacity_bytes();
  return {.capacity_bytes = capacity,
          .used_bytes = capacity - core_->allocator.free_bytes(),
          .device_bytes_read = devices_->bytes_read(),
          .device_bytes_written = devices_->bytes_written(),
          .device_flushes = core_->commits->flushes(),
          .cache_evicted = core_->cache_counts.evicted.load(std::memory_order_relaxed),
          .cache_evicted_bytes = core_->cache_counts.evicted_bytes.load(std::memory_order_relaxed),
          .cache_expired = core_->cache_counts.expired.load(std::memory_order_relaxed),
          .cache_gone = core_->cache_counts.gone.load(std::memory_order_relaxed)};
}

EngineStats Engine::stats() const {
  const TierStats tier = core_->tier.stats();
  return {.tier_hits = core_->tier_hits.load(std::memory_order_relaxed),
          .tier_misses = core_->tier_misses.load(std::memory_order_relaxed),
          .tier_bytes = core_->tier.bytes(),
          .tier_inserted = tier.inserted,
          .tier_ghost_hits = tier.ghost_hits,
          .tier_promoted = tier.promoted,
          .tier_evicted_small = tier.evicted_small,
          .tier_evicted_main = tier.evicted_main,
          .device_bytes_read = devices_->bytes_read(),
          .device_bytes_written = devices_->bytes_written(),
          .device_flushes = core_->commits->flushes(),
          .damaged_blocks = core_->damaged_blocks.load(std::memory_order_relaxed),
          .repaired_blocks = core_->repaired_blocks.load(std::memory_order_relaxed),
          .waiting_for_memory = core_->memory.waiting(),
          .operations = core_->operations.count(),
          .waiting_for_readers = core_->epochs.retired(),
          .commits = core_->meta->stats()};
}

}  // namespace forebay::engine
