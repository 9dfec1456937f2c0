// SPDX-License-Identifier: Apache-2.0
// StoreConfig: what store.toml says: which store this is, its format, and where its data devices are. Written
// once, when the store is made. The file is a small part of TOML: comments, and lines of `name = "text"` or
// `name = number`. Thread-safe: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace forebay::engine {

struct StoreConfig {
  Uuid store;
  std::vector<std::string> devices;  // paths; relative ones begin at the store directory
  friend bool operator==(const StoreConfig&, const StoreConfig&) = default;
};

std::string FormatStoreConfig(const StoreConfig& config);
/// `path` is for messages, which name the line. InvalidArgument for what is not understood,
/// FailedPrecondition for a newer format.
Result<StoreConfig> ParseStoreConfig(std::string_view text, std::string_view path);

}  // namespace forebay::engine
