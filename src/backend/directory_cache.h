// SPDX-License-Identifier: Apache-2.0
// DirectoryCache: the sorted entries of directories that listings came to last, so that the pages of a listing of a large
// directory do not each read and sort all of it. Entries are used only while the directory's times are those that they were
// read at, and kept only when those were old enough that every later change must show in them. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "backend/files.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace forebay::backend {

/// Names in the order of keys: directories with a `/` behind.
using SortedEntries = std::shared_ptr<const std::vector<std::string>>;  // shared by cursors that are under way

class DirectoryCache {
 public:
  /// Of all directories together; some 50 MiB at usual lengths. A larger directory is not kept.
  static constexpr size_t kMaxNames = 1'000'000;
  /// Smaller ones are read as fast as they are found here.
  static constexpr size_t kLeastNames = 1'000;
  /// Times of files stand still for some milliseconds each.
  static constexpr base::Duration kSettled = std::chrono::seconds(1);

  explicit DirectoryCache(const base::Clock& clock) : clock_(clock) {}

  /// Null when they are not known as of `state`.
  SortedEntries Find(const FileState& state) FB_EXCLUDES(mutex_);
  /// `state` is from before they were read.
  void Keep(const FileState& state, const SortedEntries& entries) FB_EXCLUDES(mutex_);

 private:
  struct Kept {
    FileState state{};
    SortedEntries entries{};
  };

  const base::Clock& clock_;
  base::Mutex mutex_;
  std::list<Kept> kept_ FB_GUARDED_BY(mutex_);  // used last first
  size_t names_ FB_GUARDED_BY(mutex_) = 0;
};

}  // namespace forebay::backend
