// SPDX-License-Identifier: Apache-2.0
// Objects of a tree: finding, describing, putting in place, taking away.
#include <linux/fs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "backend/names.h"
#include "backend/tree.h"
#include "base/checksum.h"
#include "store/checks.h"
#include "store/conditions.h"

namespace forebay::backend {
namespace {

constexpr int kAttempts = 16;
constexpr uint64_t kChecksumStep = 64 * base::kMiB;
constexpr size_t kMaxProgress = 256;

/// Of a file that others wrote: changes whenever they do.
std::string ForeignETag(const FileState& state) {
  return fmt::format("f{:x}-{:x}-{:x}", state.inode, state.size_bytes, static_cast<uint64_t>(state.modified_ns));
}

bool Holds(const ObjectRecord& record, const FileState& state) {
  return record.size_bytes == state.size_bytes && record.file_modified_ns == state.modified_ns;
}

/// The regular file of that name, opened; nothing for anything else.
Result<std::optional<FoundFile>> FileAt(Place place) {
  struct stat info{};
  const std::string what = "open `" + place.name + "`";
  if (::fstatat(place.directory.get(), place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (LeadsNowhere(errno)) return std::optional<FoundFile>();
    return FileError(errno, what);
  }
  if (!S_ISREG(info.st_mode)) return std::optional<FoundFile>();
  auto file = OpenBeneath(place.directory.get(), place.name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
  // A file that this user may not read is not this server's.
  if (!file && (LeadsNowhere(file.error()) || file.error() == EACCES)) return std::optional<FoundFile>();
  if (!file) return FileError(file.error(), what);
  FB_ASSIGN(const FileState state, StateOf(file->get(), what));
  return std::optional(FoundFile{.place = std::move(place), .file = *std::move(file), .state = state});
}

std::string EscapedPath(const Bucket& bucket, std::string_view key) { return bucket.name + "/" + EscapeKey(key); }

}  // namespace

Result<std::optional<FoundFile>> Tree::Find(const BucketInUse& in, const std::string& key) {
  if (IsPath(key)) {
    auto parent = OpenBeneath(in.tree.get(), std::string(ParentOf(key)), O_RDONLY | O_DIRECTORY);
    if (!parent && !LeadsNowhere(parent.error())) return FileError(parent.error(), "open `" + key + "`");
    if (parent) {
      FB_ASSIGN(auto found, FileAt({.directory = *std::move(parent), .name = std::string(NameOf(key)), .escaped = false}));
      if (found) return found;
    }
  }
  {
    const base::MutexLock lock(in.bucket->mutex);
    if (!in.bucket->escaped.contains(key)) return std::optional<FoundFile>();
  }
  const std::string path = EscapedPath(*in.bucket, key);
  auto parent = OpenBeneath(sidecar_->keys(), std::string(ParentOf(path)), O_RDONLY | O_DIRECTORY);
  if (!parent) return std::optional<FoundFile>();
  return FileAt({.directory = *std::move(parent), .name = std::string(NameOf(path)), .escaped = true});
}

Result<store::ObjectInfo> Tree::Describe(const FoundFile& found, std::string_view key, Checksum checksum,
                                         base::TimePoint deadline, uint64_t* revision) {
  FB_ASSIGN(const std::optional<ObjectRecord> record, sidecar_->LoadRecord(found.file.get(), found.state));
  const FileState& state = found.state;
  store::ObjectInfo info{.key = std::string(key), .size_bytes = state.size_bytes};
  if (record) {
    info.metadata = record->metadata;
    info.attributes = record->attributes;
    if (revision != nullptr) *revision = record->revision;
  }
  if (record && Holds(*record, state)) {
    info.version = record->version;
    info.etag = record->etag;
    info.crc32c = record->crc32c;
    info.modified = base::WallTime(base::Duration(record->modified_ns));
    return info;
  }
  // Others wrote it, or changed what Forebay wrote. The time of its last change is its version.
  info.version = std::max<uint64_t>(static_cast<uint64_t>(std::max<int64_t>(1, state.changed_ns)), record ? record->version + 1 : 1);
  info.etag = ForeignETag(state);
  info.modified = base::WallTime(base::Duration(state.modified_ns));
  if (checksum == Checksum::kNeeded) {
    FB_ASSIGN(info.crc32c, ChecksumOf(found, key, deadline));
  } else {
    info.crc32c = sidecar_->LoadChecksum(state).value_or(0);
  }
  return info;
}

Result<uint32_t> Tree::ChecksumOf(const FoundFile& found, std::string_view key, base::TimePoint deadline) {
  const FileState& state = found.state;
  if (const auto known = sidecar_->LoadChecksum(state)) return *known;
  Progress progress{.state = state};
  {
    const base::MutexLock lock(mutex_);
    if (const auto before = checksums_.find(state.inode); before != checksums_.end() && before->second.state == state)
      progress = before->second;
  }
  const std::string what = fmt::format("read `{}` for its checksum", key);
  while (progress.offset < state.size_bytes) {
    if (deadline != base::kNever && clock_.Now() >= deadline) {
      const base::MutexLock lock(mutex_);
      if (checksums_.size() >= kMaxProgress && !checksums_.contains(state.inode)) checksums_.erase(checksums_.begin());
      checksums_[state.inode] = progress;
      return Status::DeadlineExceeded("`{}` is a file that others wrote, and {} of {} bytes are read for its checksum: try again, "
                                      "it goes on from there", key, progress.offset, state.size_bytes);
    }
    const uint64_t step = std::min(kChecksumStep, state.size_bytes - progress.offset);
    FB_ASSIGN(const uint32_t crc32c, ChecksumRun(found.file.get(), progress.offset, step, what));
    progress.crc32c = base::Crc32cCombine(progress.crc32c, crc32c, step);
    progress.offset += step;
  }
  FB_TRY(CheckUnchanged(found, key));
  sidecar_->SaveChecksum(state, progress.crc32c);
  const base::MutexLock lock(mutex_);
  checksums_.erase(state.inode);
  return progress.crc32c;
}

Status Tree::CheckUnchanged(const FoundFile& found, std::string_view key) {
  FB_ASSIGN(const FileState now, StateOf(found.file.get(), fmt::format("look at `{}`", key)));
  if (now.size_bytes == found.state.size_bytes && now.modified_ns == found.state.modified_ns) return {};
  return Status::Aborted("the file of `{}` was changed in place by another program meanwhile: try again", key);
}

Result<FoundFile> Tree::FindToChange(const BucketInUse& in, const std::string& key, const store::Condition& condition,
                                     Checksum checksum, store::ObjectInfo* info) {
  FB_ASSIGN(std::optional<FoundFile> found, Find(in, key));
  if (!found) return store::NoSuchObject(in.bucket->name, key);
  FB_ASSIGN(*info, Describe(*found, key, checksum));
  FB_TRY(store::CheckCondition(condition, info->etag, in.bucket->name, key));
  return *std::move(found);
}

Result<Place> Tree::PlaceFor(const BucketInUse& in, const std::string& key) {
  if (IsPath(key)) {
    FB_ASSIGN(std::optional<Descriptor> parent, MakeDirectories(in.tree.get(), ParentOf(key), 0777));
    const std::string name(NameOf(key));
    struct stat there{};
    if (parent) {
      if (::fstatat(parent->get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) return FileError(errno, "look at `" + key + "`");
        return Place{.directory = *std::move(parent), .name = name};
      }
      const bool free = S_ISREG(there.st_mode) ||
                        (S_ISDIR(there.st_mode) && ::unlinkat(parent->get(), name.c_str(), AT_REMOVEDIR) == 0);
      if (free) return Place{.directory = *std::move(parent), .name = name};
    }
  }
  const std::string path = EscapedPath(*in.bucket, key);
  FB_ASSIGN(std::optional<Descriptor> parent, MakeDirectories(sidecar_->keys(), ParentOf(path), 0700));
  if (!parent) return Status::Unavailable("{}/{}/keys/{} is in the way of `{}`: move it away", root_, Sidecar::kName, path, key);
  return Place{.directory = *std::move(parent), .name = std::string(NameOf(path)), .escaped = true};
}

/// False: something is there that must be absent.
Result<bool> Tree::MoveInto(const BucketInUse& in, const std::string& key, const std::optional<FoundFile>& current, bool absent,
                            const Move& move) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Place place;
    if (current && attempt == 0) {
      place = {.directory = Descriptor(::fcntl(current->place.directory.get(), F_DUPFD_CLOEXEC, 0)),
               .name = current->place.name,
               .escaped = current->place.escaped};
    } else {
      Result<Place> found = PlaceFor(in, key);
      if (!found.ok() && found.status().code() == Code::kAborted) continue;
      FB_TRY(found);
      place = *std::move(found);
    }
    const int error = move(place);
    if (error == EEXIST && absent) return false;
    // A directory came or went while this one was looked for.
    if (error == ENOENT || error == EEXIST || error == EISDIR || error == ENOTEMPTY) continue;
    if (error != 0) return FileError(error, fmt::format("put `{}/{}` in its place", in.bucket->name, key));
    if (place.escaped) {
      const base::MutexLock lock(in.bucket->mutex);
      in.bucket->escaped.insert(key);
    }
    FB_TRY(SyncPlaced(place.directory.get(), key));
    return true;
  }
  return Status::Aborted("`{}/{}` found no place: others make and remove directories there; try again", in.bucket->name, key);
}

Status Tree::TakeAway(const BucketInUse& in, const std::string& key, const Place& place) {
  if (::unlinkat(place.directory.get(), place.name.c_str(), 0) != 0 && errno != ENOENT)
    return FileError(errno, fmt::format("remove `{}/{}`", in.bucket->name, key));
  if (place.escaped) {
    const base::MutexLock lock(in.bucket->mutex);
    in.bucket->escaped.erase(key);
  }
  return SyncPlaced(place.directory.get(), key);
}

Status Tree::SyncPlaced(int place, std::string_view key) {
  Status durable = SyncFile(place, fmt::format("make the place of `{}` durable", key));
  return durable.ok() ? durable : journal_->Fail(durable);
}

void Tree::Prune(const BucketInUse& in, std::string_view key) {
  if (!IsPath(key)) return;
  for (std::string_view path = ParentOf(key); !path.empty(); path = ParentOf(path)) {
    const auto parent = OpenBeneath(in.tree.get(), std::string(ParentOf(path)), O_RDONLY | O_DIRECTORY);
    if (!parent || ::unlinkat(parent->get(), std::string(NameOf(path)).c_str(), AT_REMOVEDIR) != 0) return;
  }
}

Result<store::ObjectInfo> Tree::Publish(const store::Operation& operation, const BucketInUse& in, const std::string& key,
                                        const store::PutOptions& options, NewContent content, const store::UsageChange& also) {
  FB_ASSIGN(const std::optional<FoundFile> current, Find(in, key));
  store::ObjectInfo old;
  if (current) {
    FB_ASSIGN(old, Describe(*current, key, Checksum::kAsKnown));
  }
  FB_TRY(store::CheckCondition(options.condition, current ? std::optional<std::string_view>(old.etag) : std::nullopt,
                               in.bucket->name, key));
  store::UsageChange change = store::UsageChange::Put(content.size_bytes);
  change.bytes += also.bytes;
  if (current) change.Remove(current->state.size_bytes);
  FB_TRY(accounts_.Check(in.info.owner, change));

  FB_ASSIGN(const uint64_t version, journal_->NextVersion(old.version));
  FB_ASSIGN(const FileState state, StateOf(content.file.fd(), "look at a temporary file"));
  if (state.size_bytes != content.size_bytes) return Status::Internal("a temporary file has another size than was written");
  store::ObjectInfo info{.key = key,
                         .version = version,
                         .size_bytes = content.size_bytes,
                         .etag = options.etag.empty() ? store::DefaultETag(version, content.crc32c) : options.etag,
                         .crc32c = content.crc32c,
                         .modified = clock_.WallNow(),
                         .metadata = options.metadata,
                         .attributes = options.attributes};
  FB_TRY(sidecar_->SaveRecord(content.file.fd(), state,
                              {.revision = version,
                               .version = version,
                               .size_bytes = info.size_bytes,
                               .file_modified_ns = state.modified_ns,
                               .modified_ns = info.modified.time_since_epoch().count(),
                               .crc32c = info.crc32c,
                               .etag = info.etag,
                               .metadata = info.metadata,
                               .attributes = info.attributes}));
  FB_TRY(SyncFile(content.file.fd(), fmt::format("make the content of `{}/{}` durable", in.bucket->name, key)));

  FB_TRY(accounts_.Charge(in.info.owner, change));
  JournalEntry intent;
  intent.bucket = in.bucket->name;
  intent.key = key;
  intent.inode = state.inode;
  const Result<uint64_t> number = journal_->Intend(operation, std::move(intent), &info);
  const bool absent = options.condition.kind == store::Condition::Kind::kIfAbsent;
  Result<bool> placed = number.status().ok()
                            ? MoveInto(in, key, current, absent,
                                       [&](const Place& place) { return content.file.MoveTo(place.directory.get(), place.name, absent); })
                            : Result<bool>(number.status());
  if (placed.ok() && !*placed) placed = Status::AlreadyExists("object `{}/{}` exists", in.bucket->name, key);
  if (!placed.ok()) {
    if (number.ok() && !content.file.placed()) journal_->Void(*number, operation);
    if (!content.file.placed()) {
      accounts_.TakeBack(in.info.owner, change);
      sidecar_->Forget(state.inode);
    }
    return placed.status();
  }
  journal_->Done(*number);
  if (current) sidecar_->Forget(current->state.inode);
  return info;
}

Status Tree::CheckPublish(const BucketInUse& in, const std::string& key, const store::PutOptions& options) {
  if (options.condition.kind == store::Condition::Kind::kNone && !options.size_bytes) return {};
  FB_ASSIGN(const std::optional<FoundFile> current, Find(in, key));
  store::ObjectInfo old;
  if (current) {
    FB_ASSIGN(old, Describe(*current, key, Checksum::kAsKnown));
  }
  FB_TRY(store::CheckCondition(options.condition, current ? std::optional<std::string_view>(old.etag) : std::nullopt, in.bucket->name, key));
  if (!options.size_bytes) return {};
  store::UsageChange change = store::UsageChange::Put(*options.size_bytes);
  if (current) change.Remove(current->state.size_bytes);
  return accounts_.Check(in.info.owner, change);
}

Result<std::optional<store::OperationRecord>> Tree::BeginPut(const store::Operation& operation, const std::string& bucket,
                                                             const std::string& key, const store::PutOptions& options) {
  const KeyLock lock = LockKey(bucket, key);
  FB_ASSIGN(std::optional<store::OperationRecord> earlier, journal_->Begin(operation));
  if (earlier) {
    FB_TRY(earlier->refusal);
    return earlier;
  }
  const auto look = [&]() -> Status {
    FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket));
    return CheckPublish(in, key, options);
  };
  FB_TRY(Settle(operation, look()));
  return earlier;
}

Result<store::ObjectInfo> Tree::Put(const store::Operation& operation, const std::string& bucket, const std::string& key,
                                    const store::PutOptions& options, NewContent content) {
  const KeyLock lock = LockKey(bucket, key);
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return store::ResultOfPut(*earlier, key, options.metadata, options.attributes);
  const auto put = [&]() -> Result<store::ObjectInfo> {
    FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket));
    return Publish(operation, in, key, options, std::move(content));
  };
  return Settle(operation, put());
}

Result<Tree::Opened> Tree::OpenObject(TenantId tenant, const std::string& bucket, const std::string& key,
                                      base::TimePoint deadline) {
  FB_TRY(base::CheckKey(key));
  std::optional<FoundFile> found;
  {
    FB_ASSIGN(const BucketInUse in, Use(tenant, bucket));
    FB_ASSIGN(found, Find(in, key));
  }
  if (!found) return store::NoSuchObject(bucket, key);
  FB_ASSIGN(store::ObjectInfo info, Describe(*found, key, Checksum::kNeeded, deadline));
  return Opened{.info = std::move(info), .file = std::move(found->file), .state = found->state};
}

Status Tree::Delete(const store::Operation& operation, const std::string& bucket, const std::string& key,
                    const store::Condition& condition, uint64_t version) {
  const KeyLock lock = LockKey(bucket, key);
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return earlier->refusal;
  return Settle(operation, RemoveObject(operation, bucket, key, condition, version));
}

Status Tree::RemoveObject(const store::Operation& operation, const std::string& bucket, const std::string& key,
                          const store::Condition& condition, uint64_t version) {
  FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket));
  if (version != 0) {
    FB_ASSIGN(const std::optional<FoundFile> there, Find(in, key));
    if (!there) return store::NoSuchVersion(bucket, key, version);
  }
  store::ObjectInfo info;
  FB_ASSIGN(const FoundFile found, FindToChange(in, key, condition, Checksum::kAsKnown, &info));
  if (version != 0 && info.version != version) return store::NoSuchVersion(bucket, key, version);
  JournalEntry intent;
  intent.bucket = bucket;
  intent.key = key;
  intent.inode = found.state.inode;
  intent.removes = true;
  FB_ASSIGN(const uint64_t number, journal_->Intend(operation, std::move(intent), nullptr));
  if (Status removed = TakeAway(in, key, found.place); !removed.ok()) {
    struct stat there{};
    const bool still = ::fstatat(found.place.directory.get(), found.place.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0;
    if (still) journal_->Void(number, operation);
    return removed;
  }
  journal_->Done(number);
  store::UsageChange change;
  change.Remove(found.state.size_bytes);
  accounts_.Add(in.info.owner, change);
  sidecar_->Forget(found.state.inode);
  Prune(in, key);
  return {};
}

Status Tree::Rename(const store::Operation& operation, const std::string& bucket, const std::string& from, const std::string& to,
                    const store::RenameOptions& options) {
  const KeyLock lock = LockKeys({KeyName(bucket, from), KeyName(bucket, to)});
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return earlier->refusal;
  return Settle(operation, MoveObject(operation, bucket, from, to, options));
}

Status Tree::MoveObject(const store::Operation& operation, const std::string& bucket, const std::string& from,
                        const std::string& to, const store::RenameOptions& options) {
  FB_ASSIGN(const BucketInUse in, Use(operation.tenant, bucket));
  store::ObjectInfo info;
  FB_ASSIGN(const FoundFile source, FindToChange(in, from, options.source, Checksum::kAsKnown, &info));
  FB_ASSIGN(const std::optional<FoundFile> target, Find(in, to));
  store::ObjectInfo replaced;
  if (target) {
    FB_ASSIGN(replaced, Describe(*target, to, Checksum::kAsKnown));
  }
  FB_TRY(store::CheckCondition(options.target, target ? std::optional<std::string_view>(replaced.etag) : std::nullopt, bucket, to));

  // A file of others gets its later version by the rename itself, which changes its times.
  FB_ASSIGN(std::optional<ObjectRecord> record, sidecar_->LoadRecord(source.file.get(), source.state));
  if (record && Holds(*record, source.state)) {
    FB_ASSIGN(record->version, journal_->NextVersion(std::max(info.version, replaced.version)));
    record->revision = record->version;
    FB_TRY(sidecar_->SaveRecord(source.file.get(), source.state, *record));
    FB_TRY(SyncFile(source.file.get(), "make the version of `" + from + "` durable"));
  }
  JournalEntry intent;
  intent.bucket = bucket;
  intent.key = to;
  intent.inode = source.state.inode;
  FB_ASSIGN(const uint64_t number, journal_->Intend(operation, std::move(intent), nullptr));
  const bool absent = options.target.kind == store::Condition::Kind::kIfAbsent;
  bool moved = false;
  const auto move = [&](const Place& place) {
    const int flags = absent ? RENAME_NOREPLACE : 0;
    if (::renameat2(source.place.directory.get(), source.place.name.c_str(), place.directory.get(), place.name.c_str(), flags) != 0)
      return errno;
    moved = true;
    return 0;
  };
  Result<bool> placed = MoveInto(in, to, target, absent, move);
  if (placed.ok() && !*placed) placed = Status::AlreadyExists("object `{}/{}` exists", bucket, to);
  if (!placed.ok()) {
    if (!moved) journal_->Void(number, operation);
    return placed.status();
  }
  // Two names of one file stay two names after a rename: then the old one is still to go.
  struct stat left{};
  const bool still = ::fstatat(source.place.directory.get(), source.place.name.c_str(), &left, AT_SYMLINK_NOFOLLOW) == 0 &&
                     left.st_ino == source.state.inode;
  if (still) ::unlinkat(source.place.directory.get(), source.place.name.c_str(), 0);
  if (source.place.escaped) {
    const base::MutexLock lock(in.bucket->mutex);
    in.bucket->escaped.erase(from);
  }
  FB_TRY(SyncPlaced(source.place.directory.get(), from));
  journal_->Done(number);
  Prune(in, from);
  if (!target) return {};
  store::UsageChange change;
  change.Remove(target->state.size_bytes);
  accounts_.Add(in.info.owner, change);
  if (target->state.inode != source.state.inode) sidecar_->Forget(target->state.inode);
  return {};
}

}  // namespace forebay::backend
