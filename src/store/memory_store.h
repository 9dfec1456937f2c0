// SPDX-License-Identifier: Apache-2.0
// MemoryStore: the memory twin of every backend, for tests of frontends and for the behaviour suite. Content
// lives in the buffers that were written, in pieces of at most 64 KiB, each with its checksum, which every
// read verifies. Thread-safe: one mutex guards the names; content is immutable once published and is read
// without it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "store/object_store.h"

namespace forebay::store {

class MemoryStore final : public ObjectStore {
 public:
  static constexpr size_t kPieceBytes = 64 * base::kKiB;

  /// Writers allocate from `arena`; buffers of other arenas are taken too. All arenas and the clock outlive
  /// the store and its readers and writers. A reader may outlive the store, a writer may not.
  MemoryStore(base::Arena& arena, const base::Clock& clock) : arena_(arena), clock_(clock) {}

  rt::Task<Status> CreateBucket(const Context& context, BucketInfo bucket) override;
  rt::Task<Status> DeleteBucket(const Context& context, std::string name) override;
  rt::Task<Result<BucketInfo>> GetBucket(const Context& context, std::string name) override;
  rt::Task<Result<std::vector<BucketInfo>>> ListBuckets(const Context& context) override;
  rt::Task<Result<std::unique_ptr<ObjectWriter>>> Put(const Context& context, std::string bucket,
                                                      std::string key, PutOptions options) override;
  rt::Task<Result<std::unique_ptr<ObjectReader>>> Open(const Context& context, std::string bucket,
                                                       std::string key, Condition condition) override;
  rt::Task<Result<ObjectInfo>> Stat(const Context& context, std::string bucket, std::string key) override;
  rt::Task<Result<ListPage>> List(const Context& context, std::string bucket, ListOptions options) override;
  rt::Task<Status> Delete(const Context& context, std::string bucket, std::string key,
                          Condition condition) override;
  /// Of the arena, with everything else that lives in it.
  StoreUsage usage() const override;
  Status health() const override { return {}; }

 private:
  class Writer;
  class Reader;
  class Cursor;

  struct Piece {
    uint64_t offset;
    base::Buffer buffer;
    uint32_t crc32c;
  };
  struct Version {
    ObjectInfo info;
    std::vector<Piece> pieces;
  };
  /// Shared, so that a reader keeps its version while the name goes on to another one.
  using VersionPointer = std::shared_ptr<const Version>;
  struct Bucket {
    BucketInfo info;
    std::map<std::string, VersionPointer, std::less<>> objects;
  };

  Result<Bucket*> FindBucket(TenantId tenant, std::string_view name) FB_REQUIRES(mutex_);
  Result<VersionPointer> Find(TenantId tenant, std::string_view bucket, std::string_view key)
      FB_EXCLUDES(mutex_);
  Status InsertBucket(BucketInfo bucket) FB_EXCLUDES(mutex_);
  Status EraseBucket(TenantId tenant, std::string_view name) FB_EXCLUDES(mutex_);
  /// Whether a put could be published now.
  Status CheckPublish(TenantId tenant, std::string_view bucket, std::string_view key,
                      const Condition& condition) FB_EXCLUDES(mutex_);
  Result<ObjectInfo> Publish(TenantId tenant, std::string_view bucket, const PutOptions& options,
                             Version version) FB_EXCLUDES(mutex_);
  Status Erase(TenantId tenant, std::string_view bucket, std::string_view key, const Condition& condition)
      FB_EXCLUDES(mutex_);
  Result<ListPage> ListNow(TenantId tenant, std::string_view bucket, const ListOptions& options)
      FB_EXCLUDES(mutex_);

  base::Arena& arena_;
  const base::Clock& clock_;
  base::Mutex mutex_;
  std::map<std::string, Bucket, std::less<>> buckets_ FB_GUARDED_BY(mutex_);
  uint64_t last_version_ FB_GUARDED_BY(mutex_) = 0;
};

}  // namespace forebay::store
