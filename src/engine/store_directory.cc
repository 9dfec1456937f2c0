// SPDX-License-Identifier: Apache-2.0
#include "engine/store_directory.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "device/aligned_bytes.h"
#include "device/file_device.h"
#include "device/mirror_device.h"
#include "engine/directory_copy.h"
#include "engine/store_files.h"
#include "engine/superblock.h"

namespace forebay::engine {
namespace {

namespace fs = std::filesystem;

/// Makes `side` one that has nothing: of its mirror it has the superblock only.
rt::Task<Status> WriteEmptySide(rt::Reactor& reactor, device::Device& side, device::MirrorDevice& mirror) {
  device::AlignedBytes zeros(device::kUnit);
  const ByteView view = zeros.view();
  for (const uint64_t slot : device::kMirrorSlots) FB_CO_TRY(co_await side.Write(reactor, slot, {&view, 1}));
  FB_CO_ASSIGN(const Superblock superblock, co_await ReadSuperblock(reactor, mirror));
  co_return co_await WriteSuperblock(reactor, side, superblock);
}

}  // namespace

StoreDirectory::StoreDirectory(const std::string& directory, std::unique_ptr<StoreLock> lock, StoreConfig config,
                               Running running, base::Log& log)
    : paths_(std::make_unique<const StorePaths>(directory)),
      lock_(std::move(lock)),
      running_(std::move(running)),
      config_(std::move(config)),
      log_(log),
      upkeep_(*running_.engine, log) {
  upkeep_.Wake();
}

StoreDirectory::~StoreDirectory() = default;

namespace {

using DeviceList = std::vector<std::unique_ptr<device::Device>>;

/// Makes a file, or takes over an empty block device or file.
Result<std::unique_ptr<device::Device>> MakeDevice(rt::Reactor& reactor, const std::string& path, uint64_t size_bytes,
                                                   Uuid store, uint32_t id) {
  std::error_code error;
  const bool create = !fs::is_block_file(path, error) && !fs::exists(path, error);
  // A file there would be in memory, and gone with the machine's power.
  if (create && fs::path(path).lexically_normal().string().starts_with("/dev/"))
    return Status::NotFound("there is no block device {}", path);
  FB_ASSIGN(std::unique_ptr<device::FileDevice> device,
            device::FileDevice::Open(path, {.create = create, .size_bytes = create ? size_bytes : 0}));
  if (device->size_bytes() < kMinDeviceBytes)
    return Status::InvalidArgument("{} has {} bytes; a data device needs at least {}", path, device->size_bytes(),
                                   kMinDeviceBytes);
  if (!create) FB_TRY(reactor.BlockOn(CheckIsEmpty(reactor, *device, store, id)));
  return device;
}

/// Makes files, takes over empty block devices, and writes their heads. A file is made with `size_bytes`, its mirror as
/// large as it is.
Status FormatDevice(rt::Reactor& reactor, const StorePaths& paths, const StoreConfig& config, uint32_t id,
                    uint64_t size_bytes) {
  const DeviceConfig& device = config.devices[id];
  FB_ASSIGN(const auto first, MakeDevice(reactor, paths.Device(device.path), size_bytes, config.store, id));
  std::unique_ptr<device::Device> second;
  if (!device.mirror.empty()) {
    FB_ASSIGN(second, MakeDevice(reactor, paths.Device(device.mirror), first->size_bytes(), config.store, id));
    if (second->size_bytes() != first->size_bytes())
      return Status::InvalidArgument("{} has {} bytes and {} has {}: the sides of a mirror are equally large",
                                     first->name(), first->size_bytes(), second->name(), second->size_bytes());
  }
  const Superblock superblock{.store = config.store,
                              .device_id = id,
                              .device_count = static_cast<uint32_t>(config.devices.size()),
                              .size_bytes = first->size_bytes(),
                              .data_start = kDataStart};
  FB_TRY(reactor.BlockOn(WriteSuperblock(reactor, *first, superblock)));
  if (second == nullptr) return {};
  FB_TRY(reactor.BlockOn(WriteSuperblock(reactor, *second, superblock)));
  return reactor.BlockOn(
      device::MirrorDevice::Format(reactor, {first.get(), second.get()}, {.store = config.store, .device = id}));
}

/// Of a store that is made.
Result<StoreConfig> ConfigOf(const StoreDirectory::CreateOptions& create, Uuid store) {
  StoreConfig config{.store = store};
  for (const std::string& path : create.devices) config.devices.push_back({.path = path});
  if (create.devices.empty()) config.devices.push_back({.path = kOwnDevice});
  if (create.mirrors.empty()) return config;
  if (create.mirrors.size() != config.devices.size())
    return Status::InvalidArgument("{} devices and {} mirrors: name a mirror for each device, or none",
                                   config.devices.size(), create.mirrors.size());
  for (size_t id = 0; id < create.mirrors.size(); ++id) config.devices[id].mirror = create.mirrors[id];
  return config;
}

/// A store is made in an empty directory, not among somebody's files. What an interrupted creation left is no
/// obstacle, nor are credentials made beforehand, the devices themselves and the mark of a file system's top.
Status CheckHoldsNothingElse(const StorePaths& paths, const StoreConfig& config) {
  constexpr std::string_view kOurs[] = {"lock",     "meta",        "store.toml.new",
                                        kOwnDevice, "credentials", "lost+found"};
  std::error_code error;
  for (fs::directory_iterator entry(paths.directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_device = std::ranges::any_of(config.devices, [&](const DeviceConfig& device) {
      return paths.Device(device.path) == entry->path() ||
             (!device.mirror.empty() && paths.Device(device.mirror) == entry->path());
    });
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
  const bool own = config.devices.size() == 1 && config.devices[0].path == kOwnDevice;
  return own ? Remove(paths.Device(kOwnDevice)) : Status();
}

}  // namespace

Result<StoreDirectory::Running> StoreDirectory::OpenEngine(const StorePaths& paths, const StoreConfig& config,
                                                           bool create_metadata,
                                                           const Environment& environment,
                                                           const EngineOptions& options) {
  Parts parts;
  Running running;
  FB_ASSIGN(running.reactor, rt::Reactor::Create({.name = "fb-open", .entries = 64}));
  FB_ASSIGN(running.numbers, MirrorNumbers::Read(paths));
  FB_ASSIGN(parts.devices, OpenDevices(*running.reactor, paths, config, running.numbers, environment.log));
  const base::Clock& clock = environment.clock;
  parts.open_meta = [path = paths.meta(), create_metadata, &clock](uint64_t witness,
                                                                   meta::GroupHooks& hooks) {
    return OpenMeta(path, {.create = create_metadata, .witness = witness, .hooks = &hooks}, clock);
  };
  parts.arena = &environment.arena;
  parts.clock = &environment.clock;
  parts.log = &environment.log;
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
  FB_ASSIGN(StoreConfig config, ConfigOf(create, Uuid::Generate(environment.random)));
  if (!Exists(paths.config())) FB_TRY(CheckHoldsNothingElse(paths, config));
  FB_ASSIGN(std::unique_ptr<StoreLock> lock, StoreLock::Take(paths));
  if (Exists(paths.config())) return Status::AlreadyExists("there is a store in {} already", directory);
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
    for (uint32_t id = 0; id < config.devices.size(); ++id)
      FB_TRY(FormatDevice(*reactor, paths, config, id, create.size_bytes));
  }
  FB_ASSIGN(Running running, OpenEngine(paths, config, true, environment, options));
  FB_TRY(Complete(paths, paths.unfinished()));
  return std::unique_ptr<StoreDirectory>(
      new StoreDirectory(directory, std::move(lock), std::move(config), std::move(running), environment.log));
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
      new StoreDirectory(directory, std::move(lock), std::move(config), std::move(running), environment.log));
}

namespace {

/// The parts of a store that nobody serves.
struct ClosedStore {
  static Result<ClosedStore> Open(const std::string& directory, const base::Clock& clock, base::Log& log) {
    const StorePaths paths(directory);
    ClosedStore store;
    FB_ASSIGN(const StoreConfig config, ReadConfig(paths));
    FB_ASSIGN(store.lock, StoreLock::Take(paths));
    FB_ASSIGN(store.reactor, rt::Reactor::Create({.name = "fb-fsck", .entries = 64}));
    FB_ASSIGN(const std::shared_ptr<MirrorNumbers> numbers, MirrorNumbers::Read(paths));
    FB_ASSIGN(DeviceList devices, OpenDevices(*store.reactor, paths, config, numbers, log));
    store.devices = std::make_unique<Devices>(std::move(devices));
    // Opening below the witness is refused; a witness that cannot be read is for the report.
    const Result<Witness> witness =
        store.reactor->BlockOn(ReadWitness(*store.reactor, store.devices->at(store.devices->witness_device()), config.store));
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
  FB_ASSIGN(ClosedStore store, ClosedStore::Open(directory, environment.clock, environment.log));
  return store.Check(fsck);
}

namespace {

/// The plan, in a new file, durable.
Result<std::string> KeepPlan(const StorePaths& paths, const RepairPlan& plan, base::WallTime now) {
  std::error_code error;
  fs::create_directory(paths.lost(), error);
  if (error) return Status::FromErrno(error.value(), "make the directory " + paths.lost());
  fs::permissions(paths.lost(), fs::perms::owner_all, error);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  std::string path;
  for (int number = 0; path.empty() || Exists(path); ++number)
    path = fmt::format("{}/repair-{}{}.txt", paths.lost(), seconds, number == 0 ? "" : fmt::format("-{}", number));
  FB_TRY(WriteDurably(path, FormatRepair(plan)));
  FB_TRY(SyncDirectory(paths.lost()));
  FB_TRY(SyncDirectory(paths.directory));
  return path;
}

/// So that the metadata that was repaired is never taken for shorter than it is.
rt::Task<Status> WitnessRepair(rt::Reactor& reactor, Devices& devices, const Uuid& store, uint64_t commit) {
  device::Device& device = devices.at(devices.witness_device());
  const Result<Witness> witness = co_await ReadWitness(reactor, device, store);
  if (!witness.ok()) co_return Status();  // it is damaged, and that stands in the report
  FB_CO_TRY(co_await WriteWitness(reactor, device, store, {.commit = commit, .slot = 1 - witness->slot}));
  co_return co_await device.Flush(reactor);
}

}  // namespace

Result<StoreDirectory::Repaired> StoreDirectory::Repair(const std::string& directory, const FsckOptions& fsck,
                                                        RepairOptions repair, bool act,
                                                        const Environment& environment) {
  FB_ASSIGN(ClosedStore store, ClosedStore::Open(directory, environment.clock, environment.log));
  Repaired repaired;
  FB_ASSIGN(repaired.before, store.Check(fsck));
  repaired.after = repaired.before;
  if (!act && repaired.before.clean()) return repaired;
  repair.now_ms = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(environment.clock.WallNow().time_since_epoch()).count());
  Result<RepairPlan> plan = store.reactor->BlockOn(PlanRepair(*store.reactor, *store.devices, *store.meta, repair));
  if (!plan.ok()) {
    // Such a store does not open: the report says why, and what may be done.
    repaired.plan.unrepaired.push_back(plan.status().ToString());
    return repaired;
  }
  repaired.plan = *std::move(plan);
  if (!act || repaired.plan.empty()) return repaired;
  const StorePaths paths(directory);
  FB_ASSIGN(repaired.record, KeepPlan(paths, repaired.plan, environment.clock.WallNow()));
  FB_TRY(store.reactor->BlockOn(ApplyRepair(*store.reactor, *store.devices, *store.meta, repaired.plan)));
  FB_ASSIGN(const StoreConfig config, ReadConfig(paths));
  FB_TRY(store.reactor->BlockOn(
      WitnessRepair(*store.reactor, *store.devices, config.store, store.meta->last_commit())));
  FB_ASSIGN(repaired.after, store.Check(fsck));
  return repaired;
}

Result<uint64_t> StoreDirectory::Copy(const std::string& directory, const std::string& target,
                                      const Environment& environment, const CopyOptions& options) {
  FB_ASSIGN(ClosedStore store, ClosedStore::Open(directory, environment.clock, environment.log));
  FB_ASSIGN(const FsckReport report, store.Check({.max_errors = 1}));
  if (!report.clean())
    return Status::DataLoss("{} is damaged, and not copied: {} ({} errors in all; see forebay fsck)",
                            directory, report.errors.front(), report.error_count);
  return CopyToDirectory(
      {.devices = *store.devices, .guard = std::nullopt, .moment = store.meta->TakeSnapshot()}, target,
      environment.clock, environment.random, options);
}

Status StoreDirectory::CheckMayBeDevice(const std::string& path) const {
  const auto parent = [](const std::string& of) { return fs::path(of).lexically_normal().parent_path(); };
  const fs::path wanted = parent(path);
  bool known = wanted == fs::path(paths_->directory).lexically_normal();
  for (const DeviceConfig& device : config_.devices) {
    known |= wanted == parent(paths_->Device(device.path));
    known |= !device.mirror.empty() && wanted == parent(paths_->Device(device.mirror));
  }
  for (const DeviceConfig& device : config_.devices)
    if (!device.removed && (IsPath(path, device.path) || IsPath(path, device.mirror)))
      return Status::InvalidArgument("{} is a device of this store", path);
  constexpr std::string_view kOurs[] = {"lock",    "meta",         "store.toml",  "store.toml.new", "store.toml.next", "store.toml.partial",
                                        "mirrors", "mirrors.next", "credentials", "signing-keys",   "lost"};
  const bool ours = wanted == fs::path(paths_->directory).lexically_normal() &&
                    std::ranges::find(kOurs, fs::path(path).filename().string()) != std::end(kOurs);
  if (ours) return Status::InvalidArgument("{} is the store's own: name another file", path);
  if (known) return {};
  return Status::PermissionDenied(
      "{} is in a directory in which this store has no device: name one in the directory of the store or of one of its "
      "devices",
      path);
}

namespace {

/// Paths that store.toml cannot hold would keep the store from opening again.
Status CheckCanBeWritten(const StoreConfig& config) {
  const Result<StoreConfig> back = ParseStoreConfig(FormatStoreConfig(config), "store.toml");
  if (back.ok() && *back == config && FormatStoreConfig(config).size() <= kMaxConfigBytes) return {};
  return Status::InvalidArgument("a path of a device has characters that store.toml cannot hold, or all together are too long");
}

}  // namespace

bool StoreDirectory::IsPath(const std::string& path, const std::string& named) const {
  return !named.empty() && (path == named || path == paths_->Device(named));
}

Result<uint32_t> StoreDirectory::FindDevice(const std::string& path) const {
  for (uint32_t id = 0; id < config_.devices.size(); ++id) {
    const DeviceConfig& device = config_.devices[id];
    if (!device.removed && (IsPath(path, device.path) || IsPath(path, device.mirror))) return id;
  }
  return Status::NotFound("the store has no device {}: see forebay df", path);
}

Status StoreDirectory::WriteConfig(StoreConfig changed) {
  if (!unknown_config_.ok()) return unknown_config_;
  const Status written = ReplaceConfig(*paths_, changed);
  if (written.ok()) {
    config_ = std::move(changed);
    return {};
  }
  // The new one may be there or not: what opens next decides, and nothing more is changed until then.
  unknown_config_ = Status::FailedPrecondition(
      "whether a change of devices is in {} is not known ({}): restart the server before the next", paths_->config(),
      written.message());
  return unknown_config_;
}

Status StoreDirectory::ReplaceSide(const std::string& lost, const std::string& replacement) {
  base::MutexLock lock(config_mutex_);
  FB_ASSIGN(const uint32_t id, FindDevice(lost));
  StoreConfig changed = config_;
  DeviceConfig& device = changed.devices[id];
  const uint32_t side = IsPath(lost, device.mirror) ? 1 : 0;
  device::MirrorDevice* const mirror = engine().mirror(id);
  if (mirror == nullptr)
    return Status::FailedPrecondition("{} has no mirror to replace it from: restore a backup", lost);
  if (mirror->sides()[side].state != device::SideState::kLost)
    return Status::FailedPrecondition("{} is in use: only a side that is lost is replaced", lost);
  const std::string path = paths_->Device(replacement);
  if (path != paths_->Device(lost)) FB_TRY(CheckMayBeDevice(path));
  (side == 1 ? device.mirror : device.path) = replacement;
  FB_TRY(CheckCanBeWritten(changed));
  FB_ASSIGN(const std::unique_ptr<rt::Reactor> reactor, rt::Reactor::Create({.name = "fb-replace", .entries = 16}));
  FB_ASSIGN(std::unique_ptr<device::Device> made, MakeDevice(*reactor, path, mirror->size_bytes(), config_.store, id));
  if (made->size_bytes() < mirror->size_bytes())
    return Status::InvalidArgument("{} has {} bytes: a side of {} needs {}", path, made->size_bytes(), mirror->name(),
                                   mirror->size_bytes());
  // It says whose it is before store.toml names it.
  FB_TRY(reactor->BlockOn(WriteEmptySide(*reactor, *made, *mirror)));
  FB_TRY(WriteConfig(std::move(changed)));
  FB_TRY(mirror->Replace(side, std::move(made)));
  upkeep_.Wake();
  return {};
}

Status StoreDirectory::AddDevice(const std::string& path, const std::string& mirror, uint64_t size_bytes) {
  base::MutexLock lock(config_mutex_);
  StoreConfig changed = config_;
  const auto id = static_cast<uint32_t>(changed.devices.size());
  if (id == Devices::kMaxDevices)
    return Status::ResourceExhausted("the store has {} devices, removed ones included: no more are possible", id);
  const bool mirrored = std::ranges::any_of(
      changed.devices, [](const DeviceConfig& device) { return !device.removed && !device.mirror.empty(); });
  if (mirrored && mirror.empty())
    return Status::InvalidArgument("the devices of this store are mirrors: name a mirror for {} too", path);
  for (const std::string& one : {path, mirror})
    if (!one.empty()) FB_TRY(CheckMayBeDevice(paths_->Device(one)));
  changed.devices.push_back({.path = path, .mirror = mirror});
  FB_TRY(CheckCanBeWritten(changed));

  FB_ASSIGN(const std::unique_ptr<rt::Reactor> reactor, rt::Reactor::Create({.name = "fb-add", .entries = 16}));
  if (size_bytes == 0) size_bytes = engine().SizeOfDevices();
  FB_TRY(FormatDevice(*reactor, *paths_, changed, id, size_bytes));
  FB_ASSIGN(std::unique_ptr<device::Device> device,
            OpenDevice(*reactor, *paths_, changed, id, running_.numbers, log_));
  FB_ASSIGN(const Superblock superblock, reactor->BlockOn(ReadSuperblock(*reactor, *device)));
  FB_TRY(WriteConfig(std::move(changed)));
  engine().AddDevice(std::move(device), superblock);
  upkeep_.Wake();
  return {};
}

Status StoreDirectory::SetLeaving(const std::string& path, bool leaves) {
  base::MutexLock lock(config_mutex_);
  FB_ASSIGN(const uint32_t id, FindDevice(path));
  FB_TRY(engine().SetLeaving(id, leaves));
  upkeep_.Wake();
  return {};
}

Status StoreDirectory::RemoveDevice(const std::string& path) {
  base::MutexLock lock(config_mutex_);
  FB_ASSIGN(const uint32_t id, FindDevice(path));
  FB_ASSIGN(const std::unique_ptr<rt::Reactor> reactor, rt::Reactor::Create({.name = "fb-remove", .entries = 16}));
  FB_TRY(reactor->BlockOn(engine().ForgetDevice(*reactor, id)));
  StoreConfig changed = config_;
  changed.devices[id] = {.path = changed.devices[id].path, .removed = true};
  FB_TRY(WriteConfig(std::move(changed)));
  engine().MarkDeviceAbsent(id);
  return {};
}

Result<uint64_t> StoreDirectory::CopyTo(const std::string& target, const Environment& environment,
                                        const CopyOptions& options) {
  return CopyToDirectory(engine().OpenForCopy(), target, environment.clock, environment.random, options);
}

}  // namespace forebay::engine
