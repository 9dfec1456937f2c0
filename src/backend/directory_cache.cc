// SPDX-License-Identifier: Apache-2.0
#include "backend/directory_cache.h"

#include <algorithm>

namespace forebay::backend {

SortedEntries DirectoryCache::Find(const FileState& state) {
  const base::MutexLock lock(mutex_);
  const auto found = std::ranges::find(kept_, state, &Kept::state);
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return found->entries;
}

void DirectoryCache::Keep(const FileState& state, const SortedEntries& entries) {
  if (entries->size() < kLeastNames || entries->size() > kMaxNames) return;
  const int64_t now = clock_.WallNow().time_since_epoch().count();
  if (now - std::max(state.modified_ns, state.changed_ns) < kSettled.count()) return;
  const base::MutexLock lock(mutex_);
  const auto forget = [&](std::list<Kept>::iterator which) FB_REQUIRES(mutex_) {
    names_ -= which->entries->size();
    kept_.erase(which);
  };
  const auto before = std::ranges::find(kept_, state.inode, [](const Kept& kept) { return kept.state.inode; });
  if (before != kept_.end()) forget(before);
  names_ += entries->size();
  kept_.push_front({.state = state, .entries = entries});
  while (names_ > kMaxNames) forget(std::prev(kept_.end()));
}

}  // namespace forebay::backend
