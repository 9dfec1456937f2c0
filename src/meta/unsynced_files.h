// SPDX-License-Identifier: Apache-2.0
// UnsyncedFiles: the part of CrashFileSystem that knows what a power cut would take. For one directory on a real file system
// it notes which bytes of each file were not synced and which changes of names (creations, renames, deletions) were not
// followed by a sync of the directory; what would be gone for good is moved aside, so that it can come back.
// Model: bytes not synced may be there, absent, or zeros, sector by sector; name changes survive in order, a beginning of
// them. Syncing a file does not make its name durable.
// Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "base/status.h"
#include "meta/crash_file_system.h"

namespace forebay::meta {

class UnsyncedFiles {
 public:
  /// One file, whatever its name is by now.
  struct File {
    std::filesystem::path path;
    uint64_t size = 0;
    uint64_t synced = 0;
    bool exists = true;
  };
  using Handle = std::shared_ptr<File>;  // shared by open files and the notes; guarded by the mutex of this object

  /// What is in `directory` now counts as durable. Beside it, `directory`.unsynced is made while something is unsynced.
  explicit UnsyncedFiles(std::filesystem::path directory);
  ~UnsyncedFiles();
  UnsyncedFiles(const UnsyncedFiles&) = delete;
  UnsyncedFiles& operator=(const UnsyncedFiles&) = delete;

  /// True for the directory itself and what is directly in it.
  bool Covers(const std::filesystem::path& path) const;

  /// Before a file is made (or emptied) at `path`.
  Result<Handle> Create(const std::filesystem::path& path);
  /// A file that is there, to be appended to.
  Handle Open(const std::filesystem::path& path);
  void Appended(const Handle& file, uint64_t size);
  void Truncated(const Handle& file, uint64_t size);
  void Synced(const Handle& file);
  /// These two do what they note.
  Status Rename(const std::filesystem::path& from, const std::filesystem::path& to);
  Status Delete(const std::filesystem::path& path);
  void DirectorySynced();

  /// Makes the directory what is found after a power cut, all of it durable. No file may be open for writing any more.
  Status Crash(base::Random& random, FileCrashMode mode);

 private:
  struct Change {
    Handle file;                     // what was created, renamed or deleted
    std::filesystem::path before;    // its name before; empty: it was created
    std::filesystem::path after;     // its name after; empty: it was deleted
    Handle replaced;                 // the file that had the name `after`; may be null
    std::filesystem::path aside;     // where the deleted or replaced file is kept; may be empty
  };

  Handle Find(const std::filesystem::path& path) FB_REQUIRES(mutex_);
  Result<std::filesystem::path> MoveAside(const Handle& file) FB_REQUIRES(mutex_);
  Status Undo(const Change& change) FB_REQUIRES(mutex_);
  Status Cut(const File& file, base::Random& random, FileCrashMode mode) FB_REQUIRES(mutex_);

  const std::filesystem::path directory_;
  const std::filesystem::path aside_;
  base::Mutex mutex_;
  std::vector<Handle> files_ FB_GUARDED_BY(mutex_);
  std::vector<Change> changes_ FB_GUARDED_BY(mutex_);  // since the directory was synced last
  uint64_t moved_ FB_GUARDED_BY(mutex_) = 0;
};

}  // namespace forebay::meta
