// SPDX-License-Identifier: Apache-2.0
#include "store/listing.h"

#include <utility>

#include "store/checks.h"

namespace forebay::store {
namespace {

/// False when no key can lie beyond the prefix.
bool SeekPastPrefix(KeyCursor& cursor, std::string_view prefix) {
  const std::optional<std::string> position = AfterPrefix(prefix);
  if (position) cursor.Seek(*position);
  return position.has_value();
}

/// Puts the cursor on the first key that the page may hold; false when there is none.
bool SeekToStart(KeyCursor& cursor, const ListOptions& options) {
  const std::string_view after = options.start_after;
  if (after.empty() || after < std::string_view(options.prefix)) {
    cursor.Seek(options.prefix);
    return true;
  }
  if (after.starts_with(options.prefix) && RolledUpPrefix(after, options.prefix, options.delimiter) == after)
    return SeekPastPrefix(cursor, after);
  cursor.Seek(after);
  if (cursor.Valid() && cursor.key() == after) cursor.Next();
  return true;
}

}  // namespace

std::string_view RolledUpPrefix(std::string_view key, std::string_view prefix, std::string_view delimiter) {
  if (delimiter.empty()) return {};
  const size_t at = key.find(delimiter, prefix.size());
  if (at == std::string_view::npos) return {};
  return key.substr(0, at + delimiter.size());
}

std::optional<std::string> AfterPrefix(std::string_view prefix) {
  std::string after(prefix);
  while (!after.empty()) {
    const auto last = static_cast<unsigned char>(after.back());
    if (last != 0xff) {
      after.back() = static_cast<char>(last + 1);
      return after;
    }
    after.pop_back();
  }
  return std::nullopt;
}

Result<ListPage> ListKeys(KeyCursor& cursor, const ListOptions& options, const ReadEntry& read) {
  FB_TRY(CheckListOptions(options));
  ListPage page;
  std::string last;
  bool more = SeekToStart(cursor, options);
  while (more && cursor.Valid() && cursor.key().starts_with(options.prefix)) {
    if (page.objects.size() + page.common_prefixes.size() == options.limit) {
      page.truncated = true;
      page.next_start_after = std::move(last);
      break;
    }
    const std::string_view rolled_up = RolledUpPrefix(cursor.key(), options.prefix, options.delimiter);
    if (!rolled_up.empty()) {
      last = rolled_up;
      page.common_prefixes.push_back(last);
      more = SeekPastPrefix(cursor, last);
      continue;
    }
    Result<ObjectInfo> entry = read(cursor.key());
    if (entry.ok()) {
      last = cursor.key();
      page.objects.push_back(*std::move(entry));
    } else if (entry.error().code() != Code::kNotFound) {
      return entry.error();
    }
    cursor.Next();
  }
  return page;
}

}  // namespace forebay::store
