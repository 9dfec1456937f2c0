// SPDX-License-Identifier: Apache-2.0
#include "meta/overlay.h"

#include "base/bytes.h"

#include <algorithm>

#include "base/check.h"
#include "base/codec.h"
#include "meta/commit_target.h"

namespace forebay::meta {

void Overlay::Put(Family family, std::string_view key, std::string_view value) {
  FB_CHECK(family != Family::kSystem || key != kCommitKey);
  Write(family, key, std::string(value));
}

void Overlay::Delete(Family family, std::string_view key) {
  FB_CHECK(family != Family::kSystem || key != kCommitKey);
  Write(family, key, std::nullopt);
}

void Overlay::PutCommitRow(uint64_t number) {
  std::string value;
  base::Encoder(&value).U64(number);
  Write(Family::kSystem, kCommitKey, std::move(value));
}

void Overlay::Write(Family family, std::string_view key, std::optional<std::string> value) {
  Writes& writes = writes_[static_cast<size_t>(family)];
  bytes_ += key.size() + (value ? value->size() : 0);
  const auto at = writes.lower_bound(key);
  if (at != writes.end() && at->first == key) {
    undo_.push_back({&writes, at, true, std::exchange(at->second, std::move(value))});
  } else {
    undo_.push_back({&writes, writes.emplace_hint(at, key, std::move(value)), false, std::nullopt});
  }
}

void Overlay::RollBack() {
  for (; !undo_.empty(); undo_.pop_back()) {
    Undo& last = undo_.back();
    if (last.existed) {
      last.at->second = std::move(last.before);
    } else {
      last.family->erase(last.at);
    }
  }
}

bool Overlay::empty() const {
  return std::all_of(writes_.begin(), writes_.end(), [](const Writes& writes) { return writes.empty(); });
}

Result<std::optional<std::string>> OverlayView::Get(Family family, std::string_view key) {
  const Overlay::Writes& writes = overlay_.writes(family);
  const auto found = writes.find(key);
  if (found != writes.end()) return found->second;
  return committed_.GetCommitted(family, key);
}

Result<std::optional<std::pair<std::string, std::string>>> OverlayView::First(Family family, std::string_view from,
                                                                              std::string_view end) {
  using Entry = std::pair<std::string, std::string>;
  const Overlay::Writes& writes = overlay_.writes(family);
  FB_ASSIGN(std::optional<Entry> below, committed_.FirstCommitted(family, from, end));
  for (auto above = writes.lower_bound(from); above != writes.end(); ++above) {
    const auto& [key, value] = *above;
    if ((!end.empty() && key >= end) || (below && below->first < key)) break;
    if (value) return std::optional<Entry>(Entry(key, *value));
    // Deleted by an earlier member: what it hides below does not count.
    if (below && below->first == key) {
      FB_ASSIGN(below, committed_.FirstCommitted(family, key + '\0', end));
    }
  }
  return below;
}

Status OverlayView::CheckRoom(uint64_t bytes) {
  // What is smaller fits into what is kept for deletes, many times.
  constexpr uint64_t kSmall = base::kMiB;
  // It goes to the log, and from there to a table.
  return bytes < kSmall ? Status() : committed_.RefusalForSpace(2 * (bytes + overlay_.bytes()));
}

}  // namespace forebay::meta
