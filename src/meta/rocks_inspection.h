// SPDX-License-Identifier: Apache-2.0
// Looks at a RocksDB directory before it is opened for writing: which commit is its last, and does its log hold every
// commit after the tables' last one? RocksDB itself drops what it cannot read of a log, and opening for writing would
// then throw the rest of the log away. Private to meta.
// Thread-safe: functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "meta/rocks_options.h"

namespace forebay::meta {

/// True when there is a database at `path`, false when there is nothing of one. DataLoss when there are files of one but
/// not the file that says which are current.
Result<bool> DatabaseExists(const RocksSetup& setup, const std::string& path);

/// The number of the last commit, 0 when there never was one. Changes nothing. DataLoss when a file cannot be read or a
/// commit is missing in the middle; FailedPrecondition when a newer program wrote it. With `incomplete` a database whose
/// creation was interrupted is fine.
Result<uint64_t> FindLastCommit(const RocksSetup& setup, const std::string& path, bool incomplete);

}  // namespace forebay::meta
