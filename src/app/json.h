// SPDX-License-Identifier: Apache-2.0
// What `--json` prints: one place that turns the client's answers into JSON objects, so that field names are
// the same in every command. Field names are snake_case with the unit last; times are RFC 3339 in UTC.
// Thread-safe: pure functions.
#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "forebay/client.h"

namespace forebay::app {

/// A flat JSON object, its fields in the given order.
using JsonValue = std::variant<bool, int64_t, uint64_t, double, std::string>;
using JsonFields = std::vector<std::pair<std::string, JsonValue>>;

/// One line, without the newline.
std::string ToJson(const JsonFields& fields);
std::string ToJson(const ObjectInfo& object);
std::string ToJson(const BucketInfo& bucket);
std::string ToJson(const VersionInfo& version);

/// "off", "on", "suspended".
std::string_view VersioningName(Versioning versioning);

/// "2026-11-29T16:33:49Z".
std::string FormatTime(std::chrono::system_clock::time_point time);
/// Eight hex digits.
std::string FormatChecksum(uint32_t crc32c);

}  // namespace forebay::app
