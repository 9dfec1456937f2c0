// SPDX-License-Identifier: Apache-2.0
#include "engine/store_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/bytes.h"
#include "device/absent_device.h"
#include "device/aligned_bytes.h"
#include "device/file_device.h"
#include "device/mirror_device.h"
#include "engine/superblock.h"
#include "meta/rocks_meta_store.h"

namespace forebay::engine {
namespace {

namespace fs = std::filesystem;

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

Status ReplaceConfig(const StorePaths& paths, const StoreConfig& config) {
  FB_TRY(WriteDurably(paths.next_config(), FormatStoreConfig(config)));
  return Complete(paths, paths.next_config());
}

rt::Task<Status> CheckIsEmpty(rt::Reactor& reactor, device::Device& device, Uuid store, uint32_t id) {
  const Result<Superblock> superblock = co_await ReadSuperblock(reactor, device);
  if (superblock.ok() && superblock->store == store && superblock->device_id == id)
    co_return Status();  // of the same attempt, interrupted; or that side of a mirror, back again
  device::AlignedBytes head(kDataStart);
  const MutableByteView view = head.writable();
  FB_CO_TRY(co_await device.Read(reactor, 0, {&view, 1}));
  if (std::ranges::all_of(head.view(), [](std::byte byte) { return byte == std::byte{0}; }))
    co_return Status();
  co_return Status::FailedPrecondition(
      "{} is not empty{}; if it may be overwritten: dd if=/dev/zero of={} bs=1M count=1", device.name(),
      superblock.ok() ? ": it belongs to a Forebay store" : "", device.name());
}

namespace {

/// A side that is another device's, or somebody's, is refused. One that is empty is new, and holds nothing.
rt::Task<Status> CheckSide(rt::Reactor& reactor, device::Device& side, Uuid store, uint32_t id) {
  const Result<Superblock> superblock = co_await ReadSuperblock(reactor, side);
  if (!superblock.ok() && superblock.error().code() == Code::kNotFound)
    co_return co_await CheckIsEmpty(reactor, side, store, id);
  if (!superblock.ok()) co_return superblock.error();
  if (superblock->store != store || superblock->device_id != id)
    co_return Status::FailedPrecondition("{} is device {} of store {}, not {} of {}", side.name(),
                                         superblock->device_id + 1, superblock->store.ToString(), id + 1,
                                         store.ToString());
  if (superblock->size_bytes > side.size_bytes())
    co_return Status::DataLoss("{} has {} bytes and had {} when it was formatted: a part of it is missing", side.name(),
                               side.size_bytes(), superblock->size_bytes);
  co_return Status();
}

Result<std::unique_ptr<device::Device>> OpenMirror(rt::Reactor& reactor, const StorePaths& paths,
                                                   const StoreConfig& config, uint32_t id,
                                                   const std::shared_ptr<MirrorNumbers>& numbers, base::Log& log) {
  const DeviceConfig& device = config.devices[id];
  const std::array<std::string, device::kMirrorSides> names = {paths.Device(device.path), paths.Device(device.mirror)};
  device::MirrorDevice::Sides sides;
  for (uint32_t side = 0; side < device::kMirrorSides; ++side) {
    Result<std::unique_ptr<device::FileDevice>> opened = device::FileDevice::Open(names[side], {});
    Status usable = opened.status();
    if (usable.ok() && (*opened)->size_bytes() < kMinDeviceBytes)
      usable = Status::Unavailable("{} has {} bytes: is the drive all right?", names[side], (*opened)->size_bytes());
    if (usable.ok()) usable = reactor.BlockOn(CheckSide(reactor, **opened, config.store, id));
    if (usable.ok())
      sides[side] = *std::move(opened);
    else if (usable.code() == Code::kFailedPrecondition || usable.code() == Code::kInvalidArgument)
      return usable;  // a mistake of whoever wrote store.toml, or another process has it: nothing is lost
    else
      log.Error("{}", usable.message());
  }
  if (sides[0] == nullptr && sides[1] == nullptr)
    return Status::DataLoss("both sides of a data device of store {} are missing: {} and {}; if they have moved, correct "
                            "store.toml",
                            paths.directory, names[0], names[1]);
  const device::MirrorMemory memory{.generation = numbers->Of(id), .keep = [numbers, id](uint64_t generation) {
                                      return numbers->Keep(id, generation);
                                    }};
  Result<std::unique_ptr<device::MirrorDevice>> mirror = reactor.BlockOn(device::MirrorDevice::Open(
      reactor, std::move(sides), names, {.store = config.store, .device = id}, memory, log));
  if (mirror.ok()) return *std::move(mirror);
  if (mirror.error().code() != Code::kUnavailable) return mirror.error();
  return Status::FailedPrecondition(
      "{}; if it is lost for good, what was written while it was alone is lost with it: remove {} to go on with what "
      "there is",
      mirror.error().message(), paths.mirrors());
}

}  // namespace

Result<std::shared_ptr<MirrorNumbers>> MirrorNumbers::Read(const StorePaths& paths) {
  auto numbers = std::make_shared<MirrorNumbers>(paths);
  if (!Exists(paths.mirrors())) return numbers;
  FB_ASSIGN(const std::string text, ReadSmallFile(paths.mirrors()));
  std::istringstream lines(text);
  uint32_t device = 0;
  uint64_t generation = 0;
  base::MutexLock lock(numbers->mutex_);
  while (lines >> device >> generation) numbers->numbers_[device] = generation;
  if (!lines.eof() || !text.ends_with('\n'))
    return Status::DataLoss("{} is damaged: when all sides of all mirrors are there, remove it", paths.mirrors());
  return numbers;
}

uint64_t MirrorNumbers::Of(uint32_t device) {
  base::MutexLock lock(mutex_);
  return numbers_[device];
}

Status MirrorNumbers::Keep(uint32_t device, uint64_t generation) {
  base::MutexLock lock(mutex_);
  numbers_[device] = generation;
  std::string text;
  for (const auto& [id, number] : numbers_) text += fmt::format("{} {}\n", id, number);
  const std::string next = paths_.mirrors() + ".next";
  FB_TRY(WriteDurably(next, text));
  if (::rename(next.c_str(), paths_.mirrors().c_str()) != 0) return Status::FromErrno(errno, "rename " + next);
  return SyncDirectory(paths_.directory);
}

Result<std::unique_ptr<device::Device>> OpenDevice(rt::Reactor& reactor, const StorePaths& paths,
                                                   const StoreConfig& config, uint32_t id,
                                                   const std::shared_ptr<MirrorNumbers>& numbers, base::Log& log) {
  const DeviceConfig& device = config.devices[id];
  if (device.removed) return std::make_unique<device::AbsentDevice>(paths.Device(device.path), kMinDeviceBytes);
  if (!device.mirror.empty()) return OpenMirror(reactor, paths, config, id, numbers, log);
  Result<std::unique_ptr<device::FileDevice>> opened = device::FileDevice::Open(paths.Device(device.path), {});
  if (!opened.ok() && opened.error().code() == Code::kNotFound)
    return Status::DataLoss("a data device of store {} is missing: {}; if it has moved, correct store.toml",
                            paths.directory, opened.error().message());
  if (!opened.ok()) return opened.error();
  return *std::move(opened);
}

Result<std::vector<std::unique_ptr<device::Device>>> OpenDevices(rt::Reactor& reactor, const StorePaths& paths,
                                                                 const StoreConfig& config,
                                                                 const std::shared_ptr<MirrorNumbers>& numbers,
                                                                 base::Log& log) {
  std::vector<std::unique_ptr<device::Device>> devices;
  for (uint32_t id = 0; id < config.devices.size(); ++id) {
    FB_ASSIGN(std::unique_ptr<device::Device> device, OpenDevice(reactor, paths, config, id, numbers, log));
    devices.push_back(std::move(device));
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
