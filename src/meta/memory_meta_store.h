// SPDX-License-Identifier: Apache-2.0
// MemoryMetaStore: the twin of RocksMetaStore over ordered maps. What it stores lives in a MemoryMedia, which outlives the
// store and can be opened again, so that a restart is a destructor and another Open. Every committed group is durable at
// once; power cuts are the business of CrashFileSystem below the real store.
// Thread-safe.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "meta/commit_target.h"
#include "meta/committer.h"
#include "meta/meta_store.h"

namespace forebay::meta {

/// The disk of a MemoryMetaStore. Thread-safe.
class MemoryMedia {
 public:
  using Entries = std::map<std::string, std::string, std::less<>>;

  MemoryMedia();

  std::optional<std::string> Get(Family family, std::string_view key) const;
  std::optional<std::pair<std::string, std::string>> First(Family family, std::string_view from,
                                                           std::string_view end) const;
  void Apply(const Overlay& group);
  /// Changes or removes one entry behind the store's back: damage, for tests of those who must notice.
  void Damage(Family family, std::string_view key, std::optional<std::string> value);
  using AllEntries = std::array<std::shared_ptr<const Entries>, kFamilies>;
  /// The family as it is now. What is written later does not show in it. Give it back with Release.
  std::shared_ptr<const Entries> Share(Family family) const;
  /// All of them, as of one moment.
  AllEntries ShareAll() const;
  /// Under the lock, so that a writer that finds itself alone again may change the entries in place.
  void Release(std::shared_ptr<const Entries> shared) const;

 private:
  Entries& Writable(Family family) FB_REQUIRES(mutex_);

  mutable base::Mutex mutex_;
  std::array<std::shared_ptr<Entries>, kFamilies> families_ FB_GUARDED_BY(mutex_);  // shared with snapshots
};

class MemoryMetaStore final : public MetaStore, private CommitTarget {
 public:
  /// DataLoss when the media's last commit is below `witness`. `media` is shared because tests look at it and open it again;
  /// `hooks` is borrowed and may be null.
  static Result<std::unique_ptr<MemoryMetaStore>> Open(std::shared_ptr<MemoryMedia> media, uint64_t witness,
                                                       GroupHooks* hooks, CommitterOptions options = {});

  Result<std::optional<std::string>> Get(Family family, std::string_view key) override;
  std::unique_ptr<Scan> NewScan(Family family, std::string_view end) override;
  std::unique_ptr<Snapshot> TakeSnapshot() override;
  rt::Task<Status> Commit(rt::Reactor& reactor, std::unique_ptr<Transaction> transaction) override;
  uint64_t last_commit() const override { return committer_.last_commit(); }
  CommitStats stats() const override { return committer_.stats(); }
  Result<MetaSpace> Space() const override { return MetaSpace{.path = "memory", .free_bytes = UINT64_MAX}; }
  Status health() const override { return committer_.health(); }

 private:
  MemoryMetaStore(std::shared_ptr<MemoryMedia> media, uint64_t last_commit, GroupHooks* hooks,
                  const CommitterOptions& options);

  Result<std::optional<std::string>> GetCommitted(Family family, std::string_view key) override;
  Result<std::optional<std::pair<std::string, std::string>>> FirstCommitted(Family family, std::string_view from,
                                                                            std::string_view end) override;
  Status Apply(const Overlay& group, bool durable) override;
  Status RefusalForSpace(uint64_t /*bytes*/) override { return {}; }

  const std::shared_ptr<MemoryMedia> media_;
  Committer committer_;  // last: its thread uses the media
};

}  // namespace forebay::meta
