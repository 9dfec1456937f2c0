// SPDX-License-Identifier: Apache-2.0
// ObjectStore: the narrow middle of Forebay. Frontends know only this; backends implement it; both are tested
// with the memory twin and one behaviour suite (store_suite.h). Objects are immutable versions addressed by
// bucket and key; a put is a stream of buffers published atomically, a read hands out pinned buffers of one
// version. A change whose context has an operation id takes place at most once ("Operations" below). Every
// call suspends at most on its Context's reactor and ends by the context's deadline or soon after.
// Thread-safe: called from any reactor.
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
#include "base/clock.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/status.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::store {

// The {} behind the fields let designated initializers leave them out without a warning.

/// Where a server keeps its own records. Only TenantId::kSystem reaches it; no other tenant can use the name.
constexpr std::string_view kSystemBucket = "_forebay";


// Operations. Of the changes (a put's, overwrite's or part's Commit, Truncate, SetAttributes, Compose, Rename, RenamePrefix, Delete,
// DeleteVersion, CreateBucket, UpdateBucket, DeleteBucket, CreateUpload, CopyPart, CompleteUpload, AbortUpload) that come with the same tenant and operation id, the first to reach its commit acts; its result becomes durable with the effect and
// is kept for kOperationRetention (operations.h), over restarts. All others get that result, those that came
// while the first was on its way too. A result is success, or the refusal NotFound, AlreadyExists or
// FailedPrecondition by the state of the store; every other error leaves nothing, and a retry acts.
// InvalidArgument when the same id comes with another request (kind, names, condition, metadata, content),
// FailedPrecondition for an id without a result that is older than the retention or too far ahead of
// operation_time_ms, ResourceExhausted when kMaxOperations results are kept. Without an id a retry may act
// again.

/// Who asks, until when, and where the answer resumes. Borrowed for the call. To a tenant that does not see a
/// bucket (tenancy.h says who sees which) that bucket does not exist.
struct Context {
  rt::Reactor& reactor;
  TenantId tenant = TenantId::kRoot;
  OperationId operation{};  // of a change; reads have none
  base::TimePoint deadline = base::kNever;
};

// Classes. What is in a *cache* bucket is there and right, or gone: the store may evict whole objects when it needs the
// space, or when the owner's quota does; a power cut may take any of them, and take the newest changes back: an object may be
// as it was before an acknowledged put or delete. In return a change of it waits for no
// flush. A `ttl` lets objects expire: from so long after they were put they are not found by any call. A *pin* keeps an
// object from being evicted or from expiring for a while; deletes and what replaces it are not held up. Such
// buckets keep no versions. Time here is operation_time_ms(), which is never set back while the store is open.
enum class BucketClass : uint8_t {
  kDurable = 0,  // acknowledged = survives power loss
  kCache = 1,    // may be evicted, never wrong
};
constexpr std::chrono::milliseconds kMaxTtl = std::chrono::hours(24 * 3660);
constexpr std::chrono::milliseconds kMaxPinTime = std::chrono::hours(24);
/// Objects that a tenant may have pinned at a time, in its buckets, and their share of the devices.
constexpr uint64_t kMaxPins = 10'000;
constexpr uint64_t kMaxPinnedShare = 8;  // an eighth

// Versions. A bucket with versioning on keeps what is put over and deleted: a put adds a version, a delete adds a *delete
// marker*, a version without content that hides the others; the newest version is the current one. Versions go one
// by one, by DeleteVersion; all of them count towards the quota, a marker as an object of 0 bytes. What is put while
// versioning is off, or suspended, is the key's *null version*, of which there is one at a time: the next replaces
// it, wherever among the others it is. Such buckets take whole objects: Overwrite, Truncate and renames are refused.
enum class Versioning : uint8_t {
  kOff = 0,
  kOn = 1,
  kSuspended = 2,  // it was on: what is there stays
};

struct BucketInfo {
  std::string name{};
  TenantId owner = TenantId::kRoot;
  BucketClass bucket_class = BucketClass::kDurable;
  base::WallTime created{};
  Versioning versioning = Versioning::kOff;
  std::chrono::milliseconds ttl{};  // of a cache bucket; 0: nothing expires
};

/// What of a bucket can be changed; what is empty stays.
struct BucketSettings {
  std::optional<Versioning> versioning{};
  std::optional<std::chrono::milliseconds> ttl{};  // 0: nothing expires; counts for what is there, too
};

using UserMetadata = std::map<std::string, std::string>;

/// What is known of one object version. Immutable, but for the attributes.
struct ObjectInfo {
  std::string key;
  uint64_t version = 0;     // never used again, larger is later
  uint64_t size_bytes = 0;
  std::string etag;         // opaque, without quotes; changes with every version
  uint32_t crc32c = 0;      // of the whole content
  base::WallTime modified;
  UserMetadata metadata;
  UserMetadata attributes{};  // may change while the version and its etag stay: SetAttributes
};

/// The precondition of a put, delete or read.
struct Condition {
  enum class Kind : uint8_t { kNone, kIfAbsent, kIfMatch };
  Kind kind = Kind::kNone;
  std::string etag{};  // for kIfMatch
  static Condition None() { return {}; }
  static Condition IfAbsent() { return {Kind::kIfAbsent, {}}; }
  static Condition IfMatch(std::string etag) { return {Kind::kIfMatch, std::move(etag)}; }
};

struct PutOptions {
  Condition condition{};                 // evaluated at Commit, atomically with the publish
  std::optional<uint64_t> size_bytes{};  // when known: lets the store choose extents; Commit refuses another size
  UserMetadata metadata{};
  UserMetadata attributes{};
  std::string etag{};                    // chosen by a frontend whose protocol fixes it; empty = the store's own
};

/// A change of attributes: tags, the owner and mode of a file, whatever a frontend keeps beside an object. Its names
/// begin with the frontend's own, such as `s3.` or `posix.`.
struct AttributeChange {
  Condition condition{};               // none or if-match
  UserMetadata set{};                  // added, or in place of those with the same names
  std::vector<std::string> remove{};   // before; those that are not there are fine
};

/// Which bytes of an object are replaced.
struct OverwriteOptions {
  Condition condition{};               // none or if-match; evaluated at Commit
  std::optional<uint64_t> offset{};    // empty: append, behind the end as it is at Commit
  std::optional<uint64_t> size_bytes{};  // of the content, when known; Commit refuses another size
};

/// One put in progress. Nothing is visible before Commit; destroying it without Commit leaves nothing behind.
/// Reactor-local to the Context it was made with.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  /// An arena buffer of at most `size` bytes (at least one page unless size is smaller) to fill and pass to Write,
  /// so that payload is received where it is written from. Suspends while memory is short, until the deadline.
  virtual rt::Task<Result<base::Buffer>> Allocate(const Context& context, size_t size) = 0;
  /// Appends `data`. Returns when the store has taken it (maybe before it is on the device); an I/O error may surface
  /// here or at Commit. Every buffer but the last has a multiple of 4096 bytes.
  virtual rt::Task<Status> Write(const Context& context, base::Buffer data) = 0;
  /// Publishes. With `crc32c`, the content's checksum is compared first: DataLoss when it differs and nothing is stored.
  /// AlreadyExists (if-absent) or FailedPrecondition (if-match) when the condition does not hold; NotFound when
  /// if-match names a missing object. ResourceExhausted when it would bring the bucket's owner above its quota;
  /// an overwrite counts by the difference. After ok the object is durable (durable bucket) and visible to every later call.
  virtual rt::Task<Result<ObjectInfo>> Commit(const Context& context, std::optional<uint32_t> crc32c) = 0;
  /// True when this put is known to have taken place before, by its operation id: its content need not be
  /// written again, and Commit gives the first result once it has compared the size announced and the
  /// checksum.
  virtual bool replays() const { return false; }
};

/// A run of bytes read: pinned buffers in order, each verified.
struct ReadData {
  std::vector<base::Buffer> buffers;
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;  // of exactly these bytes, from verified checksums where whole blocks were read
};

/// One open version. Its bytes stay readable until it is destroyed, whatever is deleted or overwritten meanwhile.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;
  virtual const ObjectInfo& info() const = 0;
  /// [offset, offset + length), length at most base::kMaxChunkBytes. OutOfRange when it passes the end, DataLoss naming
  /// object and offset when a block fails verification. Several Reads may be in progress.
  virtual rt::Task<Result<ReadData>> Read(const Context& context, uint64_t offset, uint64_t length) = 0;
};

/// A run of an object's bytes that another object is made of.
struct Source {
  std::string bucket{};
  std::string key{};
  Condition condition{};             // none or if-match
  uint64_t offset = 0;
  std::optional<uint64_t> length{};  // empty: up to the end
};

/// The conditions of a rename, each about the current version of one of its two names.
struct RenameOptions {
  Condition source{};  // none or if-match
  Condition target{};
};

// Uploads: objects that are put in parts, which come in any order and from anywhere. An upload stays until it is
// completed or given up; its parts count towards the quota of the bucket's owner.

/// Which upload: an upload belongs to one key.
struct UploadName {
  std::string bucket{};
  std::string key{};
  uint64_t id = 0;
};

struct UploadInfo {
  uint64_t id = 0;  // never used again, larger is later
  std::string key{};
  base::WallTime created{};
  UserMetadata metadata{};  // of the object that it becomes
};

struct PartInfo {
  uint32_t number = 0;
  uint64_t size_bytes = 0;
  std::string etag{};
  uint32_t crc32c = 0;
  base::WallTime modified{};
};

/// A part to complete an upload with.
struct PartRef {
  uint32_t number = 0;
  std::string etag{};  // empty: whatever was sent last under the number
};

struct CompleteOptions {
  Condition condition{};
  std::string etag{};                // empty: the store's own
  std::optional<uint32_t> crc32c{};  // of the whole content, when the caller knows it
};

struct PartPage {
  std::vector<PartInfo> parts{};  // ascending by number
  bool truncated = false;
};

struct UploadListOptions {
  std::string prefix{};
  std::string after_key{};  // with after_id: exclusive
  uint64_t after_id = 0;
  uint32_t limit = base::kMaxListPage;  // 1 to kMaxListPage
};

struct UploadPage {
  std::vector<UploadInfo> uploads{};  // ascending by key, those of one key by id
  bool truncated = false;             // go on behind the last one
};

struct VersionInfo {
  ObjectInfo object{};         // of a delete marker: key, version and time
  bool latest = false;         // the newest of its key
  bool delete_marker = false;
  bool null_version = false;
};

struct VersionListOptions {
  std::string prefix{};
  std::string after_key{};     // with after_version: exclusive
  uint64_t after_version = 0;  // 0: behind all versions of the key
  uint32_t limit = base::kMaxListPage;  // 1 to kMaxListPage
};

struct VersionPage {
  std::vector<VersionInfo> versions{};  // ascending by key, those of one key newest first
  bool truncated = false;               // go on behind the last one
};

struct ListOptions {
  std::string prefix{};
  std::string delimiter{};              // empty = none; keys that hold it after the prefix are rolled up
  std::string start_after{};            // exclusive; when it is itself a rolled-up prefix, everything under it is skipped
  uint32_t limit = base::kMaxListPage;  // entries plus prefixes, 1 to kMaxListPage
};

struct ListPage {
  std::vector<ObjectInfo> objects;            // ascending by key bytes
  std::vector<std::string> common_prefixes;   // ascending
  bool truncated = false;
  std::string next_start_after;               // when truncated
};

struct StoreUsage {
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;  // of the data devices
  // Since the store was opened; 0 where a backend has no devices of its own.
  uint64_t device_bytes_read = 0;
  uint64_t device_bytes_written = 0;
  uint64_t device_flushes = 0;
  // Of cache buckets, since the store was opened: objects that went for want of space, of quota, of time, or because their
  // content was not there any more.
  uint64_t cache_evicted = 0;
  uint64_t cache_evicted_bytes = 0;
  uint64_t cache_expired = 0;
  uint64_t cache_gone = 0;
};

enum class DeviceState : uint8_t {
  kOk = 0,
  kDegraded = 1,    // a mirror with one side left
  kRebuilding = 2,  // a mirror one side of which is brought up to date
  kDraining = 3,    // on its way out of the store
};

struct DeviceSpace {
  std::string name{};  // what an operator calls it: a path
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;
  DeviceState state = DeviceState::kOk;
  std::string detail{};  // for people: what is the matter, and what to do; empty while all is well
  uint64_t bytes_read = 0;  // since the store was opened
  uint64_t bytes_written = 0;
};

/// What the metadata takes, and the file system that it is on.
struct MetadataSpace {
  std::string path{};
  uint64_t used_bytes = 0;
  uint64_t free_bytes = 0;     // of the file system; UINT64_MAX where a backend knows no limit
  uint64_t reserve_bytes = 0;  // with less than this free, only what frees space is taken
};

/// How much room a store has, and what takes it.
struct StoreSpace {
  std::vector<DeviceSpace> devices{};  // in the store's order
  MetadataSpace metadata{};
  uint64_t objects = 0;       // of all tenants together, counted as in TenantUsage
  uint64_t object_bytes = 0;  // of their content: more than is on the devices where objects share it
  uint64_t cache_bytes = 0;   // of what is used on the devices: content of cache buckets, which can be evicted
};

/// What a tenant may store; 0 is no limit.
struct Quota {
  uint64_t max_bytes = 0;
  uint64_t max_objects = 0;
  friend bool operator==(const Quota&, const Quota&) = default;
};

/// What is stored in the buckets of a tenant, exact as of the last acknowledged change.
struct TenantUsage {
  uint64_t objects = 0;  // versions, with delete markers
  uint64_t bytes = 0;    // of their content
  uint64_t buckets = 0;
  Quota quota{};  // that it is held to
  friend bool operator==(const TenantUsage&, const TenantUsage&) = default;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// The owner is the context's tenant, but root and the system may name another one. AlreadyExists,
  /// InvalidArgument (name, owner), ResourceExhausted (kMaxBuckets).
  virtual rt::Task<Status> CreateBucket(const Context& context, BucketInfo bucket) = 0;
  /// NotFound; FailedPrecondition for versioning that was on and would be off, or suspended and never was on, versioning of a
  /// cache bucket, and the ttl of another one; InvalidArgument for a ttl above kMaxTtl.
  virtual rt::Task<Status> UpdateBucket(const Context& context, std::string name, BucketSettings settings) = 0;
  /// NotFound; FailedPrecondition while it holds objects, versions of them, or uploads.
  virtual rt::Task<Status> DeleteBucket(const Context& context, std::string name) = 0;
  virtual rt::Task<Result<BucketInfo>> GetBucket(const Context& context, std::string name) = 0;
  /// All that the context's tenant sees but the system's own, ascending by name.
  virtual rt::Task<Result<std::vector<BucketInfo>>> ListBuckets(const Context& context) = 0;

  /// NotFound for the bucket; ResourceExhausted at the quota of the bucket's owner. Condition and quota are
  /// decided by Commit; here they are looked at as a courtesy, the quota when the size is known. The
  /// operation is the context's of this call, and a refusal here is its result; without an id here it is that
  /// of Commit.
  virtual rt::Task<Result<std::unique_ptr<ObjectWriter>>> Put(const Context& context, std::string bucket,
                                                              std::string key, PutOptions options) = 0;
  /// Replaces a run of an object's bytes, as many as are written; an object that ends before the run's end grows, and
  /// bytes that nobody wrote are zero. All at one moment: readers have the old version or the new one, which has
  /// another etag, the object's whole checksum and the same metadata. Other overwrites of the same object may take
  /// place meanwhile, and none is lost; of two that touch the same bytes the later one counts. Commit compares the
  /// checksum of what was written, and gives the object; the metadata of a result that is repeated by its operation id is
  /// empty. NotFound; InvalidArgument for more than kMaxObjectBytes; Aborted when others change the same bytes
  /// again and again; DataLoss when bytes around the run, which are needed, are damaged; FailedPrecondition in a bucket
  /// that keeps or kept versions; otherwise as Put, but that quota and space are decided by Commit alone.
  virtual rt::Task<Result<std::unique_ptr<ObjectWriter>>> Overwrite(const Context& context, std::string bucket,
                                                                    std::string key, OverwriteOptions options) = 0;
  /// Cuts an object off at `size_bytes`, or makes it so long, with zeros that take no space of a device but count towards
  /// the quota. Else as Overwrite.
  virtual rt::Task<Result<ObjectInfo>> Truncate(const Context& context, std::string bucket, std::string key,
                                                uint64_t size_bytes, Condition condition) = 0;
  /// Changes attributes of the current version, or of `version` unless that is 0, all at one moment. It stays the same
  /// version: etag, metadata, time and readers do not change. Copies have attributes of their own; a rename or
  /// overwrite keeps them. NotFound; InvalidArgument for bad names or values, or more than kMaxUserMetadataBytes in
  /// all; as the condition says.
  virtual rt::Task<Status> SetAttributes(const Context& context, std::string bucket, std::string key, uint64_t version,
                                         AttributeChange change) = 0;
  /// Publishes an object whose content is that of the sources, one after the other, all as of one moment: a copy
  /// (one source), a concatenation (several), a snapshot, an object with more or less at its end (it may be among
  /// its own sources). Content is not copied but shared, until the last object that refers to it is gone; short runs
  /// are copied where sharing would cost more than it saves. It counts in full towards the quota.
  /// InvalidArgument for no source, more than kMaxSources, or more pieces than a backend keeps; NotFound or FailedPrecondition for a source;
  /// OutOfRange for a range that passes its source's end; FailedPrecondition when size_bytes is given and is another;
  /// Aborted when the sources were replaced again and again meanwhile; for the target as Commit of a put.
  virtual rt::Task<Result<ObjectInfo>> Compose(const Context& context, std::string bucket, std::string key,
                                               std::vector<Source> sources, PutOptions options) = 0;
  /// Gives an object another key in its bucket, in place of what has that key: it keeps content, etag, metadata and
  /// time, and becomes a later version. NotFound; InvalidArgument when both keys are the same; as the conditions say;
  /// FailedPrecondition in a bucket that keeps or kept versions, as RenamePrefix.
  virtual rt::Task<Status> Rename(const Context& context, std::string bucket, std::string from, std::string to,
                                  RenameOptions options) = 0;
  /// Renames every object whose key begins with `from` so that it begins with `to`, all at one moment, and gives how
  /// many there were. AlreadyExists, and nothing changes, when one of the new keys is that of an object that stays;
  /// NotFound when there is nothing to rename; InvalidArgument for equal prefixes or a key that becomes no key;
  /// ResourceExhausted for more than kMaxRenamed.
  virtual rt::Task<Result<uint64_t>> RenamePrefix(const Context& context, std::string bucket, std::string from,
                                                  std::string to) = 0;
  /// The current version. NotFound; FailedPrecondition when the condition (if-match) does not hold.
  virtual rt::Task<Result<std::unique_ptr<ObjectReader>>> Open(const Context& context, std::string bucket,
                                                               std::string key, Condition condition) = 0;
  virtual rt::Task<Result<ObjectInfo>> Stat(const Context& context, std::string bucket, std::string key) = 0;
  virtual rt::Task<Result<ListPage>> List(const Context& context, std::string bucket, ListOptions options) = 0;
  /// NotFound; FailedPrecondition (if-match). Where versions are kept, a delete marker becomes the current version:
  /// ResourceExhausted when that is one object more than the quota allows.
  virtual rt::Task<Status> Delete(const Context& context, std::string bucket, std::string key, Condition condition) = 0;

  /// One version, current or not. NotFound, also for a delete marker.
  virtual rt::Task<Result<std::unique_ptr<ObjectReader>>> OpenVersion(const Context& context, std::string bucket,
                                                                      std::string key, uint64_t version) = 0;
  /// NotFound.
  virtual rt::Task<Result<VersionInfo>> StatVersion(const Context& context, std::string bucket, std::string key,
                                                    uint64_t version) = 0;
  virtual rt::Task<Result<VersionPage>> ListVersions(const Context& context, std::string bucket,
                                                     VersionListOptions options) = 0;
  /// Takes a version or a delete marker away for good; when it was the current one, the next newest is. NotFound.
  virtual rt::Task<Status> DeleteVersion(const Context& context, std::string bucket, std::string key,
                                         uint64_t version) = 0;

  /// Begins an upload. NotFound for the bucket; InvalidArgument (key, metadata).
  virtual rt::Task<Result<UploadInfo>> CreateUpload(const Context& context, std::string bucket, std::string key,
                                                    UserMetadata metadata) = 0;
  /// Puts part `number`, 1 to kMaxParts, instead of an earlier one with that number. Of `options` the size and the etag
  /// count. The writer's Commit gives the part: its size, checksum, etag and time. NotFound: the upload;
  /// InvalidArgument: the number, or more than kMaxPartBytes; else as Put.
  virtual rt::Task<Result<std::unique_ptr<ObjectWriter>>> PutPart(const Context& context, UploadName upload,
                                                                  uint32_t number, PutOptions options) = 0;
  /// The same with a run of an object for its content, which is shared and not copied. Errors as Compose.
  virtual rt::Task<Result<ObjectInfo>> CopyPart(const Context& context, UploadName upload, uint32_t number,
                                                Source source) = 0;
  /// Parts with numbers above `start_after`, at most `limit` (1 to kMaxListPage).
  virtual rt::Task<Result<PartPage>> ListParts(const Context& context, UploadName upload, uint32_t start_after,
                                               uint32_t limit) = 0;
  virtual rt::Task<Result<UploadPage>> ListUploads(const Context& context, std::string bucket,
                                                   UploadListOptions options) = 0;
  /// Publishes the object that the parts make, in their order, and ends the upload; parts that are not named go. No content
  /// is copied. InvalidArgument for no part, numbers that do not ascend, a part that is not there or has another etag, or
  /// an object that is too large; DataLoss when the checksum differs; the upload goes on then. Otherwise as Commit
  /// of a put. The metadata of a result that is repeated by its operation id is empty.
  virtual rt::Task<Result<ObjectInfo>> CompleteUpload(const Context& context, UploadName upload,
                                                      std::vector<PartRef> parts, CompleteOptions options) = 0;
  /// Ends an upload without an object. NotFound.
  virtual rt::Task<Status> AbortUpload(const Context& context, UploadName upload) = 0;

  /// Keeps the current version of an object of a cache bucket from being evicted and from expiring for `time` from now on,
  /// instead of an earlier pin; over restarts too, but for power cuts. NotFound; FailedPrecondition in a durable bucket, where nothing is evicted;
  /// InvalidArgument for no time or more than kMaxPinTime; ResourceExhausted when the bucket's owner would have more than kMaxPins, or
  /// more than its share of the devices, pinned.
  virtual rt::Task<Status> Pin(const Context& context, std::string bucket, std::string key,
                               std::chrono::milliseconds time) = 0;
  /// Ends a pin, if there is one. NotFound for the object, FailedPrecondition in a durable bucket.
  virtual rt::Task<Status> Unpin(const Context& context, std::string bucket, std::string key) = 0;

  /// Of all that the tenant owns, whoever stores it. Above the quota nothing is deleted, and whatever makes the
  /// usage smaller is taken. PermissionDenied unless root or the system asks; InvalidArgument,
  /// ResourceExhausted (kMaxTenants).
  virtual rt::Task<Status> SetQuota(const Context& context, TenantId tenant, Quota quota) = 0;
  /// All zero for a tenant that never had anything. PermissionDenied to other tenants.
  virtual rt::Task<Result<TenantUsage>> GetTenantUsage(const Context& context, TenantId tenant) = 0;

  /// As of about now, of the whole store whoever asks: who may know that is for the frontend to decide. DataLoss,
  /// Unavailable when the metadata's file system does not answer.
  virtual rt::Task<Result<StoreSpace>> GetSpace(const Context& context) = 0;
  virtual StoreUsage usage() const = 0;
  /// Milliseconds since 1970 on the clock that operation ids are made by. It never goes back, over restarts
  /// too.
  virtual uint64_t operation_time_ms() const = 0;
  /// Why nothing can be written; ok while it can.
  virtual Status health() const = 0;
};

/// The error for a bucket that is not there: every backend says it the same way, with the command that makes one.
inline Status NoSuchBucket(std::string_view bucket) {
  return Status::NotFound("bucket `{}` does not exist; create it with: forebay bucket create {}", bucket, bucket);
}
inline Status NoSuchObject(std::string_view bucket, std::string_view key) {
  return Status::NotFound("object `{}/{}` does not exist", bucket, key);
}

inline Status NoSuchVersion(std::string_view bucket, std::string_view key, uint64_t version) {
  return Status::NotFound("object `{}/{}` has no version {}", bucket, key, version);
}
/// FailedPrecondition: `what` is refused in a bucket that keeps versions.
inline Status KeepsVersions(std::string_view bucket, std::string_view what) {
  return Status::FailedPrecondition("bucket `{}` keeps versions, so objects in it are not {}: put or copy whole objects",
                                    bucket, what);
}

inline Status NoSuchUpload(const UploadName& upload) {
  return Status::NotFound("`{}/{}` has no upload {:x}: it was completed or given up, or never begun", upload.bucket,
                          upload.key, upload.id);
}

}  // namespace forebay::store
