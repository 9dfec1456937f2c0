// SPDX-License-Identifier: Apache-2.0
// Objects of a tree that are made of others, or changed by a part: always a new file, put in place at once.
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "backend/names.h"
#include "backend/tree.h"
#include "backend/tree_cursor.h"
#include "base/checksum.h"
#include "store/checks.h"
#include "store/conditions.h"

namespace forebay::backend {
namespace {

constexpr int kAttempts = 3;

Status OnlyDirectories(std::string_view bucket, std::string_view from, std::string_view to) {
  return Status::Unimplemented(
      "a directory backend renames a prefix only when that is the rename of one directory, which is one step: `{0}/{1}` to "
      "`{0}/{2}` is not; rename the objects one by one, or prefixes that end in `/` and name a directory that exists and one "
      "that does not",
      bucket, from, to);
}

}  // namespace

Result<std::optional<store::OperationRecord>> Tree::BeginOverwrite(const store::Operation& operation, const std::string& bucket,
                                                                   const std::string& key, const store::Condition& condition) {
  const KeyLock lock = LockKey(bucket, key);
  FB_ASSIGN(std::optional<store::OperationRecord> earlier, journal_->Begin(operation));
  if (earlier) {
    FB_TRY(earlier->refusal);
    return earlier;
  }
  const auto look = [&]() -> Status {
    FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket));
    store::ObjectInfo info;
    return FindToChange(in, key, condition, Checksum::kAsKnown, &info).status();
  };
  FB_TRY(Settle(operation, look()));
  return earlier;
}

namespace {

/// A file in the place of another is as open to others as that one: its mode, and where this user may, its owner.
Status LikeBefore(const FoundFile& old, const Temporary& file, const std::string& what) {
  struct stat info{};
  if (::fstat(old.file.get(), &info) != 0 || ::fchmod(file.fd(), info.st_mode & 0777) != 0) return FileError(errno, what);
  (void)!::fchown(file.fd(), info.st_uid, info.st_gid);
  return {};
}

}  // namespace

/// What the object is with `content` in place of its bytes from `begin` on.
Result<NewContent> Tree::Replaced(const FoundFile& old, const store::ObjectInfo& info, uint64_t begin, const NewContent& content) {
  const std::string what = "write the new version of `" + info.key + "`";
  const int from = old.file.get();
  const uint64_t size = info.size_bytes;
  const uint64_t end = begin + content.size_bytes;
  FB_ASSIGN(Temporary file, NewTemporary());
  FB_TRY(LikeBefore(old, file, what));
  FB_TRY(CopyRun(from, 0, std::min(begin, size), file.fd(), 0, what));
  FB_TRY(CopyRun(content.file.fd(), 0, content.size_bytes, file.fd(), begin, what));
  if (end < size) FB_TRY(CopyRun(from, end, size - end, file.fd(), end, what));
  uint32_t crc32c = info.crc32c;
  if (begin >= size) {
    crc32c = base::Crc32cCombine(crc32c, base::Crc32cZeros(begin - size), begin - size);
    crc32c = base::Crc32cCombine(crc32c, content.crc32c, content.size_bytes);
  } else {
    FB_ASSIGN(const uint32_t before, ChecksumRun(from, begin, std::min(end, size) - begin, what));
    if (end < size) {
      crc32c = base::Crc32cReplace(crc32c, before, content.crc32c, size - end);
    } else {
      crc32c = base::Crc32cWithout(crc32c, before, size - begin);
      crc32c = base::Crc32cCombine(crc32c, content.crc32c, content.size_bytes);
    }
  }
  FB_TRY(CheckUnchanged(old, info.key));
  return NewContent{.file = std::move(file), .size_bytes = std::max(size, end), .crc32c = crc32c};
}

Result<store::ObjectInfo> Tree::Overwrite(const store::Operation& operation, const std::string& bucket, const std::string& key,
                                          const store::OverwriteOptions& options, NewContent content) {
  const KeyLock lock = LockKey(bucket, key);
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return store::ResultOfPut(*earlier, key, {});
  const auto overwrite = [&]() -> Result<store::ObjectInfo> {
    FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket));
    store::ObjectInfo info;
    FB_ASSIGN(const FoundFile old, FindToChange(in, key, options.condition, Checksum::kNeeded, &info));
    const uint64_t begin = content.size_bytes == 0 ? info.size_bytes : options.offset.value_or(info.size_bytes);
    FB_TRY(store::CheckObjectSize(begin, content.size_bytes));
    FB_ASSIGN(NewContent whole, Replaced(old, info, begin, content));
    return Publish(operation, in, key,
                   {.condition = options.condition, .metadata = info.metadata, .attributes = info.attributes}, std::move(whole));
  };
  return Settle(operation, overwrite());
}

Result<NewContent> Tree::Resized(const FoundFile& old, const store::ObjectInfo& info, uint64_t size_bytes) {
  const std::string what = "write the new version of `" + info.key + "`";
  const uint64_t kept = std::min(size_bytes, info.size_bytes);
  const uint64_t cut = info.size_bytes - kept;
  FB_ASSIGN(Temporary file, NewTemporary());
  FB_TRY(LikeBefore(old, file, what));
  FB_TRY(CopyRun(old.file.get(), 0, kept, file.fd(), 0, what));
  FB_TRY(GrowTo(file.fd(), size_bytes, what));
  uint32_t crc32c = info.crc32c;
  if (cut > kept) {
    FB_ASSIGN(crc32c, ChecksumRun(old.file.get(), 0, kept, what));
  } else if (cut != 0) {
    FB_ASSIGN(const uint32_t rest, ChecksumRun(old.file.get(), kept, cut, what));
    crc32c = base::Crc32cWithout(crc32c, rest, cut);
  }
  crc32c = base::Crc32cCombine(crc32c, base::Crc32cZeros(size_bytes - kept), size_bytes - kept);
  FB_TRY(CheckUnchanged(old, info.key));
  return NewContent{.file = std::move(file), .size_bytes = size_bytes, .crc32c = crc32c};
}

Result<store::ObjectInfo> Tree::Truncate(const store::Operation& operation, const std::string& bucket, const std::string& key,
                                         uint64_t size_bytes, const store::Condition& condition) {
  const KeyLock lock = LockKey(bucket, key);
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return store::ResultOfPut(*earlier, key, {});
  const auto truncate = [&]() -> Result<store::ObjectInfo> {
    FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket));
    store::ObjectInfo info;
    FB_ASSIGN(const FoundFile old, FindToChange(in, key, condition, Checksum::kNeeded, &info));
    FB_ASSIGN(NewContent whole, Resized(old, info, size_bytes));
    return Publish(operation, in, key, {.condition = condition, .metadata = info.metadata, .attributes = info.attributes},
                   std::move(whole));
  };
  return Settle(operation, truncate());
}

Status Tree::SetAttributes(const store::Operation& operation, const std::string& bucket, const std::string& key, uint64_t version,
                           const store::AttributeChange& change) {
  const KeyLock lock = LockKey(bucket, key);
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return earlier->refusal;
  return Settle(operation, ChangeAttributes(operation, bucket, key, version, change));
}

Status Tree::ChangeAttributes(const store::Operation& operation, const std::string& bucket, const std::string& key,
                              uint64_t version, const store::AttributeChange& change) {
  FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket));
  FB_ASSIGN(const std::optional<FoundFile> found, Find(in, key));
  if (!found) return version == 0 ? store::NoSuchObject(bucket, key) : store::NoSuchVersion(bucket, key, version);
  uint64_t revision = 0;
  FB_ASSIGN(store::ObjectInfo info, Describe(*found, key, Checksum::kNeeded, base::kNever, &revision));
  if (version != 0 && version != info.version) return store::NoSuchVersion(bucket, key, version);
  FB_TRY(store::CheckCondition(change.condition, info.etag, bucket, key));
  FB_ASSIGN(info.attributes, store::ChangedAttributes(std::move(info.attributes), change));
  FB_ASSIGN(revision, journal_->NextVersion(std::max(revision, info.version)));
  JournalEntry intent;
  intent.bucket = bucket;
  intent.key = key;
  intent.inode = found->state.inode;
  intent.revision = revision;
  FB_ASSIGN(const uint64_t number, journal_->Intend(operation, std::move(intent), nullptr));
  Status saved = sidecar_->SaveRecord(found->file.get(), found->state,
                                      {.revision = revision,
                                       .version = info.version,
                                       .size_bytes = info.size_bytes,
                                       .file_modified_ns = found->state.modified_ns,
                                       .modified_ns = info.modified.time_since_epoch().count(),
                                       .crc32c = info.crc32c,
                                       .etag = info.etag,
                                       .metadata = info.metadata,
                                       .attributes = info.attributes});
  if (!saved.ok()) {
    journal_->Void(number, operation);
    return saved;
  }
  FB_TRY(SyncPlaced(found->file.get(), key));
  journal_->Done(number);
  return {};
}

Result<std::vector<std::pair<FoundFile, store::ObjectInfo>>> Tree::OpenSources(TenantId tenant,
                                                                              const std::vector<store::Source>& sources) {
  const auto state_of = [&](const store::Source& source) -> Result<FoundFile> {
    FB_ASSIGN(const BucketInUse in, Use(tenant, source.bucket));
    FB_ASSIGN(std::optional<FoundFile> found, Find(in, source.key));
    if (!found) return store::NoSuchObject(source.bucket, source.key);
    return *std::move(found);
  };
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::vector<std::pair<FoundFile, store::ObjectInfo>> opened;
    for (const store::Source& source : sources) {
      FB_ASSIGN(FoundFile found, state_of(source));
      FB_ASSIGN(store::ObjectInfo info, Describe(found, source.key, Checksum::kNeeded));
      FB_TRY(store::CheckCondition(source.condition, info.etag, source.bucket, source.key));
      opened.emplace_back(std::move(found), std::move(info));
    }
    // When all still are what they were, all of them were it at the moment in between.
    bool same = true;
    for (size_t i = 0; i < sources.size() && same && sources.size() > 1; ++i) {
      FB_ASSIGN(const FoundFile now, state_of(sources[i]));
      same = now.state.inode == opened[i].first.state.inode && now.state.modified_ns == opened[i].first.state.modified_ns;
    }
    if (same) return opened;
  }
  return Status::Aborted("the sources were replaced again and again meanwhile: try again");
}

Result<NewContent> Tree::Join(TenantId tenant, const std::vector<store::Source>& sources) {
  FB_ASSIGN(const auto opened, OpenSources(tenant, sources));
  FB_ASSIGN(Temporary file, NewTemporary());
  NewContent content{.file = std::move(file)};
  std::vector<store::ByteRange> ranges;
  uint64_t size_bytes = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    FB_ASSIGN(const store::ByteRange range, store::RangeOf(sources[i], opened[i].second));
    FB_TRY(store::CheckObjectSize(size_bytes, range.length));
    size_bytes += range.length;
    ranges.push_back(range);
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto& [found, info] = opened[i];
    const auto [offset, length] = ranges[i];
    const std::string what = "copy `" + info.key + "`";
    FB_TRY(CopyRun(found.file.get(), offset, length, content.file.fd(), content.size_bytes, what));
    uint32_t crc32c = info.crc32c;
    if (length != info.size_bytes) {
      FB_ASSIGN(crc32c, ChecksumRun(found.file.get(), offset, length, what));
    }
    FB_TRY(CheckUnchanged(found, info.key));
    content.crc32c = base::Crc32cCombine(content.crc32c, crc32c, length);
    content.size_bytes += length;
  }
  return content;
}

Result<store::ObjectInfo> Tree::Compose(const store::Operation& operation, const std::string& bucket, const std::string& key,
                                        const std::vector<store::Source>& sources, const store::PutOptions& options) {
  // Under the lock of the target from the start: a repeated operation waits for the first, instead of copying too. The
  // sources need no locks.
  const KeyLock lock = LockKey(bucket, key);
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return store::ResultOfPut(*earlier, key, options.metadata, options.attributes);
  const auto compose = [&]() -> Result<store::ObjectInfo> {
    {
      FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket));
      FB_TRY(CheckPublish(in, key, {.condition = options.condition}));
    }
    FB_ASSIGN(NewContent content, Join(operation.tenant, sources));
    FB_TRY(store::CheckAnnouncedSize(options.size_bytes, content.size_bytes));
    FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket));
    return Publish(operation, in, key, options, std::move(content));
  };
  return Settle(operation, compose());
}

Result<uint64_t> Tree::RenamePrefix(const store::Operation& operation, const std::string& bucket, const std::string& from,
                                    const std::string& to) {
  const KeyLock lock = LockKeys({KeyName(bucket, from), KeyName(bucket, to)});
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) {
    FB_TRY(earlier->refusal);
    return earlier->version;
  }
  return Settle(operation, MovePrefix(operation, bucket, from, to));
}

/// How many objects the rename moves, when it can be made.
Result<uint64_t> Tree::CheckMovePrefix(const BucketInUse& in, const std::string& from, const std::string& to) {
  const std::string& bucket = in.bucket->name;
  TreeCursor cursor(in.tree.get());
  uint64_t count = 0;
  for (cursor.Seek(from); cursor.Valid() && cursor.key().starts_with(from); cursor.Next()) {
    FB_ASSIGN(const std::string renamed, store::RenamedKey(cursor.key(), from, to));
    ++count;
    if (renamed.starts_with(from)) continue;
    FB_ASSIGN(const std::optional<FoundFile> there, Find(in, renamed));
    if (there) return store::RenameInTheWay(bucket, cursor.key(), renamed);
  }
  FB_TRY(cursor.status());
  bool escaped = false;
  {
    const base::MutexLock lock(in.bucket->mutex);
    const auto first = in.bucket->escaped.lower_bound(from);
    escaped = first != in.bucket->escaped.end() && first->starts_with(from);
  }
  if (count == 0 && !escaped) return store::NothingToRename(bucket, from);
  const auto is_directory = [](std::string_view prefix) {
    return prefix.ends_with('/') && IsPath(prefix.substr(0, prefix.size() - 1));
  };
  if (escaped || !is_directory(from) || !is_directory(to) || to.starts_with(from) || from.starts_with(to))
    return OnlyDirectories(bucket, from, to);
  TreeCursor target(in.tree.get());
  target.Seek(to);
  FB_TRY(target.status());
  if (target.Valid() && target.key().starts_with(to)) return OnlyDirectories(bucket, from, to);
  return count;
}

Result<uint64_t> Tree::MovePrefix(const store::Operation& operation, const std::string& bucket, const std::string& from,
                                  const std::string& to) {
  FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket, true));
  FB_ASSIGN(const uint64_t count, CheckMovePrefix(in, from, to));
  const std::string old_path = from.substr(0, from.size() - 1);
  const std::string new_path = to.substr(0, to.size() - 1);
  auto moved = OpenBeneath(in.tree.get(), old_path, O_RDONLY | O_DIRECTORY);
  if (!moved) return OnlyDirectories(bucket, from, to);
  FB_ASSIGN(const FileState state, StateOf(moved->get(), "look at `" + from + "`"));
  auto old_parent = OpenBeneath(in.tree.get(), std::string(ParentOf(old_path)), O_RDONLY | O_DIRECTORY);
  if (!old_parent) return FileError(old_parent.error(), "open the directory of `" + from + "`");
  FB_ASSIGN(const std::optional<Descriptor> new_parent, MakeDirectories(in.tree.get(), ParentOf(new_path), 0777));
  if (!new_parent) return OnlyDirectories(bucket, from, to);

  store::ObjectInfo result;  // of which the version is what a repeated operation is told
  result.version = count;
  JournalEntry intent;
  intent.bucket = bucket;
  intent.key = to;
  intent.inode = state.inode;
  FB_ASSIGN(const uint64_t number, journal_->Intend(operation, std::move(intent), &result));
  // An empty directory in the way is replaced, anything else refused.
  const std::string new_name(NameOf(new_path));
  if (::renameat(old_parent->get(), std::string(NameOf(old_path)).c_str(), new_parent->get(), new_name.c_str()) != 0) {
    const int error = errno;
    journal_->Void(number, operation);
    if (error == ENOTEMPTY || error == EEXIST || error == ENOTDIR) return OnlyDirectories(bucket, from, to);
    return FileError(error, "rename `" + from + "`");
  }
  FB_TRY(SyncPlaced(new_parent->get(), to));
  FB_TRY(SyncPlaced(old_parent->get(), from));
  journal_->Done(number);
  Prune(in, old_path);
  return count;
}

}  // namespace forebay::backend
