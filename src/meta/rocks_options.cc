// SPDX-License-Identifier: Apache-2.0
#include "meta/rocks_options.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/write_buffer_manager.h>

#include <algorithm>

#include "meta/rocks_log_order.h"
#include "meta/rocks_manifest_check.h"
#include "meta/rocks_table_check.h"

namespace forebay::meta {

namespace {

/// An object's key without its version: a table whose filter does not know it holds no version of the object.
class WithoutVersion final : public rocksdb::SliceTransform {
 public:
  /// Stored in tables: never change what it does without another name.
  const char* Name() const override { return "forebay.WithoutLast8"; }
  rocksdb::Slice Transform(const rocksdb::Slice& key) const override {
    return {key.data(), key.size() - kVersionBytes};
  }
  bool InDomain(const rocksdb::Slice& key) const override { return key.size() > kVersionBytes; }
};

rocksdb::CompressionType ChooseCompression() {
  const auto supported = rocksdb::GetSupportedCompressions();
  const bool lz4 = std::find(supported.begin(), supported.end(), rocksdb::kLZ4Compression) != supported.end();
  return lz4 ? rocksdb::kLZ4Compression : rocksdb::kNoCompression;
}

rocksdb::DBOptions MakeDbOptions(const RocksMetaOptions& options, rocksdb::Env* env) {
  rocksdb::DBOptions db;
  db.env = env;
  db.create_if_missing = false;
  db.paranoid_checks = true;
  // A table without its properties block would be read with the wrong index format; the id in the manifest says so.
  db.verify_sst_unique_id_in_manifest = true;
  // All families reach their tables together, so that the commit row never gets ahead of the rows it stands for.
  db.atomic_flush = true;
  // Stops at the first record that cannot be read, which is right for a torn tail. That it was no more than a tail is
  // proven by the witness and by the numbers of the commits; RocksDB's own list of logs does not know the newest one.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  db.recycle_log_file_num = 0;
  db.max_total_wal_size = 2 * options.write_buffer_bytes;  // bounds the time that opening takes
  db.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(options.write_buffer_bytes);
  db.max_background_jobs = 2;
  db.max_open_files = 512;
  db.max_file_opening_threads = 2;  // by default each family starts 15 at each opening, for however few tables
  db.skip_stats_update_on_db_open = true;
  db.avoid_unnecessary_blocking_io = true;
  db.bytes_per_sync = base::kMiB;
  // An idle server uses no CPU.
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  db.max_log_file_size = base::kMiB;
  db.keep_log_file_num = 4;
  return db;
}

rocksdb::ColumnFamilyOptions MakeFamilyOptions(const RocksMetaOptions& options,
                                               const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  // In pieces of 4 KiB: a table's whole index has hundreds of KiB, and when those of all tables are more than the cache
  // holds, each read would bring one in.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.metadata_block_size = 4 * base::kKiB;
  table.format_version = 5;
  table.checksum = rocksdb::kCRC32c;  // which our own check of tables knows (rocks_table_check.h)

  rocksdb::ColumnFamilyOptions family;
  family.write_buffer_size = std::max<size_t>(options.write_buffer_bytes / 2, base::kMiB);
  family.max_write_buffer_number = 4;
  family.compression = ChooseCompression();
  family.level_compaction_dynamic_level_bytes = true;
  family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return family;
}

}  // namespace

RocksSetup MakeSetup(const RocksMetaOptions& options) {
  RocksSetup setup;
  const bool given = options.file_system != nullptr;
  setup.file_system = WithManifestCheck(
      WithTableCheck(WithLogOrder(given ? options.file_system : rocksdb::FileSystem::Default())));
  setup.env = rocksdb::NewCompositeEnv(setup.file_system);
  setup.db = MakeDbOptions(options, setup.env.get());
  const auto cache = rocksdb::NewLRUCache(options.cache_bytes);
  setup.unused = MakeFamilyOptions(options, cache);
  setup.families.fill(setup.unused);
  setup.families[static_cast<size_t>(Family::kObjects)].prefix_extractor = std::make_shared<WithoutVersion>();
  return setup;
}

Status FromRocks(const rocksdb::Status& status, std::string_view doing) {
  if (status.ok()) return {};
  Code code = Code::kUnknown;
  switch (status.code()) {
    case rocksdb::Status::kNotFound: code = Code::kNotFound; break;
    case rocksdb::Status::kCorruption: code = Code::kDataLoss; break;
    case rocksdb::Status::kIOError: code = status.IsNoSpace() ? Code::kResourceExhausted : Code::kDataLoss; break;
    case rocksdb::Status::kNotSupported: code = Code::kFailedPrecondition; break;
    case rocksdb::Status::kInvalidArgument: code = Code::kInternal; break;
    case rocksdb::Status::kShutdownInProgress:
    case rocksdb::Status::kTimedOut:
    case rocksdb::Status::kAborted:
    case rocksdb::Status::kBusy:
    case rocksdb::Status::kTryAgain: code = Code::kUnavailable; break;
    default: break;
  }
  if (status.IsMemoryLimit()) code = Code::kResourceExhausted;
  return Status::Make(code, "{}: {}", doing, status.ToString());
}

}  // namespace forebay::meta
