// SPDX-License-Identifier: Apache-2.0
// Committer: the one thread that changes a store. It takes all waiting transactions as one group, prepares them in order,
// has the data flushed, applies one batch and answers; groups never overlap. Sleeps when idle. Both stores have one.
// Thread-safe. The target, the hooks and the reactors that commit outlive it; the destructor finishes what is queued.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "meta/commit_target.h"
#include "meta/meta_store.h"

namespace forebay::meta {

struct CommitterOptions {
  size_t queue_limit = 65'536;              ///< transactions that wait; more are refused
  size_t group_limit = 1024;                ///< members of one group
  size_t group_bytes = 4 * base::kMiB;      ///< a group takes no further member beyond this many bytes of writes
  std::chrono::milliseconds settle{20};     ///< idle time after which the last commit is witnessed
  const base::Clock* clock = nullptr;       ///< borrowed; dates messages. Null: the system's
};

class Committer {
 public:
  /// `store` is the store's name for messages. `hooks` may be null: nothing to flush, nothing to witness.
  Committer(std::string store, CommitTarget& target, GroupHooks* hooks, uint64_t last_commit,
            const CommitterOptions& options);
  ~Committer();
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  /// See MetaStore.
  rt::Task<Status> Commit(rt::Reactor& reactor, std::unique_ptr<Transaction> transaction);
  uint64_t last_commit() const { return last_commit_.load(std::memory_order_acquire); }
  CommitStats stats() const;
  Status health() const;

 private:
  struct Waiting;
  enum class Next : uint8_t { kGroup, kSettle, kClose };

  void Run();
  Next Take(bool settled, std::vector<Waiting*>* group, std::vector<Waiting*>* refused);
  void Enqueue(Waiting& waiting);
  void PutBack(std::span<Waiting*> rest);
  bool RunGroup(std::vector<Waiting*>& group);
  size_t PrepareGroup(std::span<Waiting*> group, Overlay& writes, OverlayView& view);
  Status CommitGroup(Overlay& writes, OverlayView& view, bool needs_data_flush, bool durable);
  Status FlushData(bool data);
  void Settle();
  Status BecomeReadOnly(std::string_view doing, const Status& cause);
  static void Answer(std::span<Waiting*> waiting);

  const std::string store_;
  CommitTarget& target_;     // borrowed from the store
  GroupHooks* const hooks_;  // borrowed from the engine; may be null
  const CommitterOptions options_;
  const base::SystemClock system_clock_;
  const base::Clock& clock_;

  std::atomic<uint64_t> last_commit_;
  uint64_t last_durable_;  // commit; of the thread
  mutable base::Mutex mutex_;
  base::ConditionVariable changed_;
  std::deque<Waiting*> queue_ FB_GUARDED_BY(mutex_);     // live in the frames of Commit
  std::vector<Waiting*> refused_ FB_GUARDED_BY(mutex_);  // came when the queue was full: the thread tells them
  bool closing_ FB_GUARDED_BY(mutex_) = false;
  CommitStats stats_ FB_GUARDED_BY(mutex_);
  Status read_only_ FB_GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace forebay::meta
