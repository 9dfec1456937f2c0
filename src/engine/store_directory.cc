// SPDX-License-Identifier: Apache-2.0
#include "engine/store_directory.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "device/aligned_bytes.h"
#include "device/file_device.h"
#include "engine/directory_copy.h"
#include "engine/store_files.h"
#include "engine/superblock.h"

namespace forebay::engine {
namespace {

namespace fs = std::filesystem;

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

StoreDirectory::StoreDirectory(std::unique_ptr<StoreLock> lock, StoreConfig config, Running running)
    : lock_(std::move(lock)), config_(std::move(config)), running_(std::move(running)) {}

StoreDirectory::~StoreDirectory() = default;

namespace {

using DeviceList = std::vector<std::unique_ptr<device::Device>>;

/// Makes files, takes over empty block devices, and writes their heads.
Status MakeDevices(rt::Reactor& reactor, const StorePaths& paths, const StoreConfig& config,
                   uint64_t size_bytes) {
  DeviceList devices;
  std::vector<device::Device*> pointers;
  for (const std::string& name : config.devices) {
    const std::string path = paths.Device(name);
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
Status CheckHoldsNothingElse(const StorePaths& paths, const std::vector<std::string>& devices) {
  constexpr std::string_view kOurs[] = {"lock",     "meta",        "store.toml.new",
                                        kOwnDevice, "credentials", "lost+found"};
  std::error_code error;
  for (fs::directory_iterator entry(paths.directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_device = std::ranges::any_of(
        devices, [&](const std::string& device) { return paths.Device(device) == entry->path(); });
    if (!is_device && std::ranges::find(kOurs, name) == std::end(kOurs))
      return Status::FailedPrecondition(
          "{} holds no store and is not empty (it has {}): name an empty or a new directory", paths.directory,
          name);
  }
  return error ? Status::FromErrno(error.value(), "look into " + paths.directory) : Status();
}

/// What an interrupted creation left, which never held an object. Devices that were named by the caller stay:
/// their head says whose they are.
Status RemoveUnfinished(const StorePaths& paths, const StoreConfig& config) {
  FB_TRY(Remove(paths.meta()));
  return config.devices == std::vector<std::string>{kOwnDevice} ? Remove(paths.Device(kOwnDevice)) : Status();
}

}  // namespace

Result<StoreDirectory::Running> StoreDirectory::OpenEngine(const StorePaths& paths, const StoreConfig& config,
                                                           bool create_metadata,
                                                           const Environment& environment,
                                                           const EngineOptions& options) {
  Parts parts;
  FB_ASSIGN(parts.devices, OpenDevices(paths, config));
  const base::Clock& clock = environment.clock;
  parts.open_meta = [path = paths.meta(), create_metadata, &clock](uint64_t witness,
                                                                   meta::GroupHooks& hooks) {
    return OpenMeta(path, {.create = create_metadata, .witness = witness, .hooks = &hooks}, clock);
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
  const StorePaths paths(directory);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return Status::FromErrno(error.value(), "make the directory " + directory);
  if (!Exists(paths.config())) FB_TRY(CheckHoldsNothingElse(paths, create.devices));
  FB_ASSIGN(std::unique_ptr<StoreLock> lock, StoreLock::Take(paths));
  if (Exists(paths.config())) return Status::AlreadyExists("there is a store in {} already", directory);

  StoreConfig config;
  config.store = Uuid::Generate(environment.random);
  config.devices = create.devices.empty() ? std::vector<std::string>{kOwnDevice} : create.devices;
  if (Exists(paths.unfinished())) {
    FB_ASSIGN(const std::string text, ReadSmallFile(paths.unfinished()));
    // A torn file means that nothing was made after it.
    if (const Result<StoreConfig> unfinished = ParseStoreConfig(text, paths.unfinished()); unfinished.ok()) {
      FB_TRY(RemoveUnfinished(paths, *unfinished));
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
    FB_TRY(MakeDevices(*reactor, paths, config, create.size_bytes));
  }
  FB_ASSIGN(Running running, OpenEngine(paths, config, true, environment, options));
  FB_TRY(Complete(paths, paths.unfinished()));
  return std::unique_ptr<StoreDirectory>(
      new StoreDirectory(std::move(lock), std::move(config), std::move(running)));
}

Result<std::unique_ptr<StoreDirectory>> StoreDirectory::Open(const std::string& directory,
                                                             const Environment& environment,
                                                             const EngineOptions& options) {
  const StorePaths paths(directory);
  // Without the lock first: a directory that holds no store gets no file from being looked at.
  FB_TRY(ReadConfig(paths));
  FB_ASSIGN(std::unique_ptr<StoreLock> lock, StoreLock::Take(paths));
  FB_ASSIGN(StoreConfig config, ReadConfig(paths));
  FB_ASSIGN(Running running, OpenEngine(paths, config, false, environment, options));
  return std::unique_ptr<StoreDirectory>(
      new StoreDirectory(std::move(lock), std::move(config), std::move(running)));
}

namespace {

/// The parts of a store that nobody serves.
struct ClosedStore {
  static Result<ClosedStore> Open(const std::string& directory, const base::Clock& clock) {
    const StorePaths paths(directory);
    ClosedStore store;
    FB_ASSIGN(const StoreConfig config, ReadConfig(paths));
    FB_ASSIGN(store.lock, StoreLock::Take(paths));
    FB_ASSIGN(DeviceList devices, OpenDevices(paths, config));
    store.devices = std::make_unique<Devices>(std::move(devices));
    FB_ASSIGN(store.reactor, rt::Reactor::Create({.name = "fb-fsck", .entries = 64}));
    // Opening below the witness is refused; a witness that cannot be read is for the report.
    const Result<Witness> witness =
        store.reactor->BlockOn(ReadWitness(*store.reactor, store.devices->at(0), config.store));
    FB_ASSIGN(store.meta, OpenMeta(paths.meta(), {.witness = witness.ok() ? witness->commit : 0}, clock));
    return store;
  }
  Result<FsckReport> Check(const FsckOptions& options) {
    return reactor->BlockOn(CheckStore(*reactor, *devices, *meta, options));
  }

  std::unique_ptr<StoreLock> lock;
  std::unique_ptr<Devices> devices;
  std::unique_ptr<rt::Reactor> reactor;
  std::unique_ptr<meta::MetaStore> meta;
};

}  // namespace

Result<FsckReport> StoreDirectory::Check(const std::string& directory, const FsckOptions& fsck,
                                         const Environment& environment) {
  FB_ASSIGN(ClosedStore store, ClosedStore::Open(directory, environment.clock));
  return store.Check(fsck);
}

Result<uint64_t> StoreDirectory::Copy(const std::string& directory, const std::string& target,
                                      const Environment& environment, const CopyOptions& options) {
  FB_ASSIGN(ClosedStore store, ClosedStore::Open(directory, environment.clock));
  FB_ASSIGN(const FsckReport report, store.Check({.max_errors = 1}));
  if (!report.clean())
    return Status::DataLoss("{} is damaged, and not copied: {} ({} errors in all; see forebay fsck)",
                            directory, report.errors.front(), report.error_count);
  return CopyToDirectory(
      {.devices = *store.devices, .guard = std::nullopt, .moment = store.meta->TakeSnapshot()}, target,
      environment.clock, environment.random, options);
}

Result<uint64_t> StoreDirectory::CopyTo(const std::string& target, const Environment& environment,
                                        const CopyOptions& options) {
  return CopyToDirectory(engine().OpenForCopy(), target, environment.clock, environment.random, options);
}

}  // namespace forebay::engine
