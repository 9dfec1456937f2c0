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
#include "store/operations.h"
#include "store/quota.h"
#include "store/replayed_writer.h"
#include "store/tenancy.h"

namespace forebay::store {

class MemoryStore::Writer final : public ObjectWriter {
 public:
  Writer(MemoryStore& store, Operation operation, std::string bucket, std::string key, PutOptions options,
         std::optional<PartTarget> part = std::nullopt, std::optional<OverwriteOptions> overwrite = std::nullopt)
      : store_(store),
        operation_(operation),
        bucket_(std::move(bucket)),
        options_(std::move(options)),
        part_(std::move(part)),
        overwrite_(std::move(overwrite)) {
    version_.info.key = std::move(key);
    version_.info.metadata = options_.metadata;
    version_.info.attributes = options_.attributes;
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
    FB_CO_TRY(CheckAnnouncedSize(options_.size_bytes, version_.info.size_bytes));
    FB_CO_TRY(CheckContent(crc32c, version_.info.crc32c, bucket_, version_.info.key));
    FB_CO_ASSIGN(operation_, CommitOperation(operation_, context, store_.operation_time_ms()));
    co_return PublishOnce();
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
    if (part_) FB_TRY(CheckPartSize(info.size_bytes + data.size()));
    const uint64_t size = info.size_bytes + data.size();
    if (options_.size_bytes && size > *options_.size_bytes) FB_TRY(CheckAnnouncedSize(options_.size_bytes, size));
    for (size_t at = 0; at < data.size(); at += kPieceBytes) {
      base::Buffer piece = data.Slice(at, std::min(kPieceBytes, data.size() - at));
      const uint32_t crc32c = base::Crc32c(piece.view());
      info.crc32c = base::Crc32cCombine(info.crc32c, crc32c, piece.size());
      const uint64_t length = piece.size();
      version_.pieces.push_back({info.size_bytes + at, length, std::move(piece), crc32c});
    }
    info.size_bytes = size;
    return {};
  }

  Result<ObjectInfo> PublishOnce() {
    operation_.content = Content{.size_bytes = version_.info.size_bytes, .crc32c = version_.info.crc32c};
    const std::string key = version_.info.key;
    VersionPointer replaced;  // freed without the lock
    const base::MutexLock lock(store_.mutex_);
    FB_ASSIGN(const auto earlier, store_.operations_.Begin(operation_));
    if (earlier) return ResultOfPut(*earlier, key, options_.metadata, options_.attributes);
    if (part_)
      return store_.operations_.End(
          operation_, store_.StorePart(operation_.tenant, *part_, options_.etag, std::move(version_), &replaced));
    if (overwrite_)
      return store_.operations_.End(
          operation_, store_.Replace(operation_.tenant, bucket_, *overwrite_, std::move(version_), &replaced));
    return store_.operations_.End(operation_,
                                  store_.Publish(operation_.tenant, bucket_, options_, std::move(version_), &replaced));
  }

  MemoryStore& store_;
  Operation operation_;
  const std::string bucket_;
  const PutOptions options_;
  const std::optional<PartTarget> part_;
  const std::optional<OverwriteOptions> overwrite_;
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
    for (auto piece = First(offset); data.size_bytes < length;) {
      const uint64_t at = offset + data.size_bytes;
      uint64_t skip = at - piece->offset;
      uint64_t take = std::min(piece->length - skip, length - data.size_bytes);
      if (piece->length > piece->buffer.size()) {
        skip = 0;
        take = std::min<uint64_t>(take, piece->buffer.size());
      }
      if (base::Crc32c(piece->buffer.view()) != piece->crc32c)
        co_return Status::DataLoss("object `{}/{}` is damaged at offset {}: its checksum differs", bucket_,
                                   info().key, piece->offset);
      base::Buffer part = piece->buffer.Slice(skip, take);
      const uint32_t crc32c = take == piece->buffer.size() ? piece->crc32c : base::Crc32c(part.view());
      data.crc32c = base::Crc32cCombine(data.crc32c, crc32c, take);
      data.size_bytes += take;
      data.buffers.push_back(std::move(part));
      if (at + take == piece->offset + piece->length) ++piece;
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
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = CreateBucketOperation(context, bucket, operation_time_ms());
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return earlier->refusal;
  co_return operations_.End(operation, InsertBucket(std::move(bucket)));
}

rt::Task<Status> MemoryStore::DeleteBucket(const Context& context, std::string name) {
  FB_CO_TRY(CheckDeadline(context, "delete bucket"));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = DeleteBucketOperation(context, name, operation_time_ms());
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return earlier->refusal;
  co_return operations_.End(operation, EraseBucket(context.tenant, name));
}

rt::Task<Status> MemoryStore::UpdateBucket(const Context& context, std::string name, BucketSettings settings) {
  FB_CO_TRY(CheckDeadline(context, "update bucket"));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = UpdateBucketOperation(context, name, settings, operation_time_ms());
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return earlier->refusal;
  co_return operations_.End(operation, ChangeBucket(context.tenant, name, settings));
}

Status MemoryStore::ChangeBucket(TenantId tenant, std::string_view name, const BucketSettings& settings) {
  FB_ASSIGN(Bucket * bucket, FindBucket(tenant, name));
  FB_ASSIGN(bucket->info, ChangedSettings(bucket->info, settings));
  return {};
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
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = PutOperation(context, bucket, key, options, operation_time_ms());
  FB_CO_ASSIGN(std::optional<OperationRecord> earlier, BeginPut(context.tenant, operation, bucket, key, options));
  auto writer = std::make_unique<Writer>(*this, operation, bucket, key, options);
  if (!earlier) co_return writer;
  co_return std::make_unique<ReplayedWriter>(std::move(writer), *std::move(earlier), operation,
                                             std::move(bucket), std::move(key), std::move(options));
}

rt::Task<Result<ObjectInfo>> MemoryStore::Compose(const Context& context, std::string bucket, std::string key,
                                                  std::vector<Source> sources, PutOptions options) {
  FB_CO_TRY(CheckDeadline(context, "compose"));
  FB_CO_TRY(CheckPut(key, options));
  FB_CO_TRY(CheckSources(sources));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = ComposeOperation(context, bucket, key, sources, options, operation_time_ms());
  VersionPointer replaced;  // freed without the lock
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return ResultOfPut(*earlier, key, options.metadata, options.attributes);
  const auto compose = [&]() FB_REQUIRES(mutex_) -> Result<ObjectInfo> {
    FB_TRY(CheckPublish(context.tenant, bucket, key, {.condition = options.condition}));
    FB_ASSIGN(Version version, Join(context.tenant, sources));
    FB_TRY(CheckAnnouncedSize(options.size_bytes, version.info.size_bytes));
    version.info.key = key;
    version.info.metadata = options.metadata;
    version.info.attributes = options.attributes;
    return Publish(context.tenant, bucket, options, std::move(version), &replaced);
  };
  co_return operations_.End(operation, compose());
}

Result<MemoryStore::Version> MemoryStore::Join(TenantId tenant, const std::vector<Source>& sources) {
  struct Part {
    VersionPointer version;
    ByteRange range;
  };
  std::vector<Part> parts;
  uint64_t size_bytes = 0;
  for (const Source& source : sources) {
    FB_ASSIGN(const Bucket* bucket, FindBucket(tenant, source.bucket));
    const auto found = bucket->objects.find(source.key);
    if (found == bucket->objects.end()) return NoSuchObject(source.bucket, source.key);
    const ObjectInfo& info = found->second->info;
    FB_TRY(CheckCondition(source.condition, info.etag, source.bucket, source.key));
    FB_ASSIGN(const ByteRange range, RangeOf(source, info));
    FB_TRY(CheckObjectSize(size_bytes, range.length));
    size_bytes += range.length;
    parts.push_back({found->second, range});
  }
  Version joined;
  for (const auto& [version, range] : parts) Append(*version, range.offset, range.length, &joined);
  return joined;
}

void MemoryStore::Append(const Version& from, uint64_t offset, uint64_t length, Version* to) {
  for (const Piece& piece : from.pieces) {
    const uint64_t begin = std::max(piece.offset, offset);
    const uint64_t end = std::min(piece.offset + piece.length, offset + length);
    if (begin >= end) continue;
    Piece part{.offset = 0, .length = end - begin, .buffer = piece.buffer, .crc32c = piece.crc32c};
    if (part.length <= piece.buffer.size()) {
      const uint64_t skip = piece.length > piece.buffer.size() ? 0 : begin - piece.offset;
      part.buffer = piece.buffer.Slice(skip, part.length);
      if (part.length != piece.buffer.size()) part.crc32c = base::Crc32c(part.buffer.view());
    }
    Append(std::move(part), to);
  }
}

void MemoryStore::Append(Piece piece, Version* to) {
  piece.offset = to->info.size_bytes;
  to->info.crc32c = base::Crc32cCombine(to->info.crc32c, piece.crc32c_of_all(), piece.length);
  to->info.size_bytes += piece.length;
  to->pieces.push_back(std::move(piece));
}

Status MemoryStore::AppendZeros(uint64_t length, Version* to) {
  if (length == 0) return {};
  if (zeros_.empty()) {
    FB_ASSIGN(zeros_, arena_.Allocate(kPieceBytes));
    std::ranges::fill(zeros_.writable(), std::byte{0});
  }
  base::Buffer zeros = length < zeros_.size() ? zeros_.Slice(0, length) : zeros_;
  const uint32_t crc32c = base::Crc32cZeros(zeros.size());
  Append({.offset = 0, .length = length, .buffer = std::move(zeros), .crc32c = crc32c}, to);
  return {};
}

rt::Task<Result<std::unique_ptr<ObjectWriter>>> MemoryStore::Overwrite(const Context& context, std::string bucket,
                                                                       std::string key, OverwriteOptions options) {
  FB_CO_TRY(CheckDeadline(context, "overwrite"));
  FB_CO_TRY(CheckOverwrite(key, options));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = OverwriteOperation(context, bucket, key, options, operation_time_ms());
  const auto begin = [&]() -> Result<std::optional<OperationRecord>> {
    const base::MutexLock lock(mutex_);
    FB_ASSIGN(std::optional<OperationRecord> earlier, operations_.Begin(operation));
    if (earlier) {
      FB_TRY(earlier->refusal);
      return earlier;
    }
    const Status there = FindToChange(context.tenant, bucket, key, options.condition).status();
    if (!there.ok()) return operations_.End(operation, there);
    return earlier;
  };
  FB_CO_ASSIGN(std::optional<OperationRecord> earlier, begin());
  const PutOptions put{.size_bytes = options.size_bytes};
  auto writer = std::make_unique<Writer>(*this, operation, bucket, key, put, std::nullopt, std::move(options));
  if (!earlier) co_return writer;
  co_return std::make_unique<ReplayedWriter>(std::move(writer), *std::move(earlier), operation, std::move(bucket),
                                             std::move(key), put);
}

Result<MemoryStore::VersionPointer> MemoryStore::FindToChange(TenantId tenant, std::string_view bucket,
                                                              std::string_view key, const Condition& condition) {
  FB_ASSIGN(const Bucket* in, FindBucket(tenant, bucket));
  if (in->info.versioning != Versioning::kOff) return KeepsVersions(bucket, "changed by a part");
  const auto found = in->objects.find(key);
  if (found == in->objects.end()) return NoSuchObject(bucket, key);
  FB_TRY(CheckCondition(condition, found->second->info.etag, bucket, key));
  return found->second;
}

Result<ObjectInfo> MemoryStore::Replace(TenantId tenant, std::string_view bucket, const OverwriteOptions& options,
                                        Version content, VersionPointer* replaced) {
  FB_ASSIGN(const VersionPointer old, FindToChange(tenant, bucket, content.info.key, options.condition));
  const uint64_t size = old->info.size_bytes;
  const uint64_t length = content.info.size_bytes;
  const uint64_t begin = length == 0 ? size : options.offset.value_or(size);
  FB_TRY(CheckObjectSize(begin, length));
  Version whole;
  whole.info.key = content.info.key;
  whole.info.metadata = old->info.metadata;
  whole.info.attributes = old->info.attributes;
  Append(*old, 0, std::min(begin, size), &whole);
  if (begin > size) FB_TRY(AppendZeros(begin - size, &whole));
  Append(content, 0, length, &whole);
  if (begin + length < size) Append(*old, begin + length, size - begin - length, &whole);
  return Publish(tenant, bucket, {.condition = options.condition}, std::move(whole), replaced);
}

rt::Task<Result<ObjectInfo>> MemoryStore::Truncate(const Context& context, std::string bucket, std::string key,
                                                   uint64_t size_bytes, Condition condition) {
  FB_CO_TRY(CheckDeadline(context, "truncate"));
  FB_CO_TRY(CheckTruncate(key, size_bytes, condition));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = TruncateOperation(context, bucket, key, size_bytes, condition, operation_time_ms());
  VersionPointer replaced;  // freed without the lock
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return ResultOfPut(*earlier, key, {});
  co_return operations_.End(operation, Resize(context.tenant, bucket, key, size_bytes, condition, &replaced));
}

Result<ObjectInfo> MemoryStore::Resize(TenantId tenant, std::string_view bucket, std::string_view key,
                                       uint64_t size_bytes, const Condition& condition, VersionPointer* replaced) {
  FB_ASSIGN(const VersionPointer old, FindToChange(tenant, bucket, key, condition));
  const uint64_t kept = std::min(size_bytes, old->info.size_bytes);
  Version whole;
  whole.info.key = old->info.key;
  whole.info.metadata = old->info.metadata;
  whole.info.attributes = old->info.attributes;
  Append(*old, 0, kept, &whole);
  FB_TRY(AppendZeros(size_bytes - kept, &whole));
  return Publish(tenant, bucket, {.condition = condition}, std::move(whole), replaced);
}

rt::Task<Status> MemoryStore::SetAttributes(const Context& context, std::string bucket, std::string key,
                                            uint64_t version, AttributeChange change) {
  FB_CO_TRY(CheckDeadline(context, "set attributes"));
  FB_CO_TRY(CheckAttributes(key, change));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = SetAttributesOperation(context, bucket, key, version, change, operation_time_ms());
  VersionPointer replaced;  // freed without the lock
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return earlier->refusal;
  co_return operations_.End(operation, ChangeAttributes(context.tenant, bucket, key, version, change, &replaced));
}

Status MemoryStore::ChangeAttributes(TenantId tenant, std::string_view bucket, const std::string& key, uint64_t version,
                                     const AttributeChange& change, VersionPointer* replaced) {
  FB_ASSIGN(Bucket * in, FindBucket(tenant, bucket));
  const auto current = in->objects.find(key);
  if (version == 0) {
    if (current == in->objects.end()) return NoSuchObject(bucket, key);
    version = current->second->info.version;
  }
  const VersionPointer found = FindVersion(*in, key, version);
  if (found == nullptr || found->delete_marker) return NoSuchVersion(bucket, key, version);
  FB_TRY(CheckCondition(change.condition, found->info.etag, bucket, key));
  auto changed = std::make_shared<Version>(*found);
  FB_ASSIGN(changed->info.attributes, ChangedAttributes(std::move(changed->info.attributes), change));
  const bool is_current = current != in->objects.end() && current->second == found;
  *replaced = std::exchange(is_current ? current->second : in->others[{key, ~version}], std::move(changed));
  return {};
}

rt::Task<Status> MemoryStore::Rename(const Context& context, std::string bucket, std::string from, std::string to,
                                     RenameOptions options) {
  FB_CO_TRY(CheckDeadline(context, "rename"));
  FB_CO_TRY(CheckRename(from, to, options));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = RenameOperation(context, bucket, from, to, options, operation_time_ms());
  VersionPointer replaced;  // freed without the lock
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return earlier->refusal;
  co_return operations_.End(operation, Move(context.tenant, bucket, from, to, options, &replaced));
}

Status MemoryStore::Move(TenantId tenant, std::string_view bucket, const std::string& from, const std::string& to,
                         const RenameOptions& options, VersionPointer* replaced) {
  FB_ASSIGN(Bucket * in, FindBucket(tenant, bucket));
  if (in->info.versioning != Versioning::kOff) return KeepsVersions(bucket, "renamed");
  const auto source = in->objects.find(from);
  if (source == in->objects.end()) return NoSuchObject(bucket, from);
  FB_TRY(CheckCondition(options.source, source->second->info.etag, bucket, from));
  const auto target = in->objects.find(to);
  std::optional<std::string_view> etag;
  if (target != in->objects.end()) etag = target->second->info.etag;
  FB_TRY(CheckCondition(options.target, etag, bucket, to));
  VersionPointer moved = Renamed(*in, source->second, to);
  *replaced = std::exchange(in->objects[to], std::move(moved));
  if (*replaced != nullptr) {
    UsageChange change;
    change.Remove((*replaced)->info.size_bytes);
    AddUsage(change, &tenants_[in->info.owner]);
  }
  in->objects.erase(from);
  return {};
}

rt::Task<Result<uint64_t>> MemoryStore::RenamePrefix(const Context& context, std::string bucket, std::string from,
                                                     std::string to) {
  FB_CO_TRY(CheckDeadline(context, "rename"));
  FB_CO_TRY(CheckRenamePrefix(from, to));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = RenamePrefixOperation(context, bucket, from, to, operation_time_ms());
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) FB_CO_TRY(earlier->refusal);
  if (earlier) co_return earlier->version;
  FB_CO_ASSIGN(const ObjectInfo renamed, operations_.End(operation, MovePrefix(context.tenant, bucket, from, to)));
  co_return renamed.version;
}

Result<ObjectInfo> MemoryStore::MovePrefix(TenantId tenant, const std::string& bucket, const std::string& from,
                                           const std::string& to) {
  FB_ASSIGN(Bucket * in, FindBucket(tenant, bucket));
  if (in->info.versioning != Versioning::kOff) return KeepsVersions(bucket, "renamed");
  std::vector<std::pair<std::string, std::string>> keys;  // old and new
  for (auto object = in->objects.lower_bound(from);
       object != in->objects.end() && object->first.starts_with(from); ++object) {
    if (keys.size() == base::kMaxRenamed) return TooManyToRename(bucket, from);
    FB_ASSIGN(std::string renamed, RenamedKey(object->first, from, to));
    keys.emplace_back(object->first, std::move(renamed));
  }
  if (keys.empty()) return NothingToRename(bucket, from);
  for (const auto& [key, renamed] : keys)
    if (!renamed.starts_with(from) && in->objects.contains(renamed)) return RenameInTheWay(bucket, key, renamed);
  std::map<std::string, VersionPointer> moved;
  for (const auto& [key, renamed] : keys) {
    const auto object = in->objects.find(key);
    moved.emplace(renamed, Renamed(*in, object->second, renamed));
    in->objects.erase(object);
  }
  for (auto& [key, version] : moved) in->objects.emplace(key, std::move(version));
  ObjectInfo renamed;
  renamed.version = keys.size();
  return renamed;
}

MemoryStore::VersionPointer MemoryStore::Renamed(Bucket& bucket, const VersionPointer& version, std::string key) {
  auto renamed = std::make_shared<Version>(*version);
  renamed->info.key = std::move(key);
  renamed->info.version = ++last_version_;
  if (auto pin = bucket.pins.extract(version->info.version); !pin.empty()) {
    pin.key() = renamed->info.version;
    bucket.pins.insert(std::move(pin));
  }
  return renamed;
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
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = DeleteOperation(context, bucket, key, condition, operation_time_ms());
  VersionPointer erased;  // freed without the lock
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return earlier->refusal;
  co_return operations_.End(operation, Erase(context.tenant, bucket, key, condition, &erased));
}

// ---- uploads ----

Result<MemoryStore::FoundUpload> MemoryStore::FindUpload(TenantId tenant, const UploadName& upload) {
  FB_ASSIGN(Bucket * bucket, FindBucket(tenant, upload.bucket));
  const auto found = bucket->uploads.find({upload.key, upload.id});
  if (found == bucket->uploads.end()) return NoSuchUpload(upload);
  return FoundUpload{bucket, &found->second};
}

rt::Task<Result<UploadInfo>> MemoryStore::CreateUpload(const Context& context, std::string bucket, std::string key,
                                                       UserMetadata metadata) {
  FB_CO_TRY(CheckDeadline(context, "begin upload"));
  FB_CO_TRY(CheckUpload(key, metadata));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = CreateUploadOperation(context, bucket, key, metadata, operation_time_ms());
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  const auto begin = [&]() FB_REQUIRES(mutex_) -> Result<ObjectInfo> {
    FB_ASSIGN(Bucket * in, FindBucket(context.tenant, bucket));
    ObjectInfo info;
    info.version = ++last_version_;
    info.modified = clock_.WallNow();
    in->uploads[{key, info.version}].info = {
        .id = info.version, .key = key, .created = info.modified, .metadata = metadata};
    return info;
  };
  FB_CO_ASSIGN(const ObjectInfo begun, earlier ? ResultOfPut(*earlier, key, {}) : operations_.End(operation, begin()));
  co_return UploadInfo{.id = begun.version, .key = key, .created = begun.modified, .metadata = std::move(metadata)};
}

rt::Task<Result<std::unique_ptr<ObjectWriter>>> MemoryStore::PutPart(const Context& context, UploadName upload,
                                                                     uint32_t number, PutOptions options) {
  FB_CO_TRY(CheckDeadline(context, "put part"));
  FB_CO_TRY(CheckPart(upload, number, options));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = PutPartOperation(context, upload, number, options, operation_time_ms());
  options.condition = {};
  options.metadata.clear();
  options.attributes.clear();
  const auto begin = [&]() -> Result<std::optional<OperationRecord>> {
    const base::MutexLock lock(mutex_);
    FB_ASSIGN(std::optional<OperationRecord> earlier, operations_.Begin(operation));
    if (earlier) {
      FB_TRY(earlier->refusal);
      return earlier;
    }
    const Status there = FindUpload(context.tenant, upload).status();
    if (!there.ok()) return operations_.End(operation, there);
    return earlier;
  };
  FB_CO_ASSIGN(std::optional<OperationRecord> earlier, begin());
  auto writer = std::make_unique<Writer>(*this, operation, upload.bucket, upload.key, options,
                                         PartTarget{.upload = upload, .number = number});
  if (!earlier) co_return writer;
  co_return std::make_unique<ReplayedWriter>(std::move(writer), *std::move(earlier), operation, upload.bucket,
                                             upload.key, std::move(options));
}

rt::Task<Result<ObjectInfo>> MemoryStore::CopyPart(const Context& context, UploadName upload, uint32_t number,
                                                   Source source) {
  FB_CO_TRY(CheckDeadline(context, "copy part"));
  FB_CO_TRY(CheckPart(upload, number, {}));
  FB_CO_TRY(CheckSources({source}));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = CopyPartOperation(context, upload, number, source, operation_time_ms());
  VersionPointer replaced;  // freed without the lock
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return ResultOfPut(*earlier, upload.key, {});
  const auto copy = [&]() FB_REQUIRES(mutex_) -> Result<ObjectInfo> {
    FB_TRY(FindUpload(context.tenant, upload).status());
    FB_ASSIGN(Version version, Join(context.tenant, {source}));
    FB_TRY(CheckPartSize(version.info.size_bytes));
    version.info.key = upload.key;
    return StorePart(context.tenant, {.upload = upload, .number = number}, {}, std::move(version), &replaced);
  };
  co_return operations_.End(operation, copy());
}

Result<ObjectInfo> MemoryStore::StorePart(TenantId tenant, const PartTarget& part, const std::string& etag,
                                          Version version, VersionPointer* replaced) {
  FB_ASSIGN(const FoundUpload found, FindUpload(tenant, part.upload));
  const auto stored = std::make_shared<Version>(std::move(version));
  ObjectInfo& info = stored->info;
  const auto before = found.upload->parts.find(part.number);
  UsageChange change{.bytes = static_cast<int64_t>(info.size_bytes)};
  if (before != found.upload->parts.end()) change.bytes -= static_cast<int64_t>(before->second->info.size_bytes);
  const TenantId owner = found.bucket->info.owner;
  FB_TRY(CheckQuota(owner, UsageOf(owner), change));
  AddUsage(change, &tenants_[owner]);
  info.etag = etag.empty() ? DefaultETag(++last_version_, info.crc32c) : etag;
  info.modified = clock_.WallNow();
  *replaced = std::exchange(found.upload->parts[part.number], stored);
  return info;
}

rt::Task<Result<PartPage>> MemoryStore::ListParts(const Context& context, UploadName upload, uint32_t start_after,
                                                  uint32_t limit) {
  FB_CO_TRY(CheckDeadline(context, "list parts"));
  FB_CO_TRY(CheckPageLimit(limit));
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const FoundUpload found, FindUpload(context.tenant, upload));
  PartPage page;
  for (auto part = found.upload->parts.upper_bound(start_after); part != found.upload->parts.end(); ++part) {
    page.truncated = page.parts.size() == limit;
    if (page.truncated) break;
    const ObjectInfo& info = part->second->info;
    page.parts.push_back({.number = part->first,
                          .size_bytes = info.size_bytes,
                          .etag = info.etag,
                          .crc32c = info.crc32c,
                          .modified = info.modified});
  }
  co_return page;
}

rt::Task<Result<UploadPage>> MemoryStore::ListUploads(const Context& context, std::string bucket,
                                                      UploadListOptions options) {
  FB_CO_TRY(CheckDeadline(context, "list uploads"));
  FB_CO_TRY(CheckUploadList(options));
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const Bucket* in, FindBucket(context.tenant, bucket));
  UploadPage page;
  for (const auto& [name, upload] : in->uploads) {
    if (!name.first.starts_with(options.prefix) || name <= std::pair(options.after_key, options.after_id)) continue;
    page.truncated = page.uploads.size() == options.limit;
    if (page.truncated) break;
    page.uploads.push_back(upload.info);
  }
  co_return page;
}

rt::Task<Result<ObjectInfo>> MemoryStore::CompleteUpload(const Context& context, UploadName upload,
                                                         std::vector<PartRef> parts, CompleteOptions options) {
  FB_CO_TRY(CheckDeadline(context, "complete upload"));
  FB_CO_TRY(CheckComplete(upload, parts, options));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = CompleteUploadOperation(context, upload, parts, options, operation_time_ms());
  Upload ended;  // freed without the lock, as what was replaced
  VersionPointer replaced;
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return ResultOfPut(*earlier, upload.key, {});
  co_return operations_.End(operation, Complete(context.tenant, upload, parts, options, &ended, &replaced));
}

Result<ObjectInfo> MemoryStore::Complete(TenantId tenant, const UploadName& name, const std::vector<PartRef>& parts,
                                         const CompleteOptions& options, Upload* ended, VersionPointer* replaced) {
  FB_ASSIGN(const FoundUpload found, FindUpload(tenant, name));
  Version whole;
  for (const PartRef& part : parts) {
    const auto sent = found.upload->parts.find(part.number);
    std::optional<std::string_view> etag;
    if (sent != found.upload->parts.end()) etag = sent->second->info.etag;
    FB_TRY(CheckNamedPart(part, etag));
    const ObjectInfo& info = sent->second->info;
    FB_TRY(CheckObjectSize(whole.info.size_bytes, info.size_bytes));
    for (const Piece& piece : sent->second->pieces)
      whole.pieces.push_back({whole.info.size_bytes + piece.offset, piece.length, piece.buffer, piece.crc32c});
    whole.info.crc32c = base::Crc32cCombine(whole.info.crc32c, info.crc32c, info.size_bytes);
    whole.info.size_bytes += info.size_bytes;
  }
  FB_TRY(CheckContent(options.crc32c, whole.info.crc32c, name.bucket, name.key));
  whole.info.key = name.key;
  whole.info.metadata = found.upload->info.metadata;
  UsageChange no_parts;
  for (const auto& [number, part] : found.upload->parts) no_parts.bytes -= static_cast<int64_t>(part->info.size_bytes);
  FB_ASSIGN(ObjectInfo info,
            Publish(tenant, name.bucket, {.condition = options.condition, .etag = options.etag}, std::move(whole),
                    replaced, no_parts));
  *ended = std::move(*found.upload);
  found.bucket->uploads.erase({name.key, name.id});
  return info;
}

rt::Task<Status> MemoryStore::AbortUpload(const Context& context, UploadName upload) {
  FB_CO_TRY(CheckDeadline(context, "abort upload"));
  FB_CO_TRY(CheckUpload(upload.key, {}));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = AbortUploadOperation(context, upload, operation_time_ms());
  Upload ended;  // freed without the lock
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return earlier->refusal;
  co_return operations_.End(operation, EndUpload(context.tenant, upload, &ended));
}

Status MemoryStore::EndUpload(TenantId tenant, const UploadName& name, Upload* ended) {
  FB_ASSIGN(const FoundUpload found, FindUpload(tenant, name));
  UsageChange change;
  for (const auto& [number, part] : found.upload->parts) change.bytes -= static_cast<int64_t>(part->info.size_bytes);
  AddUsage(change, &tenants_[found.bucket->info.owner]);
  *ended = std::move(*found.upload);
  found.bucket->uploads.erase({name.key, name.id});
  return {};
}

rt::Task<Status> MemoryStore::SetQuota(const Context& context, TenantId tenant, Quota quota) {
  FB_CO_TRY(CheckDeadline(context, "set quota"));
  FB_CO_TRY(CheckSetQuota(context, tenant, quota));
  const base::MutexLock lock(mutex_);
  if (quota == Quota() && !tenants_.contains(tenant)) co_return Status();
  if (!tenants_.contains(tenant) && tenants_.size() >= base::kMaxTenants) co_return TooManyTenants();
  tenants_[tenant].quota = quota;
  co_return Status();
}

rt::Task<Result<TenantUsage>> MemoryStore::GetTenantUsage(const Context& context, TenantId tenant) {
  FB_CO_TRY(CheckDeadline(context, "get tenant usage"));
  FB_CO_TRY(CheckMayAskUsage(context, tenant));
  const base::MutexLock lock(mutex_);
  co_return UsageOf(tenant);
}

TenantUsage MemoryStore::UsageOf(TenantId tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? TenantUsage() : found->second;
}

rt::Task<Result<StoreSpace>> MemoryStore::GetSpace(const Context& context) {
  FB_CO_TRY(CheckDeadline(context, "get space"));
  const StoreUsage now = usage();
  StoreSpace space{
      .devices = {{.name = "memory", .capacity_bytes = now.capacity_bytes, .used_bytes = now.used_bytes}},
      .metadata = {.path = "memory", .free_bytes = UINT64_MAX}};
  base::MutexLock lock(mutex_);
  for (const auto& [tenant, stored] : tenants_) {
    if (tenant == TenantId::kSystem) continue;
    space.objects += stored.objects;
    space.object_bytes += stored.bytes;
  }
  co_return space;
}

StoreUsage MemoryStore::usage() const {
  return {.capacity_bytes = arena_.size_bytes(), .used_bytes = arena_.size_bytes() - arena_.free_bytes()};
}

Result<MemoryStore::Bucket*> MemoryStore::FindBucket(TenantId tenant, std::string_view name) {
  FB_TRY(CheckBucketName(tenant, name));
  const auto found = buckets_.find(name);
  if (found == buckets_.end() || !Sees(tenant, found->second.info.owner)) return NoSuchBucket(name);
  Expire(found->second);
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
  if (buckets_.contains(bucket.name)) return Status::AlreadyExists("bucket `{}` exists already", bucket.name);
  if (CountsAsBucket(bucket.owner) && buckets_.size() - buckets_.count(kSystemBucket) >= base::kMaxBuckets)
    return Status::ResourceExhausted("there are {} buckets, which is the limit; delete one first",
                                     base::kMaxBuckets);
  AddUsage({.buckets = 1}, &tenants_[bucket.owner]);
  std::string name = bucket.name;
  buckets_.emplace(std::move(name), Bucket{std::move(bucket), {}});
  return {};
}

Status MemoryStore::EraseBucket(TenantId tenant, std::string_view name) {
  FB_ASSIGN(const Bucket* bucket, FindBucket(tenant, name));
  if (!bucket->objects.empty())
    return Status::FailedPrecondition("bucket `{}` holds {} objects; delete them first", name,
                                      bucket->objects.size());
  if (!bucket->others.empty())
    return Status::FailedPrecondition("bucket `{}` holds {} versions of deleted objects; delete them first", name,
                                      bucket->others.size());
  if (!bucket->uploads.empty())
    return Status::FailedPrecondition("bucket `{}` holds {} uploads; complete them or give them up first", name,
                                      bucket->uploads.size());
  AddUsage({.buckets = -1}, &tenants_[bucket->info.owner]);
  buckets_.erase(buckets_.find(name));
  return {};
}

Result<std::optional<OperationRecord>> MemoryStore::BeginPut(TenantId tenant, const Operation& operation,
                                                             std::string_view bucket, std::string_view key,
                                                             const PutOptions& options) {
  const base::MutexLock lock(mutex_);
  FB_ASSIGN(std::optional<OperationRecord> earlier, operations_.Begin(operation));
  if (!earlier) {
    const Status refused = CheckPublish(tenant, bucket, key, options);
    if (!refused.ok()) return operations_.End(operation, refused);
  } else {
    FB_TRY(earlier->refusal);
  }
  return earlier;
}

Status MemoryStore::CheckPublish(TenantId tenant, std::string_view bucket, std::string_view key,
                                 const PutOptions& options) {
  FB_ASSIGN(const Bucket* in, FindBucket(tenant, bucket));
  const auto found = in->objects.find(key);
  std::optional<std::string_view> etag;
  if (found != in->objects.end()) etag = found->second->info.etag;
  FB_TRY(CheckCondition(options.condition, etag, bucket, key));
  if (!options.size_bytes) return {};
  UsageChange change = UsageChange::Put(*options.size_bytes);
  if (const VersionPointer replaced = ReplacedBy(*in, std::string(key))) change.Remove(replaced->info.size_bytes);
  if (IsCache(in->info)) return CheckQuota(in->info.owner, {.quota = UsageOf(in->info.owner).quota}, change);
  return CheckQuota(in->info.owner, UsageOf(in->info.owner), change);
}

Result<ObjectInfo> MemoryStore::Publish(TenantId tenant, std::string_view bucket, const PutOptions& options, Version version,
                                        VersionPointer* replaced, const UsageChange& also) {
  const auto published = std::make_shared<Version>(std::move(version));
  ObjectInfo& info = published->info;
  FB_ASSIGN(Bucket * in, FindBucket(tenant, bucket));
  const auto found = in->objects.find(info.key);
  UsageChange change = UsageChange::Put(info.size_bytes);
  change.bytes += also.bytes;
  std::optional<std::string_view> etag;
  if (found != in->objects.end()) etag = found->second->info.etag;
  *replaced = ReplacedBy(*in, info.key);
  if (*replaced != nullptr) change.Remove((*replaced)->info.size_bytes);
  FB_TRY(CheckCondition(options.condition, etag, bucket, info.key));
  if (IsCache(in->info)) MakeRoom(*in, info.key, change);
  FB_TRY(CheckQuota(in->info.owner, UsageOf(in->info.owner), change));
  AddUsage(change, &tenants_[in->info.owner]);
  info.version = ++last_version_;
  info.etag = options.etag.empty() ? DefaultETag(info.version, info.crc32c) : options.etag;
  info.modified = TimeOf(*in);
  MakeCurrent(*in, published, *replaced);
  return info;
}

MemoryStore::VersionPointer MemoryStore::ReplacedBy(const Bucket& bucket, const std::string& key) {
  if (bucket.info.versioning == Versioning::kOn) return nullptr;
  if (const auto current = bucket.objects.find(key); current != bucket.objects.end() && current->second->null_version)
    return current->second;
  for (auto other = bucket.others.lower_bound({key, 0}); other != bucket.others.end() && other->first.first == key; ++other)
    if (other->second->null_version) return other->second;
  return nullptr;
}

void MemoryStore::MakeCurrent(Bucket& bucket, const std::shared_ptr<Version>& version, const VersionPointer& replaced) {
  const std::string& key = version->info.key;
  version->null_version = bucket.info.versioning != Versioning::kOn;
  if (replaced != nullptr) TakeOut(bucket, *replaced);
  if (const auto current = bucket.objects.find(key); current != bucket.objects.end()) {
    bucket.others.emplace(std::pair(key, ~current->second->info.version), current->second);
    bucket.objects.erase(current);
  }
  if (version->delete_marker) {
    bucket.others.emplace(std::pair(key, ~version->info.version), version);
  } else {
    bucket.objects.emplace(key, version);
  }
}

void MemoryStore::TakeOut(Bucket& bucket, const Version& version) {
  bucket.pins.erase(version.info.version);
  const std::string key = version.info.key;
  const auto current = bucket.objects.find(key);
  const bool was_current = current != bucket.objects.end() && current->second->info.version == version.info.version;
  if (was_current) {
    bucket.objects.erase(current);
  } else {
    bucket.others.erase({key, ~version.info.version});
  }
  if (!was_current && !version.delete_marker) return;
  const auto newest = bucket.others.lower_bound({key, 0});
  if (bucket.objects.contains(key) || newest == bucket.others.end() || newest->first.first != key) return;
  if (newest->second->delete_marker) return;
  bucket.objects.emplace(key, newest->second);
  bucket.others.erase(newest);
}

MemoryStore::VersionPointer MemoryStore::FindVersion(const Bucket& bucket, const std::string& key, uint64_t version) {
  if (const auto current = bucket.objects.find(key);
      current != bucket.objects.end() && current->second->info.version == version)
    return current->second;
  const auto other = bucket.others.find({key, ~version});
  return other == bucket.others.end() ? nullptr : other->second;
}

VersionInfo MemoryStore::Describe(const Bucket& bucket, const Version& version) {
  const std::string& key = version.info.key;
  const auto current = bucket.objects.find(key);
  const auto newest = bucket.others.lower_bound({key, 0});
  const uint64_t latest = current != bucket.objects.end() ? current->second->info.version : ~newest->first.second;
  return {.object = version.info,
          .latest = version.info.version == latest,
          .delete_marker = version.delete_marker,
          .null_version = version.null_version};
}

rt::Task<Result<std::unique_ptr<ObjectReader>>> MemoryStore::OpenVersion(const Context& context, std::string bucket,
                                                                         std::string key, uint64_t version) {
  FB_CO_TRY(CheckDeadline(context, "open"));
  FB_CO_TRY(base::CheckKey(key));
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const Bucket* in, FindBucket(context.tenant, bucket));
  VersionPointer found = FindVersion(*in, key, version);
  if (found == nullptr || found->delete_marker) co_return NoSuchVersion(bucket, key, version);
  co_return std::make_unique<Reader>(std::move(bucket), std::move(found));
}

rt::Task<Result<VersionInfo>> MemoryStore::StatVersion(const Context& context, std::string bucket, std::string key,
                                                       uint64_t version) {
  FB_CO_TRY(CheckDeadline(context, "stat"));
  FB_CO_TRY(base::CheckKey(key));
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const Bucket* in, FindBucket(context.tenant, bucket));
  const VersionPointer found = FindVersion(*in, key, version);
  if (found == nullptr) co_return NoSuchVersion(bucket, key, version);
  co_return Describe(*in, *found);
}

rt::Task<Result<VersionPage>> MemoryStore::ListVersions(const Context& context, std::string bucket,
                                                        VersionListOptions options) {
  FB_CO_TRY(CheckDeadline(context, "list versions"));
  FB_CO_TRY(CheckVersionList(options));
  co_return ListVersionsNow(context.tenant, bucket, options);
}

Result<VersionPage> MemoryStore::ListVersionsNow(TenantId tenant, std::string_view bucket,
                                                 const VersionListOptions& options) {
  const base::MutexLock lock(mutex_);
  FB_ASSIGN(const Bucket* in, FindBucket(tenant, bucket));
  std::map<std::pair<std::string, uint64_t>, VersionPointer> all = in->others;
  for (const auto& [key, version] : in->objects) all.emplace(std::pair(key, ~version->info.version), version);
  VersionPage page;
  const std::pair after(options.after_key, options.after_version == 0 ? UINT64_MAX : ~options.after_version);
  for (const auto& [name, version] : all) {
    if (!name.first.starts_with(options.prefix) || name <= after) continue;
    page.truncated = page.versions.size() == options.limit;
    if (page.truncated) break;
    page.versions.push_back(Describe(*in, *version));
  }
  return page;
}

rt::Task<Status> MemoryStore::DeleteVersion(const Context& context, std::string bucket, std::string key,
                                            uint64_t version) {
  FB_CO_TRY(CheckDeadline(context, "delete version"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = DeleteVersionOperation(context, bucket, key, version, operation_time_ms());
  VersionPointer erased;  // freed without the lock
  const base::MutexLock lock(mutex_);
  FB_CO_ASSIGN(const auto earlier, operations_.Begin(operation));
  if (earlier) co_return earlier->refusal;
  co_return operations_.End(operation, EraseVersion(context.tenant, bucket, key, version, &erased));
}

Status MemoryStore::EraseVersion(TenantId tenant, std::string_view bucket, const std::string& key, uint64_t version,
                                 VersionPointer* erased) {
  FB_ASSIGN(Bucket * in, FindBucket(tenant, bucket));
  *erased = FindVersion(*in, key, version);
  if (*erased == nullptr) return NoSuchVersion(bucket, key, version);
  UsageChange change;
  change.Remove((*erased)->info.size_bytes);
  AddUsage(change, &tenants_[in->info.owner]);
  TakeOut(*in, **erased);
  return {};
}

Status MemoryStore::Erase(TenantId tenant, std::string_view bucket, std::string_view key, const Condition& condition,
                          VersionPointer* erased) {
  FB_ASSIGN(Bucket * in, FindBucket(tenant, bucket));
  const auto found = in->objects.find(key);
  if (found == in->objects.end()) return NoSuchObject(bucket, key);
  FB_TRY(CheckCondition(condition, found->second->info.etag, bucket, key));
  UsageChange change;
  *erased = ReplacedBy(*in, std::string(key));
  if (*erased != nullptr) change.Remove((*erased)->info.size_bytes);
  if (in->info.versioning == Versioning::kOff) {
    TakeOut(*in, **erased);
  } else {
    change.objects += 1;
    FB_TRY(CheckQuota(in->info.owner, UsageOf(in->info.owner), change));
    const auto marker = std::make_shared<Version>();
    marker->delete_marker = true;
    marker->info.key = key;
    marker->info.version = ++last_version_;
    marker->info.modified = clock_.WallNow();
    MakeCurrent(*in, marker, *erased);
  }
  AddUsage(change, &tenants_[in->info.owner]);
  return {};
}

Result<ListPage> MemoryStore::ListNow(TenantId tenant, std::string_view bucket, const ListOptions& options) {
  const base::MutexLock lock(mutex_);
  FB_ASSIGN(const Bucket* in, FindBucket(tenant, bucket));
  Cursor cursor(*in);
  return ListKeys(cursor, options, [&](std::string_view) -> Result<ObjectInfo> { return cursor.info(); });
}

}  // namespace forebay::store
