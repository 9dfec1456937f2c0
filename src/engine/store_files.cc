// SPDX-License-Identifier: Apache-2.0
#include "engine/store_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/bytes.h"
#include "device/file_device.h"
#include "meta/rocks_meta_store.h"

namespace forebay::engine {
namespace {

namespace fs = std::filesystem;

/// More than any store.toml has.
constexpr size_t kMaxConfigBytes = base::kMiB;
/// Of metadata that is opened with little memory.
constexpr size_t kSmallCacheBytes = 8 * base::kMiB;
constexpr size_t kSmallWriteBufferBytes = 16 * base::kMiB;

}  // namespace

std::string StorePaths::In(std::string_view name) const { return (fs::path(directory) / name).string(); }

Result<std::unique_ptr<StoreLock>> StoreLock::Take(const StorePaths& paths) {
  const int fd = ::open(paths.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Status::FromErrno(errno, "open " + paths.lock());
  auto lock = std::unique_ptr<StoreLock>(new StoreLock(fd));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Status::FromErrno(errno, "lock " + paths.lock());
    char holder[32] = {};
    const ssize_t length = ::pread(fd, holder, sizeof(holder) - 1, 0);
    return Status::FailedPrecondition("store {} is in use by another process{}; stop that one first",
                                      paths.directory, length > 0 ? fmt::format(" ({})", holder) : "");
  }
  // For the message of others only; the lock counts, not what the file says.
  const std::string me = fmt::format("process {}", ::getpid());
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, me.data(), me.size(), 0) < 0)
    return Status::FromErrno(errno, "write " + paths.lock());
  return lock;
}

StoreLock::~StoreLock() { ::close(fd_); }

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

Status Remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? Status::FromErrno(error.value(), "remove " + path) : Status();
}

Status SyncDirectory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Status::FromErrno(errno, "open " + path);
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error == 0 ? Status() : Status::FromErrno(error, "sync " + path);
}

Status WriteDurably(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Status::FromErrno(errno, "create " + path);
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  ::close(fd);
  return error == 0 ? Status() : Status::FromErrno(error, "write " + path);
}

Status Complete(const StorePaths& paths, const std::string& unfinished) {
  std::error_code error;
  fs::rename(unfinished, paths.config(), error);
  if (error) return Status::FromErrno(error.value(), "rename " + unfinished);
  return SyncDirectory(paths.directory);
}

Result<std::string> ReadSmallFile(const std::string& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) return Status::FromErrno(error.value(), "read " + path);
  if (size > kMaxConfigBytes)
    return Status::InvalidArgument("{} has {} bytes: it is no store.toml", path, size);
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return Status::Unavailable("{} could not be read", path);
  return std::move(text).str();
}

Result<StoreConfig> ReadConfig(const StorePaths& paths) {
  if (!Exists(paths.config())) {
    if (Exists(paths.partial()))
      return Status::FailedPrecondition(
          "{} holds a backup, or a restored one, that was interrupted and is not complete: remove it, and "
          "make it again",
          paths.directory);
    if (Exists(paths.unfinished()))
      return Status::NotFound("the creation of a store in {} was interrupted; creating it again starts over",
                              paths.directory);
    return Status::NotFound("there is no store in {}; make one with: forebay serve {}", paths.directory,
                            paths.directory);
  }
  FB_ASSIGN(const std::string text, ReadSmallFile(paths.config()));
  return ParseStoreConfig(text, paths.config());
}

Result<std::vector<std::unique_ptr<device::Device>>> OpenDevices(const StorePaths& paths,
                                                                 const StoreConfig& config) {
  std::vector<std::unique_ptr<device::Device>> devices;
  for (const std::string& name : config.devices) {
    Result<std::unique_ptr<device::FileDevice>> device = device::FileDevice::Open(paths.Device(name), {});
    if (!device.ok() && device.error().code() == Code::kNotFound)
      return Status::DataLoss("a data device of store {} is missing: {}; if it has moved, correct store.toml",
                              paths.directory, device.error().message());
    if (!device.ok()) return device.error();
    devices.push_back(*std::move(device));
  }
  return devices;
}

Result<std::unique_ptr<meta::MetaStore>> OpenMeta(const std::string& path, const MetaSettings& settings,
                                                  const base::Clock& clock) {
  meta::RocksMetaOptions options;
  options.path = path;
  options.create = settings.create;
  options.witness = settings.witness;
  options.committer.clock = &clock;
  if (settings.reserve_bytes) options.reserve_bytes = *settings.reserve_bytes;
  if (settings.small) {
    options.cache_bytes = kSmallCacheBytes;
    options.write_buffer_bytes = kSmallWriteBufferBytes;
  }
  Result<std::unique_ptr<meta::RocksMetaStore>> meta =
      meta::RocksMetaStore::Open(std::move(options), settings.hooks);
  if (meta.ok()) return std::unique_ptr<meta::MetaStore>(*std::move(meta));
  if (meta.error().code() == Code::kNotFound)
    return Status::DataLoss("the metadata is missing: {}", meta.error().message());
  return meta.error();
}

}  // namespace forebay::engine
