// SPDX-License-Identifier: Apache-2.0
// CrashFileSystem: a file system for RocksDB over one real directory, which forgets what was not synced when the power is
// cut. Give file_system() to RocksMetaOptions; cut the power at any moment; take the store down; Crash; open again, through
// a new CrashFileSystem or without one. Syncs are modelled, not passed on, so that thousands of cuts are cheap.
// See UnsyncedFiles for the model. Thread-safe, except Crash.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/random.h"
#include "base/status.h"

namespace rocksdb {
class FileSystem;
}

namespace forebay::meta {

class UnsyncedFiles;

/// What a power cut does to what was not synced.
enum class FileCrashMode : uint8_t {
  kDropAll,  ///< all of it is gone
  kKeepAll,  ///< all of it is there
  kRandom,   ///< some of it is there, and pieces of it are zeros
};

class CrashFileSystem {
 public:
  struct Options {
    /// Asked before every operation that changes something, from any thread; false: the power is off. So that one switch
    /// can count the operations of several stores, and cut them all at one moment. May be null.
    std::function<bool()> use;
    /// A disk that lies: every sync is answered ok and does nothing. For proofs that a test would notice.
    bool syncs_lie = false;
  };

  /// `directory` need not exist; what is in it counts as durable.
  CrashFileSystem(std::string directory, Options options);
  explicit CrashFileSystem(std::string directory) : CrashFileSystem(std::move(directory), Options()) {}
  ~CrashFileSystem();
  CrashFileSystem(const CrashFileSystem&) = delete;
  CrashFileSystem& operator=(const CrashFileSystem&) = delete;

  /// Shared with RocksDB's threads; it must not be used any more when this object is destroyed.
  std::shared_ptr<rocksdb::FileSystem> file_system() const;

  /// From now on every operation that changes something fails. But for those on tables, which seem to succeed and leave
  /// nothing that anything names: RocksDB (7.8.3 as Debian builds it) may end the process by an assertion when one of
  /// several tables cannot be written, and the laboratory with it.
  void CutPower();
  /// Turns the directory into what is found after the cut. Cuts the power if it is still on; the store must be closed.
  Status Crash(base::Random& random, FileCrashMode mode);

 private:
  class Impl;
  const std::unique_ptr<UnsyncedFiles> files_;
  const std::shared_ptr<Impl> impl_;
};

}  // namespace forebay::meta
