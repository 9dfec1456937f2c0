// SPDX-License-Identifier: Apache-2.0
// StoreDirectory: an engine whose parts live in a directory: store.toml, data devices (files or raw blocks),
// meta/ (RocksDB) and a lock against a second server. docs/formats/store-directory.md has the layout. Open,
// Create, Check and copies block on the disk and run outside of reactors. Thread-safe once opened. The engine
// goes with it: readers and writers first, reactors drained.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "engine/copy.h"
#include "engine/engine.h"
#include "engine/fsck.h"
#include "engine/repair.h"
#include "engine/store_config.h"
#include "engine/upkeep.h"

namespace forebay::engine {

class MirrorNumbers;
class StoreLock;
struct StorePaths;

class StoreDirectory {
 public:
  /// Borrowed for the life of the store.
  struct Environment {
    base::Arena& arena;
    const base::Clock& clock;
    base::Random& random;
    base::Log& log;
  };

  struct CreateOptions {
    uint64_t size_bytes = 0;                // of each file that is made; a multiple of the device unit
    std::vector<std::string> devices = {};  // files or block devices; none: one file in the directory
    std::vector<std::string> mirrors = {};  // none, or the other side of each device
  };

  /// Makes a store, and the directory when it is not there. A creation that was interrupted starts over.
  /// AlreadyExists when there is a store; FailedPrecondition for a device that is not empty, or parts of a
  /// store without its store.toml; ResourceExhausted when there is no room.
  static Result<std::unique_ptr<StoreDirectory>> Create(const std::string& directory,
                                                        const CreateOptions& create,
                                                        const Environment& environment,
                                                        const EngineOptions& options);

  /// Opens a store. NotFound when there is none (also when its creation was interrupted: it never held
  /// anything); FailedPrecondition when another process has it or a newer program wrote it; DataLoss when a
  /// part is missing or damaged.
  static Result<std::unique_ptr<StoreDirectory>> Open(const std::string& directory,
                                                      const Environment& environment,
                                                      const EngineOptions& options);

  /// Checks a store that no server has open. Nothing of its content changes; like each opening it replays the
  /// metadata's log. Errors as Open: what can be opened but is wrong stands in the report.
  static Result<FsckReport> Check(const std::string& directory, const FsckOptions& fsck,
                                  const Environment& environment);

  struct Repaired {
    FsckReport before;
    RepairPlan plan;
    std::string record;  // the file that has the plan, and each row that went; empty when nothing was done
    FsckReport after;    // as before, when nothing was done
  };
  /// Checks a store that no server has open and plans its repair, unless it is clean and not to be repaired. With `act` it writes the plan to a file in the
  /// store's directory `lost`, does it, and checks again. Errors as Check; after one while it acts, repair again.
  static Result<Repaired> Repair(const std::string& directory, const FsckOptions& fsck, RepairOptions repair, bool act,
                                 const Environment& environment);

  /// Copies a store that no process has open, after fsck of its metadata, into the directory `target`. Gives
  /// the bytes of extents. DataLoss when it is not clean; errors as Open and CopyToDirectory
  /// (directory_copy.h).
  static Result<uint64_t> Copy(const std::string& directory, const std::string& target,
                               const Environment& environment, const CopyOptions& options);

  /// The same of this store as of now, while it serves. On a thread of its own, which ends before this goes.
  /// Space that is freed meanwhile comes back at the end.
  Result<uint64_t> CopyTo(const std::string& target, const Environment& environment,
                          const CopyOptions& options);

  /// Puts `replacement`, a block device or file that is empty, or a file that is made, in the place of `lost`, a side of a
  /// mirror that is lost, as store.toml or `forebay df` names it. The rest of the store is served meanwhile; that side is
  /// brought up to date in the background. NotFound for no such side, FailedPrecondition when it is not lost or the
  /// replacement is not empty; PermissionDenied when it is not in the directory of the store or of one of its devices.
  Status ReplaceSide(const std::string& lost, const std::string& replacement) FB_EXCLUDES(config_mutex_);
  /// Another device, with a mirror when the others have one: block devices or files that are empty, or files that are made,
  /// as large as the largest device when `size_bytes` is 0. InvalidArgument, FailedPrecondition, PermissionDenied as above;
  /// ResourceExhausted for more devices than a store has.
  Status AddDevice(const std::string& path, const std::string& mirror, uint64_t size_bytes) FB_EXCLUDES(config_mutex_);
  /// Begins to empty a device, or with `leaves` false lets it stay after all; forgotten by a restart, as is a failure.
  /// NotFound; FailedPrecondition for the last one.
  Status SetLeaving(const std::string& path, bool leaves) FB_EXCLUDES(config_mutex_);
  /// Takes a device out that was emptied. NotFound; FailedPrecondition while it is not empty.
  Status RemoveDevice(const std::string& path) FB_EXCLUDES(config_mutex_);

  ~StoreDirectory();

  Engine& engine() { return *running_.engine; }
  StoreConfig config() const FB_EXCLUDES(config_mutex_) {
    base::MutexLock lock(config_mutex_);
    return config_;
  }

 private:
  /// The engine with the reactor that opened it, which outlives it: the engine's threads have posted to it.
  struct Running {
    std::unique_ptr<rt::Reactor> reactor;
    std::shared_ptr<MirrorNumbers> numbers;  // shared with the mirrors
    std::unique_ptr<Engine> engine;
  };

  StoreDirectory(const std::string& directory, std::unique_ptr<StoreLock> lock, StoreConfig config, Running running,
                 base::Log& log);
  /// PermissionDenied for a device in a directory where the store has none.
  Status CheckMayBeDevice(const std::string& path) const FB_REQUIRES(config_mutex_);
  /// By one of its paths, as store.toml has it or the whole one.
  Result<uint32_t> FindDevice(const std::string& path) const FB_REQUIRES(config_mutex_);
  bool IsPath(const std::string& path, const std::string& named) const;
  /// Puts it in the place of store.toml, and takes it over. After a failure nothing is changed until the store is opened again.
  Status WriteConfig(StoreConfig changed) FB_REQUIRES(config_mutex_);

  static Result<Running> OpenEngine(const StorePaths& paths, const StoreConfig& config, bool create_metadata,
                                    const Environment& environment, const EngineOptions& options);

  const std::unique_ptr<const StorePaths> paths_;
  const std::unique_ptr<StoreLock> lock_;
  const Running running_;
  mutable base::Mutex config_mutex_;  // held while store.toml is written: changes of devices take turns
  StoreConfig config_ FB_GUARDED_BY(config_mutex_);
  Status unknown_config_ FB_GUARDED_BY(config_mutex_);  // why it is not known what store.toml says
  base::Log& log_;
  Upkeep upkeep_;
};

}  // namespace forebay::engine
