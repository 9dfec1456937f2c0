// SPDX-License-Identifier: Apache-2.0
#include "backend/files.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/checksum.h"
#include "store/operations.h"

namespace forebay::backend {
namespace {

constexpr size_t kCopyBytes = base::kMiB;
constexpr uint64_t kBlockBytes = 4096;

/// Saturates in the year 2262: a file may say any date.
constexpr int64_t Nanoseconds(const timespec& time) {
  constexpr int64_t kPerSecond = 1'000'000'000;
  constexpr int64_t kMaxSeconds = INT64_MAX / kPerSecond - 1;
  return std::clamp<int64_t>(time.tv_sec, -kMaxSeconds, kMaxSeconds) * kPerSecond + time.tv_nsec;
}

Status Shorter(std::string_view what) {
  return Status::Aborted("{}: the file became shorter meanwhile; try again", what);
}

/// What a file has from an offset on, up to `end`: bytes, or a hole.
struct Segment {
  bool is_data = true;
  uint64_t length = 0;
};

Result<Segment> SegmentAt(int fd, uint64_t offset, uint64_t end, std::string_view what) {
  const off_t data = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  if (data < 0 && errno == ENXIO) {  // nothing but a hole, or the end
    FB_ASSIGN(const FileState state, StateOf(fd, what));
    if (state.size_bytes < end) return Shorter(what);
    return Segment{.is_data = false, .length = end - offset};
  }
  if (data < 0) return Segment{.length = end - offset};  // a file system that does not tell
  const uint64_t first = std::min(static_cast<uint64_t>(data), end);
  if (first > offset) return Segment{.is_data = false, .length = first - offset};
  const off_t hole = ::lseek(fd, static_cast<off_t>(offset), SEEK_HOLE);
  if (hole < 0 || static_cast<uint64_t>(hole) <= offset) return Segment{.length = end - offset};
  return Segment{.length = std::min(static_cast<uint64_t>(hole), end) - offset};
}

/// read and write, where the kernel does not copy between these two files.
Status CopyThroughMemory(int from, uint64_t offset, uint64_t length, int to, uint64_t to_offset, std::string_view what) {
  Bytes buffer(std::min<uint64_t>(length, kCopyBytes));
  for (uint64_t done = 0; done < length;) {
    const MutableByteView piece = std::span(buffer).first(std::min<uint64_t>(length - done, buffer.size()));
    FB_ASSIGN(const size_t got, ReadAt(from, piece, offset + done, what));
    if (got == 0) return Shorter(what);
    FB_TRY(WriteAt(to, piece.first(got), to_offset + done, what));
    done += got;
  }
  return {};
}

Status CopyData(int from, uint64_t offset, uint64_t length, int to, uint64_t to_offset, std::string_view what) {
  while (length != 0) {
    auto in = static_cast<loff_t>(offset);
    auto out = static_cast<loff_t>(to_offset);
    // Whole blocks first: only those can be shared.
    const bool aligned = length > kBlockBytes && offset % kBlockBytes == 0 && to_offset % kBlockBytes == 0;
    const uint64_t piece = std::min<uint64_t>(aligned ? base::RoundDown(length, kBlockBytes) : length, base::kGiB);
    const ssize_t copied = ::copy_file_range(from, &in, to, &out, piece, 0);
    if (copied < 0 && errno == EINTR) continue;
    const bool cannot = copied < 0 && (errno == EXDEV || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL);
    if (cannot) return CopyThroughMemory(from, offset, length, to, to_offset, what);
    if (copied < 0) return FileError(errno, what);
    if (copied == 0) return Shorter(what);
    const auto advanced = static_cast<uint64_t>(copied);
    offset += advanced;
    to_offset += advanced;
    length -= advanced;
  }
  return {};
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Status FileError(int error, std::string_view what) {
  Status status = Status::FromErrno(error, what);
  if (!store::IsResult(status.code())) return status;
  return Status(Code::kUnavailable, std::string(status.message()));
}

FileState StateOf(const struct stat& info) {
  return {.inode = info.st_ino,
          .size_bytes = static_cast<uint64_t>(info.st_size),
          .modified_ns = Nanoseconds(info.st_mtim),
          .changed_ns = Nanoseconds(info.st_ctim)};
}

Result<FileState> StateOf(int fd, std::string_view what) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return FileError(errno, what);
  return StateOf(info);
}

std::expected<Descriptor, int> OpenBeneath(int directory, const std::string& path, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags) | O_CLOEXEC;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  for (;;) {
    const long fd = ::syscall(SYS_openat2, directory, path.empty() ? "." : path.c_str(), &how, sizeof(how));
    if (fd >= 0) return Descriptor(static_cast<int>(fd));
    if (errno != EINTR && errno != EAGAIN) return std::unexpected(errno);
  }
}

bool LeadsNowhere(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EXDEV || error == ENAMETOOLONG;
}

Result<std::optional<Descriptor>> MakeDirectories(int directory, std::string_view path, mode_t mode) {
  const auto open = [](int at, const std::string& name) { return OpenBeneath(at, name, O_RDONLY | O_DIRECTORY); };
  auto current = open(directory, std::string(path));
  if (current) return std::optional(*std::move(current));
  if (!LeadsNowhere(current.error())) return FileError(current.error(), fmt::format("open the directory {}", path));
  current = open(directory, "");
  for (size_t at = 0; at < path.size();) {
    if (!current) return FileError(current.error(), fmt::format("open the directory {}", path));
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string name(path.substr(at, end - at));
    const bool made = ::mkdirat(current->get(), name.c_str(), mode) == 0;
    if (!made && errno == ENOENT) return Status::Aborted("the directory above {} went away; try again", path);
    if (!made && errno == ENAMETOOLONG) return std::optional<Descriptor>();
    if (!made && errno != EEXIST) return FileError(errno, fmt::format("make the directory {}", path.substr(0, end)));
    if (made) FB_TRY(SyncFile(current->get(), fmt::format("make the directory {} durable", path.substr(0, end))));
    auto next = open(current->get(), name);
    if (!next && next.error() == ENOENT) return Status::Aborted("the directory {} went away; try again", path);
    if (!next && LeadsNowhere(next.error())) return std::optional<Descriptor>();
    current = std::move(next);
    at = end + 1;
  }
  if (!current) return FileError(current.error(), fmt::format("open the directory {}", path));
  return std::optional(*std::move(current));
}

Status GrowTo(int fd, uint64_t size, std::string_view what) {
  FB_ASSIGN(const FileState state, StateOf(fd, what));
  if (state.size_bytes >= size || ::ftruncate(fd, static_cast<off_t>(size)) == 0) return {};
  return FileError(errno, what);
}

Status SyncFile(int fd, std::string_view what) { return ::fsync(fd) == 0 ? Status() : FileError(errno, what); }

Status WriteAt(int fd, ByteView data, uint64_t offset, std::string_view what) {
  while (!data.empty()) {
    const ssize_t wrote = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return FileError(errno, what);
    if (wrote == 0) return Status::Unavailable("{}: nothing could be written", what);
    data = data.subspan(static_cast<size_t>(wrote));
    offset += static_cast<uint64_t>(wrote);
  }
  return {};
}

Result<size_t> ReadAt(int fd, MutableByteView data, uint64_t offset, std::string_view what) {
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t got = ::pread(fd, data.data() + done, data.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, what);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

Status CopyRun(int from, uint64_t offset, uint64_t length, int to, uint64_t to_offset, std::string_view what) {
  const uint64_t end = offset + length;
  FB_TRY(GrowTo(to, to_offset + length, what));
  while (offset < end) {
    FB_ASSIGN(const Segment segment, SegmentAt(from, offset, end, what));
    if (segment.is_data) FB_TRY(CopyData(from, offset, segment.length, to, to_offset, what));
    offset += segment.length;
    to_offset += segment.length;
  }
  return {};
}

Result<uint32_t> ChecksumRun(int fd, uint64_t offset, uint64_t length, std::string_view what) {
  const uint64_t end = offset + length;
  Bytes buffer(std::min<uint64_t>(length, kCopyBytes));
  uint32_t crc32c = base::kCrc32cEmpty;
  while (offset < end) {
    FB_ASSIGN(const Segment segment, SegmentAt(fd, offset, end, what));
    if (!segment.is_data) {
      crc32c = base::Crc32cCombine(crc32c, base::Crc32cZeros(segment.length), segment.length);
      offset += segment.length;
      continue;
    }
    const MutableByteView piece = std::span(buffer).first(std::min<uint64_t>(segment.length, buffer.size()));
    FB_ASSIGN(const size_t got, ReadAt(fd, piece, offset, what));
    if (got == 0) return Shorter(what);
    crc32c = base::Crc32cExtend(crc32c, piece.first(got));
    offset += got;
  }
  return crc32c;
}

Result<std::optional<std::string>> ReadSmallFile(int directory, const std::string& path, size_t limit) {
  const std::string what = "read " + path;
  auto file = OpenBeneath(directory, path, O_RDONLY | O_NONBLOCK);
  if (!file && LeadsNowhere(file.error())) return std::optional<std::string>();
  if (!file) return FileError(file.error(), what);
  std::string content(limit + 1, '\0');
  FB_ASSIGN(const size_t got, ReadAt(file->get(), std::as_writable_bytes(std::span(content)), 0, what));
  if (got > limit) return Status::DataLoss("{} has more than {} bytes: it is not what was written there", path, limit);
  content.resize(got);
  return std::optional(std::move(content));
}

Status WriteSmallFile(int directory, const std::string& name, std::string_view content) {
  const std::string what = "write " + name;
  const std::string temporary = name + "~";
  {
    auto file = OpenBeneath(directory, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (!file) return FileError(file.error(), what);
    FB_TRY(WriteAt(file->get(), AsBytes(content), 0, what));
    FB_TRY(SyncFile(file->get(), what));
  }
  if (::renameat(directory, temporary.c_str(), directory, name.c_str()) != 0) return FileError(errno, what);
  return SyncFile(directory, what);
}

Result<std::vector<DirectoryEntry>> ReadDirectory(int directory, std::string_view what) {
  // A descriptor of its own: the position of a directory stream is that of its descriptor.
  auto own = OpenBeneath(directory, "", O_RDONLY | O_DIRECTORY);
  if (!own) return FileError(own.error(), what);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own->get()), &::closedir);
  if (stream == nullptr) return FileError(errno, what);
  (void)own->Release();  // it is the stream's
  std::vector<DirectoryEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    unsigned char type = entry->d_type;
    if (type == DT_UNKNOWN) {
      struct stat info{};
      if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
      type = S_ISDIR(info.st_mode) ? DT_DIR : S_ISREG(info.st_mode) ? DT_REG : DT_LNK;
    }
    if (type == DT_DIR || type == DT_REG) entries.push_back({.name = std::move(name), .is_directory = type == DT_DIR});
  }
  if (errno != 0) return FileError(errno, what);
  return entries;
}

Status RemoveTree(int directory, const std::string& name) {
  const std::string what = "remove " + name;
  {
    auto tree = OpenBeneath(directory, name, O_RDONLY | O_DIRECTORY);
    if (!tree) return tree.error() == ENOENT ? Status() : FileError(tree.error(), what);
    FB_ASSIGN(const std::vector<DirectoryEntry> entries, ReadDirectory(tree->get(), what));
    for (const DirectoryEntry& entry : entries) {
      if (entry.is_directory) {
        FB_TRY(RemoveTree(tree->get(), entry.name));
      } else if (::unlinkat(tree->get(), entry.name.c_str(), 0) != 0 && errno != ENOENT) {
        return FileError(errno, what);
      }
    }
  }
  if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) return FileError(errno, what);
  return {};
}

}  // namespace forebay::backend
