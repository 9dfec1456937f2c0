// SPDX-License-Identifier: Apache-2.0
// StoreDirectory: an engine whose parts live in a directory: store.toml, data devices (files or raw blocks),
// meta/ (RocksDB) and a lock against a second server. docs/formats/store-directory.md has the layout. Open,
// Create, Check and copies block on the disk and run outside of reactors. Thread-safe once opened. The engine
// goes with it: readers and writers first, reactors drained.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/copy.h"
#include "engine/engine.h"
#include "engine/fsck.h"
#include "engine/store_config.h"

namespace forebay::engine {

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

  /// Copies a store that no process has open, after fsck of its metadata, into the directory `target`. Gives
  /// the bytes of extents. DataLoss when it is not clean; errors as Open and CopyToDirectory
  /// (directory_copy.h).
  static Result<uint64_t> Copy(const std::string& directory, const std::string& target,
                               const Environment& environment, const CopyOptions& options);

  /// The same of this store as of now, while it serves. On a thread of its own, which ends before this goes.
  /// Space that is freed meanwhile comes back at the end.
  Result<uint64_t> CopyTo(const std::string& target, const Environment& environment,
                          const CopyOptions& options);

  ~StoreDirectory();

  Engine& engine() { return *running_.engine; }
  const StoreConfig& config() const { return config_; }

 private:
  /// The engine with the reactor that opened it, which outlives it: the engine's threads have posted to it.
  struct Running {
    std::unique_ptr<rt::Reactor> reactor;
    std::unique_ptr<Engine> engine;
  };

  StoreDirectory(std::unique_ptr<StoreLock> lock, StoreConfig config, Running running);

  static Result<Running> OpenEngine(const StorePaths& paths, const StoreConfig& config, bool create_metadata,
                                    const Environment& environment, const EngineOptions& options);

  const std::unique_ptr<StoreLock> lock_;
  const StoreConfig config_;
  const Running running_;
};

}  // namespace forebay::engine
