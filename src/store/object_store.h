// SPDX-License-Identifier: Apache-2.0
// ObjectStore: the narrow middle of Forebay. Frontends know only this; backends implement it; both are tested with
// the memory twin and one behaviour suite (store_suite.h). Objects are immutable versions addressed by bucket and
// key; a put is a stream of buffers published atomically, a read hands out pinned buffers of one version.
// Every call suspends at most on its Context's reactor and ends by the context's deadline or soon after.
// Thread-safe: called from any reactor.
#pragma once

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

/// Who asks, until when, and where the answer resumes. Borrowed for the call. To a tenant that does not see a
/// bucket (tenancy.h says who sees which) that bucket does not exist.
struct Context {
  rt::Reactor& reactor;
  TenantId tenant = TenantId::kRoot;
  OperationId operation{};
  base::TimePoint deadline = base::kNever;
};

enum class BucketClass : uint8_t {
  kDurable = 0,  // acknowledged = survives power loss
  kCache = 1,    // may be evicted, never wrong
};

struct BucketInfo {
  std::string name{};
  TenantId owner = TenantId::kRoot;
  BucketClass bucket_class = BucketClass::kDurable;
  base::WallTime created{};
};

using UserMetadata = std::map<std::string, std::string>;

/// What is known of one object version. Immutable.
struct ObjectInfo {
  std::string key;
  uint64_t version = 0;     // never used again, larger is later
  uint64_t size_bytes = 0;
  std::string etag;         // opaque, without quotes; changes with every version
  uint32_t crc32c = 0;      // of the whole content
  base::WallTime modified;
  UserMetadata metadata;
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
  std::string etag{};                    // chosen by a frontend whose protocol fixes it; empty = the store's own
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
  /// if-match names a missing object. After ok the object is durable (durable bucket) and visible to every later call.
  virtual rt::Task<Result<ObjectInfo>> Commit(const Context& context, std::optional<uint32_t> crc32c) = 0;
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
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// The owner is the context's tenant, but root and the system may name another one. AlreadyExists,
  /// InvalidArgument (name, owner), ResourceExhausted (kMaxBuckets).
  virtual rt::Task<Status> CreateBucket(const Context& context, BucketInfo bucket) = 0;
  /// NotFound; FailedPrecondition while it holds objects.
  virtual rt::Task<Status> DeleteBucket(const Context& context, std::string name) = 0;
  virtual rt::Task<Result<BucketInfo>> GetBucket(const Context& context, std::string name) = 0;
  /// All that the context's tenant sees but the system's own, ascending by name.
  virtual rt::Task<Result<std::vector<BucketInfo>>> ListBuckets(const Context& context) = 0;

  /// NotFound for the bucket. The condition is only looked at by Commit (and, as a courtesy, here).
  virtual rt::Task<Result<std::unique_ptr<ObjectWriter>>> Put(const Context& context, std::string bucket,
                                                              std::string key, PutOptions options) = 0;
  /// The current version. NotFound; FailedPrecondition when the condition (if-match) does not hold.
  virtual rt::Task<Result<std::unique_ptr<ObjectReader>>> Open(const Context& context, std::string bucket,
                                                               std::string key, Condition condition) = 0;
  virtual rt::Task<Result<ObjectInfo>> Stat(const Context& context, std::string bucket, std::string key) = 0;
  virtual rt::Task<Result<ListPage>> List(const Context& context, std::string bucket, ListOptions options) = 0;
  /// NotFound; FailedPrecondition (if-match).
  virtual rt::Task<Status> Delete(const Context& context, std::string bucket, std::string key, Condition condition) = 0;

  virtual StoreUsage usage() const = 0;
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

}  // namespace forebay::store
