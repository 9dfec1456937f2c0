// SPDX-License-Identifier: Apache-2.0
#include "device/file_device.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "device/request_check.h"

namespace forebay::device {

namespace {

constexpr size_t kZeroPiece = base::kMiB;

/// What a failed read, write or flush means to the caller.
Status IoError(int error, const std::string& path, std::string_view verb, uint64_t offset, uint64_t length) {
  const std::string what = fmt::format("{}: {} of {} bytes at offset {}", path, verb, length, offset);
  Status plain = Status::FromErrno(error, what);
  switch (error) {
    case EIO:         // the drive or the file system gave up
    case ENODATA:     // medium error
    case EILSEQ:      // the drive's own protection information does not match
    case EREMOTEIO:   // the drive refused
      return Status(Code::kDataLoss, std::string(plain.message()));
    case ENOSPC:
    case EDQUOT:
      return Status(Code::kResourceExhausted, std::string(plain.message()));
    case ETIMEDOUT:
    case ENOLINK:
    case ENODEV:
    case ENXIO:
      return Status::Unavailable("{} (is the drive still attached?)", plain.message());
    default:
      return plain;
  }
}

Status MakeDurable(int fd, const std::string& path) {
  if (::fsync(fd) != 0) return Status::FromErrno(errno, fmt::format("sync new file {}", path));
  const size_t slash = path.find_last_of('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const int directory_fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_fd < 0) return Status::FromErrno(errno, fmt::format("open directory {}", directory));
  const int error = ::fsync(directory_fd) == 0 ? 0 : errno;
  ::close(directory_fd);
  if (error != 0) return Status::FromErrno(error, fmt::format("sync directory {}", directory));
  return {};
}

Status Allocate(int fd, const std::string& path, uint64_t size_bytes, bool sparse) {
  int error = sparse ? EOPNOTSUPP : 0;
  while (!sparse) {
    error = ::fallocate(fd, 0, 0, static_cast<off_t>(size_bytes)) == 0 ? 0 : errno;
    if (error != EINTR) break;
  }
  if (error == EOPNOTSUPP) error = ::ftruncate(fd, static_cast<off_t>(size_bytes)) == 0 ? 0 : errno;
  if (error == ENOSPC || error == EDQUOT)
    return Status::ResourceExhausted("{}: no room for {}: choose a smaller size or another file system", path,
                                     base::FormatSize(size_bytes));
  if (error != 0) return Status::FromErrno(error, fmt::format("{}: allocate {}", path, base::FormatSize(size_bytes)));
  return {};
}

/// True when one unit can be read with O_DIRECT: some file systems take the flag and refuse each I/O.
bool DirectReadWorks(int fd) {
  void* memory = std::aligned_alloc(kUnit, kUnit);
  if (memory == nullptr) return false;
  const ssize_t got = ::pread(fd, memory, kUnit, 0);
  const bool refused = got < 0 && errno == EINVAL;
  std::free(memory);
  return !refused;
}

bool MakeDirect(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  // Set after the open: an open that refuses O_DIRECT may have created the file all the same.
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) return false;
  if (DirectReadWorks(fd)) return true;
  ::fcntl(fd, F_SETFL, flags);
  return false;
}

Result<uint64_t> MeasureSize(int fd, const std::string& path, const struct stat& info) {
  uint64_t size = 0;
  if (S_ISBLK(info.st_mode)) {
    if (::ioctl(fd, BLKGETSIZE64, &size) != 0)
      return Status::FromErrno(errno, fmt::format("{}: ask for the size of the block device", path));
    int sector = 0;
    if (::ioctl(fd, BLKSSZGET, &sector) == 0 && sector > static_cast<int>(kUnit))
      return Status::FailedPrecondition("{}: its sectors have {} bytes, but at most {} are supported", path, sector,
                                        kUnit);
  } else if (S_ISREG(info.st_mode)) {
    struct stat now;
    if (::fstat(fd, &now) != 0) return Status::FromErrno(errno, fmt::format("{}: ask for its size", path));
    size = static_cast<uint64_t>(now.st_size);
  } else {
    return Status::InvalidArgument("{}: neither a regular file nor a block device", path);
  }
  size = base::RoundDown(size, kUnit);
  if (size == 0) return Status::FailedPrecondition("{}: it is empty: nothing can be stored in it", path);
  return size;
}

Status LockExclusively(int fd, const std::string& path, std::chrono::milliseconds wait) {
  constexpr std::chrono::milliseconds kPause(20);
  for (auto waited = std::chrono::milliseconds::zero(); ::flock(fd, LOCK_EX | LOCK_NB) != 0; waited += kPause) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Status::FromErrno(errno, fmt::format("lock device {}", path));
    if (waited >= wait)
      return Status::FailedPrecondition("{}: another process uses this device: is a server running on it?", path);
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

}  // namespace

/// Closes the descriptor, and removes a file that was begun, unless released.
class FileDevice::Descriptor {
 public:
  Descriptor(int fd, std::string remove) : fd_(fd), remove_(std::move(remove)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
    if (!remove_.empty()) ::unlink(remove_.c_str());
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Release() {
    remove_.clear();
    return std::exchange(fd_, -1);
  }

 private:
  int fd_;
  std::string remove_;
};

Result<std::unique_ptr<FileDevice>> FileDevice::Open(std::string path, Options options) {
  struct stat info{};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  const bool is_block_device = exists && S_ISBLK(info.st_mode);
  const bool create = options.create && !is_block_device;
  if (create && (options.size_bytes == 0 || options.size_bytes % kUnit != 0 || options.size_bytes > INT64_MAX))
    return Status::InvalidArgument("{}: a device of {} bytes cannot be made: the size must be a multiple of {} above 0",
                                   path, options.size_bytes, kUnit);

  // O_EXCL keeps a new file from being somebody else's, and a block device from being a mounted one.
  const int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : is_block_device ? O_EXCL : 0);
  const int fd = ::open(path.c_str(), flags, 0600);
  if (fd < 0) {
    if (errno == EEXIST && create) return Status::AlreadyExists("{}: there is such a file already", path);
    if (errno == EBUSY)
      return Status::FailedPrecondition("{}: the block device is mounted or used by another program", path);
    return Status::FromErrno(errno, fmt::format("open device {}", path));
  }
  Descriptor descriptor(fd, create ? path : std::string());
  FB_TRY(LockExclusively(fd, path, options.in_use_wait));
  if (::fstat(fd, &info) != 0) return Status::FromErrno(errno, fmt::format("{}: look at it", path));
  if (create) {
    FB_TRY(Allocate(fd, path, options.size_bytes, options.sparse));
    FB_TRY(MakeDurable(fd, path));
  }
  FB_ASSIGN(const uint64_t size, MeasureSize(fd, path, info));
  if (size < options.size_bytes)
    return Status::DataLoss("{}: the device has {} bytes, but {} were given to it: a part of it is missing", path, size,
                            options.size_bytes);
  const bool direct = options.direct && MakeDirect(fd);

  void* zeros = ::mmap(nullptr, kZeroPiece, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (zeros == MAP_FAILED) return Status::FromErrno(errno, "map zeros");
  return std::unique_ptr<FileDevice>(new FileDevice(std::move(path), descriptor.Release(), size, direct, is_block_device,
                                                    ByteView(static_cast<const std::byte*>(zeros), kZeroPiece)));
}

FileDevice::FileDevice(std::string path, int fd, uint64_t size_bytes, bool direct, bool is_block_device, ByteView zeros)
    : path_(std::move(path)),
      fd_(fd),
      size_bytes_(size_bytes),
      direct_(direct),
      is_block_device_(is_block_device),
      zeros_(zeros) {}

FileDevice::~FileDevice() {
  ::close(fd_);
  ::munmap(const_cast<std::byte*>(zeros_.data()), zeros_.size());
}

rt::Task<Status> FileDevice::Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) {
  FB_CO_ASSIGN(uint64_t left, CheckRequest(path_, size_bytes_, "read", offset, buffers));
  SpanCursor<MutableByteView> cursor(buffers);
  while (!cursor.done()) {
    const std::span<const iovec> pieces = cursor.Pieces();
    const int got = co_await reactor.Readv(fd_, pieces.data(), static_cast<uint32_t>(pieces.size()), offset);
    if (got == -EINTR || got == -EAGAIN) continue;
    if (got < 0) co_return IoError(-got, path_, "read", offset, left);
    // A short read may end between units; going on from there would be unaligned, so the odd rest is read again.
    const uint64_t whole = base::RoundDown(static_cast<uint64_t>(got), kUnit);
    if (whole == 0)
      co_return Status::DataLoss("{}: read of {} bytes at offset {}: the file ends early; was it cut off?", path_, left,
                                 offset);
    cursor.Advance(whole);
    offset += whole;
    left -= whole;
  }
  co_return Status();
}

rt::Task<Status> FileDevice::Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) {
  FB_CO_ASSIGN(uint64_t left, CheckRequest(path_, size_bytes_, "write", offset, buffers));
  SpanCursor<ByteView> cursor(buffers);
  while (!cursor.done()) {
    const std::span<const iovec> pieces = cursor.Pieces();
    const int put = co_await reactor.Writev(fd_, pieces.data(), static_cast<uint32_t>(pieces.size()), offset);
    if (put == -EINTR || put == -EAGAIN) continue;
    if (put < 0) co_return IoError(-put, path_, "write", offset, left);
    const uint64_t whole = base::RoundDown(static_cast<uint64_t>(put), kUnit);
    if (whole == 0)
      co_return Status::DataLoss("{}: write of {} bytes at offset {}: nothing was taken", path_, left, offset);
    cursor.Advance(whole);
    offset += whole;
    left -= whole;
  }
  co_return Status();
}

rt::Task<Status> FileDevice::Flush(rt::Reactor& reactor) {
  // A file that was deleted takes writes for as long as it is open, and all of them go with the process.
  struct stat info{};
  if (!is_block_device_ && ::fstat(fd_, &info) == 0 && info.st_nlink == 0)
    co_return Status::Unavailable("{}: flush: the file was deleted, so what is written to it does not last", path_);
  const int result = co_await reactor.Fsync(fd_, /*data_only=*/true);
  if (result < 0) {
    // Never tried again, not even for EINTR: the kernel may have forgotten which pages it failed to write.
    const Status plain = Status::FromErrno(-result, fmt::format("{}: flush", path_));
    co_return -result == ENOSPC || -result == EDQUOT ? Status(Code::kResourceExhausted, std::string(plain.message()))
                                                     : Status(Code::kDataLoss, std::string(plain.message()));
  }
  co_return Status();
}

rt::Task<Status> FileDevice::ZeroAhead(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes) {
  if (begin_bytes % kUnit != 0 || end_bytes % kUnit != 0)
    co_return Status::InvalidArgument("{}: zeroing [{}, {}): not a multiple of {}", path_, begin_bytes, end_bytes, kUnit);
  if (end_bytes > size_bytes_)
    co_return Status::OutOfRange("{}: zeroing up to {}: the device has {} bytes", path_, end_bytes, size_bytes_);
  if (is_block_device_) co_return Status();
  if (zeroing_.exchange(true))
    co_return Status::FailedPrecondition("{}: it is being zeroed already: one call at a time", path_);
  const uint64_t begin = std::max(begin_bytes, zeroed_to_.load());
  Status status;
  if (begin < end_bytes) status = co_await WriteZeros(reactor, begin, end_bytes);
  zeroing_ = false;
  co_return status;
}

rt::Task<Status> FileDevice::WriteZeros(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes) {
  for (uint64_t at = begin_bytes; at < end_bytes;) {
    const ByteView piece = zeros_.first(std::min<uint64_t>(zeros_.size(), end_bytes - at));
    FB_CO_TRY(co_await Write(reactor, at, std::span(&piece, 1)));
    at += piece.size();
    zeroed_to_ = at;
  }
  co_return Status();
}

}  // namespace forebay::device
