// SPDX-License-Identifier: Apache-2.0
// A tree is opened; its buckets.
#include "backend/tree.h"

#include <linux/fs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "backend/names.h"
#include "backend/tree_cursor.h"
#include "store/checks.h"
#include "store/tenancy.h"

namespace forebay::backend {
namespace {

constexpr const char* kSystemDirectory = "system";
constexpr size_t kMaxBucketRecordBytes = 256;

/// All files below a directory, with their paths from it.
Status ForEachFile(int directory, const std::string& prefix, const std::function<Status(const std::string&, const FileState&)>& visit) {
  FB_ASSIGN(const std::vector<DirectoryEntry> entries, ReadDirectory(directory, "read the sidecar"));
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_directory) {
      struct stat info{};
      if (::fstatat(directory, entry.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) FB_TRY(visit(prefix + entry.name, StateOf(info)));
      continue;
    }
    auto below = OpenBeneath(directory, entry.name, O_RDONLY | O_DIRECTORY);
    if (!below) return FileError(below.error(), "open " + prefix + entry.name);
    FB_TRY(ForEachFile(below->get(), prefix + entry.name + "/", visit));
  }
  return {};
}

/// Removes directories that hold nothing but directories. False when there is anything else.
bool RemoveEmpty(int directory, const std::string& name) {
  if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return true;
  {
    auto tree = OpenBeneath(directory, name, O_RDONLY | O_DIRECTORY);
    if (!tree) return false;
    const auto entries = ReadDirectory(tree->get(), name);
    if (!entries.ok()) return false;
    for (const DirectoryEntry& entry : *entries)
      if (!entry.is_directory || !RemoveEmpty(tree->get(), entry.name)) return false;
  }
  return ::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0;
}

}  // namespace

Result<std::unique_ptr<Tree>> Tree::Open(std::string root, const base::Clock& clock, base::Log& log) {
  std::unique_ptr<Tree> tree(new Tree(std::move(root), clock, log));
  FB_TRY(tree->Load());
  return tree;
}

Status Tree::Load() {
  FB_ASSIGN(sidecar_, Sidecar::Open(root_, log_));
  FB_TRY(accounts_.Load(sidecar_->directory()));
  FB_TRY(LoadBuckets());
  FB_ASSIGN(journal_, OperationJournal::Open(sidecar_->directory(), clock_,
                                             [this](const JournalEntry& intent) { return TookPlace(intent); }, log_));
  return {};
}

Status Tree::LoadBuckets() {
  FB_ASSIGN(std::set<uint64_t> gone, sidecar_->Inodes());
  std::set<std::string> names;
  FB_ASSIGN(const std::vector<DirectoryEntry> recorded, ReadDirectory(sidecar_->buckets(), "read the buckets' records"));
  for (const DirectoryEntry& entry : recorded) {
    FB_ASSIGN(const std::optional<std::string> bytes, ReadSmallFile(sidecar_->buckets(), entry.name, kMaxBucketRecordBytes));
    if (!store::CheckBucketName(TenantId::kSystem, entry.name).ok() || !bytes) continue;  // a `.new` that a crash left
    const auto [directory, name] = DirectoryOf(entry.name);
    struct stat info{};
    if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) {
      // It was being made or removed, or others removed it: nothing of it is left to own.
      ::unlinkat(sidecar_->buckets(), entry.name.c_str(), 0);
      continue;
    }
    auto record = DecodeBucket(*bytes);
    if (!record.ok()) return record.status().WithContext("bucket `" + entry.name + "`");
    Bucket& bucket = BucketNamed(entry.name);
    const base::MutexLock lock(bucket.mutex);
    bucket.record = *record;
    names.insert(entry.name);
  }
  FB_ASSIGN(const std::vector<DirectoryEntry> entries, ReadDirectory(sidecar_->root(), "read the root"));
  uint64_t left_out = 0;
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_directory && store::CheckBucketName(TenantId::kRoot, entry.name).ok()) {
      names.insert(entry.name);
    } else if (entry.name != Sidecar::kName) {
      ++left_out;
    }
  }
  if (left_out != 0)
    log_.Info("{}: {} files and directories are not served: their names are not those of buckets", root_, left_out);
  for (const std::string& name : names) FB_TRY(LoadBucket(name, &gone));
  for (const uint64_t inode : gone) sidecar_->Forget(inode);
  return {};
}

Status Tree::LoadBucket(const std::string& name, std::set<uint64_t>* gone) {
  Bucket& bucket = BucketNamed(name);
  const auto [parent, directory] = DirectoryOf(name);
  auto tree = OpenBeneath(parent, directory, O_RDONLY | O_DIRECTORY);
  if (!tree && LeadsNowhere(tree.error())) return {};
  if (!tree) return FileError(tree.error(), "open bucket `" + name + "`");
  FB_ASSIGN(const store::BucketInfo info, InfoOf(bucket, tree->get()));
  store::UsageChange change{.buckets = 1};
  const auto count = [&](const FileState& state) {
    ++change.objects;
    change.bytes += static_cast<int64_t>(state.size_bytes);
    gone->erase(state.inode);
  };
  TreeCursor cursor(tree->get());
  for (cursor.Seek(""); cursor.Valid(); cursor.Next()) {
    struct stat file{};
    if (::fstatat(cursor.directory(), cursor.name().c_str(), &file, AT_SYMLINK_NOFOLLOW) == 0) count(StateOf(file));
  }
  FB_TRY(cursor.status());
  if (auto keys = OpenBeneath(sidecar_->keys(), name, O_RDONLY | O_DIRECTORY)) {
    FB_TRY(ForEachFile(keys->get(), "", [&](const std::string& path, const FileState& state) -> Status {
      const std::optional<std::string> key = UnescapeKey(path);
      if (!key || !base::CheckKey(*key).ok()) {
        log_.Warning("{}/{}/keys/{}/{} is not the name of any key and is left out", root_, Sidecar::kName, name, path);
        return {};
      }
      count(state);
      const base::MutexLock lock(bucket.mutex);
      bucket.escaped.insert(*key);
      return {};
    }));
  }
  accounts_.Add(info.owner, change);
  return LoadUploads(bucket, info.owner, gone);
}

Result<bool> Tree::TookPlace(const JournalEntry& intent) {
  using store::OperationKind;
  if (intent.result.kind == OperationKind::kCreateUpload) return HasUpload(intent.bucket, intent.result.version);
  if (intent.result.kind == OperationKind::kAbortUpload) return !HasUpload(intent.bucket, intent.inode);
  if (intent.result.kind == OperationKind::kPutPart || intent.result.kind == OperationKind::kCopyPart) return true;
  const auto [parent, name] = DirectoryOf(intent.bucket);
  const auto is_it = [&](const struct stat& info) { return info.st_ino == intent.inode; };
  struct stat info{};
  if (intent.key.empty() || intent.key.ends_with('/')) {
    const std::string path = intent.key.empty() ? name : name + "/" + intent.key.substr(0, intent.key.size() - 1);
    const auto directory = OpenBeneath(parent, path, O_RDONLY | O_DIRECTORY);
    const bool there = directory && ::fstat(directory->get(), &info) == 0 && is_it(info);
    // An escaped key may end with a slash too.
    if (there || intent.key.empty()) return there != intent.removes;
  }
  auto tree = OpenBeneath(parent, name, O_RDONLY | O_DIRECTORY);
  if (!tree) return intent.removes;
  BucketInUse in;
  in.bucket = &BucketNamed(intent.bucket);
  in.tree = *std::move(tree);
  FB_ASSIGN(const std::optional<FoundFile> found, Find(in, intent.key));
  const bool there = found && found->state.inode == intent.inode;
  if (intent.revision == 0 || !there) return there != intent.removes;
  FB_ASSIGN(const std::optional<ObjectRecord> record, sidecar_->LoadRecord(found->file.get(), found->state));
  return record && record->revision >= intent.revision;
}

Tree::KeyLock Tree::LockKeys(std::vector<std::string> names) {
  std::set<size_t> numbers;  // in one order, so that nobody waits for each other
  for (const std::string& name : names) numbers.insert(std::hash<std::string>()(name) % kStripes);
  KeyLock locks;
  for (const size_t number : numbers) locks.emplace_back(stripes_[number]);
  return locks;
}

std::string Tree::KeyName(std::string_view bucket, std::string_view key) {
  return std::string(bucket) + "/" + std::string(key);
}

Bucket& Tree::BucketNamed(const std::string& name) {
  const base::MutexLock lock(mutex_);
  std::unique_ptr<Bucket>& bucket = buckets_[name];
  if (bucket == nullptr) bucket = std::make_unique<Bucket>(name);
  return *bucket;
}

std::pair<int, std::string> Tree::DirectoryOf(std::string_view bucket) const {
  if (bucket == store::kSystemBucket) return {sidecar_->directory(), kSystemDirectory};
  return {sidecar_->root(), std::string(bucket)};
}

Result<store::BucketInfo> Tree::InfoOf(Bucket& bucket, int tree) {
  FB_ASSIGN(const FileState state, StateOf(tree, "look at bucket `" + bucket.name + "`"));
  store::BucketInfo info{.name = bucket.name};
  const base::MutexLock lock(bucket.mutex);
  info.owner = bucket.record ? bucket.record->owner : TenantId::kRoot;
  info.created = base::WallTime(base::Duration(bucket.record ? bucket.record->created_ns : state.modified_ns));
  return info;
}

Result<BucketInUse> Tree::Use(TenantId tenant, const std::string& name, bool exclusive) {
  FB_TRY(store::CheckBucketName(tenant, name));
  const auto [parent, directory] = DirectoryOf(name);
  auto tree = OpenBeneath(parent, directory, O_RDONLY | O_DIRECTORY);
  if (!tree && LeadsNowhere(tree.error())) return store::NoSuchBucket(name);  // and no Bucket is made for a name asked for
  BucketInUse in;
  in.bucket = &BucketNamed(name);
  if (exclusive) {
    in.exclusive = std::unique_lock(in.bucket->whole);
  } else {
    in.shared = std::shared_lock(in.bucket->whole);
  }
  tree = OpenBeneath(parent, directory, O_RDONLY | O_DIRECTORY);  // as it is now that nobody removes it
  if (!tree && LeadsNowhere(tree.error())) return store::NoSuchBucket(name);
  if (!tree) return FileError(tree.error(), "open bucket `" + name + "`");
  in.tree = *std::move(tree);
  FB_ASSIGN(in.info, InfoOf(*in.bucket, in.tree.get()));
  if (!store::Sees(tenant, in.info.owner)) return store::NoSuchBucket(name);
  return in;
}

Status Tree::CreateBucket(const store::Operation& operation, store::BucketInfo bucket) {
  const KeyLock lock = LockKey(bucket.name, "");
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return earlier->refusal;
  return Settle(operation, MakeBucket(operation, bucket));
}

Status Tree::MakeBucket(const store::Operation& operation, const store::BucketInfo& bucket) {
  if (bucket.bucket_class != store::BucketClass::kDurable)
    return Status::Unimplemented("a directory has no cache class, its buckets keep what they take: create `{}` without a class",
                                 bucket.name);
  if (bucket.versioning != store::Versioning::kOff)
    return Status::Unimplemented("a directory keeps one version of each object: create `{}` without versioning, or on the "
                                 "embedded engine", bucket.name);
  const auto [parent, name] = DirectoryOf(bucket.name);
  struct stat there{};
  if (::fstatat(parent, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0)
    return Status::AlreadyExists("bucket `{}` exists already", bucket.name);
  if (store::CountsAsBucket(bucket.owner)) {
    FB_ASSIGN(const auto all, ListBuckets(TenantId::kSystem));
    if (all.size() >= base::kMaxBuckets)
      return Status::ResourceExhausted("there are {} buckets, which is the limit; delete one first", base::kMaxBuckets);
  }
  FB_ASSIGN(const std::string temporary, sidecar_->NewTemporaryDirectory(parent == sidecar_->root() ? 0777 : 0700));
  struct stat made{};
  ::fstatat(sidecar_->temporary(), temporary.c_str(), &made, AT_SYMLINK_NOFOLLOW);
  const BucketRecord record{.owner = bucket.owner, .created_ns = clock_.WallNow().time_since_epoch().count()};
  FB_TRY(WriteSmallFile(sidecar_->buckets(), bucket.name, Encode(record)));
  JournalEntry intent;
  intent.bucket = bucket.name;
  intent.inode = made.st_ino;
  FB_ASSIGN(const uint64_t number, journal_->Intend(operation, std::move(intent), nullptr));
  Bucket& known = BucketNamed(bucket.name);
  const std::unique_lock whole(known.whole);
  if (::renameat2(sidecar_->temporary(), temporary.c_str(), parent, name.c_str(), RENAME_NOREPLACE) != 0) {
    const int error = errno;
    journal_->Void(number, operation);
    ::unlinkat(sidecar_->buckets(), bucket.name.c_str(), 0);
    ::unlinkat(sidecar_->temporary(), temporary.c_str(), AT_REMOVEDIR);
    if (error == EEXIST) return Status::AlreadyExists("bucket `{}` exists already", bucket.name);
    return FileError(error, "make bucket `" + bucket.name + "`");
  }
  {
    const base::MutexLock lock(known.mutex);
    known.record = record;
  }
  FB_TRY(SyncPlaced(parent, bucket.name));
  journal_->Done(number);
  accounts_.Add(bucket.owner, {.buckets = 1});
  return {};
}

Status Tree::DeleteBucket(const store::Operation& operation, const std::string& name) {
  const KeyLock lock = LockKey(name, "");
  FB_ASSIGN(const auto earlier, journal_->Begin(operation));
  if (earlier) return earlier->refusal;
  return Settle(operation, RemoveBucket(operation, name));
}

Status Tree::RemoveBucket(const store::Operation& operation, const std::string& name) {
  FB_ASSIGN(const BucketInUse in, Use(operation.tenant, name, true));
  TreeCursor cursor(in.tree.get());
  cursor.Seek("");
  FB_TRY(cursor.status());
  {
    const base::MutexLock lock(in.bucket->mutex);
    if (cursor.Valid() || !in.bucket->escaped.empty())
      return Status::FailedPrecondition("bucket `{}` holds objects; delete them first", name);
    if (!in.bucket->uploads.empty())
      return Status::FailedPrecondition("bucket `{}` holds {} uploads; complete them or give them up first", name,
                                        in.bucket->uploads.size());
  }
  FB_ASSIGN(const FileState state, StateOf(in.tree.get(), "look at bucket `" + name + "`"));
  JournalEntry intent;
  intent.bucket = name;
  intent.inode = state.inode;
  intent.removes = true;
  FB_ASSIGN(const uint64_t number, journal_->Intend(operation, std::move(intent), nullptr));
  const auto [parent, directory] = DirectoryOf(name);
  if (!RemoveEmpty(parent, directory)) {
    journal_->Void(number, operation);
    return Status::FailedPrecondition("bucket `{}` holds files that are no objects, such as symbolic links: remove them where "
                                      "they are, in {}/{}", name, root_, name);
  }
  ::unlinkat(sidecar_->buckets(), name.c_str(), 0);
  (void)RemoveTree(sidecar_->keys(), name);
  (void)RemoveTree(sidecar_->uploads(), name);
  {
    const base::MutexLock lock(in.bucket->mutex);
    in.bucket->record.reset();
  }
  FB_TRY(SyncPlaced(parent, name));
  journal_->Done(number);
  accounts_.Add(in.info.owner, {.buckets = -1});
  return {};
}

Result<store::BucketInfo> Tree::GetBucket(TenantId tenant, const std::string& name) {
  FB_ASSIGN(const BucketInUse in, Use(tenant, name));
  return in.info;
}

Result<std::vector<store::BucketInfo>> Tree::ListBuckets(TenantId tenant) {
  FB_ASSIGN(const std::vector<DirectoryEntry> entries, ReadDirectory(sidecar_->root(), "read the root"));
  std::vector<store::BucketInfo> infos;
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_directory || !store::CheckBucketName(TenantId::kRoot, entry.name).ok()) continue;
    const auto tree = OpenBeneath(sidecar_->root(), entry.name, O_RDONLY | O_DIRECTORY);
    if (!tree) continue;
    FB_ASSIGN(store::BucketInfo info, InfoOf(BucketNamed(entry.name), tree->get()));
    if (store::IsListed(tenant, info.owner)) infos.push_back(std::move(info));
  }
  std::ranges::sort(infos, {}, &store::BucketInfo::name);
  return infos;
}

Result<store::StoreSpace> Tree::Space() const {
  struct statvfs info{};
  if (::fstatvfs(sidecar_->root(), &info) != 0) return FileError(errno, "look at the file system of " + root_);
  const uint64_t block = info.f_frsize;
  const store::TenantUsage total = accounts_.Total();
  return store::StoreSpace{
      .devices = {{.name = root_, .capacity_bytes = info.f_blocks * block, .used_bytes = (info.f_blocks - info.f_bfree) * block}},
      .metadata = {.path = root_ + "/" + Sidecar::kName, .used_bytes = 0, .free_bytes = info.f_bavail * block, .reserve_bytes = 0},
      .objects = total.objects,
      .object_bytes = total.bytes};
}

store::StoreUsage Tree::Usage() const {
  const auto space = Space();
  if (!space.ok()) return {};
  return {.capacity_bytes = space->devices[0].capacity_bytes, .used_bytes = space->devices[0].used_bytes};
}

}  // namespace forebay::backend
