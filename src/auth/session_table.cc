// SPDX-License-Identifier: Apache-2.0
#include "auth/session_table.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace forebay::auth {

namespace {

/// Looking through the whole table for expired sessions is done at most this often.
constexpr base::Duration kSweepInterval = std::chrono::seconds(1);

}  // namespace

SessionTable::SessionTable(const base::Clock& clock, base::Random& random, Options options)
    : clock_(clock), options_(options), random_(random), next_sweep_(clock.Now()) {}

Status SessionGrant::state() const {
  switch (end_->load(std::memory_order_acquire)) {
    case SessionEnd::kNone:
      if (grant->expires == kNoExpiry || clock_->WallNow() < grant->expires) return {};
      return Status::Unauthenticated("{} expired, and the session with it", grant->name);
    case SessionEnd::kClosed:
      return Status::Unavailable("the session was closed");
    case SessionEnd::kRevoked:
      break;
  }
  return Status::Unauthenticated("{} was revoked, and the session with it", grant->name);
}

Result<OpenedSession> SessionTable::Open(std::shared_ptr<const Grant> grant, const Secret& secret,
                                         const SessionNonce& client_nonce) {
  base::MutexLock lock(mutex_);
  const base::TimePoint now = clock_.Now();
  DropExpired(now);
  if (entries_.size() >= options_.max_sessions) {
    return Status::ResourceExhausted(
        "{} sessions are open, which is the limit; close clients, or wait until some expire",
        entries_.size());
  }
  OpenedSession opened;
  do {
    opened.id = random_.Next64();
  } while (opened.id == 0 || entries_.contains(opened.id));
  random_.Fill(opened.server_nonce);
  opened.key = SessionKeyOf(secret, client_nonce, opened.server_nonce, opened.id, grant->tenant);
  const base::TimePoint grant_expiry =
      grant->expires == kNoExpiry ? base::kNever : base::DeadlineAfter(now, grant->expires - clock_.WallNow());
  opened.expiry = std::min(base::DeadlineAfter(now, options_.lifetime), grant_expiry);
  entries_.emplace(opened.id, Entry{.grant = std::move(grant),
                                    .key = opened.key,
                                    .expiry = opened.expiry,
                                    .grant_expiry = grant_expiry,
                                    .end = std::make_shared<std::atomic<SessionEnd>>(SessionEnd::kNone)});
  return opened;
}

Status SessionTable::Close(uint64_t id, TenantId tenant) {
  SessionEndCallback ended;
  {
    base::MutexLock lock(mutex_);
    const auto entry = entries_.find(id);
    // One answer for "not there" and "of another tenant": ids of others are nobody's business.
    if (entry == entries_.end() || entry->second.grant->tenant != tenant ||
        entry->second.end->load() != SessionEnd::kNone) {
      return Status::NotFound("session {:016x} is not open; it may have expired", id);
    }
    entry->second.end->store(SessionEnd::kClosed, std::memory_order_release);
    ended = std::exchange(entry->second.ended, nullptr);
    if (!entry->second.bound) entries_.erase(entry);
  }
  if (ended != nullptr) ended();
  return Status();
}

size_t SessionTable::Revoke(const std::function<bool(const Grant&)>& revoked) {
  std::vector<SessionEndCallback> ended;
  size_t count = 0;
  {
    base::MutexLock lock(mutex_);
    for (auto next = entries_.begin(); next != entries_.end();) {
      const auto at = next++;
      Entry& entry = at->second;
      if (entry.end->load() != SessionEnd::kNone || !revoked(*entry.grant)) continue;
      entry.end->store(SessionEnd::kRevoked, std::memory_order_release);
      ++count;
      if (entry.ended != nullptr) ended.push_back(std::exchange(entry.ended, nullptr));
      if (!entry.bound) entries_.erase(at);
    }
  }
  for (const SessionEndCallback& tell : ended) tell();
  return count;
}

Result<SessionTable::Entries::iterator> SessionTable::FindOpen(uint64_t id) {
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || (!entry->second.bound && entry->second.expiry <= clock_.Now())) {
    return Status::Unauthenticated("session {:016x} is unknown or expired; open a new one", id);
  }
  if (entry->second.bound) {
    return Status::Unauthenticated("session {:016x} has a connection already; open a session for each", id);
  }
  return entry;
}

SessionGrant SessionTable::GrantOf(uint64_t id, const Entry& entry) const {
  SessionGrant grant;
  grant.id = id;
  grant.grant = entry.grant;
  grant.key = entry.key;
  grant.expiry = entry.grant_expiry;
  grant.end_ = entry.end;
  grant.clock_ = &clock_;
  return grant;
}

Result<SessionGrant> SessionTable::Find(uint64_t id) {
  base::MutexLock lock(mutex_);
  FB_ASSIGN(const auto found, FindOpen(id));
  return GrantOf(id, found->second);
}

Result<SessionGrant> SessionTable::Bind(uint64_t id, SessionEndCallback ended) {
  base::MutexLock lock(mutex_);
  FB_ASSIGN(const auto found, FindOpen(id));
  found->second.bound = true;
  found->second.ended = std::move(ended);
  return GrantOf(id, found->second);
}

void SessionTable::Release(uint64_t id) {
  base::MutexLock lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry != entries_.end() && entry->second.bound) entries_.erase(entry);
}

void SessionTable::DropExpired(base::TimePoint now) {
  if (now < next_sweep_) return;
  next_sweep_ = now + kSweepInterval;
  std::erase_if(entries_,
                [now](const auto& item) { return !item.second.bound && item.second.expiry <= now; });
}

size_t SessionTable::size() const {
  base::MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace forebay::auth
