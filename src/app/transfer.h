// SPDX-License-Identifier: Apache-2.0
// Moving one object between the server and a file, a pipe or this process's memory.
// Reactor-local: blocking, for the main thread of a command.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include "forebay/client.h"

namespace forebay::app {

struct TransferReport {
  uint64_t bytes = 0;
  double seconds = 0;
  std::string etag;
  uint32_t crc32c = 0;
  std::string sha256;  // hex; only where it was asked for

  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

/// Stores what `path` holds; "-" is standard input. A file that is changed while it is read gives an object
/// of the bytes that were read. When the server goes away, what can be read again is sent again, under the
/// same operation id: it is stored once.
std::expected<TransferReport, Error> Upload(Client& client, const std::string& path,
                                            const std::string& bucket, const std::string& key,
                                            const PutOptions& options);

/// Stores what `path` holds in a run of an object that is there, from `offset` on, or, without one, behind its end.
/// Otherwise as Upload; of `options` the condition if-match, the timeout and the operation.
std::expected<TransferReport, Error> UploadRange(Client& client, const std::string& path, const std::string& bucket,
                                                 const std::string& key, std::optional<uint64_t> offset,
                                                 const PutOptions& options);

/// Writes [offset, offset + length) of the object to `path`; "-" is standard output. A regular file appears
/// under its name only when it is complete, whatever ends the process before; anything else that exists (a
/// pipe, a device) is written to directly.
std::expected<TransferReport, Error> Download(Client& client, const std::string& bucket,
                                              const std::string& key, const std::string& path,
                                              const GetOptions& options);

/// Offers memory of the object's size as one region, has the server move the range into it, and digests what
/// arrived. The report's time is that of the transfer alone.
std::expected<TransferReport, Error> DownloadToMemory(Client& client, const std::string& bucket,
                                                      const std::string& key, GetOptions options);

}  // namespace forebay::app
