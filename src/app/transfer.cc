// SPDX-License-Identifier: Apache-2.0
#include "app/transfer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/progress.h"
#include "auth/sha256.h"
#include "base/bytes.h"
#include "base/status.h"

namespace forebay::app {
namespace {

constexpr size_t kPieceBytes = 4 * base::kMiB;
/// Of one upload whose server goes away in the middle.
constexpr int kUploadAttempts = 5;

Error ErrnoError(int error, const std::string& what) {
  const Status status = Status::FromErrno(error, what);
  return {status.code(), std::string(status.message())};
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A descriptor that is closed unless it is one of the standard ones.
class File {
 public:
  explicit File(int fd = -1) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~File() {
    if (fd_ > STDERR_FILENO) close(fd_);
  }
  int fd() const { return fd_; }
  /// Closes now, to hear of errors that a file system reports late.
  bool Close() {
    const int fd = std::exchange(fd_, -1);
    return fd <= STDERR_FILENO || close(fd) == 0;
  }

 private:
  int fd_;
};

/// Fills `buffer` as far as the input goes; the bytes read, or -1 with errno set.
ssize_t ReadFully(int fd, std::span<std::byte> buffer) {
  size_t filled = 0;
  while (filled < buffer.size()) {
    const ssize_t n = read(fd, buffer.data() + filled, buffer.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  return static_cast<ssize_t>(filled);
}

bool WriteFully(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

/// A new file in the directory of `path` that has no name yet, so that nothing is left of it whatever ends
/// this process. -1 with errno set where a file system has no such files.
int OpenUnnamed(const std::string& path) {
  if (access("/proc/self/fd", F_OK) != 0) return -1;  // by which it gets its name
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

/// Gives an unnamed file the name `path`, which nothing has.
bool GiveName(int fd, const std::string& path) {
  return linkat(AT_FDCWD, ("/proc/self/fd/" + std::to_string(fd)).c_str(), AT_FDCWD, path.c_str(),
                AT_SYMLINK_FOLLOW) == 0;
}

/// Where a download goes. A regular file gets its name, in the place of one that had it, from Publish.
class Target {
 public:
  static std::expected<Target, Error> Open(const std::string& path) {
    Target target;
    target.path_ = path;
    if (path == "-") {
      target.file_ = File(STDOUT_FILENO);
      return target;
    }
    struct stat info{};
    if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      if (S_ISDIR(info.st_mode))
        return std::unexpected(
            Error{Code::kInvalidArgument, path + " is a directory: name the file to write"});
      target.file_ = File(open(path.c_str(), O_WRONLY | O_CLOEXEC));
      if (target.file_.fd() < 0) return std::unexpected(ErrnoError(errno, "open " + path));
      return target;
    }
    target.file_ = File(OpenUnnamed(path));
    target.unnamed_ = target.file_.fd() >= 0;
    if (target.unnamed_) return target;
    target.temporary_ = path + ".part-XXXXXX";
    target.file_ = File(mkostemp(target.temporary_.data(), O_CLOEXEC));
    if (target.file_.fd() < 0) {
      const int error = errno;
      target.temporary_.clear();
      return std::unexpected(ErrnoError(error, "create a file beside " + path));
    }
    const mode_t mask = umask(0);
    umask(mask);
    fchmod(target.file_.fd(), 0666 & ~mask);
    return target;
  }

  Target(Target&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, {})),
        unnamed_(other.unnamed_),
        file_(std::move(other.file_)) {}
  Target& operator=(Target&&) = delete;
  ~Target() {
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }

  std::expected<void, Error> Write(std::span<const std::byte> bytes) {
    if (WriteFully(file_.fd(), bytes)) return {};
    return std::unexpected(ErrnoError(errno, "write " + (path_ == "-" ? "to standard output" : path_)));
  }
  std::expected<void, Error> Publish() {
    if (unnamed_ && !GiveName(file_.fd(), path_)) {
      // A name can only be given where there is none: a file that is there is replaced by a rename.
      if (errno != EEXIST) return std::unexpected(ErrnoError(errno, "name the file " + path_));
      const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
      std::string beside = fmt::format("{}.part-{}-{:x}", path_, getpid(), now);
      if (!GiveName(file_.fd(), beside)) return std::unexpected(ErrnoError(errno, "name the file " + beside));
      temporary_ = std::move(beside);
    }
    if (!file_.Close()) return std::unexpected(ErrnoError(errno, "write " + path_));
    if (temporary_.empty()) return {};
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
      return std::unexpected(ErrnoError(errno, "move the finished file to " + path_));
    temporary_.clear();
    return {};
  }

 private:
  Target() = default;
  std::string path_;
  std::string temporary_;  // a name beside path_ to be taken away; empty when there is none
  bool unnamed_ = false;
  File file_;
};

std::expected<File, Error> OpenSource(const std::string& path, uint64_t* size_bytes) {
  *size_bytes = 0;
  File file(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return std::unexpected(ErrnoError(errno, "open " + path));
  struct stat info{};
  if (fstat(file.fd(), &info) != 0) return std::unexpected(ErrnoError(errno, "look at " + path));
  if (S_ISDIR(info.st_mode))
    return std::unexpected(
        Error{Code::kInvalidArgument, path + " is a directory: name a file, or `-` for a pipe"});
  if (S_ISREG(info.st_mode)) *size_bytes = static_cast<uint64_t>(info.st_size);
  return file;
}

/// Memory of its own for a region, touched beforehand: first use of fresh pages is far slower than the
/// transfer.
class TouchedMemory {
 public:
  explicit TouchedMemory(size_t size_bytes) : size_bytes_(size_bytes) {
    memory_ = mmap(nullptr, std::max<size_t>(size_bytes, 1), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  }
  TouchedMemory(const TouchedMemory&) = delete;
  TouchedMemory& operator=(const TouchedMemory&) = delete;
  ~TouchedMemory() {
    if (ok()) munmap(memory_, std::max<size_t>(size_bytes_, 1));
  }
  bool ok() const { return memory_ != MAP_FAILED; }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(memory_), size_bytes_}; }

 private:
  void* memory_;
  size_t size_bytes_;
};

/// A run of an object that is there; no offset: behind its end.
struct Run {
  std::optional<uint64_t> offset;
};

/// One object on its way to the server, from the start of an input.
struct Sending {
  Client& client;
  const std::string& path;
  int fd;
  const std::string& bucket;
  const std::string& key;
  uint64_t size_bytes;  // for the progress; 0: not known
  PutOptions options;   // with the operation id, once an attempt may have taken place
  std::optional<struct Run> range{};  // instead of the whole object
  uint64_t sent = 0;    // by the last attempt
  bool begun = false;   // the last attempt was: what fails before is tried again by the client itself

  std::expected<PutResult, Error> Send() {
    std::vector<std::byte> piece(kPieceBytes);
    sent = 0;
    const ssize_t got = ReadFully(fd, piece);
    if (got < 0) return std::unexpected(ErrnoError(errno, "read " + path));
    const auto first = std::span(piece).first(static_cast<size_t>(got));
    if (first.size() < piece.size()) return SendWhole(first);
    auto writer = OpenWriter();
    begun = writer.has_value();
    if (!begun) return std::unexpected(writer.error());
    auto stored = Stream(*writer, piece);
    if (!writer->operation().empty()) options.operation = writer->operation();
    return stored;
  }

 private:
  OverwriteOptions RangeOptions() const {
    return {.if_match = options.if_match, .timeout = options.timeout, .operation = options.operation};
  }
  /// All of it at once.
  std::expected<PutResult, Error> SendWhole(std::span<const std::byte> content) {
    sent = content.size();
    if (!range) return client.Put(bucket, key, content, options);
    if (!range->offset) return client.Append(bucket, key, content, RangeOptions());
    return client.Overwrite(bucket, key, *range->offset, content, RangeOptions());
  }
  std::expected<Writer, Error> OpenWriter() {
    if (!range) return client.OpenWriter(bucket, key, options);
    return client.OpenOverwriter(bucket, key, range->offset, RangeOptions());
  }
  /// `piece` is full: the first one.
  std::expected<PutResult, Error> Stream(Writer& writer, std::span<std::byte> piece) {
    Progress progress(key, size_bytes);
    auto got = static_cast<ssize_t>(piece.size());
    for (; got > 0; got = ReadFully(fd, piece)) {
      if (auto written = writer.Write(piece.first(static_cast<size_t>(got))); !written)
        return std::unexpected(written.error());
      progress.Add(static_cast<uint64_t>(got));
      sent += static_cast<uint64_t>(got);
    }
    if (got < 0) return std::unexpected(ErrnoError(errno, "read " + path));
    return writer.Commit();
  }
};

std::string DigestOf(std::span<const std::byte> bytes) {
  auth::Sha256 digest;
  digest.Update(bytes);
  return digest.FinishHex();
}

}  // namespace

namespace {

std::expected<TransferReport, Error> SendFile(Client& client, const std::string& path, const std::string& bucket,
                                              const std::string& key, const PutOptions& options,
                                              std::optional<Run> range) {
  uint64_t size_bytes = 0;
  const auto source = OpenSource(path, &size_bytes);
  if (!source) return std::unexpected(source.error());
  const auto start = std::chrono::steady_clock::now();
  const off_t begin = lseek(source->fd(), 0, SEEK_CUR);  // a redirected file may stand anywhere; -1 of a pipe
  Sending sending{client, path, source->fd(), bucket, key, size_bytes, options, range};
  for (int attempt = 1;; ++attempt) {
    const auto stored = sending.Send();
    if (stored) return TransferReport{sending.sent, SecondsSince(start), stored->etag, stored->crc32c, {}};
    const bool again = sending.begun && stored.error().code == Code::kUnavailable &&
                       attempt < kUploadAttempts && begin >= 0 && lseek(source->fd(), begin, SEEK_SET) == begin;
    if (!again) return std::unexpected(stored.error());
  }
}

}  // namespace

std::expected<TransferReport, Error> Upload(Client& client, const std::string& path, const std::string& bucket,
                                            const std::string& key, const PutOptions& options) {
  return SendFile(client, path, bucket, key, options, std::nullopt);
}

std::expected<TransferReport, Error> UploadRange(Client& client, const std::string& path, const std::string& bucket,
                                                 const std::string& key, std::optional<uint64_t> offset,
                                                 const PutOptions& options) {
  return SendFile(client, path, bucket, key, options, Run{offset});
}

std::expected<TransferReport, Error> Download(Client& client, const std::string& bucket,
                                              const std::string& key, const std::string& path,
                                              const GetOptions& options) {
  auto reader = client.OpenReader(bucket, key, options);
  if (!reader) return std::unexpected(reader.error());
  auto target = Target::Open(path);
  if (!target) return std::unexpected(target.error());
  const auto start = std::chrono::steady_clock::now();
  TransferReport report;
  report.etag = reader->etag();
  {
    Progress progress(
        key, std::min(options.length, reader->total_size() - std::min(options.offset, reader->total_size())));
    for (;;) {
      const auto bytes = reader->Next();
      if (!bytes) return std::unexpected(bytes.error());
      if (bytes->empty()) break;
      if (auto written = target->Write(*bytes); !written) return std::unexpected(written.error());
      report.bytes += bytes->size();
      progress.Add(bytes->size());
    }
  }
  if (auto published = target->Publish(); !published) return std::unexpected(published.error());
  report.seconds = SecondsSince(start);
  return report;
}

namespace {
std::expected<ObjectInfo, Error> DescriptionOf(Client& client, const std::string& bucket, const std::string& key,
                                               uint64_t version) {
  if (version == 0) return client.Stat(bucket, key);
  auto found = client.StatVersion(bucket, key, version);
  if (!found) return std::unexpected(std::move(found).error());
  return std::move(found->object);
}
}  // namespace

std::expected<TransferReport, Error> DownloadToMemory(Client& client, const std::string& bucket,
                                                      const std::string& key, GetOptions options) {
  const auto object = DescriptionOf(client, bucket, key, options.version);
  if (!object) return std::unexpected(object.error());
  options.if_match = object->etag;
  const uint64_t size = std::min(options.length, object->size - std::min(options.offset, object->size));
  const TouchedMemory memory(size);
  if (!memory.ok()) return std::unexpected(ErrnoError(errno, "get memory for " + base::FormatSize(size)));
  const auto start = std::chrono::steady_clock::now();
  const auto got = client.Get(bucket, key, memory.bytes(), options);
  if (!got) return std::unexpected(got.error());
  const double seconds = SecondsSince(start);
  return TransferReport{got->size, seconds, got->etag, got->crc32c,
                        DigestOf(memory.bytes().first(got->size))};
}

}  // namespace forebay::app
