// SPDX-License-Identifier: Apache-2.0
#include "backend/tree_cursor.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/limits.h"

namespace forebay::backend {

Status TreeCursor::Read(Frame* frame) {
  const std::string what = "list the directory `" + frame->prefix + "`";
  FB_ASSIGN(const FileState state, StateOf(frame->directory.get(), what));
  if (cache_ != nullptr) frame->entries = cache_->Find(state);
  if (frame->entries != nullptr) return {};
  FB_ASSIGN(std::vector<DirectoryEntry> read, ReadDirectory(frame->directory.get(), what));
  std::vector<std::string> entries;
  entries.reserve(read.size());
  for (DirectoryEntry& entry : read) {
    if (!base::IsUtf8(entry.name)) continue;
    if (entry.is_directory) entry.name += '/';
    entries.push_back(std::move(entry.name));
  }
  std::ranges::sort(entries);
  frame->entries = std::make_shared<const std::vector<std::string>>(std::move(entries));
  if (cache_ != nullptr) cache_->Keep(state, frame->entries);
  return {};
}

bool TreeCursor::Enter() {
  const bool is_tree = frames_.empty();
  const std::string name = is_tree ? std::string() : frames_.back().entry();
  Frame frame;
  if (!is_tree) frame.prefix = frames_.back().prefix + name;
  if (frame.prefix.size() > base::kMaxKeyBytes) return false;
  auto opened = OpenBeneath(is_tree ? tree_ : frames_.back().directory.get(), name, O_RDONLY | O_DIRECTORY);
  if (!opened) {
    // A directory in the tree that this user may not read is not this server's; a bucket is.
    const bool forbidden = !is_tree && (opened.error() == EACCES || opened.error() == EPERM);
    if (!forbidden && !LeadsNowhere(opened.error())) status_ = FileError(opened.error(), "list the directory `" + frame.prefix + "`");
    return false;
  }
  frame.directory = *std::move(opened);
  status_ = Read(&frame);
  if (!status_.ok()) return false;
  frames_.push_back(std::move(frame));
  return true;
}

void TreeCursor::Seek(std::string_view key) {
  valid_ = false;
  while (!frames_.empty() && !key.starts_with(frames_.back().prefix)) frames_.pop_back();
  if (frames_.empty() && !Enter()) return;
  for (;;) {
    Frame& frame = frames_.back();
    const std::string_view rest = key.substr(frame.prefix.size());
    const auto from = std::ranges::lower_bound(*frame.entries, rest, {}, [](const std::string& entry) { return std::string_view(entry); });
    frame.at = static_cast<size_t>(from - frame.entries->begin());
    if (frame.at == 0) break;
    // The directory that the key is below stands just before where the key would.
    const std::string& before = (*frame.entries)[frame.at - 1];
    if (!before.ends_with('/') || !rest.starts_with(before)) break;
    --frame.at;
    if (Enter()) continue;
    ++frames_.back().at;
    break;
  }
  Settle();
}

void TreeCursor::Next() {
  ++frames_.back().at;
  Settle();
}

void TreeCursor::Settle() {
  valid_ = false;
  while (status_.ok()) {
    Frame& frame = frames_.back();
    if (frame.at == frame.entries->size()) {
      if (frames_.size() == 1) return;
      frames_.pop_back();
      ++frames_.back().at;
      continue;
    }
    const std::string& entry = frame.entry();
    if (entry.ends_with('/')) {
      if (!Enter()) ++frames_.back().at;
      continue;
    }
    if (frame.prefix.size() + entry.size() > base::kMaxKeyBytes) {
      ++frame.at;
      continue;
    }
    key_ = frame.prefix + entry;
    valid_ = true;
    return;
  }
}

}  // namespace forebay::backend
