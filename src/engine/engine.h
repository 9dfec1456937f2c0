// SPDX-License-Identifier: Apache-2.0
// Engine: the embedded store: objects in extents on data devices, everything about them in a MetaStore, hot
// blocks in arena memory. It is put together from parts, so that tests give it twins of devices and metadata;
// store_directory.h makes the parts from a directory. docs/engine.md explains how it works. Thread-safe:
// called from any reactor. Drain each reactor before the engine goes, and end them after it; before the
// engine goes, its readers and writers go. Invariant: a put is acknowledged after its data was flushed and
// its metadata synced, in this order.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/compose.h"
#include "engine/core.h"
#include "engine/superblock.h"
#include "store/object_store.h"

namespace forebay::engine {

struct CopySource;
struct ScrubSource;

/// Opens the metadata; `witness` is the highest acknowledged commit that the devices know of, `hooks` is
/// borrowed for the life of the store.
using MetaOpener =
    std::function<Result<std::unique_ptr<meta::MetaStore>>(uint64_t witness, meta::GroupHooks& hooks)>;

struct Parts {
  std::vector<std::unique_ptr<device::Device>> devices;  // in the order of their ids
  MetaOpener open_meta;
  base::Arena* arena = nullptr;        // borrowed: outlives the engine and every buffer
  const base::Clock* clock = nullptr;  // borrowed
  base::Log* log = nullptr;            // borrowed
};

struct EngineStats {
  uint64_t tier_hits = 0;  // blocks
  uint64_t tier_misses = 0;
  uint64_t tier_bytes = 0;
  uint64_t tier_inserted = 0;       // blocks, as the four below
  uint64_t tier_ghost_hits = 0;     // of them, right into the main queue: they had left the small one not long ago
  uint64_t tier_promoted = 0;       // from the small to the main queue, since they were used
  uint64_t tier_evicted_small = 0;  // from the small queue, all but a few without a use
  uint64_t tier_evicted_main = 0;
  uint64_t device_bytes_read = 0;
  uint64_t device_bytes_written = 0;
  uint64_t device_flushes = 0;
  uint64_t damaged_blocks = 0;
  uint64_t repaired_blocks = 0;  // of mirrors
  uint64_t waiting_for_memory = 0;
  uint64_t operations = 0;           // whose results are kept
  uint64_t waiting_for_readers = 0;  // runs of units that are free once readers have left
  meta::CommitStats commits;
};

class Engine final : public store::ObjectStore {
 public:
  /// Writes the superblocks of a new store `store`; whatever was on the devices is lost.
  static rt::Task<Status> Format(rt::Reactor& reactor, std::span<device::Device* const> devices, Uuid store);

  /// Opens a formatted store; its metadata is empty the first time. Blocks on the metadata, so not on a
  /// reactor that serves. Like every reactor that the engine is called on, `reactor` outlives the engine.
  /// NotFound or DataLoss for devices without a superblock, FailedPrecondition for a newer format or devices
  /// that do not belong together; errors of the metadata.
  static rt::Task<Result<std::unique_ptr<Engine>>> Open(rt::Reactor& reactor, Parts parts,
                                                        EngineOptions options = {});
  ~Engine() override;

  /// On each reactor that the engine was called on, when its calls have ended: waits for device writes of
  /// puts that were given up. Later puts on this reactor are refused.
  rt::Task<void> Drain(rt::Reactor& reactor);

  rt::Task<Status> CreateBucket(const store::Context& context, store::BucketInfo bucket) override;
  rt::Task<Status> UpdateBucket(const store::Context& context, std::string name,
                                store::BucketSettings settings) override;
  rt::Task<Status> DeleteBucket(const store::Context& context, std::string name) override;
  rt::Task<Result<store::BucketInfo>> GetBucket(const store::Context& context, std::string name) override;
  rt::Task<Result<std::vector<store::BucketInfo>>> ListBuckets(const store::Context& context) override;
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> Put(const store::Context& context,
                                                             std::string bucket, std::string key,
                                                             store::PutOptions options) override;
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> Overwrite(const store::Context& context, std::string bucket,
                                                                   std::string key,
                                                                   store::OverwriteOptions options) override;
  rt::Task<Status> SetAttributes(const store::Context& context, std::string bucket, std::string key, uint64_t version,
                                 store::AttributeChange change) override;
  rt::Task<Result<store::ObjectInfo>> Truncate(const store::Context& context, std::string bucket, std::string key,
                                               uint64_t size_bytes, store::Condition condition) override;
  rt::Task<Result<store::ObjectInfo>> Compose(const store::Context& context, std::string bucket, std::string key,
                                              std::vector<store::Source> sources, store::PutOptions options) override;
  rt::Task<Status> Rename(const store::Context& context, std::string bucket, std::string from, std::string to,
                          store::RenameOptions options) override;
  rt::Task<Result<uint64_t>> RenamePrefix(const store::Context& context, std::string bucket, std::string from,
                                          std::string to) override;
  rt::Task<Result<std::unique_ptr<store::ObjectReader>>> Open(const store::Context& context,
                                                              std::string bucket, std::string key,
                                                              store::Condition condition) override;
  rt::Task<Result<store::ObjectInfo>> Stat(const store::Context& context, std::string bucket,
                                           std::string key) override;
  rt::Task<Result<store::ListPage>> List(const store::Context& context, std::string bucket,
                                         store::ListOptions options) override;
  rt::Task<Status> Delete(const store::Context& context, std::string bucket, std::string key,
                          store::Condition condition) override;

  rt::Task<Result<std::unique_ptr<store::ObjectReader>>> OpenVersion(const store::Context& context, std::string bucket,
                                                                     std::string key, uint64_t version) override;
  rt::Task<Result<store::VersionInfo>> StatVersion(const store::Context& context, std::string bucket, std::string key,
                                                   uint64_t version) override;
  rt::Task<Result<store::VersionPage>> ListVersions(const store::Context& context, std::string bucket,
                                                    store::VersionListOptions options) override;
  rt::Task<Status> DeleteVersion(const store::Context& context, std::string bucket, std::string key,
                                 uint64_t version) override;
  rt::Task<Result<store::UploadInfo>> CreateUpload(const store::Context& context, std::string bucket, std::string key,
                                                   store::UserMetadata metadata) override;
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> PutPart(const store::Context& context,
                                                                 store::UploadName upload, uint32_t number,
                                                                 store::PutOptions options) override;
  rt::Task<Result<store::ObjectInfo>> CopyPart(const store::Context& context, store::UploadName upload,
                                               uint32_t number, store::Source source) override;
  rt::Task<Result<store::PartPage>> ListParts(const store::Context& context, store::UploadName upload,
                                              uint32_t start_after, uint32_t limit) override;
  rt::Task<Result<store::UploadPage>> ListUploads(const store::Context& context, std::string bucket,
                                                  store::UploadListOptions options) override;
  rt::Task<Result<store::ObjectInfo>> CompleteUpload(const store::Context& context, store::UploadName upload,
                                                     std::vector<store::PartRef> parts,
                                                     store::CompleteOptions options) override;
  rt::Task<Status> AbortUpload(const store::Context& context, store::UploadName upload) override;

  rt::Task<Status> Pin(const store::Context& context, std::string bucket, std::string key,
                       std::chrono::milliseconds time) override;
  rt::Task<Status> Unpin(const store::Context& context, std::string bucket, std::string key) override;
  rt::Task<Status> SetQuota(const store::Context& context, TenantId tenant, store::Quota quota) override;
  rt::Task<Result<store::TenantUsage>> GetTenantUsage(const store::Context& context,
                                                      TenantId tenant) override;

  rt::Task<Result<store::StoreSpace>> GetSpace(const store::Context& context) override;
  store::StoreUsage usage() const override;
  uint64_t operation_time_ms() const override { return core_->operations.NowMs(); }
  Status health() const override { return core_->health(); }

  /// Whether a side of a mirror waits to be brought up to date.
  bool NeedsResync() const;
  /// Brings sides of mirrors up to date, one after the other, until none needs it. Cancelled once `stopped` says so, which
  /// is asked between pieces of 1 MiB; otherwise the first failure, by which a side is lost.
  rt::Task<Status> Resync(rt::Reactor& reactor, std::function<bool()> stopped, uint64_t bytes_per_second);
  /// Whether a device leaves that is not empty yet.
  bool HasDevicesToEmpty() const;
  /// Moves what is on the devices that leave to the others (Relocation), one device after the other. What one does not get
  /// on with is in its departure. On a thread of its own, as the next.
  rt::Task<void> EmptyDevices(rt::Reactor& reactor, std::function<bool()> stopped, uint64_t bytes_per_second);

  /// Another device, which is formatted as the next one, and in the store's list; its number.
  uint32_t AddDevice(std::unique_ptr<device::Device> device, const Superblock& superblock);
  /// Nothing new is put on device `id`; EmptyDevices moves what is there. With `leaves` false it stays after all. FailedPrecondition when no
  /// other device would be left.
  Status SetLeaving(uint32_t id, bool leaves);
  /// The first half of taking an empty device out: no row names it any more, and the commit witness is also on the device
  /// that will be the first. FailedPrecondition while it does not leave, or holds anything.
  rt::Task<Status> ForgetDevice(rt::Reactor& reactor, uint32_t id);
  /// The second half, when the store's list says that it is gone.
  void MarkDeviceAbsent(uint32_t id);

  /// Of the largest device.
  uint64_t SizeOfDevices() const;
  /// The store's device `id` when it is a mirror; else null. Borrowed.
  device::MirrorDevice* mirror(uint32_t id) const;

  /// The store as of now, for a copy of it (copy.h). Keep it no longer than the copy takes: space that is freed meanwhile
  /// comes back when it goes.
  CopySource OpenForCopy();
  /// What a scrub (scrub.h) borrows; it ends before the engine goes.
  ScrubSource OpenForScrub();

  Uuid id() const { return core_->store; }
  base::Arena& arena() { return core_->memory.arena(); }
  EngineStats stats() const;

 private:
  Engine(std::unique_ptr<Devices> devices, std::unique_ptr<Core> core)
      : devices_(std::move(devices)), core_(std::move(core)) {}

  Result<uint64_t> FindBucket(const store::Context& context, const std::string& name) const;
  /// Whether a put could take place as things are; the number of its bucket.
  rt::Task<Result<uint64_t>> CheckPut(const store::Context& context, const std::string& bucket,
                                      const std::string& key, const store::PutOptions& options);
  /// The same of a compose, and its buckets' numbers.
  /// The number of the bucket. NotFound, or why the object cannot be changed as things are.
  rt::Task<Result<uint64_t>> CheckChange(const store::Context& context, const std::string& bucket,
                                         const std::string& key, const store::Condition& condition);
  rt::Task<Status> CheckCompose(const store::Context& context, ComposeRequest* request);
  /// Whether the upload is there; the number of its bucket.
  rt::Task<Result<uint64_t>> CheckUpload(const store::Context& context, const store::UploadName& upload);
  rt::Task<Status> CheckPutQuota(const store::Context& context, const std::string& bucket_name,
                                 uint64_t bucket, const std::string& key, uint64_t size_bytes);
  rt::Task<Status> CheckPutCondition(const store::Context& context, const std::string& bucket_name,
                                     uint64_t bucket, const std::string& key,
                                     const store::Condition& condition);

  rt::Task<Status> ChangePin(const store::Context& context, std::string bucket, std::string key,
                             std::optional<std::chrono::milliseconds> time);

  const std::unique_ptr<Devices> devices_;
  const std::unique_ptr<Core> core_;
};

/// The superblocks of devices that belong together, in order. Errors as Engine::Open.
rt::Task<Result<std::vector<Superblock>>> ReadSuperblocks(rt::Reactor& reactor, const Devices& devices);

}  // namespace forebay::engine
