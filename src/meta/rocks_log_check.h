// SPDX-License-Identifier: Apache-2.0
// Tells what a power cut left of RocksDB's log from damage. RocksDB ends its replay at the first record that
// it cannot read, whatever the cause, and what was acknowledged after it is gone without a word. A power cut
// leaves the last record cut short, or with sectors that are still zeros; a record that is there from end to
// end and does not have its checksum was changed after it had been written. Private to meta. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "meta/rocks_options.h"

namespace forebay::meta {

/// Gives `size` bytes at `offset` of a log.
using ReadLog = std::function<Result<std::string>(uint64_t offset, uint64_t size)>;

/// Where the whole records end, counted from the beginning of the file. DataLoss naming `path` and the offset of
/// the first record that is damaged: one that no power cut can have left, or that has its checksum as soon as one
/// bit is changed. For RocksDB's manifest too, which is written like a log.
Result<uint64_t> FindLogEnd(const std::string& path, uint64_t file_size, const ReadLog& read);

/// Ok for a log that is torn, as for a whole one; else what FindLogEnd says.
Status CheckLog(const std::string& path, uint64_t file_size, const ReadLog& read);

/// CheckLog of each log in the RocksDB directory `path`.
Status CheckLogs(const RocksSetup& setup, const std::string& path);

}  // namespace forebay::meta
