// SPDX-License-Identifier: Apache-2.0
// Uploads of a tree: a directory of the sidecar for each, with a file for each part.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "backend/tree.h"
#include "base/checksum.h"
#include "store/checks.h"

namespace forebay::backend {
namespace {

constexpr const char* kInfo = "upload";
constexpr char kPart = 'p';

std::string PartName(uint32_t number) { return fmt::format("{}{:05}", kPart, number); }

/// The number of a part's file; 0 for any other name.
uint32_t PartNumber(std::string_view name) {
  uint32_t number = 0;
  if (!name.starts_with(kPart)) return 0;
  std::from_chars(name.data() + 1, name.data() + name.size(), number);
  return PartName(number) == name && number <= base::kMaxParts ? number : 0;
}

}  // namespace

std::string Tree::UploadPath(std::string_view bucket, uint64_t id) { return fmt::format("{}/{:016x}", bucket, id); }

Status Tree::LoadUploads(Bucket& bucket, TenantId owner, std::set<uint64_t>* gone) {
  auto uploads = OpenBeneath(sidecar_->uploads(), bucket.name, O_RDONLY | O_DIRECTORY);
  if (!uploads) return LeadsNowhere(uploads.error()) ? Status() : FileError(uploads.error(), "read the uploads");
  FB_ASSIGN(const std::vector<DirectoryEntry> entries, ReadDirectory(uploads->get(), "read the uploads"));
  for (const DirectoryEntry& entry : entries) {
    uint64_t id = 0;
    std::from_chars(entry.name.data(), entry.name.data() + entry.name.size(), id, 16);
    FB_ASSIGN(const auto bytes, ReadSmallFile(uploads->get(), entry.name + "/" + kInfo, kMaxRecordBytes));
    const auto record = bytes ? DecodeUpload(*bytes) : Result<UploadRecord>(Status::NotFound("it was being begun or ended"));
    if (!record.ok() || UploadPath(bucket.name, id) != bucket.name + "/" + entry.name) {
      if (bytes) log_.Warning("upload {} of bucket `{}` is removed: {}", entry.name, bucket.name, record.status().message());
      FB_TRY(RemoveTree(uploads->get(), entry.name));
      continue;
    }
    const store::UploadName name{.bucket = bucket.name, .key = record->key, .id = id};
    FB_ASSIGN(const std::vector<uint32_t> numbers, PartNumbers(name));
    for (const uint32_t number : numbers) {
      FB_ASSIGN(const std::optional<PartFile> part, FindPart(name, number));
      if (!part) continue;
      gone->erase(part->state.inode);
      accounts_.Add(owner, {.bytes = static_cast<int64_t>(part->state.size_bytes)});
    }
    const base::MutexLock lock(bucket.mutex);
    bucket.uploads[{record->key, id}] = {.id = id,
                                         .key = record->key,
                                         .created = base::WallTime(base::Duration(record->created_ns)),
                                         .metadata = record->metadata};
  }
  return {};
}

Result<store::UploadInfo> Tree::FindUpload(const BucketInUse& in, const store::UploadName& upload) {
  const base::MutexLock lock(in.bucket->mutex);
  const auto found = in.bucket->uploads.find({upload.key, upload.id});
  if (found == in.bucket->uploads.end()) return store::NoSuchUpload(upload);
  return found->second;
}

Result<std::vector<uint32_t>> Tree::PartNumbers(const store::UploadName& upload) {
  auto directory = OpenBeneath(sidecar_->uploads(), UploadPath(upload.bucket, upload.id), O_RDONLY | O_DIRECTORY);
  if (!directory) return FileError(directory.error(), "open an upload");
  FB_ASSIGN(const std::vector<DirectoryEntry> entries, ReadDirectory(directory->get(), "read an upload"));
  std::vector<uint32_t> numbers;
  for (const DirectoryEntry& entry : entries)
    if (const uint32_t number = PartNumber(entry.name); number != 0) numbers.push_back(number);
  std::ranges::sort(numbers);
  return numbers;
}

Result<std::optional<Tree::PartFile>> Tree::FindPart(const store::UploadName& upload, uint32_t number) {
  PartFile part{.path = UploadPath(upload.bucket, upload.id) + "/" + PartName(number)};
  const std::string what = fmt::format("open part {} of `{}`", number, upload.key);
  auto file = OpenBeneath(sidecar_->uploads(), part.path, O_RDONLY);
  if (!file && LeadsNowhere(file.error())) return std::optional<PartFile>();
  if (!file) return FileError(file.error(), what);
  part.file = *std::move(file);
  FB_ASSIGN(part.state, StateOf(part.file.get(), what));
  FB_ASSIGN(std::optional<ObjectRecord> record, sidecar_->LoadRecord(part.file.get(), part.state));
  if (!record || record->size_bytes != part.state.size_bytes)
    return Status::DataLoss("part {} of `{}` is not what was sent: its record is missing or damaged; send it again", number,
                            upload.key);
  part.record = *std::move(record);
  return std::optional(std::move(part));
}

Result<uint64_t> Tree::PartBytes(const store::UploadName& upload) {
  uint64_t bytes = 0;
  FB_ASSIGN(const std::vector<uint32_t> numbers, PartNumbers(upload));
  for (const uint32_t number : numbers) {
    FB_ASSIGN(const std::optional<PartFile> part, FindPart(upload, number));
    if (part) bytes += part->state.size_bytes;
  }
  return bytes;
}

Result<store::ObjectInfo> Tree::CreateUpload(const store::Operation& operation, const std::string& bucket, const std::string& key,
                                             const store::UserMetadata& metadata) {
  const KeyLock lock = LockKey(bucket, key);
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return store::ResultOfPut(*earlier, key, {});
  const auto begin = [&]() -> Result<store::ObjectInfo> {
    FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket));
    store::ObjectInfo info;
    FB_ASSIGN(info.version, journal_->NextVersion(0));
    info.modified = clock_.WallNow();
    FB_ASSIGN(std::optional<Descriptor> parent, MakeDirectories(sidecar_->uploads(), bucket, 0700));
    if (!parent) return Status::Unavailable("{}/{}/uploads/{} is no directory: move it away", root_, Sidecar::kName, bucket);
    FB_ASSIGN(std::optional<Descriptor> directory,
              MakeDirectories(parent->get(), fmt::format("{:016x}", info.version), 0700));
    if (!directory) return Status::Unavailable("the directory of an upload is in use");
    JournalEntry intent;  // an upload is there when its record is
    intent.bucket = bucket;
    FB_ASSIGN(const uint64_t number, journal_->Intend(operation, std::move(intent), &info));
    Status written = WriteSmallFile(directory->get(), kInfo,
                                    Encode(UploadRecord{.key = key,
                                                        .created_ns = info.modified.time_since_epoch().count(),
                                                        .metadata = metadata}));
    if (!written.ok()) {
      journal_->Void(number, operation);
      return written;
    }
    FB_TRY(SyncPlaced(parent->get(), key));
    journal_->Done(number);
    const base::MutexLock guard(in.bucket->mutex);
    in.bucket->uploads[{key, info.version}] = {.id = info.version, .key = key, .created = info.modified, .metadata = metadata};
    return info;
  };
  return Settle(operation, begin());
}

Result<std::optional<store::OperationRecord>> Tree::BeginPart(const store::Operation& operation, const store::UploadName& upload) {
  const KeyLock lock = LockKey(upload.bucket, upload.key);
  FB_ASSIGN(std::optional<store::OperationRecord> earlier, journal_->Begin(operation));
  if (earlier) {
    FB_TRY(earlier->refusal);
    return earlier;
  }
  const auto look = [&]() -> Status {
    FB_ASSIGN(const BucketInUse in, Use(operation.tenant, upload.bucket));
    return FindUpload(in, upload).status();
  };
  FB_TRY(Settle(operation, look()));
  return earlier;
}

Result<store::ObjectInfo> Tree::StorePart(const store::Operation& operation, const store::UploadName& upload, uint32_t number,
                                          const std::string& etag, NewContent content) {
  const KeyLock lock = LockKey(upload.bucket, upload.key);
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return store::ResultOfPut(*earlier, upload.key, {});
  return Settle(operation, PlacePart(operation, upload, number, etag, std::move(content)));
}

Result<store::ObjectInfo> Tree::PlacePart(const store::Operation& operation, const store::UploadName& upload, uint32_t number,
                                          const std::string& etag, NewContent content) {
  FB_ASSIGN(const BucketInUse in, Use(operation.tenant, upload.bucket));
  FB_TRY(FindUpload(in, upload).status());
  const std::string what = fmt::format("store part {} of `{}`", number, upload.key);
  FB_ASSIGN(const std::optional<PartFile> before, FindPart(upload, number));
  store::UsageChange change{.bytes = static_cast<int64_t>(content.size_bytes)};
  if (before) change.bytes -= static_cast<int64_t>(before->state.size_bytes);
  FB_TRY(accounts_.Check(in.info.owner, change));
  FB_ASSIGN(const uint64_t version, journal_->NextVersion(0));
  FB_ASSIGN(const FileState state, StateOf(content.file.fd(), what));
  store::ObjectInfo info{.key = upload.key,
                         .size_bytes = content.size_bytes,
                         .etag = etag.empty() ? store::DefaultETag(version, content.crc32c) : etag,
                         .crc32c = content.crc32c,
                         .modified = clock_.WallNow()};
  FB_TRY(sidecar_->SaveRecord(content.file.fd(), state,
                              {.revision = version,
                               .version = version,
                               .size_bytes = info.size_bytes,
                               .file_modified_ns = state.modified_ns,
                               .modified_ns = info.modified.time_since_epoch().count(),
                               .crc32c = info.crc32c,
                               .etag = info.etag}));
  FB_TRY(SyncFile(content.file.fd(), what));
  auto directory = OpenBeneath(sidecar_->uploads(), UploadPath(upload.bucket, upload.id), O_RDONLY | O_DIRECTORY);
  if (!directory) return FileError(directory.error(), what);
  FB_TRY(accounts_.Charge(in.info.owner, change));
  // A part that is sent again before its result is known only takes its own place once more: the result is kept behind it.
  if (const int error = content.file.MoveTo(directory->get(), PartName(number), false); error != 0) {
    accounts_.TakeBack(in.info.owner, change);
    return FileError(error, what);
  }
  FB_TRY(SyncPlaced(directory->get(), upload.key));
  if (before) sidecar_->Forget(before->state.inode);
  JournalEntry intent;
  intent.bucket = upload.bucket;
  FB_ASSIGN(const uint64_t kept, journal_->Intend(operation, std::move(intent), &info));
  journal_->Done(kept);
  return info;
}

Result<store::ObjectInfo> Tree::CopyPart(const store::Operation& operation, const store::UploadName& upload, uint32_t number,
                                         const store::Source& source) {
  const KeyLock lock = LockKey(upload.bucket, upload.key);
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return store::ResultOfPut(*earlier, upload.key, {});
  const auto copy = [&]() -> Result<store::ObjectInfo> {
    {
      FB_ASSIGN(const BucketInUse in, Use(operation.tenant, upload.bucket));
      FB_TRY(FindUpload(in, upload).status());
    }
    FB_ASSIGN(NewContent content, Join(operation.tenant, {source}));
    FB_TRY(store::CheckPartSize(content.size_bytes));
    return PlacePart(operation, upload, number, {}, std::move(content));
  };
  return Settle(operation, copy());
}

Result<store::PartPage> Tree::ListParts(TenantId tenant, const store::UploadName& upload, uint32_t start_after, uint32_t limit) {
  const KeyLock lock = LockKey(upload.bucket, upload.key);
  FB_ASSIGN(const BucketInUse in, Use(tenant, upload.bucket));
  FB_TRY(FindUpload(in, upload).status());
  FB_ASSIGN(const std::vector<uint32_t> numbers, PartNumbers(upload));
  store::PartPage page;
  for (auto number = std::ranges::upper_bound(numbers, start_after); number != numbers.end(); ++number) {
    page.truncated = page.parts.size() == limit;
    if (page.truncated) break;
    FB_ASSIGN(const std::optional<PartFile> part, FindPart(upload, *number));
    if (!part) continue;
    page.parts.push_back({.number = *number,
                          .size_bytes = part->record.size_bytes,
                          .etag = part->record.etag,
                          .crc32c = part->record.crc32c,
                          .modified = base::WallTime(base::Duration(part->record.modified_ns))});
  }
  return page;
}

Result<store::UploadPage> Tree::ListUploads(TenantId tenant, const std::string& bucket, const store::UploadListOptions& options) {
  FB_ASSIGN(const BucketInUse in, Use(tenant, bucket));
  const base::MutexLock lock(in.bucket->mutex);
  store::UploadPage page;
  const std::pair after(options.after_key, options.after_id);
  for (auto upload = in.bucket->uploads.upper_bound(after); upload != in.bucket->uploads.end(); ++upload) {
    if (!upload->first.first.starts_with(options.prefix)) continue;
    page.truncated = page.uploads.size() == options.limit;
    if (page.truncated) break;
    page.uploads.push_back(upload->second);
  }
  return page;
}

Result<store::ObjectInfo> Tree::CompleteUpload(const store::Operation& operation, const store::UploadName& upload,
                                               const std::vector<store::PartRef>& parts, const store::CompleteOptions& options) {
  const KeyLock lock = LockKey(upload.bucket, upload.key);
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return store::ResultOfPut(*earlier, upload.key, {});
  return Settle(operation, Complete(operation, upload, parts, options));
}

Result<store::ObjectInfo> Tree::Complete(const store::Operation& operation, const store::UploadName& upload,
                                         const std::vector<store::PartRef>& parts, const store::CompleteOptions& options) {
  FB_ASSIGN(const BucketInUse in, Use(operation.tenant, upload.bucket));
  FB_ASSIGN(const store::UploadInfo begun, FindUpload(in, upload));
  FB_ASSIGN(Temporary file, NewTemporary());
  NewContent content{.file = std::move(file)};
  uint64_t size_bytes = 0;
  for (const store::PartRef& named : parts) {  // before anything is copied
    FB_ASSIGN(const std::optional<PartFile> part, FindPart(upload, named.number));
    FB_TRY(store::CheckNamedPart(named, part ? std::optional<std::string_view>(part->record.etag) : std::nullopt));
    FB_TRY(store::CheckObjectSize(size_bytes, part->state.size_bytes));
    size_bytes += part->state.size_bytes;
    content.crc32c = base::Crc32cCombine(content.crc32c, part->record.crc32c, part->state.size_bytes);
  }
  FB_TRY(store::CheckContent(options.crc32c, content.crc32c, upload.bucket, upload.key));
  FB_TRY(CheckPublish(in, upload.key, {.condition = options.condition}));
  for (const store::PartRef& named : parts) {
    FB_ASSIGN(const std::optional<PartFile> part, FindPart(upload, named.number));
    if (!part) return Status::Aborted("part {} of `{}` went away: try again", named.number, upload.key);
    FB_TRY(CopyRun(part->file.get(), 0, part->state.size_bytes, content.file.fd(), content.size_bytes,
                   fmt::format("copy part {} of `{}`", named.number, upload.key)));
    content.size_bytes += part->state.size_bytes;
  }
  FB_ASSIGN(const uint64_t part_bytes, PartBytes(upload));
  FB_ASSIGN(store::ObjectInfo info,
            Publish(operation, in, upload.key,
                    {.condition = options.condition, .metadata = begun.metadata, .etag = options.etag}, std::move(content),
                    {.bytes = -static_cast<int64_t>(part_bytes)}));
  RemoveUpload(in, upload);
  return info;
}

Status Tree::AbortUpload(const store::Operation& operation, const store::UploadName& upload) {
  const KeyLock lock = LockKey(upload.bucket, upload.key);
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return earlier->refusal;
  return Settle(operation, EndUpload(operation, upload));
}

Status Tree::EndUpload(const store::Operation& operation, const store::UploadName& upload) {
  FB_ASSIGN(const BucketInUse in, Use(operation.tenant, upload.bucket));
  FB_TRY(FindUpload(in, upload).status());
  FB_ASSIGN(const uint64_t part_bytes, PartBytes(upload));
  JournalEntry intent;
  intent.bucket = upload.bucket;
  intent.inode = upload.id;
  FB_ASSIGN(const uint64_t number, journal_->Intend(operation, std::move(intent), nullptr));
  RemoveUpload(in, upload);
  journal_->Done(number);
  accounts_.Add(in.info.owner, {.bytes = -static_cast<int64_t>(part_bytes)});
  return {};
}

bool Tree::HasUpload(const std::string& bucket, uint64_t id) const {
  return OpenBeneath(sidecar_->uploads(), UploadPath(bucket, id) + "/" + kInfo, O_RDONLY).has_value();
}

/// Its record first: an upload without one is swept at the next start.
void Tree::RemoveUpload(const BucketInUse& in, const store::UploadName& upload) {
  auto parent = OpenBeneath(sidecar_->uploads(), upload.bucket, O_RDONLY | O_DIRECTORY);
  const std::string name = fmt::format("{:016x}", upload.id);
  if (parent) {
    ::unlinkat(parent->get(), (name + "/" + kInfo).c_str(), 0);
    const Status removed = RemoveTree(parent->get(), name);
    if (!removed.ok()) log_.Warning("parts of an upload stay until the next start: {}", removed.message());
  }
  const base::MutexLock lock(in.bucket->mutex);
  in.bucket->uploads.erase({upload.key, upload.id});
}

}  // namespace forebay::backend
