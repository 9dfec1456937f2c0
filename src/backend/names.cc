// SPDX-License-Identifier: Apache-2.0
#include "backend/names.h"

#include <algorithm>

#include "base/bytes.h"

namespace forebay::backend {
namespace {

/// Escaped text in one component; longer text goes on in a directory with kMoreFollows behind its name.
constexpr size_t kEscapedBytes = 240;
constexpr char kMoreFollows = '+';

bool StaysAsItIs(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

}  // namespace

bool IsPath(std::string_view key) {
  if (key.empty() || key.find('\0') != std::string_view::npos) return false;
  for (size_t at = 0; at <= key.size();) {
    const size_t end = std::min(key.find('/', at), key.size());
    const std::string_view name = key.substr(at, end - at);
    if (name.empty() || name == "." || name == ".." || name.size() > kMaxNameBytes) return false;
    at = end + 1;
  }
  return true;
}

std::string EscapeKey(std::string_view key) {
  std::string text;
  for (const char c : key) {
    // A first dot would make `.` and `..`.
    if (StaysAsItIs(c) && !(c == '.' && text.empty())) {
      text += c;
    } else {
      text += '%';
      text += base::ToHex(AsBytes(std::string_view(&c, 1)));
    }
  }
  std::string path;
  for (size_t at = 0; at < text.size(); at += kEscapedBytes) {
    const std::string_view piece = std::string_view(text).substr(at, kEscapedBytes);
    path += piece == "." || piece == ".." ? std::string(piece) + "=" : std::string(piece);
    if (at + kEscapedBytes < text.size()) {
      path += kMoreFollows;
      path += '/';
    }
  }
  return path;
}

std::optional<std::string> UnescapeKey(std::string_view path) {
  std::string key;
  std::string text;
  for (const char c : path)
    if (StaysAsItIs(c) || c == '%') text += c;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      key += text[at];
      continue;
    }
    std::byte byte{};
    if (at + 2 >= text.size() || !base::FromHex(std::string_view(text).substr(at + 1, 2), {&byte, 1})) return {};
    key += static_cast<char>(byte);
    at += 2;
  }
  // Whatever was left out or written another way shows here: only one path means the key.
  if (key.empty() || EscapeKey(key) != path) return {};
  return key;
}

std::string_view ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view NameOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace forebay::backend
