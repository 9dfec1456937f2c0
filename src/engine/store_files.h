// SPDX-License-Identifier: Apache-2.0
// What a store directory is made of: its names, its lock, store.toml, the data devices and the metadata, and
// durable changes of names. docs/formats/store-directory.md has the layout. Private to those who make, open
// and copy a directory (store_directory.cc, directory_copy.cc). All block on the disk. Thread-safe: functions
// without state; a StoreLock may go on any thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "device/device.h"
#include "engine/store_config.h"
#include "meta/meta_store.h"
#include "rt/reactor.h"

namespace forebay::engine {

/// The data device of a store for which none was named.
constexpr const char* kOwnDevice = "data0";

struct StorePaths {
  explicit StorePaths(std::string directory_path) : directory(std::move(directory_path)) {}

  std::string In(std::string_view name) const;
  /// An absolute path of a device stays as it is.
  std::string Device(const std::string& name) const { return In(name); }
  std::string config() const { return In("store.toml"); }
  /// The configuration of a store that is being made: renamed when it is complete.
  std::string unfinished() const { return In("store.toml.new"); }
  /// What takes the place of the configuration next: left behind by a crash, and written over.
  std::string next_config() const { return In("store.toml.next"); }
  /// The same of a copy: what is there already is not to be started over.
  std::string partial() const { return In("store.toml.partial"); }
  /// The numbers of the mirrors' last records.
  std::string mirrors() const { return In("mirrors"); }
  std::string meta() const { return In("meta"); }
  std::string lock() const { return In("lock"); }
  /// What repairs moved aside.
  std::string lost() const { return In("lost"); }

  const std::string directory;
};

/// Held as long as the store is open.
class StoreLock {
 public:
  /// FailedPrecondition when another process has it.
  static Result<std::unique_ptr<StoreLock>> Take(const StorePaths& paths);
  ~StoreLock();
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;

 private:
  explicit StoreLock(int fd) : fd_(fd) {}
  const int fd_;
};

bool Exists(const std::string& path);
/// With all that is in it; fine when there is nothing.
Status Remove(const std::string& path);
Status SyncDirectory(const std::string& path);
Status WriteDurably(const std::string& path, std::string_view text);
/// Renames the configuration, which makes the directory a store, and makes that durable.
Status Complete(const StorePaths& paths, const std::string& unfinished);
/// InvalidArgument when it is too large for a store.toml.
Result<std::string> ReadSmallFile(const std::string& path);

/// NotFound when there is no store, also when its creation was interrupted; FailedPrecondition for a copy
/// that was.
Result<StoreConfig> ReadConfig(const StorePaths& paths);
/// The numbers of the mirrors' last records, in a file of the store directory: a line `device generation` for each. A side that
/// is alone cannot know that the other one has more; this does. Thread-safe.
class MirrorNumbers {
 public:
  /// DataLoss when the file is damaged.
  static Result<std::shared_ptr<MirrorNumbers>> Read(const StorePaths& paths);
  explicit MirrorNumbers(StorePaths paths) : paths_(std::move(paths)) {}

  /// 0: it has none.
  uint64_t Of(uint32_t device) FB_EXCLUDES(mutex_);
  /// Durably.
  Status Keep(uint32_t device, uint64_t generation) FB_EXCLUDES(mutex_);

 private:
  const StorePaths paths_;
  base::Mutex mutex_;
  std::map<uint32_t, uint64_t> numbers_ FB_GUARDED_BY(mutex_);
};

/// One of the store's devices; a mirror with the sides that are there. DataLoss when it is missing. It borrows `log`, and
/// shares `numbers`.
Result<std::unique_ptr<device::Device>> OpenDevice(rt::Reactor& reactor, const StorePaths& paths,
                                                   const StoreConfig& config, uint32_t id,
                                                   const std::shared_ptr<MirrorNumbers>& numbers, base::Log& log);
/// All of them.
Result<std::vector<std::unique_ptr<device::Device>>> OpenDevices(rt::Reactor& reactor, const StorePaths& paths,
                                                                 const StoreConfig& config,
                                                                 const std::shared_ptr<MirrorNumbers>& numbers,
                                                                 base::Log& log);
/// More than any store.toml has.
constexpr size_t kMaxConfigBytes = base::kMiB;
/// Whether a device may be taken over as the store's device `id`: its first MiB is zero, or it is that already.
/// FailedPrecondition: its owner has to empty it.
rt::Task<Status> CheckIsEmpty(rt::Reactor& reactor, device::Device& device, Uuid store, uint32_t id);
/// Puts another configuration in the place of the one that is there, durably; the lock is held.
Status ReplaceConfig(const StorePaths& paths, const StoreConfig& config);

struct MetaSettings {
  bool create = false;
  uint64_t witness = 0;                                  // the last commit that is known as acknowledged
  meta::GroupHooks* hooks = nullptr;                     // borrowed; may be null
  bool small = false;                                    // with little memory, for one pass over the rows
  std::optional<uint64_t> reserve_bytes = std::nullopt;  // that commits leave free; none: as ever
};
/// DataLoss when it is missing; the errors of RocksMetaStore::Open.
Result<std::unique_ptr<meta::MetaStore>> OpenMeta(const std::string& path, const MetaSettings& settings,
                                                  const base::Clock& clock);

}  // namespace forebay::engine
