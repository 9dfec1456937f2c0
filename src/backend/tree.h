// SPDX-License-Identifier: Apache-2.0
// Tree: a directory as buckets and objects, with every rule of store::ObjectStore but without its reactors: all calls
// block, and DirectoryStore makes them on its threads. A first-level directory is a bucket, a regular file below it an
// object. What Forebay changes is put in place by one rename of a whole, durable file; its own callers see conditions and
// effects as one step (a lock for each key), other programs see the old file or the new one.
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/accounts.h"
#include "backend/directory_cache.h"
#include "backend/files.h"
#include "backend/operation_journal.h"
#include "backend/sidecar.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "store/object_store.h"
#include "store/operations.h"
#include "store/quota.h"

namespace forebay::backend {

/// What is known of a bucket beside its directory. Stays for as long as the tree.
struct Bucket {
  explicit Bucket(std::string of) : name(std::move(of)) {}
  const std::string name;
  /// Shared by those who look at or change its objects, exclusive for what must not meet them.
  std::shared_mutex whole;
  base::Mutex mutex;
  std::optional<BucketRecord> record FB_GUARDED_BY(mutex);  // none: others made it
  std::set<std::string, std::less<>> escaped FB_GUARDED_BY(mutex);  // keys that are not stored under their own path
  std::map<std::pair<std::string, uint64_t>, store::UploadInfo> uploads FB_GUARDED_BY(mutex);
};

/// A bucket in use, which is there until this is destroyed.
struct BucketInUse {
  Bucket* bucket = nullptr;
  std::shared_lock<std::shared_mutex> shared{};
  std::unique_lock<std::shared_mutex> exclusive{};
  Descriptor tree{};
  store::BucketInfo info{};
};

/// Where a file is, or goes.
struct Place {
  Descriptor directory{};
  std::string name{};
  bool escaped = false;
};

struct FoundFile {
  Place place{};
  Descriptor file{};
  FileState state{};
};

/// Bytes on their way to become an object.
struct NewContent {
  Temporary file;
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;
};

class Tree {
 public:
  static Result<std::unique_ptr<Tree>> Open(std::string root, const base::Clock& clock, base::Log& log);

  // Buckets. The tenant is the operation's.
  Status CreateBucket(const store::Operation& operation, store::BucketInfo bucket);
  Status DeleteBucket(const store::Operation& operation, const std::string& name);
  Result<store::BucketInfo> GetBucket(TenantId tenant, const std::string& name);
  Result<std::vector<store::BucketInfo>> ListBuckets(TenantId tenant);

  // Content on its way.
  Result<Temporary> NewTemporary() const { return sidecar_->NewTemporary(); }
  /// The record of a put that took place before; the refusal, or what refuses it now.
  Result<std::optional<store::OperationRecord>> BeginPut(const store::Operation& operation, const std::string& bucket,
                                                         const std::string& key, const store::PutOptions& options);
  Result<std::optional<store::OperationRecord>> BeginOverwrite(const store::Operation& operation, const std::string& bucket,
                                                               const std::string& key, const store::Condition& condition);
  Result<std::optional<store::OperationRecord>> BeginPart(const store::Operation& operation, const store::UploadName& upload);

  // Objects.
  Result<store::ObjectInfo> Put(const store::Operation& operation, const std::string& bucket, const std::string& key,
                                const store::PutOptions& options, NewContent content);
  Result<store::ObjectInfo> Overwrite(const store::Operation& operation, const std::string& bucket, const std::string& key,
                                      const store::OverwriteOptions& options, NewContent content);
  Result<store::ObjectInfo> Truncate(const store::Operation& operation, const std::string& bucket, const std::string& key,
                                     uint64_t size_bytes, const store::Condition& condition);
  Status SetAttributes(const store::Operation& operation, const std::string& bucket, const std::string& key, uint64_t version,
                       const store::AttributeChange& change);
  Result<store::ObjectInfo> Compose(const store::Operation& operation, const std::string& bucket, const std::string& key,
                                    const std::vector<store::Source>& sources, const store::PutOptions& options);
  Status Rename(const store::Operation& operation, const std::string& bucket, const std::string& from, const std::string& to,
                const store::RenameOptions& options);
  Result<uint64_t> RenamePrefix(const store::Operation& operation, const std::string& bucket, const std::string& from,
                                const std::string& to);
  Status Delete(const store::Operation& operation, const std::string& bucket, const std::string& key,
                const store::Condition& condition, uint64_t version);

  struct Opened {
    store::ObjectInfo info{};
    Descriptor file{};
    FileState state{};
  };
  /// With the whole checksum, for which a file of others is read once; DeadlineExceeded when that takes too long: the next
  /// call goes on from there.
  Result<Opened> OpenObject(TenantId tenant, const std::string& bucket, const std::string& key, base::TimePoint deadline);
  /// Of files of others that nobody read yet the checksum is 0.
  Result<store::ListPage> List(TenantId tenant, const std::string& bucket, const store::ListOptions& options);
  Result<store::VersionPage> ListVersions(TenantId tenant, const std::string& bucket, const store::VersionListOptions& options);

  // Uploads.
  Result<store::ObjectInfo> CreateUpload(const store::Operation& operation, const std::string& bucket, const std::string& key,
                                         const store::UserMetadata& metadata);
  Result<store::ObjectInfo> StorePart(const store::Operation& operation, const store::UploadName& upload, uint32_t number,
                                      const std::string& etag, NewContent content);
  Result<store::ObjectInfo> CopyPart(const store::Operation& operation, const store::UploadName& upload, uint32_t number,
                                     const store::Source& source);
  Result<store::PartPage> ListParts(TenantId tenant, const store::UploadName& upload, uint32_t start_after, uint32_t limit);
  Result<store::UploadPage> ListUploads(TenantId tenant, const std::string& bucket, const store::UploadListOptions& options);
  Result<store::ObjectInfo> CompleteUpload(const store::Operation& operation, const store::UploadName& upload,
                                           const std::vector<store::PartRef>& parts, const store::CompleteOptions& options);
  Status AbortUpload(const store::Operation& operation, const store::UploadName& upload);

  std::string own_directory() const { return root_ + "/" + Sidecar::kName + "/server"; }
  Accounts& accounts() { return accounts_; }
  const OperationJournal& journal() const { return *journal_; }
  Result<store::StoreSpace> Space() const;
  store::StoreUsage Usage() const;
  Status health() const { return journal_->health(); }

 private:
  static constexpr size_t kStripes = 1024;
  using KeyLock = std::vector<std::unique_lock<std::mutex>>;
  enum class Checksum : uint8_t { kAsKnown, kNeeded };
  struct Progress {
    FileState state{};
    uint64_t offset = 0;
    uint32_t crc32c = 0;
  };
  struct PartFile {
    std::string path{};  // below the uploads of the sidecar
    Descriptor file{};
    FileState state{};
    ObjectRecord record{};
  };

  Tree(std::string root, const base::Clock& clock, base::Log& log) : root_(std::move(root)), clock_(clock), log_(log) {}
  Status Load();
  Status LoadBuckets();
  Status LoadBucket(const std::string& name, std::set<uint64_t>* gone);
  Status LoadUploads(Bucket& bucket, TenantId owner, std::set<uint64_t>* gone);
  Result<bool> TookPlace(const JournalEntry& intent);

  /// So that what is decided about these names and done to them is one step.
  KeyLock LockKeys(std::vector<std::string> names);
  KeyLock LockKey(std::string_view bucket, std::string_view key) { return LockKeys({KeyName(bucket, key)}); }
  static std::string KeyName(std::string_view bucket, std::string_view key);

  Bucket& BucketNamed(const std::string& name);
  /// Where its directory is: the root, or the sidecar for the system's own.
  std::pair<int, std::string> DirectoryOf(std::string_view bucket) const;
  /// A bucket that the tenant sees.
  Result<BucketInUse> Use(TenantId tenant, const std::string& name, bool exclusive = false);
  Result<store::BucketInfo> InfoOf(Bucket& bucket, int tree);

  Result<std::optional<FoundFile>> Find(const BucketInUse& in, const std::string& key);
  Result<store::ObjectInfo> Describe(const FoundFile& found, std::string_view key, Checksum checksum,
                                     base::TimePoint deadline = base::kNever, uint64_t* revision = nullptr);
  Result<uint32_t> ChecksumOf(const FoundFile& found, std::string_view key, base::TimePoint deadline);
  Result<FoundFile> FindToChange(const BucketInUse& in, const std::string& key, const store::Condition& condition,
                                 Checksum checksum, store::ObjectInfo* info);
  /// Aborted when others changed the file since it was found.
  static Status CheckUnchanged(const FoundFile& found, std::string_view key);

  /// Where a key that is not there goes.
  Result<Place> PlaceFor(const BucketInUse& in, const std::string& key);
  /// One attempt to put something at a place: errno, 0 when done.
  using Move = std::function<int(const Place&)>;
  Result<bool> MoveInto(const BucketInUse& in, const std::string& key, const std::optional<FoundFile>& current, bool absent,
                        const Move& move);
  /// Of the directory or file in which an effect is there already: a failure ends all changes.
  Status SyncPlaced(int place, std::string_view key);
  Status TakeAway(const BucketInUse& in, const std::string& key, const Place& place);
  void Prune(const BucketInUse& in, std::string_view key);
  Result<store::ObjectInfo> Publish(const store::Operation& operation, const BucketInUse& in, const std::string& key,
                                    const store::PutOptions& options, NewContent content, const store::UsageChange& also = {});
  /// What each source means, open, all as of one moment.
  Result<std::vector<std::pair<FoundFile, store::ObjectInfo>>> OpenSources(TenantId tenant,
                                                                          const std::vector<store::Source>& sources);
  Result<NewContent> Join(TenantId tenant, const std::vector<store::Source>& sources);
  Result<NewContent> Replaced(const FoundFile& old, const store::ObjectInfo& info, uint64_t begin, const NewContent& content);
  Result<NewContent> Resized(const FoundFile& old, const store::ObjectInfo& info, uint64_t size_bytes);
  Status CheckPublish(const BucketInUse& in, const std::string& key, const store::PutOptions& options);
  Status ChangeAttributes(const store::Operation& operation, const std::string& bucket, const std::string& key, uint64_t version,
                          const store::AttributeChange& change);
  Status MoveObject(const store::Operation& operation, const std::string& bucket, const std::string& from, const std::string& to,
                    const store::RenameOptions& options);
  Result<uint64_t> MovePrefix(const store::Operation& operation, const std::string& bucket, const std::string& from,
                              const std::string& to);
  Result<uint64_t> CheckMovePrefix(const BucketInUse& in, const std::string& from, const std::string& to);
  Status RemoveObject(const store::Operation& operation, const std::string& bucket, const std::string& key,
                      const store::Condition& condition, uint64_t version);
  Status MakeBucket(const store::Operation& operation, const store::BucketInfo& bucket);
  Status RemoveBucket(const store::Operation& operation, const std::string& name);

  static std::string UploadPath(std::string_view bucket, uint64_t id);
  Result<store::UploadInfo> FindUpload(const BucketInUse& in, const store::UploadName& upload);
  Result<std::optional<PartFile>> FindPart(const store::UploadName& upload, uint32_t number);
  Result<std::vector<uint32_t>> PartNumbers(const store::UploadName& upload);
  Result<uint64_t> PartBytes(const store::UploadName& upload);
  Result<store::ObjectInfo> PlacePart(const store::Operation& operation, const store::UploadName& upload, uint32_t number,
                                      const std::string& etag, NewContent content);
  Result<store::ObjectInfo> Complete(const store::Operation& operation, const store::UploadName& upload,
                                     const std::vector<store::PartRef>& parts, const store::CompleteOptions& options);
  Status EndUpload(const store::Operation& operation, const store::UploadName& upload);
  bool HasUpload(const std::string& bucket, uint64_t id) const;
  void RemoveUpload(const BucketInUse& in, const store::UploadName& upload);

  /// Keeps what became of a change, when it is a refusal by the state of the store, and gives it.
  Status Settle(const store::Operation& operation, Status outcome) {
    journal_->Refuse(operation, outcome);
    return outcome;
  }
  template <typename T>
  Result<T> Settle(const store::Operation& operation, Result<T> outcome) {
    journal_->Refuse(operation, outcome.status());
    return outcome;
  }

  const std::string root_;
  const base::Clock& clock_;
  base::Log& log_;
  std::unique_ptr<Sidecar> sidecar_;
  std::unique_ptr<OperationJournal> journal_;
  Accounts accounts_;
  DirectoryCache directories_{clock_};
  std::array<std::mutex, kStripes> stripes_;
  base::Mutex mutex_;
  std::map<std::string, std::unique_ptr<Bucket>, std::less<>> buckets_ FB_GUARDED_BY(mutex_);
  std::map<uint64_t, Progress> checksums_ FB_GUARDED_BY(mutex_);  // by inode, of files that are being read
};

}  // namespace forebay::backend
