// SPDX-License-Identifier: Apache-2.0
// MetaStore: ordered, durable key-value families with one committer. Everybody's changes go through Commit: the
// committer takes all waiting transactions as one group, lets each look at the state including the earlier members
// of the group, makes the group's data durable through the DataBarrier, writes one synced batch, and answers.
// Reads see committed state only.
// The one invariant: a transaction that was answered ok survives power loss, whole; or Open refuses. But for those that say
// that a power cut may take them back: of a group that has only such nothing is flushed or synced, and what a power cut leaves
// is everything up to some commit, which is not earlier than the last of the others.
// Thread-safe. Get and scans may block on the disk: not for reactors (see rt::Offload).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::meta {

/// The families of the store's format. Numbers are part of the format.
enum class Family : uint8_t {
  kSystem = 0,   // identity, counters, the commit row
  kBuckets = 1,  // name -> bucket record
  kObjects = 2,  // bucket, key, version -> object record. The version is the last 8 bytes; no key is the beginning of
                 // another, also without its version (a length or a terminator goes before)
  kInline = 3,   // content number -> bytes of a small object
  kMaps = 4,     // content number, segment -> extent references of a large object
  kExtents = 5,  // extent id -> place, length, checksums, references
  kGroups = 6,   // device, group -> free-space bitmap
};
constexpr size_t kFamilies = 7;

/// In kSystem: the number of the group that wrote it last, u64 little-endian. Part of each group's batch.
constexpr std::string_view kCommitKey = "commit";

/// What a transaction's Prepare reads from: committed state plus the earlier members of the same group.
class View {
 public:
  virtual ~View() = default;
  /// The value, nothing when there is none, or an error (DataLoss for a damaged table).
  virtual Result<std::optional<std::string>> Get(Family family, std::string_view key) = 0;
  /// The first entry with key >= `from` and key < `end` (empty = no bound), as {key, value}. In kObjects, bounds that
  /// agree but for their last 8 bytes, which are all 00 and all ff, ask for the versions of one object: the cheap case.
  virtual Result<std::optional<std::pair<std::string, std::string>>> First(Family family, std::string_view from,
                                                                           std::string_view end) = 0;
  /// Whether a change of roughly `bytes` fits the metadata's file system, over what is kept for deletes: asked by who
  /// writes more than some MiB, before it does. ResourceExhausted.
  virtual Status CheckRoom(uint64_t bytes) = 0;
};

/// What a transaction's Prepare writes to. Nothing is visible or durable before the group commits. The key kCommitKey of
/// kSystem belongs to the store.
class Batch {
 public:
  virtual ~Batch() = default;
  virtual void Put(Family family, std::string_view key, std::string_view value) = 0;
  virtual void Delete(Family family, std::string_view key) = 0;
};

/// One change. Prepare and Done run on the committer's thread, in group order, and must not block on I/O other than
/// through the view. When Prepare fails, its writes are dropped and the others of the group go on.
class Transaction {
 public:
  virtual ~Transaction() = default;
  virtual Status Prepare(View& view, Batch& batch) = 0;
  /// True when data written to devices must be durable before this transaction is.
  virtual bool needs_data_flush() const = 0;
  /// False when a power cut may take it back although it was answered ok. Asked after Prepare.
  virtual bool durable() const { return true; }
  /// True when it makes the store smaller: such a transaction is taken even when the metadata's file system is nearly
  /// full, where all others are refused with ResourceExhausted before their Prepare.
  virtual bool frees_space() const { return false; }
  /// Called exactly once with the outcome, whether Prepare was called or not, after the group is durable (ok) or is not
  /// (error), before Commit resumes. The transaction is destroyed later, on the reactor that awaits Commit.
  virtual void Done(const Status& outcome) = 0;
};

/// The engine's hooks into a group's life, called on the committer's thread; they may block.
class GroupHooks {
 public:
  virtual ~GroupHooks() = default;
  /// Adds what belongs to the group as a whole (bitmaps, counters). Called after all Prepares of the group, unless all
  /// failed. `durable` says whether the group has a member that must survive power loss; it may be set. A failure fails the
  /// whole group; the store stays writable.
  virtual Status FinishGroup(View& view, Batch& batch, bool* durable) = 0;
  /// Makes data durable: writes `witness` (the number of the last durable commit) to the data device and flushes
  /// every device written since. `data` is false when no member needs a data flush. Called before each durable group's batch
  /// is written, and once more with `data` false when no transaction came for a moment and before the store closes, so that
  /// the witness of an idle store is exact. Never called while the store opens: an engine that finds last_commit() above
  /// its witness writes it itself. A failure makes the store read-only.
  virtual Status FlushData(uint64_t witness, bool data) = 0;
};

/// An ordered walk over one family as of one moment. Reactor-local.
class Scan {
 public:
  virtual ~Scan() = default;
  /// To the first key >= `key`.
  virtual void Seek(std::string_view key) = 0;
  virtual void Next() = 0;
  /// False at the end or after an error: look at status() then.
  virtual bool Valid() const = 0;
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;
  virtual Status status() const = 0;
};

/// The committed state of all families as of one moment. It holds back the store's own cleaning up, so it is for a
/// moment's work. Reactor-local; does not outlive the store.
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  /// As MetaStore.
  virtual Result<std::optional<std::string>> Get(Family family, std::string_view key) = 0;
  virtual std::unique_ptr<Scan> NewScan(Family family, std::string_view end) = 0;
};

struct CommitStats {
  uint64_t groups = 0;
  uint64_t transactions = 0;
  uint64_t data_flushes = 0;
  uint64_t unsynced_groups = 0;  // of the groups: those that a power cut may take back
};

/// What a store's files take, and the file system that they are on.
struct MetaSpace {
  std::string path;
  uint64_t used_bytes = 0;
  uint64_t free_bytes = 0;     // of the file system; UINT64_MAX: without a limit
  uint64_t reserve_bytes = 0;  // with less than this free, only what frees space is taken
};

class MetaStore {
 public:
  virtual ~MetaStore() = default;

  virtual Result<std::optional<std::string>> Get(Family family, std::string_view key) = 0;
  /// `end` bounds the scan from above (exclusive; empty = no bound).
  virtual std::unique_ptr<Scan> NewScan(Family family, std::string_view end) = 0;
  virtual std::unique_ptr<Snapshot> TakeSnapshot() = 0;

  /// Queues `transaction` and suspends until its outcome is durable. ResourceExhausted when the queue is full,
  /// FailedPrecondition once a group failed to flush or sync: the store is read-only until reopened. Otherwise what
  /// Prepare said, or why the group failed. Never called once the store is being destroyed.
  virtual rt::Task<Status> Commit(rt::Reactor& reactor, std::unique_ptr<Transaction> transaction) = 0;

  /// The number of the last acknowledged commit; when the store was opened it is durable.
  virtual uint64_t last_commit() const = 0;
  virtual CommitStats stats() const = 0;
  /// Asks the file system for the size of each file, so it may block on the disk. Errors are the file system's.
  virtual Result<MetaSpace> Space() const = 0;
  /// Why the store is read-only; ok while it is not.
  virtual Status health() const = 0;
};

}  // namespace forebay::meta
