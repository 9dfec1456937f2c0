// SPDX-License-Identifier: Apache-2.0
// MemoryStore: the memory twin of every backend, for tests of frontends and for the behaviour suite. Content
// lives in the buffers that were written, in pieces of at most 64 KiB, each with its checksum, which every
// read verifies. Thread-safe: one mutex guards the names; content is immutable once published and is read
// without it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "store/cache_class.h"
#include "store/memory_operations.h"
#include "store/object_store.h"
#include "store/quota.h"

namespace forebay::store {

class MemoryStore final : public ObjectStore {
 public:
  static constexpr size_t kPieceBytes = 64 * base::kKiB;

  /// Writers allocate from `arena`; buffers of other arenas are taken too. All arenas and the clock outlive
  /// the store and its readers and writers. A reader may outlive the store, a writer may not. At most
  /// `max_operations` results are kept.
  MemoryStore(base::Arena& arena, const base::Clock& clock, uint64_t max_operations = base::kMaxOperations)
      : arena_(arena),
        clock_(clock),
        operation_clock_(clock),
        operations_(operation_clock_, max_operations) {}

  rt::Task<Status> CreateBucket(const Context& context, BucketInfo bucket) override;
  rt::Task<Status> UpdateBucket(const Context& context, std::string name, BucketSettings settings) override;
  rt::Task<Status> DeleteBucket(const Context& context, std::string name) override;
  rt::Task<Result<BucketInfo>> GetBucket(const Context& context, std::string name) override;
  rt::Task<Result<std::vector<BucketInfo>>> ListBuckets(const Context& context) override;
  rt::Task<Result<std::unique_ptr<ObjectWriter>>> Put(const Context& context, std::string bucket,
                                                      std::string key, PutOptions options) override;
  rt::Task<Result<std::unique_ptr<ObjectWriter>>> Overwrite(const Context& context, std::string bucket,
                                                            std::string key, OverwriteOptions options) override;
  rt::Task<Result<ObjectInfo>> Truncate(const Context& context, std::string bucket, std::string key,
                                        uint64_t size_bytes, Condition condition) override;
  rt::Task<Status> SetAttributes(const Context& context, std::string bucket, std::string key, uint64_t version,
                                 AttributeChange change) override;
  rt::Task<Result<ObjectInfo>> Compose(const Context& context, std::string bucket, std::string key,
                                       std::vector<Source> sources, PutOptions options) override;
  rt::Task<Status> Rename(const Context& context, std::string bucket, std::string from, std::string to,
                          RenameOptions options) override;
  rt::Task<Result<uint64_t>> RenamePrefix(const Context& context, std::string bucket, std::string from,
                                          std::string to) override;
  rt::Task<Result<std::unique_ptr<ObjectReader>>> Open(const Context& context, std::string bucket,
                                                       std::string key, Condition condition) override;
  rt::Task<Result<ObjectInfo>> Stat(const Context& context, std::string bucket, std::string key) override;
  rt::Task<Result<ListPage>> List(const Context& context, std::string bucket, ListOptions options) override;
  rt::Task<Status> Delete(const Context& context, std::string bucket, std::string key,
                          Condition condition) override;
  rt::Task<Result<std::unique_ptr<ObjectReader>>> OpenVersion(const Context& context, std::string bucket,
                                                              std::string key, uint64_t version) override;
  rt::Task<Result<VersionInfo>> StatVersion(const Context& context, std::string bucket, std::string key,
                                            uint64_t version) override;
  rt::Task<Result<VersionPage>> ListVersions(const Context& context, std::string bucket,
                                             VersionListOptions options) override;
  rt::Task<Status> DeleteVersion(const Context& context, std::string bucket, std::string key,
                                 uint64_t version) override;
  rt::Task<Result<UploadInfo>> CreateUpload(const Context& context, std::string bucket, std::string key,
                                            UserMetadata metadata) override;
  rt::Task<Result<std::unique_ptr<ObjectWriter>>> PutPart(const Context& context, UploadName upload, uint32_t number,
                                                          PutOptions options) override;
  rt::Task<Result<ObjectInfo>> CopyPart(const Context& context, UploadName upload, uint32_t number,
                                        Source source) override;
  rt::Task<Result<PartPage>> ListParts(const Context& context, UploadName upload, uint32_t start_after,
                                       uint32_t limit) override;
  rt::Task<Result<UploadPage>> ListUploads(const Context& context, std::string bucket,
                                           UploadListOptions options) override;
  rt::Task<Result<ObjectInfo>> CompleteUpload(const Context& context, UploadName upload, std::vector<PartRef> parts,
                                              CompleteOptions options) override;
  rt::Task<Status> AbortUpload(const Context& context, UploadName upload) override;
  rt::Task<Status> Pin(const Context& context, std::string bucket, std::string key,
                       std::chrono::milliseconds time) override;
  rt::Task<Status> Unpin(const Context& context, std::string bucket, std::string key) override;
  rt::Task<Status> SetQuota(const Context& context, TenantId tenant, Quota quota) override;
  rt::Task<Result<TenantUsage>> GetTenantUsage(const Context& context, TenantId tenant) override;
  /// One device: the arena, with everything else that lives in it. Metadata without a limit.
  rt::Task<Result<StoreSpace>> GetSpace(const Context& context) override;
  /// Of the arena, likewise.
  StoreUsage usage() const override;
  uint64_t operation_time_ms() const override { return operation_clock_.NowMs(); }
  Status health() const override { return {}; }

 private:
  class Writer;
  class Reader;
  class Cursor;

  struct Piece {
    uint64_t offset;
    uint64_t length;  // when it is more than the buffer's, they are zeros, as that is
    base::Buffer buffer;
    uint32_t crc32c;  // of the buffer

    uint32_t crc32c_of_all() const { return length == buffer.size() ? crc32c : base::Crc32cZeros(length); }
  };
  struct Version {
    ObjectInfo info;
    std::vector<Piece> pieces;
    bool delete_marker = false;
    bool null_version = false;
  };
  /// Shared, so that a reader keeps its version while the name goes on to another one.
  using VersionPointer = std::shared_ptr<const Version>;
  struct Upload {
    UploadInfo info;
    std::map<uint32_t, VersionPointer> parts;
  };
  /// Where the parts of a put go: nowhere in particular, or to an upload.
  struct PartTarget {
    UploadName upload;
    uint32_t number = 0;
  };
  struct Bucket {
    BucketInfo info;
    std::map<std::string, VersionPointer, std::less<>> objects;  // current versions, without delete markers
    /// The other versions and all delete markers, by key and ~version: the newest first.
    std::map<std::pair<std::string, uint64_t>, VersionPointer> others{};
    std::map<std::pair<std::string, uint64_t>, Upload> uploads{};  // by key and id
    std::map<uint64_t, uint64_t> pins{};                           // of a cache: until when, by version
  };

  Result<Bucket*> FindBucket(TenantId tenant, std::string_view name) FB_REQUIRES(mutex_);
  Result<VersionPointer> Find(TenantId tenant, std::string_view bucket, std::string_view key) FB_EXCLUDES(mutex_);
  Status InsertBucket(BucketInfo bucket) FB_REQUIRES(mutex_);
  Status ChangeBucket(TenantId tenant, std::string_view name, const BucketSettings& settings) FB_REQUIRES(mutex_);
  /// What has to go for a new version of the key: null where nothing does. Only looks.
  static VersionPointer ReplacedBy(const Bucket& bucket, const std::string& key);
  /// Makes `version` the current one; `replaced` was given by ReplacedBy.
  void MakeCurrent(Bucket& bucket, const std::shared_ptr<Version>& version, const VersionPointer& replaced)
      FB_REQUIRES(mutex_);
  /// Takes one version out; the newest that is left becomes the current one.
  static void TakeOut(Bucket& bucket, const Version& version);
  static VersionPointer FindVersion(const Bucket& bucket, const std::string& key, uint64_t version);
  static VersionInfo Describe(const Bucket& bucket, const Version& version);
  Result<VersionPage> ListVersionsNow(TenantId tenant, std::string_view bucket, const VersionListOptions& options)
      FB_EXCLUDES(mutex_);
  Status EraseVersion(TenantId tenant, std::string_view bucket, const std::string& key, uint64_t version,
                      VersionPointer* erased) FB_REQUIRES(mutex_);
  Status EraseBucket(TenantId tenant, std::string_view name) FB_REQUIRES(mutex_);
  /// The record of a put that took place before; the refusal, or what refuses it now.
  Result<std::optional<OperationRecord>> BeginPut(TenantId tenant, const Operation& operation, std::string_view bucket,
                                                  std::string_view key, const PutOptions& options)
      FB_EXCLUDES(mutex_);
  /// Whether a put could be published now.
  Status CheckPublish(TenantId tenant, std::string_view bucket, std::string_view key, const PutOptions& options)
      FB_REQUIRES(mutex_);
  /// `replaced` takes what is to be freed without the lock.
  /// `also` is what else the change does to the usage.
  Result<ObjectInfo> Publish(TenantId tenant, std::string_view bucket, const PutOptions& options, Version version,
                             VersionPointer* replaced, const UsageChange& also = {}) FB_REQUIRES(mutex_);
  Status Erase(TenantId tenant, std::string_view bucket, std::string_view key, const Condition& condition,
               VersionPointer* erased) FB_REQUIRES(mutex_);
  struct FoundUpload {
    Bucket* bucket;
    Upload* upload;
  };
  Result<FoundUpload> FindUpload(TenantId tenant, const UploadName& upload) FB_REQUIRES(mutex_);
  /// `replaced` takes what is to be freed without the lock.
  Result<ObjectInfo> StorePart(TenantId tenant, const PartTarget& part, const std::string& etag, Version version,
                               VersionPointer* replaced) FB_REQUIRES(mutex_);
  Result<ObjectInfo> Complete(TenantId tenant, const UploadName& name, const std::vector<PartRef>& parts,
                              const CompleteOptions& options, Upload* ended, VersionPointer* replaced)
      FB_REQUIRES(mutex_);
  /// `ended` takes the upload, whose parts count no more.
  Status EndUpload(TenantId tenant, const UploadName& name, Upload* ended) FB_REQUIRES(mutex_);

  /// The object with `content` in the place that the options say. Of no content nothing becomes of it but a new version.
  Result<ObjectInfo> Replace(TenantId tenant, std::string_view bucket, const OverwriteOptions& options, Version content,
                             VersionPointer* replaced) FB_REQUIRES(mutex_);
  Result<ObjectInfo> Resize(TenantId tenant, std::string_view bucket, std::string_view key, uint64_t size_bytes,
                            const Condition& condition, VersionPointer* replaced) FB_REQUIRES(mutex_);
  Status ChangeAttributes(TenantId tenant, std::string_view bucket, const std::string& key, uint64_t version,
                          const AttributeChange& change, VersionPointer* replaced) FB_REQUIRES(mutex_);
  Result<VersionPointer> FindToChange(TenantId tenant, std::string_view bucket, std::string_view key,
                                      const Condition& condition) FB_REQUIRES(mutex_);
  static void Append(const Version& from, uint64_t offset, uint64_t length, Version* to);
  static void Append(Piece piece, Version* to);
  Status AppendZeros(uint64_t length, Version* to) FB_REQUIRES(mutex_);

  /// A version of what the sources say, not yet published.
  Result<Version> Join(TenantId tenant, const std::vector<Source>& sources) FB_REQUIRES(mutex_);
  Status Move(TenantId tenant, std::string_view bucket, const std::string& from, const std::string& to,
              const RenameOptions& options, VersionPointer* replaced) FB_REQUIRES(mutex_);
  /// What is published is the number of objects, as the version of its info.
  Result<ObjectInfo> MovePrefix(TenantId tenant, const std::string& bucket, const std::string& from,
                                const std::string& to) FB_REQUIRES(mutex_);
  /// The same version under another name and a later number.
  VersionPointer Renamed(Bucket& bucket, const VersionPointer& version, std::string key) FB_REQUIRES(mutex_);
  Result<ListPage> ListNow(TenantId tenant, std::string_view bucket, const ListOptions& options) FB_EXCLUDES(mutex_);

  TenantUsage UsageOf(TenantId tenant) const FB_REQUIRES(mutex_);

  // Of cache buckets (memory_cache.cc).

  bool IsPinned(const Bucket& bucket, uint64_t version) const;
  /// Takes out what has expired.
  void Expire(Bucket& bucket) FB_REQUIRES(mutex_);
  /// Takes out the owner's oldest cache objects until its quota allows `change`, if that can be; not the key's own.
  void MakeRoom(const Bucket& bucket, std::string_view key, const UsageChange& change) FB_REQUIRES(mutex_);
  PinnedUsage PinnedOf(TenantId owner) const FB_REQUIRES(mutex_);
  Status ChangePin(TenantId tenant, std::string_view bucket, const std::string& key,
                   std::optional<std::chrono::milliseconds> time) FB_EXCLUDES(mutex_);
  base::WallTime TimeOf(const Bucket& bucket) const;

  base::Arena& arena_;
  const base::Clock& clock_;
  const OperationClock operation_clock_;
  base::Mutex mutex_;
  MemoryOperations operations_ FB_GUARDED_BY(mutex_);
  std::map<std::string, Bucket, std::less<>> buckets_ FB_GUARDED_BY(mutex_);
  std::map<TenantId, TenantUsage> tenants_ FB_GUARDED_BY(mutex_);
  uint64_t last_version_ FB_GUARDED_BY(mutex_) = 0;
  base::Buffer zeros_ FB_GUARDED_BY(mutex_);  // once they are needed; shared by all that is zero
};

}  // namespace forebay::store
