// SPDX-License-Identifier: Apache-2.0
#include "engine/store_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "device/aligned_bytes.h"
#include "device/file_device.h"
#include "meta/rocks_meta_store.h"

namespace forebay::engine {
namespace {

namespace fs = std::filesystem;

/// More than any store.toml has.
constexpr size_t kMaxConfigBytes = base::kMiB;
/// The data device of a store for which none was named.
constexpr const char* kOwnDevice = "data0";

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

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

Status Remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? Status::FromErrno(error.value(), "remove " + path) : Status();
}

/// A device that holds something is never taken over: its owner has to empty it.
rt::Task<Status> CheckIsEmpty(rt::Reactor& reactor, device::Device& device, Uuid store) {
  const Result<Superblock> superblock = co_await ReadSuperblock(reactor, device);
  if (superblock.ok() && superblock->store == store)
    co_return Status();  // of this very creation, interrupted
  device::AlignedBytes head(kDataStart);
  const MutableByteView view = head.writable();
  FB_CO_TRY(co_await device.Read(reactor, 0, {&view, 1}));
  if (std::ranges::all_of(head.view(), [](std::byte byte) { return byte == std::byte{0}; }))
    co_return Status();
  co_return Status::FailedPrecondition(
      "{} is not empty{}; if it may be overwritten: dd if=/dev/zero of={} bs=1M count=1", device.name(),
      superblock.ok() ? ": it belongs to a Forebay store" : "", device.name());
}

}  // namespace

struct StoreDirectory::Paths {
  explicit Paths(std::string directory_path) : directory(std::move(directory_path)) {}

  std::string In(std::string_view name) const { return (fs::path(directory) / name).string(); }
  std::string config() const { return In("store.toml"); }
  /// The configuration of a store that is being made: renamed when it is complete.
  std::string unfinished() const { return In("store.toml.new"); }
  std::string meta() const { return In("meta"); }
  std::string lock() const { return In("lock"); }

  const std::string directory;
};

/// Held as long as the store is open.
class StoreDirectory::Lock {
 public:
  static Result<std::unique_ptr<Lock>> Take(const Paths& paths) {
    const int fd = ::open(paths.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return Status::FromErrno(errno, "open " + paths.lock());
    auto lock = std::unique_ptr<Lock>(new Lock(fd));
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
  ~Lock() { ::close(fd_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  explicit Lock(int fd) : fd_(fd) {}
  const int fd_;
};

StoreDirectory::StoreDirectory(std::unique_ptr<Lock> lock, StoreConfig config, Running running)
    : lock_(std::move(lock)), config_(std::move(config)), running_(std::move(running)) {}

StoreDirectory::~StoreDirectory() = default;

namespace {

using DeviceList = std::vector<std::unique_ptr<device::Device>>;

std::string DevicePath(const std::string& directory, const std::string& device) {
  return (fs::path(directory) / device).string();  // an absolute path stays as it is
}

Result<DeviceList> OpenDevices(const std::string& directory, const StoreConfig& config) {
  DeviceList devices;
  for (const std::string& path : config.devices) {
    Result<std::unique_ptr<device::FileDevice>> device =
        device::FileDevice::Open(DevicePath(directory, path), {});
    if (!device.ok() && device.error().code() == Code::kNotFound)
      return Status::DataLoss("a data device of store {} is missing: {}; if it has moved, correct store.toml",
                              directory, device.error().message());
    if (!device.ok()) return device.error();
    devices.push_back(*std::move(device));
  }
  return devices;
}

Result<std::unique_ptr<meta::MetaStore>> OpenMeta(const std::string& path, bool create, uint64_t witness,
                                                  meta::GroupHooks* hooks, const base::Clock& clock) {
  meta::RocksMetaOptions options;
  options.path = path;
  options.create = create;
  options.witness = witness;
  options.committer.clock = &clock;
  Result<std::unique_ptr<meta::RocksMetaStore>> meta = meta::RocksMetaStore::Open(std::move(options), hooks);
  if (meta.ok()) return std::unique_ptr<meta::MetaStore>(*std::move(meta));
  if (meta.error().code() == Code::kNotFound)
    return Status::DataLoss("the metadata is missing: {}", meta.error().message());
  return meta.error();
}

/// Makes files, takes over empty block devices, and writes their heads.
Status MakeDevices(rt::Reactor& reactor, const std::string& directory, const StoreConfig& config,
                   uint64_t size_bytes) {
  DeviceList devices;
  std::vector<device::Device*> pointers;
  for (const std::string& name : config.devices) {
    const std::string path = DevicePath(directory, name);
    std::error_code error;
    const bool create = !fs::is_block_file(path, error) && !fs::exists(path, error);
    FB_ASSIGN(std::unique_ptr<device::FileDevice> device,
              device::FileDevice::Open(path, {.create = create, .size_bytes = create ? size_bytes : 0}));
    if (device->size_bytes() < kMinDeviceBytes)
      return Status::InvalidArgument("{} has {} bytes; a data device needs at least {}", path,
                                     device->size_bytes(), kMinDeviceBytes);
    if (!create) FB_TRY(reactor.BlockOn(CheckIsEmpty(reactor, *device, config.store)));
    pointers.push_back(device.get());
    devices.push_back(std::move(device));
  }
  return reactor.BlockOn(Engine::Format(reactor, pointers, config.store));
}

/// A store is made in an empty directory, not among somebody's files. What an interrupted creation left is no
/// obstacle, nor are credentials made beforehand, the devices themselves and the mark of a file system's top.
Status CheckHoldsNothingElse(const std::string& directory, const std::vector<std::string>& devices) {
  constexpr std::string_view kOurs[] = {"lock",     "meta",        "store.toml.new",
                                        kOwnDevice, "credentials", "lost+found"};
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_device = std::ranges::any_of(
        devices, [&](const std::string& device) { return DevicePath(directory, device) == entry->path(); });
    if (!is_device && std::ranges::find(kOurs, name) == std::end(kOurs))
      return Status::FailedPrecondition(
          "{} holds no store and is not empty (it has {}): name an empty or a new directory", directory,
          name);
  }
  return error ? Status::FromErrno(error.value(), "look into " + directory) : Status();
}

/// What an interrupted creation left, which never held an object. Devices that were named by the caller stay:
/// their head says whose they are.
Status RemoveUnfinished(const std::string& directory, const StoreConfig& config, const std::string& meta) {
  FB_TRY(Remove(meta));
  return config.devices == std::vector<std::string>{kOwnDevice} ? Remove(DevicePath(directory, kOwnDevice))
                                                                : Status();
}

}  // namespace

Result<StoreDirectory::Running> StoreDirectory::OpenEngine(const Paths& paths, const StoreConfig& config,
                                                           bool create_metadata,
                                                           const Environment& environment,
                                                           const EngineOptions& options) {
  Parts parts;
  FB_ASSIGN(parts.devices, OpenDevices(paths.directory, config));
  const base::Clock& clock = environment.clock;
  parts.open_meta = [path = paths.meta(), create_metadata, &clock](uint64_t witness,
                                                                   meta::GroupHooks& hooks) {
    return OpenMeta(path, create_metadata, witness, &hooks, clock);
  };
  parts.arena = &environment.arena;
  parts.clock = &environment.clock;
  parts.log = &environment.log;
  Running running;
  FB_ASSIGN(running.reactor, rt::Reactor::Create({.name = "fb-open", .entries = 64}));
  FB_ASSIGN(running.engine,
            running.reactor->BlockOn(Engine::Open(*running.reactor, std::move(parts), options)));
  if (running.engine->id() != config.store)
    return Status::FailedPrecondition("{} names store {} and the data devices belong to store {}",
                                      paths.config(), config.store.ToString(),
                                      running.engine->id().ToString());
  return running;
}

Result<std::unique_ptr<StoreDirectory>> StoreDirectory::Create(const std::string& directory,
                                                               const CreateOptions& create,
                                                               const Environment& environment,
                                                               const EngineOptions& options) {
  const Paths paths(directory);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return Status::FromErrno(error.value(), "make the directory " + directory);
  if (!Exists(paths.config())) FB_TRY(CheckHoldsNothingElse(directory, create.devices));
  FB_ASSIGN(std::unique_ptr<Lock> lock, Lock::Take(paths));
  if (Exists(paths.config())) return Status::AlreadyExists("there is a store in {} already", directory);

  StoreConfig config;
  config.store = Uuid::Generate(environment.random);
  config.devices = create.devices.empty() ? std::vector<std::string>{kOwnDevice} : create.devices;
  if (Exists(paths.unfinished())) {
    FB_ASSIGN(const std::string text, ReadSmallFile(paths.unfinished()));
    // A torn file means that nothing was made after it.
    if (const Result<StoreConfig> unfinished = ParseStoreConfig(text, paths.unfinished()); unfinished.ok()) {
      FB_TRY(RemoveUnfinished(directory, *unfinished, paths.meta()));
      config.store = unfinished->store;
    }
  }
  if (Exists(paths.meta()))
    return Status::FailedPrecondition(
        "{} is there and {} is not: restore store.toml, or choose another directory", paths.meta(),
        paths.config());
  FB_TRY(WriteDurably(paths.unfinished(), FormatStoreConfig(config)));
  FB_TRY(SyncDirectory(directory));
  {
    FB_ASSIGN(const std::unique_ptr<rt::Reactor> reactor,
              rt::Reactor::Create({.name = "fb-create", .entries = 64}));
    FB_TRY(MakeDevices(*reactor, directory, config, create.size_bytes));
  }
  FB_ASSIGN(Running running, OpenEngine(paths, config, true, environment, options));
  fs::rename(paths.unfinished(), paths.config(), error);
  if (error) return Status::FromErrno(error.value(), "rename " + paths.unfinished());
  FB_TRY(SyncDirectory(directory));
  return std::unique_ptr<StoreDirectory>(
      new StoreDirectory(std::move(lock), std::move(config), std::move(running)));
}

namespace {

Result<StoreConfig> ReadConfig(const std::string& path, const std::string& unfinished,
                               const std::string& directory) {
  if (!Exists(path)) {
    if (Exists(unfinished))
      return Status::NotFound("the creation of a store in {} was interrupted; creating it again starts over",
                              directory);
    return Status::NotFound("there is no store in {}; make one with: forebay serve {}", directory, directory);
  }
  FB_ASSIGN(const std::string text, ReadSmallFile(path));
  return ParseStoreConfig(text, path);
}

}  // namespace

Result<std::unique_ptr<StoreDirectory>> StoreDirectory::Open(const std::string& directory,
                                                             const Environment& environment,
                                                             const EngineOptions& options) {
  const Paths paths(directory);
  // Without the lock first: a directory that holds no store gets no file from being looked at.
  FB_TRY(ReadConfig(paths.config(), paths.unfinished(), directory));
  FB_ASSIGN(std::unique_ptr<Lock> lock, Lock::Take(paths));
  FB_ASSIGN(StoreConfig config, ReadConfig(paths.config(), paths.unfinished(), directory));
  FB_ASSIGN(Running running, OpenEngine(paths, config, false, environment, options));
  return std::unique_ptr<StoreDirectory>(
      new StoreDirectory(std::move(lock), std::move(config), std::move(running)));
}

Result<FsckReport> StoreDirectory::Check(const std::string& directory, const FsckOptions& fsck,
                                         const Environment& environment) {
  const Paths paths(directory);
  FB_ASSIGN(const StoreConfig config, ReadConfig(paths.config(), paths.unfinished(), directory));
  FB_ASSIGN(const std::unique_ptr<Lock> lock, Lock::Take(paths));
  FB_ASSIGN(DeviceList list, OpenDevices(directory, config));
  Devices devices(std::move(list));
  FB_ASSIGN(const std::unique_ptr<rt::Reactor> reactor,
            rt::Reactor::Create({.name = "fb-fsck", .entries = 64}));
  // Opening below the witness is refused; a witness that cannot be read is for the report.
  const Result<Witness> witness = reactor->BlockOn(ReadWitness(*reactor, devices.at(0), config.store));
  FB_ASSIGN(const std::unique_ptr<meta::MetaStore> meta,
            OpenMeta(paths.meta(), false, witness.ok() ? witness->commit : 0, nullptr, environment.clock));
  return reactor->BlockOn(CheckStore(*reactor, devices, *meta, fsck));
}

}  // namespace forebay::engine
