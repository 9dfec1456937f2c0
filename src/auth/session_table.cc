// SPDX-License-Identifier: Apache-2.0
#include "auth/session_table.h"

#include <utility>

namespace forebay::auth {

namespace {

/// Looking through the whole table for expired sessions is done at most this often.
constexpr base::Duration kSweepInterval = std::chrono::seconds(1);

}  // namespace

SessionTable::SessionTable(const base::Clock& clock, base::Random& random, Options options)
    : clock_(clock), options_(options), random_(random), next_sweep_(clock.Now()) {}

Result<OpenedSession> SessionTable::Open(TenantId tenant, RightSet rights, const Secret& secret,
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
  opened.key = SessionKeyOf(secret, client_nonce, opened.server_nonce, opened.id, tenant);
  opened.expiry = base::DeadlineAfter(now, options_.lifetime);
  entries_.emplace(opened.id, Entry{.tenant = tenant,
                                    .rights = rights,
                                    .key = opened.key,
                                    .expiry = opened.expiry,
                                    .closed = std::make_shared<std::atomic<bool>>(false)});
  return opened;
}

Status SessionTable::Close(uint64_t id, TenantId tenant) {
  base::MutexLock lock(mutex_);
  const auto entry = entries_.find(id);
  // One answer for "not there" and "of another tenant": ids of others are nobody's business.
  if (entry == entries_.end() || entry->second.tenant != tenant || entry->second.closed->load()) {
    return Status::NotFound("session {:016x} is not open; it may have expired", id);
  }
  entry->second.closed->store(true, std::memory_order_release);
  if (!entry->second.bound) entries_.erase(entry);
  return Status();
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

SessionGrant SessionTable::GrantOf(uint64_t id, const Entry& entry) {
  SessionGrant grant;
  grant.id = id;
  grant.tenant = entry.tenant;
  grant.rights = entry.rights;
  grant.key = entry.key;
  grant.expiry = entry.expiry;
  grant.closed_ = entry.closed;
  return grant;
}

Result<SessionGrant> SessionTable::Find(uint64_t id) {
  base::MutexLock lock(mutex_);
  FB_ASSIGN(const auto found, FindOpen(id));
  return GrantOf(id, found->second);
}

Result<SessionGrant> SessionTable::Bind(uint64_t id) {
  base::MutexLock lock(mutex_);
  FB_ASSIGN(const auto found, FindOpen(id));
  found->second.bound = true;
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
