// SPDX-License-Identifier: Apache-2.0
#include "engine/directory_copy.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "device/file_device.h"
#include "engine/engine.h"
#include "engine/store_files.h"
#include "engine/superblock.h"

namespace forebay::engine {
namespace {

namespace fs = std::filesystem;

Status CheckHoldsNothing(const StorePaths& paths, bool locked) {
  if (Exists(paths.partial()))
    return Status::AlreadyExists(
        "{} holds a backup, or a restored one, that was interrupted: remove it first", paths.directory);
  std::error_code error;
  for (fs::directory_iterator entry(paths.directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != "lost+found" && (!locked || entry->path() != paths.lock()))
      return Status::AlreadyExists("{} is there already, and has {}: name a directory that is new or empty",
                                   paths.directory, name);
  }
  return error ? Status::FromErrno(error.value(), "look into " + paths.directory) : Status();
}

uint64_t TotalSize(const std::vector<Superblock>& superblocks) {
  uint64_t total = 0;
  for (const Superblock& superblock : superblocks) total += superblock.size_bytes;
  return total;
}

std::string WithoutSlash(const std::string& directory) {
  std::string normal = fs::path(directory).lexically_normal().string();
  while (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

/// A directory that is being filled. Unless it is completed, what was made in it goes with this.
class Target {
 public:
  explicit Target(const std::string& directory) : paths_(WithoutSlash(directory)) {}
  ~Target() {
    if (complete_) return;
    if (begun_) {
      (void)Remove(paths_.config());  // first: without it nothing takes the rest for a store
      (void)Remove(paths_.meta());
      for (const DeviceConfig& device : config_.devices) (void)Remove(paths_.Device(device.path));
      (void)Remove(paths_.partial());
    }
    if (lock_ != nullptr) (void)Remove(paths_.lock());
    std::error_code error;
    if (made_) fs::remove(paths_.directory, error);
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  Status Begin(StoreConfig config, bool new_directory) {
    std::error_code error;
    made_ = ::mkdir(paths_.directory.c_str(), 0700) == 0;
    if (!made_ && errno != EEXIST) return Status::FromErrno(errno, "make the directory " + paths_.directory);
    if (!made_ && Exists(paths_.partial())) return CheckHoldsNothing(paths_, false);
    if (!made_ && (new_directory || fs::symlink_status(paths_.directory, error).type() != fs::file_type::directory))
      return Status::AlreadyExists("{} is there already: name a new directory", paths_.directory);
    FB_TRY(CheckHoldsNothing(paths_, false));
    FB_ASSIGN(lock_, StoreLock::Take(paths_));
    FB_TRY(CheckHoldsNothing(paths_, true));
    config_ = std::move(config);
    begun_ = true;
    FB_TRY(WriteDurably(paths_.partial(), FormatStoreConfig(config_)));
    FB_TRY(SyncDirectory(paths_.directory));
    const fs::path above = fs::absolute(paths_.directory, error).lexically_normal().parent_path();
    return error ? Status::FromErrno(error.value(), "find " + paths_.directory)
                 : SyncDirectory(above.string());
  }

  Result<std::vector<std::unique_ptr<device::Device>>> MakeDevices(const std::vector<Superblock>& sources,
                                                                   bool sparse) {
    std::vector<std::unique_ptr<device::Device>> devices;
    for (size_t id = 0; id < sources.size(); ++id) {
      FB_ASSIGN(
          std::unique_ptr<device::FileDevice> device,
          device::FileDevice::Open(paths_.Device(config_.devices[id].path),
                                   {.create = true, .size_bytes = sources[id].size_bytes, .sparse = sparse}));
      devices.push_back(std::move(device));
    }
    return devices;
  }

  Status MakeComplete() {
    FB_TRY(Complete(paths_, paths_.partial()));
    complete_ = true;
    return {};
  }

  const StorePaths& paths() const { return paths_; }
  Uuid store() const { return config_.store; }

 private:
  const StorePaths paths_;
  StoreConfig config_;
  std::unique_ptr<StoreLock> lock_;
  bool made_ = false;   // the directory
  bool begun_ = false;  // files in it
  bool complete_ = false;
};

/// ResourceExhausted when `bytes` more would leave less than the reserve.
Status CheckRoom(const StorePaths& paths, uint64_t bytes) {
  struct statvfs info{};
  if (::statvfs(paths.directory.c_str(), &info) != 0)
    return Status::FromErrno(errno, "look at the file system of " + paths.directory);
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  if (free >= kCopyReserveBytes && free - kCopyReserveBytes >= bytes) return {};
  return Status::ResourceExhausted(
      "{}: the file system has {} free, the copy needs {} more, and {} that it leaves free", paths.directory,
      base::FormatSize(free), base::FormatSize(bytes), base::FormatSize(kCopyReserveBytes));
}

/// Superblocks, and the witness of the metadata's last commit.
rt::Task<Status> WriteHeads(rt::Reactor& reactor, const Devices& devices, std::vector<Superblock> sources,
                            Uuid store, uint64_t commit) {
  for (uint32_t id = 0; id < devices.size(); ++id) {
    Superblock superblock = sources[id];
    superblock.store = store;
    FB_CO_TRY(co_await WriteSuperblock(reactor, devices.at(id), superblock));
  }
  FB_CO_TRY(co_await WriteWitness(reactor, devices.at(0), store, {.commit = commit, .slot = 0}));
  co_return co_await devices.at(0).Flush(reactor);
}

}  // namespace

Result<uint64_t> CopyToDirectory(CopySource source, const std::string& target_directory,
                                 const base::Clock& clock, base::Random& random, const CopyOptions& options) {
  FB_ASSIGN(const std::unique_ptr<rt::Reactor> reactor,
            rt::Reactor::Create({.name = "fb-copy", .entries = 64}));
  FB_ASSIGN(const std::vector<Superblock> superblocks,
            reactor->BlockOn(ReadSuperblocks(*reactor, source.devices)));
  StoreConfig config{.store = Uuid::Generate(random), .devices = {}};
  for (size_t id = 0; id < superblocks.size(); ++id) config.devices.push_back({.path = fmt::format("data{}", id)});
  Target target(target_directory);
  FB_TRY(target.Begin(std::move(config), options.new_directory));
  CopyOptions watched = options;
  watched.watch = [&options, &target](const CopyProgress& progress) {
    FB_TRY(CheckRoom(target.paths(), 0));
    return options.watch == nullptr ? Status() : options.watch(progress);
  };
  StoreCopier copier(*reactor, watched);

  const std::string meta_path = target.paths().meta();
  uint64_t last_commit = 0;
  {
    FB_ASSIGN(
        const std::unique_ptr<meta::MetaStore> meta,
        OpenMeta(meta_path, {.create = true, .small = true, .reserve_bytes = kCopyReserveBytes}, clock));
    FB_TRY(reactor->BlockOn(copier.CopyRows(*source.moment, *meta, target.store())));
    last_commit = meta->last_commit();
  }
  source.moment.reset();
  // Closed and opened again: it has nothing left to write when the content fills the file system, and proves
  // that what was committed is there.
  FB_ASSIGN(const std::unique_ptr<meta::MetaStore> meta,
            OpenMeta(meta_path, {.witness = last_commit, .small = true}, clock));
  FB_TRY(CheckRoom(target.paths(), options.sparse ? copier.progress().total_bytes : TotalSize(superblocks)));
  FB_ASSIGN(std::vector<std::unique_ptr<device::Device>> files,
            target.MakeDevices(superblocks, options.sparse));
  Devices devices(std::move(files));
  FB_TRY(reactor->BlockOn(copier.CopyContent(*meta, source.devices, devices)));
  FB_TRY(reactor->BlockOn(WriteHeads(*reactor, devices, superblocks, target.store(), last_commit)));
  FB_TRY(target.MakeComplete());
  return copier.progress().copied_bytes;
}

}  // namespace forebay::engine
