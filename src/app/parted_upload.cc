// SPDX-License-Identifier: Apache-2.0
#include "app/parted_upload.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "app/progress.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "base/status.h"

namespace forebay::app {
namespace {

constexpr size_t kPieceBytes = 4 * base::kMiB;

Error ErrnoError(int error, const std::string& what) {
  const Status status = Status::FromErrno(error, what);
  return {status.code(), std::string(status.message())};
}

/// The file, whose parts are read by several threads.
class Source {
 public:
  static std::expected<Source, Error> Open(const std::string& path) {
    Source source;
    source.fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (source.fd_ < 0) return std::unexpected(ErrnoError(errno, "open " + path));
    struct stat info{};
    if (fstat(source.fd_, &info) != 0) return std::unexpected(ErrnoError(errno, "look at " + path));
    if (!S_ISREG(info.st_mode))
      return std::unexpected(
          Error{Code::kInvalidArgument, path + " is no regular file: only those are sent in parts; leave --parts out"});
    source.path_ = path;
    source.size_ = static_cast<uint64_t>(info.st_size);
    return source;
  }
  Source(Source&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  Source& operator=(Source&&) = delete;
  ~Source() {
    if (fd_ >= 0) close(fd_);
  }

  uint64_t size() const { return size_; }
  /// Fills `into`; kAborted when the file has become shorter.
  std::expected<void, Error> Read(uint64_t offset, std::span<std::byte> into) const {
    while (!into.empty()) {
      const ssize_t n = pread(fd_, into.data(), into.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return std::unexpected(ErrnoError(errno, "read " + path_));
      if (n == 0) return std::unexpected(Error{Code::kAborted, path_ + " became shorter while it was sent"});
      into = into.subspan(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    return {};
  }

 private:
  Source() = default;
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// What the threads share.
struct Sending {
  Client& client;
  const Source& source;
  const UploadName& upload;
  const uint64_t part_bytes;
  const std::chrono::nanoseconds timeout;
  std::vector<PutResult> results;  // of the parts; each is one thread's
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  base::Mutex mutex{};
  Progress& progress FB_GUARDED_BY(mutex);
  std::optional<Error> error FB_GUARDED_BY(mutex) = std::nullopt;  // the first one

  std::expected<PutResult, Error> SendPart(size_t index) {
    auto writer = client.OpenPart(upload, static_cast<uint32_t>(index) + 1, {.timeout = timeout});
    if (!writer) return std::unexpected(writer.error());
    uint64_t offset = part_bytes * index;
    const uint64_t end = std::min(offset + part_bytes, source.size());
    std::vector<std::byte> piece(std::min<uint64_t>(kPieceBytes, end - offset));
    while (offset < end) {
      const auto bytes = std::span(piece).first(std::min<uint64_t>(piece.size(), end - offset));
      if (auto read = source.Read(offset, bytes); !read) return std::unexpected(read.error());
      if (auto written = writer->Write(bytes); !written) return std::unexpected(written.error());
      offset += bytes.size();
      base::MutexLock lock(mutex);
      progress.Add(bytes.size());
    }
    return writer->Commit();
  }
  void Run() {
    for (size_t index = next++; index < results.size() && !failed; index = next++) {
      auto result = SendPart(index);
      if (!result && result.error().code == Code::kUnavailable) result = SendPart(index);  // over another connection
      if (result) {
        results[index] = *std::move(result);
        continue;
      }
      failed = true;
      base::MutexLock lock(mutex);
      if (!error) error = std::move(result).error();
    }
  }
};

std::expected<ObjectInfo, Error> SendAll(Client& client, const Source& source, const UploadName& upload,
                                         uint64_t part_bytes, size_t count, const PutOptions& options) {
  Progress progress(upload.key, source.size());
  Sending sending{.client = client,
                  .source = source,
                  .upload = upload,
                  .part_bytes = part_bytes,
                  .timeout = options.timeout,
                  .results = std::vector<PutResult>(count),
                  .progress = progress};
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < std::min<size_t>(count, kPartsAtOnce); ++i) threads.emplace_back([&] { sending.Run(); });
  }
  {
    base::MutexLock lock(sending.mutex);
    if (sending.error) return std::unexpected(*sending.error);
  }
  CompleteOptions complete{.if_absent = options.if_absent, .if_match = options.if_match, .timeout = options.timeout};
  uint32_t crc32c = base::kCrc32cEmpty;
  std::vector<PartRef> parts;
  for (const PutResult& part : sending.results) {
    crc32c = base::Crc32cCombine(crc32c, part.crc32c, part.size);
    parts.push_back({.number = static_cast<uint32_t>(parts.size()) + 1, .etag = part.etag});
  }
  complete.crc32c = crc32c;
  return client.CompleteUpload(upload, parts, complete);
}

}  // namespace

std::expected<TransferReport, Error> UploadInParts(Client& client, const std::string& path, const std::string& bucket,
                                                   const std::string& key, uint32_t parts, const PutOptions& options) {
  const auto source = Source::Open(path);
  if (!source) return std::unexpected(source.error());
  // Of whole blocks, so that the parts' blocks are those of the object.
  const uint64_t part_bytes =
      std::max<uint64_t>(base::RoundUp(source->size() / parts + (source->size() % parts != 0), base::kMiB), base::kMiB);
  if (part_bytes > base::kMaxPartBytes)
    return std::unexpected(Error{Code::kInvalidArgument, "parts of more than 5 GiB: make more of them with --parts"});
  const size_t count = std::max<uint64_t>(1, source->size() / part_bytes + (source->size() % part_bytes != 0));
  const auto start = std::chrono::steady_clock::now();
  const auto begun = client.CreateUpload(bucket, key, options.metadata, {.timeout = options.timeout});
  if (!begun) return std::unexpected(begun.error());
  const UploadName upload{.bucket = bucket, .key = key, .id = begun->id};
  const auto object = SendAll(client, *source, upload, part_bytes, count, options);
  if (!object) {
    // Where its end is not known it may have been completed: then there is nothing to give up.
    (void)client.AbortUpload(upload, {.timeout = std::chrono::seconds(10)});
    return std::unexpected(object.error());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return TransferReport{object->size, seconds, object->etag, object->crc32c, {}};
}

}  // namespace forebay::app
