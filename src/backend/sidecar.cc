// SPDX-License-Identifier: Apache-2.0
#include "backend/sidecar.h"

#include <linux/fs.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

namespace forebay::backend {
namespace {

constexpr const char* kAttribute = "user.forebay";
/// Longer records go to the sidecar: ext4 has 4 KiB for all attributes of a file together.
constexpr size_t kMaxAttributeBytes = 3 * base::kKiB;
constexpr mode_t kPrivate = 0700;

Result<Descriptor> PrivateDirectory(int directory, const std::string& name) {
  FB_ASSIGN(std::optional<Descriptor> made, MakeDirectories(directory, name, kPrivate));
  if (!made) return Status::FailedPrecondition("{} is no directory: move it away", name);
  return *std::move(made);
}

/// "ab/00000000000000ab": 256 directories, so that none is too long.
std::string RecordName(uint64_t inode) { return fmt::format("{:016x}", inode); }
std::string RecordDirectory(uint64_t inode) { return fmt::format("{:02x}", inode & 0xff); }
std::string RecordPath(uint64_t inode) { return RecordDirectory(inode) + "/" + RecordName(inode); }

bool HasFile(int directory, const std::string& name) {
  struct stat info{};
  return ::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace

Temporary::~Temporary() {
  if (sidecar_ != nullptr) ::unlinkat(sidecar_->temporary_.get(), name_.c_str(), 0);
}

int Temporary::MoveTo(int directory, const std::string& name, bool absent) {
  const int from = sidecar_->temporary_.get();
  int moved = ::renameat2(from, name_.c_str(), directory, name.c_str(), absent ? RENAME_NOREPLACE : 0);
  if (moved != 0 && absent && (errno == EINVAL || errno == ENOSYS)) {
    // A second name does not replace anything either.
    moved = ::linkat(from, name_.c_str(), directory, name.c_str(), 0);
    if (moved == 0) ::unlinkat(from, name_.c_str(), 0);
  }
  if (moved != 0) return errno;
  sidecar_ = nullptr;
  return 0;
}

Result<std::unique_ptr<Sidecar>> Sidecar::Open(const std::string& root, base::Log& log) {
  std::unique_ptr<Sidecar> sidecar(new Sidecar);
  const Status prepared = sidecar->Prepare(root, log);
  if (!prepared.ok()) return prepared.WithContext("the directory " + root);
  return sidecar;
}

Status Sidecar::Prepare(const std::string& root, base::Log& log) {
  const int fd = ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return Status::NotFound("it does not exist: make it, or name the one that is meant");
  if (fd < 0) return FileError(errno, "open it");
  root_ = Descriptor(fd);
  if (const auto itself = OpenBeneath(root_.get(), "", O_RDONLY | O_DIRECTORY); !itself)
    return Status::Unimplemented("paths cannot be kept inside of it ({}): Linux 5.6 or later with openat2 is needed",
                                 FileError(itself.error(), "openat2").message());
  FB_ASSIGN(sidecar_, PrivateDirectory(root_.get(), kName));
  // Whoever could write there would be the server's administrator.
  struct stat info{};
  if (::fstat(sidecar_.get(), &info) != 0) return FileError(errno, "look at its records");
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0)
    return Status::FailedPrecondition(
        "{} in it is not of this user alone: look who made it; if it is ours: chown it, and chmod go= it", kName);
  auto lock = OpenBeneath(sidecar_.get(), "lock", O_RDWR | O_CREAT, 0600);
  if (!lock) return FileError(lock.error(), "open its lock");
  lock_ = *std::move(lock);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return Status::FailedPrecondition("another process serves it: stop that one first, or ask it");
  FB_TRY(RemoveTree(sidecar_.get(), "tmp"));
  FB_ASSIGN(temporary_, PrivateDirectory(sidecar_.get(), "tmp"));
  FB_ASSIGN(records_, PrivateDirectory(sidecar_.get(), "records"));
  FB_ASSIGN(checksums_, PrivateDirectory(sidecar_.get(), "checksums"));
  FB_ASSIGN(keys_, PrivateDirectory(sidecar_.get(), "keys"));
  FB_ASSIGN(uploads_, PrivateDirectory(sidecar_.get(), "uploads"));
  FB_ASSIGN(buckets_, PrivateDirectory(sidecar_.get(), "buckets"));
  FB_TRY(PrivateDirectory(sidecar_.get(), "server"));
  FB_TRY(Probe());
  if (!has_attributes_)
    log.Warning("{}: the file system has no user attributes: metadata is kept in {}/records, by inode", root, kName);
  return {};
}

Status Sidecar::Probe() {
  auto probe = OpenBeneath(temporary_.get(), "Probe-\xc3\xa9", O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (!probe) return FileError(probe.error(), "make a file");
  const bool folds = HasFile(temporary_.get(), "pROBE-\xc3\xa9") || HasFile(temporary_.get(), "Probe-e\xcc\x81");
  has_attributes_ = ::fsetxattr(probe->get(), kAttribute, "probe", 5, 0) == 0;
  ::unlinkat(temporary_.get(), "Probe-\xc3\xa9", 0);
  if (folds)
    return Status::Unimplemented(
        "its file system takes names for the same that differ in case or composition: objects would replace each other; "
        "use one that keeps names as they are");
  return {};
}

Result<Temporary> Sidecar::NewTemporary() const {
  std::string name = fmt::format("{:x}", next_temporary_.fetch_add(1));
  // As others would make it: the umask decides who may read.
  auto file = OpenBeneath(temporary_.get(), name, O_RDWR | O_CREAT | O_EXCL, 0666);
  if (!file) return FileError(file.error(), "make a temporary file");
  return Temporary(*this, std::move(name), *std::move(file));
}

Result<std::string> Sidecar::NewTemporaryDirectory(mode_t mode) const {
  std::string name = fmt::format("{:x}", next_temporary_.fetch_add(1));
  if (::mkdirat(temporary_.get(), name.c_str(), mode) != 0) return FileError(errno, "make a directory");
  return name;
}

Result<std::set<uint64_t>> Sidecar::Inodes() const {
  std::set<uint64_t> inodes;
  for (const int directory : {records_.get(), checksums_.get()}) {
    FB_ASSIGN(const std::vector<DirectoryEntry> groups, ReadDirectory(directory, "read the records"));
    for (const DirectoryEntry& group : groups) {
      auto files = OpenBeneath(directory, group.name, O_RDONLY | O_DIRECTORY);
      if (!files) continue;
      FB_ASSIGN(const std::vector<DirectoryEntry> entries, ReadDirectory(files->get(), "read the records"));
      for (const DirectoryEntry& entry : entries) {
        uint64_t inode = 0;
        const char* const end = entry.name.data() + entry.name.size();
        const auto parsed = std::from_chars(entry.name.data(), end, inode, 16);
        if (parsed.ec == std::errc() && parsed.ptr == end) inodes.insert(inode);
      }
    }
  }
  return inodes;
}

Result<std::optional<ObjectRecord>> Sidecar::LoadRecord(int file, const FileState& state) const {
  std::string bytes(kMaxAttributeBytes, '\0');
  const ssize_t got = ::fgetxattr(file, kAttribute, bytes.data(), bytes.size());
  if (got >= 0) {
    bytes.resize(static_cast<size_t>(got));
    auto record = DecodeObject(bytes);
    if (record.ok()) return std::optional(*std::move(record));
    return std::optional<ObjectRecord>();
  }
  if (errno != ENODATA && errno != EOPNOTSUPP && errno != ERANGE) return FileError(errno, "read an attribute");
  FB_ASSIGN(const std::optional<std::string> kept, ReadSmallFile(records_.get(), RecordPath(state.inode), kMaxRecordBytes));
  if (!kept) return std::optional<ObjectRecord>();
  auto record = DecodeObject(*kept);
  // An inode may be another file's by now.
  const bool holds = record.ok() && record->size_bytes == state.size_bytes && record->file_modified_ns == state.modified_ns;
  if (!holds) return std::optional<ObjectRecord>();
  return std::optional(*std::move(record));
}

Status Sidecar::SaveRecord(int file, const FileState& state, const ObjectRecord& record) const {
  const std::string bytes = Encode(record);
  if (has_attributes_ && bytes.size() <= kMaxAttributeBytes) {
    if (::fsetxattr(file, kAttribute, bytes.data(), bytes.size(), 0) == 0) return {};
    const bool no_room = errno == ENOSPC || errno == E2BIG || errno == ERANGE || errno == EOPNOTSUPP || errno == EDQUOT;
    if (!no_room) return FileError(errno, "write an attribute");
  }
  FB_ASSIGN(const Descriptor directory, PrivateDirectory(records_.get(), RecordDirectory(state.inode)));
  FB_TRY(WriteSmallFile(directory.get(), RecordName(state.inode), bytes));
  // Only now, so that the one or the other holds.
  if (::fremovexattr(file, kAttribute) != 0 && errno != ENODATA && errno != EOPNOTSUPP)
    return FileError(errno, "remove an attribute");
  return {};
}

void Sidecar::Forget(uint64_t inode) const {
  ::unlinkat(records_.get(), RecordPath(inode).c_str(), 0);
  ::unlinkat(checksums_.get(), RecordPath(inode).c_str(), 0);
}

std::optional<uint32_t> Sidecar::LoadChecksum(const FileState& state) const {
  const auto bytes = ReadSmallFile(checksums_.get(), RecordPath(state.inode), kMaxRecordBytes);
  if (!bytes.ok() || !*bytes) return {};
  const auto record = DecodeChecksum(**bytes);
  if (!record.ok() || record->inode != state.inode || record->size_bytes != state.size_bytes ||
      record->modified_ns != state.modified_ns || record->changed_ns != state.changed_ns)
    return {};
  return record->crc32c;
}

void Sidecar::SaveChecksum(const FileState& state, uint32_t crc32c) const {
  const std::string bytes = Encode(ChecksumRecord{.inode = state.inode,
                                                  .size_bytes = state.size_bytes,
                                                  .modified_ns = state.modified_ns,
                                                  .changed_ns = state.changed_ns,
                                                  .crc32c = crc32c});
  const auto directory = PrivateDirectory(checksums_.get(), RecordDirectory(state.inode));
  if (!directory.ok()) return;
  auto file = OpenBeneath(directory->get(), RecordName(state.inode), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file) (void)WriteAt(file->get(), AsBytes(bytes), 0, "write a checksum");
}

}  // namespace forebay::backend
