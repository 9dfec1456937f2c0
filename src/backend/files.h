// SPDX-License-Identifier: Apache-2.0
// Files: the calls of the operating system that the directory backend is made of, each with its errors as a Status.
// Paths are relative to a descriptor and never leave it: openat2 without symbolic links, without `..` beyond the start
// and without other mounts. All of them block: they run on the store's threads. Thread-safe: Descriptor belongs to one
// thread at a time, the rest holds no state.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace forebay::backend {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  /// The caller closes it.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// An error of the file system, which is never the answer to a question about objects: what would look like one
/// (NotFound, AlreadyExists, FailedPrecondition) is Unavailable.
Status FileError(int error, std::string_view what);

struct FileState {
  uint64_t inode = 0;
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;  // mtime
  int64_t changed_ns = 0;   // ctime
  friend bool operator==(const FileState&, const FileState&) = default;
};
FileState StateOf(const struct stat& info);
Result<FileState> StateOf(int fd, std::string_view what);

/// errno of openat2 below `directory`, or the descriptor.
std::expected<Descriptor, int> OpenBeneath(int directory, const std::string& path, int flags, mode_t mode = 0);
/// Whether the errno says that the path leads nowhere: missing, a file in the middle, a symbolic link, another mount.
bool LeadsNowhere(int error);

/// The directory at `path` ("" is `directory` itself), with all above it made durably where they are missing. Nothing when
/// something else is in the way.
Result<std::optional<Descriptor>> MakeDirectories(int directory, std::string_view path, mode_t mode);

/// Makes the file at least so long, with zeros that take no space.
Status GrowTo(int fd, uint64_t size_bytes, std::string_view what);
Status SyncFile(int fd, std::string_view what);
Status WriteAt(int fd, ByteView data, uint64_t offset, std::string_view what);
/// Fewer bytes than asked for only at the end of the file.
Result<size_t> ReadAt(int fd, MutableByteView data, uint64_t offset, std::string_view what);
/// Copies a run, by sharing its blocks where the file system can; what is a hole stays one, so the target has none of its
/// own content there. Aborted when the source ends before it.
Status CopyRun(int from, uint64_t offset, uint64_t length, int to, uint64_t to_offset, std::string_view what);
/// CRC32C of a run. Aborted when the file ends before it.
Result<uint32_t> ChecksumRun(int fd, uint64_t offset, uint64_t length, std::string_view what);

/// A small file, whole; nothing when it is not there. DataLoss beyond `limit`.
Result<std::optional<std::string>> ReadSmallFile(int directory, const std::string& path, size_t limit);
/// Replaces a small file durably, by way of `NAME~` beside it.
Status WriteSmallFile(int directory, const std::string& name, std::string_view content);

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;  // else a regular file
};
/// Regular files and directories in an open directory, without `.` and `..`; what is neither is left out.
Result<std::vector<DirectoryEntry>> ReadDirectory(int directory, std::string_view what);

/// Removes a directory and all below it; nothing outside, whatever links there are.
Status RemoveTree(int directory, const std::string& name);

}  // namespace forebay::backend
