// SPDX-License-Identifier: Apache-2.0
// StoreConfig: what store.toml says: which store this is, its format, and where its data devices are. Written
// when the store is made, and when a device is added or replaced. The file is a small part of TOML: comments, and lines of `name = "text"` or
// `name = number`. Thread-safe: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace forebay::engine {

/// Paths; relative ones begin at the store directory.
struct DeviceConfig {
  std::string path{};
  std::string mirror{};  // its other side; empty: it has none
  bool removed = false;  // it is gone; its number stays, so that those of others do
  friend bool operator==(const DeviceConfig&, const DeviceConfig&) = default;
};

struct StoreConfig {
  Uuid store;
  std::vector<DeviceConfig> devices{};  // in the order of their numbers
  friend bool operator==(const StoreConfig&, const StoreConfig&) = default;
};

std::string FormatStoreConfig(const StoreConfig& config);
/// `path` is for messages, which name the line. InvalidArgument for what is not understood,
/// FailedPrecondition for a newer format.
Result<StoreConfig> ParseStoreConfig(std::string_view text, std::string_view path);

}  // namespace forebay::engine
