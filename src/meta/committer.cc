// SPDX-License-Identifier: Apache-2.0
#include "meta/committer.h"

#include <fmt/chrono.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "rt/completion.h"

namespace forebay::meta {

struct Committer::Waiting {
  Waiting(rt::Reactor& reactor, std::unique_ptr<Transaction> to_commit)
      : transaction(std::move(to_commit)), done(reactor) {}
  std::unique_ptr<Transaction> transaction;
  Status outcome;
  rt::Completion<Status> done;
};

Committer::Committer(std::string store, CommitTarget& target, GroupHooks* hooks, uint64_t last_commit,
                     const CommitterOptions& options)
    : store_(std::move(store)),
      target_(target),
      hooks_(hooks),
      options_(options),
      clock_(options.clock != nullptr ? *options.clock : system_clock_),
      last_commit_(last_commit),
      last_durable_(last_commit),
      thread_([this] { Run(); }) {}

Committer::~Committer() {
  {
    base::MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.NotifyOne();
  thread_.join();
}

rt::Task<Status> Committer::Commit(rt::Reactor& reactor, std::unique_ptr<Transaction> transaction) {
  Waiting waiting(reactor, std::move(transaction));
  Enqueue(waiting);
  co_return co_await waiting.done.Wait();
}

void Committer::Enqueue(Waiting& waiting) {
  {
    base::MutexLock lock(mutex_);
    FB_CHECK(!closing_);
    if (queue_.size() < options_.queue_limit) {
      queue_.push_back(&waiting);
    } else {
      waiting.outcome = Status::ResourceExhausted(
          "{}: {} changes wait to be committed already: the store is overloaded; try again later", store_, queue_.size());
      refused_.push_back(&waiting);
    }
  }
  changed_.NotifyOne();
}

CommitStats Committer::stats() const {
  base::MutexLock lock(mutex_);
  return stats_;
}

Status Committer::health() const {
  base::MutexLock lock(mutex_);
  return read_only_;
}

void Committer::Run() {
  ::pthread_setname_np(::pthread_self(), "fb-committer");
  std::vector<Waiting*> group, refused;
  bool settled = true;  // the data device witnesses the last commit, as far as this life of the store has commits
  for (;;) {
    group.clear();
    refused.clear();
    const Next next = Take(settled, &group, &refused);
    for (Waiting* waiting : refused) waiting->transaction->Done(waiting->outcome);
    Answer(refused);
    if (next == Next::kGroup) {
      if (!group.empty() && RunGroup(group)) settled = false;
      continue;
    }
    if (!settled) Settle();
    settled = true;
    if (next == Next::kClose) return;
  }
}

Committer::Next Committer::Take(bool settled, std::vector<Waiting*>* group, std::vector<Waiting*>* refused) {
  base::MutexLock lock(mutex_);
  while (queue_.empty() && refused_.empty()) {
    if (closing_) return Next::kClose;
    if (settled) {
      changed_.Wait(mutex_);
    } else if (!changed_.WaitFor(mutex_, options_.settle) && queue_.empty() && refused_.empty() && !closing_) {
      return Next::kSettle;
    }
  }
  refused->swap(refused_);
  const size_t count = std::min(queue_.size(), options_.group_limit);
  group->assign(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(count));
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(count));
  return Next::kGroup;
}

void Committer::PutBack(std::span<Waiting*> rest) {
  base::MutexLock lock(mutex_);
  queue_.insert(queue_.begin(), rest.begin(), rest.end());
}

void Committer::Answer(std::span<Waiting*> waiting) {
  for (Waiting* one : waiting) {
    // Its frame may be gone as soon as it is fulfilled.
    Status outcome = std::move(one->outcome);
    one->done.Fulfil(std::move(outcome));
  }
}

/// True when something durable was committed. Members beyond the group's size in bytes go back to the queue.
bool Committer::RunGroup(std::vector<Waiting*>& group) {
  Overlay writes;
  OverlayView view(target_, writes);
  const size_t count = PrepareGroup(group, writes, view);
  PutBack(std::span(group).subspan(count));
  group.resize(count);

  size_t good = 0;
  bool needs_data_flush = false;
  bool durable = false;
  for (const Waiting* member : group) {
    if (!member->outcome.ok()) continue;
    ++good;
    needs_data_flush |= member->transaction->needs_data_flush();
    durable |= member->transaction->durable();
  }
  const uint64_t before = last_durable_;
  if (good > 0) {
    const Status outcome = CommitGroup(writes, view, needs_data_flush, durable);
    // A member that failed may have failed because of what another one did in this group, which now never was.
    if (!outcome.ok())
      for (Waiting* member : group) member->outcome = outcome;
    base::MutexLock lock(mutex_);
    if (outcome.ok()) stats_.transactions += good;
  }
  for (Waiting* member : group) member->transaction->Done(member->outcome);
  Answer(group);
  return last_durable_ != before;
}

/// Gives each member its own outcome so far; the number of members that fit into the group.
size_t Committer::PrepareGroup(std::span<Waiting*> group, Overlay& writes, OverlayView& view) {
  const Status read_only = health();
  const Status no_space = read_only.ok() ? target_.RefusalForSpace(0) : Status();
  size_t count = 0;
  for (Waiting* member : group) {
    if (writes.bytes() >= options_.group_bytes) break;
    ++count;
    if (!read_only.ok()) {
      member->outcome = read_only;
    } else if (!no_space.ok() && !member->transaction->frees_space()) {
      member->outcome = no_space;
    } else {
      member->outcome = member->transaction->Prepare(view, writes);
      if (!member->outcome.ok()) writes.RollBack();
      writes.Keep();
    }
  }
  return count;
}

Status Committer::CommitGroup(Overlay& writes, OverlayView& view, bool needs_data_flush, bool durable) {
  if (hooks_ != nullptr) {
    FB_TRY(hooks_->FinishGroup(view, writes, &durable));
  }
  if (writes.empty() && !(needs_data_flush && durable)) return {};
  if (durable) {
    const Status flushed = FlushData(needs_data_flush);
    if (!flushed.ok()) return BecomeReadOnly("flushing the data", flushed);
  }
  if (writes.empty()) return {};
  const uint64_t number = last_commit() + 1;
  writes.PutCommitRow(number);
  const Status applied = target_.Apply(writes, durable);
  if (!applied.ok()) return BecomeReadOnly("writing the metadata", applied);
  last_commit_.store(number, std::memory_order_release);
  if (durable) last_durable_ = number;  // and all before it: the log is synced up to its end
  base::MutexLock lock(mutex_);
  ++stats_.groups;
  if (!durable) ++stats_.unsynced_groups;
  return {};
}

Status Committer::FlushData(bool data) {
  if (hooks_ == nullptr) return {};
  if (data) {
    base::MutexLock lock(mutex_);
    ++stats_.data_flushes;
  }
  return hooks_->FlushData(last_durable_, data);
}

/// No error to give to anybody: whoever comes next hears of it.
void Committer::Settle() {
  if (!health().ok()) return;
  const Status flushed = FlushData(false);
  if (!flushed.ok()) (void)BecomeReadOnly("writing the commit witness", flushed);
}

Status Committer::BecomeReadOnly(std::string_view doing, const Status& cause) {
  const auto now = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(clock_.WallNow()));
  base::MutexLock lock(mutex_);
  read_only_ = Status::FailedPrecondition(
      "{} is read-only since {:%Y-%m-%d %H:%M:%S} UTC: {} failed: {}; restart the server to re-read the media", store_,
      fmt::gmtime(now), doing, cause.ToString());
  return cause;
}

}  // namespace forebay::meta
