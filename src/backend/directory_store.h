// SPDX-License-Identifier: Apache-2.0
// DirectoryStore: any file system as storage, one file per object, unchanged for those who also read the tree as files.
// A Tree does the work, on threads of this store, since calls of a file system block; payload is read into and written
// from buffers of the arena. What a file system cannot do (versions, the cache class, some renames of a prefix) is refused
// by name. docs/directory-backend.md says what holds and why.
// Thread-safe. Readers and writers end before the store.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "backend/tree.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "rt/thread_pool.h"
#include "store/object_store.h"

namespace forebay::backend {

class DirectoryStore final : public store::ObjectStore {
 public:
  /// Calls of the file system at one time; those beyond wait their turn.
  static constexpr size_t kThreads = 16;
  static constexpr size_t kQueue = 65'536;

  /// All are borrowed and outlive the store.
  struct Environment {
    base::Arena& arena;
    const base::Clock& clock;
    base::Log& log;
  };

  /// Opens the directory `root`, which exists, and counts what is in it. Blocks: some seconds for a million files.
  static Result<std::unique_ptr<DirectoryStore>> Open(std::string root, const Environment& environment);

  /// In the sidecar, for what a server keeps beside the store: only its user may look in.
  std::string own_directory() const { return tree_->own_directory(); }

  rt::Task<Status> CreateBucket(const store::Context& context, store::BucketInfo bucket) override;
  rt::Task<Status> UpdateBucket(const store::Context& context, std::string name, store::BucketSettings settings) override;
  rt::Task<Status> DeleteBucket(const store::Context& context, std::string name) override;
  rt::Task<Result<store::BucketInfo>> GetBucket(const store::Context& context, std::string name) override;
  rt::Task<Result<std::vector<store::BucketInfo>>> ListBuckets(const store::Context& context) override;
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> Put(const store::Context& context, std::string bucket, std::string key,
                                                             store::PutOptions options) override;
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> Overwrite(const store::Context& context, std::string bucket,
                                                                   std::string key, store::OverwriteOptions options) override;
  rt::Task<Result<store::ObjectInfo>> Truncate(const store::Context& context, std::string bucket, std::string key,
                                               uint64_t size_bytes, store::Condition condition) override;
  rt::Task<Status> SetAttributes(const store::Context& context, std::string bucket, std::string key, uint64_t version,
                                 store::AttributeChange change) override;
  rt::Task<Result<store::ObjectInfo>> Compose(const store::Context& context, std::string bucket, std::string key,
                                              std::vector<store::Source> sources, store::PutOptions options) override;
  rt::Task<Status> Rename(const store::Context& context, std::string bucket, std::string from, std::string to,
                          store::RenameOptions options) override;
  rt::Task<Result<uint64_t>> RenamePrefix(const store::Context& context, std::string bucket, std::string from,
                                          std::string to) override;
  rt::Task<Result<std::unique_ptr<store::ObjectReader>>> Open(const store::Context& context, std::string bucket,
                                                              std::string key, store::Condition condition) override;
  rt::Task<Result<store::ObjectInfo>> Stat(const store::Context& context, std::string bucket, std::string key) override;
  rt::Task<Result<store::ListPage>> List(const store::Context& context, std::string bucket, store::ListOptions options) override;
  rt::Task<Status> Delete(const store::Context& context, std::string bucket, std::string key,
                          store::Condition condition) override;
  rt::Task<Result<std::unique_ptr<store::ObjectReader>>> OpenVersion(const store::Context& context, std::string bucket,
                                                                     std::string key, uint64_t version) override;
  rt::Task<Result<store::VersionInfo>> StatVersion(const store::Context& context, std::string bucket, std::string key,
                                                   uint64_t version) override;
  rt::Task<Result<store::VersionPage>> ListVersions(const store::Context& context, std::string bucket,
                                                    store::VersionListOptions options) override;
  rt::Task<Status> Pin(const store::Context& context, std::string bucket, std::string key,
                       std::chrono::milliseconds time) override;
  rt::Task<Status> Unpin(const store::Context& context, std::string bucket, std::string key) override;
  rt::Task<Status> DeleteVersion(const store::Context& context, std::string bucket, std::string key, uint64_t version) override;
  rt::Task<Result<store::UploadInfo>> CreateUpload(const store::Context& context, std::string bucket, std::string key,
                                                   store::UserMetadata metadata) override;
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> PutPart(const store::Context& context, store::UploadName upload,
                                                                 uint32_t number, store::PutOptions options) override;
  rt::Task<Result<store::ObjectInfo>> CopyPart(const store::Context& context, store::UploadName upload, uint32_t number,
                                               store::Source source) override;
  rt::Task<Result<store::PartPage>> ListParts(const store::Context& context, store::UploadName upload, uint32_t start_after,
                                              uint32_t limit) override;
  rt::Task<Result<store::UploadPage>> ListUploads(const store::Context& context, std::string bucket,
                                                  store::UploadListOptions options) override;
  rt::Task<Result<store::ObjectInfo>> CompleteUpload(const store::Context& context, store::UploadName upload,
                                                     std::vector<store::PartRef> parts, store::CompleteOptions options) override;
  rt::Task<Status> AbortUpload(const store::Context& context, store::UploadName upload) override;
  rt::Task<Status> SetQuota(const store::Context& context, TenantId tenant, store::Quota quota) override;
  rt::Task<Result<store::TenantUsage>> GetTenantUsage(const store::Context& context, TenantId tenant) override;
  /// One device, the file system, with all that others have on it.
  rt::Task<Result<store::StoreSpace>> GetSpace(const store::Context& context) override;
  store::StoreUsage usage() const override { return tree_->Usage(); }
  uint64_t operation_time_ms() const override { return tree_->journal().NowMs(); }
  Status health() const override { return tree_->health(); }

 private:
  class Writer;
  class Reader;

  DirectoryStore(const Environment& environment, std::unique_ptr<Tree> tree)
      : arena_(environment.arena), tree_(std::move(tree)), pool_(kThreads, "files", kQueue) {}
  rt::Task<Result<Tree::Opened>> OpenNow(const store::Context& context, std::string bucket, std::string key);
  /// Lets go of what takes a call of the file system to let go of.
  void Drop(std::shared_ptr<void> what);

  base::Arena& arena_;
  const std::unique_ptr<Tree> tree_;
  rt::ThreadPool pool_;  // first to end
};

}  // namespace forebay::backend
