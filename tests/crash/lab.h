// SPDX-License-Identifier: Apache-2.0
// Lab: a machine with memory devices and a directory for RocksDB, all on one power supply. An engine is opened on it, the
// power goes after a number of operations that change media, and Crash leaves what a restarted machine would find: both
// kinds of media cut at the same moment, everything unflushed there, gone or torn.
// Belongs to one thread (its reactor does); several may run side by side.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "device/faulty_device.h"
#include "device/memory_device.h"
#include "device/power_switch.h"
#include "engine/engine.h"
#include "engine/fsck.h"
#include "lab_files.h"
#include "meta/crash_file_system.h"
#include "meta/memory_meta_store.h"
#include "rt/reactor.h"

namespace forebay::crash {

/// What is taken out of the order of truth, to prove that the tests would notice. Decorators of the media only: the engine
/// under test is always the shipped one.
enum class Mutant : uint8_t {
  kNone,
  kNoDeviceFlush,  ///< flushing a data device does nothing
  kNoSecondFlush,  ///< only the first data device is flushed
  kNoLogSync,      ///< syncing RocksDB's log does nothing
  kNoWitness,      ///< the commit witness is never written
};

struct LabOptions {
  std::string directory;                     ///< of the metadata; made here, removed with the lab
  size_t devices = 1;
  uint64_t device_bytes = 24 * base::kMiB;
  size_t write_buffer_bytes = 8 * base::kMiB;
  uint64_t tier_bytes = UINT64_MAX;          ///< 0: every read goes to the devices
  std::chrono::milliseconds settle{1};       ///< idle time after which the last commit is witnessed
  Mutant mutant = Mutant::kNone;
  FileSpace* space = nullptr;                ///< borrowed; null: as much as there is
  device::FaultPlan* faults = nullptr;       ///< borrowed; of all devices together, once the store is made
  bool failed_flush_drops = false;           ///< a flush that fails loses what it should have made durable
  store::Quota quota{};                      ///< of the tenant that owns the bucket
  bool memory_metadata = false;              ///< the twin instead of RocksDB: thousands of openings are cheap
};

class Lab {
 public:
  static constexpr const char* kBucket = "bucket";
  static constexpr TenantId kOwner{3};  ///< of the bucket

  explicit Lab(LabOptions options);
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  /// A fresh directory name for a lab, in memory where there is any.
  static std::string ScratchDirectory(std::string_view name);

  /// A formatted store with an empty bucket, closed, all of it durable.
  Status Make();
  /// Opens an engine on the media as they are.
  Status Open();
  void Close();
  /// Closes, cuts the power and leaves what is found afterwards, with power for so many operations that change media.
  Status Crash(base::Random& random, int64_t operations = device::PowerSwitch::kForever);
  bool powered() const { return power_->on(); }
  /// Everything that a closed store consists of.
  struct Image {
    std::vector<Bytes> disks;
    std::string metadata;  ///< a directory beside the store's own
    Uuid store;
  };
  /// Takes an image of the closed store, with RocksDB. One at a time.
  Image Save();
  /// Closes, and makes the media what the image says, whichever lab of this shape it is of. Files are linked, not copied:
  /// RocksDB never changes one in place.
  void Restore(const Image& image);

  /// Checks the closed store, every block of data included.
  Result<engine::FsckReport> Fsck();

  engine::Engine& engine() { return *engine_; }
  bool is_open() const { return engine_ != nullptr; }
  rt::Reactor& reactor() { return *reactor_; }
  store::Context context() { return {.reactor = *reactor_}; }
  device::MemoryDevice& disk(size_t id = 0) { return *disks_[id]; }
  size_t disks() const { return disks_.size(); }
  std::string metadata_directory() const { return options_.directory + "/meta"; }

  template <typename T>
  T Run(rt::Task<T> task) {
    return reactor_->BlockOn(std::move(task));
  }

 private:
  Result<std::unique_ptr<meta::MetaStore>> OpenMeta(uint64_t witness, meta::GroupHooks* hooks);
  std::vector<std::unique_ptr<device::Device>> LendDevices();
  void PlugIn(int64_t operations);

  const LabOptions options_;
  const base::SystemClock clock_;
  const std::unique_ptr<base::Log> log_ = base::Log::Discard();
  std::unique_ptr<base::Arena> arena_;
  std::unique_ptr<rt::Reactor> reactor_;
  bool made_ = false;  // until then the media are honest and the metadata is created
  Uuid store_;
  std::unique_ptr<device::PowerSwitch> power_;
  std::vector<std::unique_ptr<device::MemoryDevice>> disks_;
  std::unique_ptr<meta::CrashFileSystem> files_;
  const std::shared_ptr<meta::MemoryMedia> memory_media_ = std::make_shared<meta::MemoryMedia>();
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace forebay::crash
