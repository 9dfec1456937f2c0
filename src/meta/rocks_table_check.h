// SPDX-License-Identifier: Apache-2.0
// Checks what RocksDB itself takes on trust when it opens a table: the footer, which has no checksum, and the properties
// block, which RocksDB parses before it looks at the checksum (with one bit flipped there an assertion of Debian's RocksDB
// ends the process). Everything else in a table RocksDB verifies before use. Private to meta.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace rocksdb {
class FileSystem;
}

namespace forebay::meta {

/// Gives `size` bytes at `offset` of a table.
using ReadTable = std::function<Result<std::string>(uint64_t offset, uint64_t size)>;

/// DataLoss naming `path` unless the end of the table is as our RocksDB options write it: format version 5, CRC32C.
Status CheckTable(const std::string& path, uint64_t file_size, const ReadTable& read);

/// `base`, but a table opens only after CheckTable.
std::shared_ptr<rocksdb::FileSystem> WithTableCheck(std::shared_ptr<rocksdb::FileSystem> base);

}  // namespace forebay::meta
