// SPDX-License-Identifier: Apache-2.0
// OperationJournal: what the directory backend knows of operations, over restarts: their results, and which effects were
// about to take place. An intent is durable before its effect and names the file that the effect puts in place, so that
// after a crash the file system itself says whether it took place. Also the highest version that was given. One file of
// the sidecar, appended to, and written anew when it has grown to twice what it holds.
// docs/formats/directory.md has the grammar. Thread-safe; its calls block.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backend/files.h"
#include "backend/records.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "store/operations.h"

namespace forebay::backend {

class OperationJournal {
 public:
  /// Results that are kept at once: some 300 bytes of memory each.
  static constexpr uint64_t kMaxResults = 4'000'000;

  /// Whether the effect of an intent is there.
  using TookPlace = std::function<Result<bool>(const JournalEntry& intent)>;

  /// Reads the journal of the sidecar `directory`, which stays open as long as the journal, or begins one.
  static Result<std::unique_ptr<OperationJournal>> Open(int directory, const base::Clock& clock, const TookPlace& took_place,
                                                        base::Log& log);

  /// Before a change, under what makes changes of its names exclusive: the record of the operation when it has its
  /// result, nothing when it may act; the errors of CheckSameRequest, CheckOperationTime and TooManyOperations.
  Result<std::optional<store::OperationRecord>> Begin(const store::Operation& operation);
  /// The effect that `intent` tells of (bucket, key, inode, removes, revision) takes place next, and has `stored` for its
  /// result. Durable when it returns. Gives the number for Done or Void; 0, which both ignore, without an operation id.
  Result<uint64_t> Intend(const store::Operation& operation, JournalEntry intent, const store::ObjectInfo* stored);
  void Done(uint64_t number);
  void Void(uint64_t number, const store::Operation& operation);
  /// Keeps a refusal; other errors leave nothing.
  void Refuse(const store::Operation& operation, const Status& refusal);

  /// A version above all that were given, `above` included.
  Result<uint64_t> NextVersion(uint64_t above);

  /// An effect is there, and could not be made durable: nothing can be promised any more. Gives `why`.
  Status Fail(const Status& why);

  uint64_t NowMs() const { return clock_->NowMs(); }
  /// Why nothing can be changed any more; ok while it can.
  Status health() const;

 private:
  using Key = std::pair<OperationId, TenantId>;  // in the order of time

  OperationJournal(int directory, const base::Clock& clock) : directory_(directory), wall_(clock) {}
  Status Load(const TookPlace& took_place, base::Log& log) FB_EXCLUDES(mutex_);
  Status Rewrite() FB_REQUIRES(mutex_);
  Status Append(const JournalEntry& entry) FB_REQUIRES(mutex_);
  Status Sync() FB_EXCLUDES(mutex_);
  void LetGo() FB_REQUIRES(mutex_);

  const int directory_;  // borrowed
  const base::Clock& wall_;
  std::unique_ptr<store::OperationClock> clock_;
  mutable base::Mutex mutex_;
  base::ConditionVariable synced_changed_;
  Descriptor file_ FB_GUARDED_BY(mutex_);
  std::map<Key, store::OperationRecord> results_ FB_GUARDED_BY(mutex_);  // those of intents too
  std::map<uint64_t, JournalEntry> intents_ FB_GUARDED_BY(mutex_);       // without Done or Void
  uint64_t next_number_ FB_GUARDED_BY(mutex_) = 1;
  uint64_t floor_ms_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t last_version_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t reserved_version_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t size_bytes_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t rewrite_at_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t appended_ FB_GUARDED_BY(mutex_) = 0;  // entries, ever
  uint64_t synced_ FB_GUARDED_BY(mutex_) = 0;
  bool syncing_ FB_GUARDED_BY(mutex_) = false;
  Status failed_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::backend
