// SPDX-License-Identifier: Apache-2.0
// UploadInParts: one file as an object, its parts sent at the same time. Reactor-local: blocking, for the main thread of a
// command; has threads of its own while it runs.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "app/transfer.h"
#include "forebay/client.h"

namespace forebay::app {

/// Parts that are sent at once, whatever their number.
constexpr unsigned kPartsAtOnce = 8;

/// Stores the regular file `path` in `parts` parts of equal size (the last may be smaller; no part is empty, so that a
/// small file has fewer). The server compares the checksum of the whole with that of what was read. When anything fails
/// the upload is given up. `client` has some kPartsAtOnce connections.
std::expected<TransferReport, Error> UploadInParts(Client& client, const std::string& path, const std::string& bucket,
                                                   const std::string& key, uint32_t parts, const PutOptions& options);

}  // namespace forebay::app
