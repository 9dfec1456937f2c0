// SPDX-License-Identifier: Apache-2.0
// How Forebay sets RocksDB up, and how RocksDB's errors become ours. Private to meta's RocksDB files.
// Thread-safe: functions without state; the structures belong to who made them.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/options.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "meta/rocks_meta_store.h"

namespace forebay::meta {

/// Names of the column families, in the order of Family. Part of the format.
constexpr std::array<const char*, kFamilies> kFamilyNames = {"system", "buckets", "objects", "inline",
                                                             "maps",   "extents", "groups"};

/// Bytes at the end of a key of kObjects that the prefix leaves out.
constexpr size_t kVersionBytes = 8;

struct RocksSetup {
  std::shared_ptr<rocksdb::FileSystem> file_system;
  std::unique_ptr<rocksdb::Env> env;  // makes RocksDB use file_system
  rocksdb::DBOptions db;
  std::array<rocksdb::ColumnFamilyOptions, kFamilies> families;
  rocksdb::ColumnFamilyOptions unused;  // of RocksDB's default family, which must exist
};

RocksSetup MakeSetup(const RocksMetaOptions& options);

/// `doing` says what failed on which thing. What RocksDB could not read or did not recognize is DataLoss.
Status FromRocks(const rocksdb::Status& status, std::string_view doing);

}  // namespace forebay::meta
