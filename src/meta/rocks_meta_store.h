// SPDX-License-Identifier: Apache-2.0
// RocksMetaStore: the metadata of a store directory, in RocksDB, one column family for each Family. Its write-ahead log is
// checked before anything is changed: numbers of commits that do not follow each other, or that end below the witness of
// the data device, are damage, and then the store does not open.
// Thread-safe. Scans do not outlive the store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "meta/commit_target.h"
#include "meta/committer.h"
#include "meta/meta_store.h"

namespace rocksdb {
class FileSystem;
class Snapshot;
}

namespace forebay::meta {

struct RocksMetaOptions {
  std::string path;                               ///< the directory; the one above it must be there
  bool create = false;                            ///< make the store; AlreadyExists when one with commits is there
  uint64_t witness = 0;                           ///< from the data device: the last commit that is known as acknowledged
  size_t cache_bytes = 64 * base::kMiB;           ///< blocks, index and filters of tables
  size_t write_buffer_bytes = 64 * base::kMiB;    ///< memory of what is not in tables yet, all families together
  uint64_t reserve_bytes = 64 * base::kMiB;       ///< with less free on the file system only frees_space() goes on
  CommitterOptions committer;
  std::shared_ptr<rocksdb::FileSystem> file_system;  ///< shared with RocksDB's threads; null: the machine's own
};

class RocksMetaStore final : public MetaStore, private CommitTarget {
 public:
  /// Blocks on the disk, for as long as the log takes to read. NotFound when there is no store (and not `create`),
  /// DataLoss when something is damaged or missing, or the log ends below the witness: then nothing was changed;
  /// FailedPrecondition when another process has it open or a newer program wrote it. `hooks` is borrowed, may be null.
  static Result<std::unique_ptr<RocksMetaStore>> Open(RocksMetaOptions options, GroupHooks* hooks);
  /// Commits what is queued and has the last commit witnessed.
  ~RocksMetaStore() override;

  Result<std::optional<std::string>> Get(Family family, std::string_view key) override;
  std::unique_ptr<Scan> NewScan(Family family, std::string_view end) override;
  std::unique_ptr<Snapshot> TakeSnapshot() override;
  rt::Task<Status> Commit(rt::Reactor& reactor, std::unique_ptr<Transaction> transaction) override;
  uint64_t last_commit() const override { return committer_.last_commit(); }
  CommitStats stats() const override { return committer_.stats(); }
  Result<MetaSpace> Space() const override;
  Status health() const override { return committer_.health(); }

 private:
  struct Database;
  class Moment;
  RocksMetaStore(RocksMetaOptions options, std::unique_ptr<Database> database, uint64_t last_commit, GroupHooks* hooks);

  /// `snapshot` is borrowed; null: the state of now.
  Result<std::optional<std::string>> GetAsOf(const rocksdb::Snapshot* snapshot, Family family,
                                             std::string_view key) const;
  Result<std::optional<std::string>> GetCommitted(Family family, std::string_view key) override;
  Result<std::optional<std::pair<std::string, std::string>>> FirstCommitted(Family family, std::string_view from,
                                                                            std::string_view end) override;
  Status Apply(const Overlay& group, bool durable) override;
  Status RefusalForSpace(uint64_t bytes) override;

  const RocksMetaOptions options_;
  const std::unique_ptr<Database> database_;
  Committer committer_;  // last: its thread uses the database
};

}  // namespace forebay::meta
