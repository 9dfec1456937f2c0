// SPDX-License-Identifier: Apache-2.0
#include "store/memory_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checksum.h"
#include "store/checks.h"
#include "store/conditions.h"
#include "store/listing.h"
#include "store/memory_wait.h"
#include "store/tenancy.h"

namespace forebay::store {

class MemoryStore::Writer final : public ObjectWriter {
 public:
  Writer(MemoryStore& store, std::string bucket, std::string key, PutOptions options)
      : store_(store), bucket_(std::move(bucket)), options_(std::move(options)) {
    version_.info.key = std::move(key);
    version_.info.metadata = options_.metadata;
  }

  rt::Task<Result<base::Buffer>> Allocate(const Context& context, size_t size) override {
    FB_CO_TRY(CheckDeadline(context, "allocate"));
    if (size == 0) co_return Status::InvalidArgument("a buffer of 0 bytes: ask for at least 1");
    co_return co_await AllocateOrWait(store_.arena_, context, std::min(size, kPieceBytes));
  }

  rt::Task<Status> Write(const Context& context, base::Buffer data) override {
    FB_CO_TRY(CheckDeadline(context, "write"));
    co_return Append(std::move(data));
  }

  rt::Task<Result<ObjectInfo>> Commit(const Context& context, std::optional<uint32_t> crc32c) override {
    FB_CO_TRY(CheckDeadline(context, "commit"));
    if (std::exchange(committed_, true))
      co_return Status::FailedPrecondition("the put of `{}/{}` has ended; begin another one", bucket_,
                                           version_.info.key);
    FB_CO_TRY(CheckAnnouncedSize(options_, version_.info.size_bytes));
    FB_CO_TRY(CheckContent(crc32c, version_.info.crc32c, bucket_, version_.info.key));
    co_return store_.Publish(context.tenant, bucket_, options_, std::move(version_));
  }

 private:
  Status Append(base::Buffer data) {
    ObjectInfo& info = version_.info;
    if (data.empty()) return {};
    if (committed_) return Status::FailedPrecondition("the put of `{}/{}` has ended", bucket_, info.key);
    if (info.size_bytes % base::Arena::kPage != 0)
      return Status::InvalidArgument(
          "only the last buffer of `{}/{}` may have a size that is no multiple of {}", bucket_, info.key,
          base::Arena::kPage);
    FB_TRY(CheckObjectSize(info.size_bytes, data.size()));
    const uint64_t size = info.size_bytes + data.size();
    if (options_.size_bytes && size > *options_.size_bytes) FB_TRY(CheckAnnouncedSize(options_, size));
    for (size_t at = 0; at < data.size(); at += kPieceBytes) {
      base::Buffer piece = data.Slice(at, std::min(kPieceBytes, data.size() - at));
      const uint32_t crc32c = base::Crc32c(piece.view());
      info.crc32c = base::Crc32cCombine(info.crc32c, crc32c, piece.size());
      version_.pieces.push_back({info.size_bytes + at, std::move(piece), crc32c});
    }
    info.size_bytes = size;
    return {};
  }

  MemoryStore& store_;
  const std::string bucket_;
  const PutOptions options_;
  Version version_;
  bool committed_ = false;
};

class MemoryStore::Reader final : public ObjectReader {
 public:
  Reader(std::string bucket, VersionPointer version)
      : bucket_(std::move(bucket)), version_(std::move(version)) {}

  const ObjectInfo& info() const override { return version_->info; }

  rt::Task<Result<ReadData>> Read(const Context& context, uint64_t offset, uint64_t length) override {
    FB_CO_TRY(CheckDeadline(context, "read"));
    FB_CO_TRY(CheckRead(bucket_, info(), offset, length));
    ReadData data;
    for (auto piece = First(offset); data.size_bytes < length; ++piece) {
      const uint64_t skip = offset + data.size_bytes - piece->offset;
      const uint64_t take = std::min<uint64_t>(piece->buffer.size() - skip, length - data.size_bytes);
      if (base::Crc32c(piece->buffer.view()) != piece->crc32c)
        co_return Status::DataLoss("object `{}/{}` is damaged at offset {}: its checksum differs", bucket_,
                                   info().key, piece->offset);
      base::Buffer part = piece->buffer.Slice(skip, take);
      const uint32_t crc32c = take == piece->buffer.size() ? piece->crc32c : base::Crc32c(part.view());
      data.crc32c = base::Crc32cCombine(data.crc32c, crc32c, take);
      data.size_bytes += take;
      data.buffers.push_back(std::move(part));
    }
    co_return data;
  }

 private:
  /// The piece that holds `offset`, which is at most the size; the end when it is the size.
  std::vector<Piece>::const_iterator First(uint64_t offset) const {
    const std::vector<Piece>& pieces = version_->pieces;
    if (offset == info().size_bytes) return pieces.end();
    return std::ranges::upper_bound(pieces, offset, {}, &Piece::offset) - 1;
  }

  const std::string bucket_;
  const VersionPointer version_;
};

class MemoryStore::Cursor final : public KeyCursor {
 public:
  explicit Cursor(const Bucket& bucket) : objects_(bucket.objects), at_(objects_.end()) {}
  void Seek(std::string_view key) override { at_ = objects_.lower_bound(key); }
  void Next() override { ++at_; }
  bool Valid() const override { return at_ != objects_.end(); }
  std::string_view key() const override { return at_->first; }
  const ObjectInfo& info() const { return at_->second->info; }

 private:
  const decltype(Bucket::objects)& objects_;
  decltype(Bucket::objects)::const_iterator at_;
};

rt::Task<Status> MemoryStore::CreateBucket(const Context& context, BucketInfo bucket) {
  FB_CO_TRY(CheckDeadline(context, "create bucket"));
  FB_CO_TRY(CheckNewBucket(context.tenant, &bucket));
  co_return InsertBucket(std::move(bucket));
}

rt::Task<Status> MemoryStore::DeleteBucket(const Context& context, std::string name) {
  FB_CO_TRY(CheckDeadline(context, "delete bucket"));
  co_return EraseBucket(context.tenant, name);
}

rt::Task<Result<BucketInfo>> MemoryStore::GetBucket(const Context& context, std::string name) {
  FB_CO_TRY(CheckDeadline(context, "get bucket"));
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const Bucket* bucket, FindBucket(context.tenant, name));
  co_return bucket->info;
}

rt::Task<Result<std::vector<BucketInfo>>> MemoryStore::ListBuckets(const Context& context) {
  FB_CO_TRY(CheckDeadline(context, "list buckets"));
  std::vector<BucketInfo> infos;
  const base::MutexLock lock(mutex_);
  infos.reserve(buckets_.size());
  for (const auto& [name, bucket] : buckets_)
    if (IsListed(context.tenant, bucket.info.owner)) infos.push_back(bucket.info);
  co_return infos;
}

rt::Task<Result<std::unique_ptr<ObjectWriter>>> MemoryStore::Put(const Context& context, std::string bucket,
                                                                 std::string key, PutOptions options) {
  FB_CO_TRY(CheckDeadline(context, "put"));
  FB_CO_TRY(CheckPut(key, options));
  FB_CO_TRY(CheckPublish(context.tenant, bucket, key, options.condition));
  co_return std::make_unique<Writer>(*this, std::move(bucket), std::move(key), std::move(options));
}

rt::Task<Result<std::unique_ptr<ObjectReader>>> MemoryStore::Open(const Context& context, std::string bucket,
                                                                  std::string key, Condition condition) {
  FB_CO_TRY(CheckDeadline(context, "open"));
  FB_CO_ASSIGN(VersionPointer version, Find(context.tenant, bucket, key));
  FB_CO_TRY(CheckCondition(condition, version->info.etag, bucket, key));
  co_return std::make_unique<Reader>(std::move(bucket), std::move(version));
}

rt::Task<Result<ObjectInfo>> MemoryStore::Stat(const Context& context, std::string bucket, std::string key) {
  FB_CO_TRY(CheckDeadline(context, "stat"));
  FB_CO_ASSIGN(const VersionPointer version, Find(context.tenant, bucket, key));
  co_return version->info;
}

rt::Task<Result<ListPage>> MemoryStore::List(const Context& context, std::string bucket,
                                             ListOptions options) {
  FB_CO_TRY(CheckDeadline(context, "list"));
  co_return ListNow(context.tenant, bucket, options);
}

rt::Task<Status> MemoryStore::Delete(const Context& context, std::string bucket, std::string key,
                                     Condition condition) {
  FB_CO_TRY(CheckDeadline(context, "delete"));
  co_return Erase(context.tenant, bucket, key, condition);
}

StoreUsage MemoryStore::usage() const {
  return {.capacity_bytes = arena_.size_bytes(), .used_bytes = arena_.size_bytes() - arena_.free_bytes()};
}

Result<MemoryStore::Bucket*> MemoryStore::FindBucket(TenantId tenant, std::string_view name) {
  FB_TRY(CheckBucketName(tenant, name));
  const auto found = buckets_.find(name);
  if (found == buckets_.end() || !Sees(tenant, found->second.info.owner)) return NoSuchBucket(name);
  return &found->second;
}

Result<MemoryStore::VersionPointer> MemoryStore::Find(TenantId tenant, std::string_view bucket,
                                                      std::string_view key) {
  FB_TRY(base::CheckKey(key));
  const base::MutexLock lock(mutex_);
  FB_ASSIGN(const Bucket* in, FindBucket(tenant, bucket));
  const auto found = in->objects.find(key);
  if (found == in->objects.end()) return NoSuchObject(bucket, key);
  return found->second;
}

Status MemoryStore::InsertBucket(BucketInfo bucket) {
  bucket.created = clock_.WallNow();
  const base::MutexLock lock(mutex_);
  if (buckets_.contains(bucket.name)) return Status::AlreadyExists("bucket `{}` exists already", bucket.name);
  if (CountsAsBucket(bucket.owner) && buckets_.size() - buckets_.count(kSystemBucket) >= base::kMaxBuckets)
    return Status::ResourceExhausted("there are {} buckets, which is the limit; delete one first",
                                     base::kMaxBuckets);
  std::string name = bucket.name;
  buckets_.emplace(std::move(name), Bucket{std::move(bucket), {}});
  return {};
}

Status MemoryStore::EraseBucket(TenantId tenant, std::string_view name) {
  const base::MutexLock lock(mutex_);
  FB_ASSIGN(const Bucket* bucket, FindBucket(tenant, name));
  if (!bucket->objects.empty())
    return Status::FailedPrecondition("bucket `{}` holds {} objects; delete them first", name,
                                      bucket->objects.size());
  buckets_.erase(buckets_.find(name));
  return {};
}

Status MemoryStore::CheckPublish(TenantId tenant, std::string_view bucket, std::string_view key,
                                 const Condition& condition) {
  const base::MutexLock lock(mutex_);
  FB_ASSIGN(const Bucket* in, FindBucket(tenant, bucket));
  const auto found = in->objects.find(key);
  std::optional<std::string_view> etag;
  if (found != in->objects.end()) etag = found->second->info.etag;
  return CheckCondition(condition, etag, bucket, key);
}

Result<ObjectInfo> MemoryStore::Publish(TenantId tenant, std::string_view bucket, const PutOptions& options,
                                        Version version) {
  const auto published = std::make_shared<Version>(std::move(version));
  ObjectInfo& info = published->info;
  VersionPointer replaced;  // freed without the lock
  const base::MutexLock lock(mutex_);
  FB_ASSIGN(Bucket * in, FindBucket(tenant, bucket));
  const auto found = in->objects.find(info.key);
  std::optional<std::string_view> etag;
  if (found != in->objects.end()) etag = found->second->info.etag;
  FB_TRY(CheckCondition(options.condition, etag, bucket, info.key));
  info.version = ++last_version_;
  info.etag = options.etag.empty() ? DefaultETag(info.version, info.crc32c) : options.etag;
  info.modified = clock_.WallNow();
  VersionPointer& current = in->objects[info.key];
  replaced = std::exchange(current, published);
  return info;
}

Status MemoryStore::Erase(TenantId tenant, std::string_view bucket, std::string_view key,
                          const Condition& condition) {
  FB_TRY(base::CheckKey(key));
  VersionPointer erased;  // freed without the lock
  const base::MutexLock lock(mutex_);
  FB_ASSIGN(Bucket * in, FindBucket(tenant, bucket));
  const auto found = in->objects.find(key);
  if (found == in->objects.end()) return NoSuchObject(bucket, key);
  FB_TRY(CheckCondition(condition, found->second->info.etag, bucket, key));
  erased = std::move(found->second);
  in->objects.erase(found);
  return {};
}

Result<ListPage> MemoryStore::ListNow(TenantId tenant, std::string_view bucket, const ListOptions& options) {
  const base::MutexLock lock(mutex_);
  FB_ASSIGN(const Bucket* in, FindBucket(tenant, bucket));
  Cursor cursor(*in);
  return ListKeys(cursor, options, [&](std::string_view) -> Result<ObjectInfo> { return cursor.info(); });
}

}  // namespace forebay::store
