// SPDX-License-Identifier: Apache-2.0
// Names: how object keys and paths of a directory go together. A key that is a legal path below its bucket is stored
// under exactly that path, so that others find it; every other key has one escaped name, which gives the key back.
// docs/formats/directory.md has the grammar. Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace forebay::backend {

/// Of one component of a path, on every file system that Linux has.
constexpr size_t kMaxNameBytes = 255;

/// Whether the key is a relative path that names a file and stays below where it starts: components that are not empty,
/// `.` or `..`, of at most kMaxNameBytes, without NUL.
bool IsPath(std::string_view key);

/// A relative path for any key, which is not empty. Different keys have different paths, and none is a directory of
/// another.
std::string EscapeKey(std::string_view key);
/// The key of an escaped path; nothing for a path that EscapeKey does not give.
std::optional<std::string> UnescapeKey(std::string_view path);

/// The path without its last component, "" when there is only one.
std::string_view ParentOf(std::string_view path);
std::string_view NameOf(std::string_view path);

}  // namespace forebay::backend
