// SPDX-License-Identifier: Apache-2.0
// SessionTable: the sessions that are open on this server. The control plane opens and closes them; the data
// plane looks one up when a Hello comes, verifies its MAC with the key, and binds it: once, to one
// connection. A session ends when it is closed, when its connection ends, or when it expires before a
// connection was bound. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "auth/hkdf.h"
#include "auth/policy.h"
#include "auth/secret.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/status.h"

namespace forebay::auth {

constexpr size_t kMaxSessions = 16'384;
constexpr base::Duration kSessionLifetime = std::chrono::hours(1);

/// What the opener of a session is told.
struct OpenedSession {
  uint64_t id = 0;  // never 0
  SessionNonce server_nonce{};
  Secret key;
  base::TimePoint expiry;
};

/// What the data plane needs to know of a session. A value; stays good after the session ended.
class SessionGrant {
 public:
  uint64_t id = 0;
  TenantId tenant = TenantId::kNone;
  RightSet rights;
  Secret key;
  base::TimePoint expiry;  // without meaning once bound

  /// True once the session was closed on the control plane: ask with each message, and end the connection.
  /// Thread-safe.
  bool closed() const { return closed_->load(std::memory_order_acquire); }

 private:
  friend class SessionTable;
  std::shared_ptr<const std::atomic<bool>> closed_;  // shared with the table's entry, which may go first
};

class SessionTable {
 public:
  struct Options {
    size_t max_sessions = kMaxSessions;
    base::Duration lifetime = kSessionLifetime;
  };

  /// Both are borrowed for the table's life; `random` is called under the table's lock.
  SessionTable(const base::Clock& clock, base::Random& random, Options options);
  SessionTable(const base::Clock& clock, base::Random& random) : SessionTable(clock, random, Options()) {}
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;

  /// A new session of `tenant` whose key comes from `secret` and both nonces. ResourceExhausted when the
  /// table is full.
  Result<OpenedSession> Open(TenantId tenant, RightSet rights, const Secret& secret,
                             const SessionNonce& client_nonce);
  /// Ends a session. NotFound when `tenant` has no session of that id. A bound one keeps its place until
  /// Release.
  Status Close(uint64_t id, TenantId tenant);

  /// The session that a Hello names, to verify the MAC with; binds nothing. Unauthenticated when it is
  /// unknown, expired, closed or bound already.
  Result<SessionGrant> Find(uint64_t id);
  /// Binds the session to the caller's connection, after its Hello was verified. Fails as Find does; of two
  /// callers one wins.
  Result<SessionGrant> Bind(uint64_t id);
  /// The connection of a bound session has ended, and with it the session.
  void Release(uint64_t id);

  /// Sessions open or bound.
  size_t size() const;

 private:
  struct Entry {
    TenantId tenant;
    RightSet rights;
    Secret key;
    base::TimePoint expiry;
    bool bound = false;
    std::shared_ptr<std::atomic<bool>> closed;
  };
  using Entries = std::unordered_map<uint64_t, Entry>;

  static SessionGrant GrantOf(uint64_t id, const Entry& entry);
  Result<Entries::iterator> FindOpen(uint64_t id) FB_REQUIRES(mutex_);
  void DropExpired(base::TimePoint now) FB_REQUIRES(mutex_);

  const base::Clock& clock_;  // borrowed
  const Options options_;
  mutable base::Mutex mutex_;
  base::Random& random_;  // borrowed
  Entries entries_ FB_GUARDED_BY(mutex_);
  base::TimePoint next_sweep_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::auth
