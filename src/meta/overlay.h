// SPDX-License-Identifier: Apache-2.0
// Overlay: the writes of one group, in key order, before they are committed, with a way back for a member that fails.
// OverlayView: committed state as seen through them. Private to meta; the committer's.
// Reactor-local: used by the committer's thread only.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "meta/meta_store.h"

namespace forebay::meta {

/// Committed state, and the way to change it: what a store gives its committer.
class CommitTarget;

class Overlay final : public Batch {
 public:
  /// Nothing stands for a deletion.
  using Writes = std::map<std::string, std::optional<std::string>, std::less<>>;

  void Put(Family family, std::string_view key, std::string_view value) override;
  void Delete(Family family, std::string_view key) override;
  /// The commit row, which no transaction may write.
  void PutCommitRow(uint64_t number);

  const Writes& writes(Family family) const { return writes_[static_cast<size_t>(family)]; }
  bool empty() const;
  /// Keys and values written so far; a measure, not an exact size.
  size_t bytes() const { return bytes_; }

  /// Makes everything since the last Keep final.
  void Keep() { undo_.clear(); }
  /// Undoes everything since the last Keep.
  void RollBack();

 private:
  struct Undo {
    Writes* family;
    Writes::iterator at;
    bool existed;
    std::optional<std::string> before;
  };
  void Write(Family family, std::string_view key, std::optional<std::string> value);

  std::array<Writes, kFamilies> writes_;
  std::vector<Undo> undo_;
  size_t bytes_ = 0;
};

class OverlayView final : public View {
 public:
  /// Borrows both.
  OverlayView(CommitTarget& committed, const Overlay& overlay) : committed_(committed), overlay_(overlay) {}

  Result<std::optional<std::string>> Get(Family family, std::string_view key) override;
  Result<std::optional<std::pair<std::string, std::string>>> First(Family family, std::string_view from,
                                                                   std::string_view end) override;
  Status CheckRoom(uint64_t bytes) override;

 private:
  CommitTarget& committed_;
  const Overlay& overlay_;
};

}  // namespace forebay::meta
