// SPDX-License-Identifier: Apache-2.0
// Backups: makes the backups of a server's store, one at a time, each on a thread of its own. They go right
// into one directory that the server's start named, so that whoever may ask for one writes nowhere else.
// Thread-safe.
#pragma once

#include <string>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "control/backups.h"
#include "engine/store_directory.h"

namespace forebay::app {

class Backups final : public control::Backups {
 public:
  /// A backup is given up when nobody has asked for it for so long: space is not held for who went away.
  static constexpr base::Duration kPatience = std::chrono::seconds(30);

  /// The store and what `environment` names are borrowed. `directory` is absolute; empty: none are made.
  Backups(engine::StoreDirectory& store, const engine::StoreDirectory::Environment& environment,
          std::string directory)
      : store_(store), environment_(environment), directory_(std::move(directory)) {}
  /// As Stop.
  ~Backups() override { Stop(); }

  Result<uint64_t> Start(std::string directory, uint64_t bytes_per_second) override FB_EXCLUDES(mutex_);
  Result<control::BackupState> Get(uint64_t id) override FB_EXCLUDES(mutex_);
  /// Gives up the one that is being made, waits for its end, and refuses others.
  void Stop() FB_EXCLUDES(mutex_);

 private:
  Status CheckTarget(const std::string& directory) const;
  void Make(const std::string& directory, uint64_t bytes_per_second) FB_EXCLUDES(mutex_);
  Status Watch(const engine::CopyProgress& progress) FB_EXCLUDES(mutex_);

  engine::StoreDirectory& store_;
  const engine::StoreDirectory::Environment environment_;
  const std::string directory_;
  base::Mutex mutex_;
  bool stopping_ FB_GUARDED_BY(mutex_) = false;
  bool running_ FB_GUARDED_BY(mutex_) = false;
  uint64_t id_ FB_GUARDED_BY(mutex_) = 0;  // of the last one; 0: there was none
  base::TimePoint asked_ FB_GUARDED_BY(mutex_){};
  control::BackupState state_ FB_GUARDED_BY(mutex_);
  Status outcome_ FB_GUARDED_BY(mutex_);
  std::thread thread_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::app
