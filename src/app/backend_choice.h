// SPDX-License-Identifier: Apache-2.0
// BackendChoice: where a server's objects are: `forebay serve --backend KIND:WHERE`. Thread-safe: values.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"

namespace forebay::app {

/// The embedded engine, in the store directory: without --backend.
struct EngineBackend {
  friend bool operator==(const EngineBackend&, const EngineBackend&) = default;
};

/// A directory of files, each directory in it a bucket.
struct DirectoryBackend {
  std::string path;
  friend bool operator==(const DirectoryBackend&, const DirectoryBackend&) = default;
};

/// Another Forebay server: this one is a relay.
struct RemoteBackend {
  std::string server;  // its control address, HOST:PORT
  friend bool operator==(const RemoteBackend&, const RemoteBackend&) = default;
};

using BackendChoice = std::variant<EngineBackend, DirectoryBackend, RemoteBackend>;

/// `directory:PATH`, `remote:HOST[:PORT]`, or nothing for the engine. InvalidArgument, with what is known, for anything else.
Result<BackendChoice> ParseBackend(std::string_view text);

}  // namespace forebay::app
