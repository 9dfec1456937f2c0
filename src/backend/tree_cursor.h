// SPDX-License-Identifier: Apache-2.0
// TreeCursor: the files below a directory as keys in the order of their bytes, which is not that of the names in each
// directory: `a.b` comes before all of `a/`. So directories stand in the order with a `/` behind their names. Each
// directory is read once, when the cursor comes to it; symbolic links, other mounts and names that are no key are left
// out. For store::ListKeys and for counting. Belongs to one thread; its calls block.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/directory_cache.h"
#include "backend/files.h"
#include "base/status.h"
#include "store/listing.h"

namespace forebay::backend {

class TreeCursor final : public store::KeyCursor {
 public:
  /// Borrows the descriptor of the directory, and the cache, which may be null. Stands nowhere before the first Seek.
  explicit TreeCursor(int tree, DirectoryCache* cache = nullptr) : tree_(tree), cache_(cache) {}

  void Seek(std::string_view key) override;
  void Next() override;
  bool Valid() const override { return valid_; }
  std::string_view key() const override { return key_; }

  /// The directory and the name of the file; only while Valid.
  int directory() const { return frames_.back().directory.get(); }
  const std::string& name() const { return frames_.back().entry(); }
  /// Why it ended early; ok when there was nothing more.
  const Status& status() const { return status_; }

 private:
  struct Frame {
    Descriptor directory;
    std::string prefix;  // of all keys below it
    SortedEntries entries;
    size_t at = 0;
    const std::string& entry() const { return (*entries)[at]; }
  };

  /// What is in the frame's directory.
  Status Read(Frame* frame);
  /// Goes into the directory that the last frame stands on, or into the tree. False when it is not there any more.
  bool Enter();
  /// On to the next file, from where the last frame stands.
  void Settle();

  const int tree_;
  DirectoryCache* const cache_;  // borrowed
  std::vector<Frame> frames_;
  std::string key_;
  bool valid_ = false;
  Status status_;
};

}  // namespace forebay::backend
