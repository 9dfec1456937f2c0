// SPDX-License-Identifier: Apache-2.0
// SessionTable: the sessions that are open on this server. The control plane opens and closes them; the data
// plane looks one up when a Hello comes, verifies its MAC with the key, and binds it: once, to one
// connection. A session ends when it is closed or revoked, when its connection ends, when its grant expires, or when no
// connection was bound in time. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "auth/grant.h"
#include "auth/hkdf.h"
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

enum class SessionEnd : uint8_t { kNone, kClosed, kRevoked };

/// What the data plane needs to know of a session. A value; stays good after the session ended.
class SessionGrant {
 public:
  uint64_t id = 0;
  std::shared_ptr<const Grant> grant;  // shared by the session and whatever still works for it
  Secret key;
  base::TimePoint expiry;  // the latest end of a bound session: when its grant expires

  /// Why the session is no more: closed on the control plane, revoked, or its grant expired by the wall clock. Ask with each message,
  /// and end the connection. Thread-safe. Not after the table is gone.
  Status state() const;

 private:
  friend class SessionTable;
  std::shared_ptr<const std::atomic<SessionEnd>> end_;  // shared with the table's entry, which may go first
  const base::Clock* clock_ = nullptr;                  // borrowed from the table
};

/// Told once, when a bound session is closed or revoked: on any thread, with no lock held. Must not block.
using SessionEndCallback = std::function<void()>;

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

  /// A new session with `grant` whose key comes from `secret` and both nonces. ResourceExhausted when the table is full.
  Result<OpenedSession> Open(std::shared_ptr<const Grant> grant, const Secret& secret,
                             const SessionNonce& client_nonce);
  /// Ends a session. NotFound when `tenant` has no session of that id. A bound one keeps its place until
  /// Release.
  Status Close(uint64_t id, TenantId tenant);
  /// Ends every session whose grant `revoked` says yes to; how many. Called under the table's lock.
  size_t Revoke(const std::function<bool(const Grant&)>& revoked);

  /// The session that a Hello names, to verify the MAC with; binds nothing. Unauthenticated when it is
  /// unknown, expired, closed or bound already.
  Result<SessionGrant> Find(uint64_t id);
  /// Binds the session to the caller's connection, after its Hello was verified. Fails as Find does; of two
  /// callers one wins. `ended` may be called from before this returns until some moment after Release.
  Result<SessionGrant> Bind(uint64_t id, SessionEndCallback ended);
  /// The connection of a bound session has ended, and with it the session.
  void Release(uint64_t id);

  /// Sessions open or bound.
  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<const Grant> grant;
    Secret key;
    base::TimePoint expiry;        // when it is not bound by then
    base::TimePoint grant_expiry;  // whether bound or not
    bool bound = false;
    std::shared_ptr<std::atomic<SessionEnd>> end;
    SessionEndCallback ended = nullptr;
  };
  using Entries = std::unordered_map<uint64_t, Entry>;

  SessionGrant GrantOf(uint64_t id, const Entry& entry) const;
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
