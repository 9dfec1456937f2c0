// SPDX-License-Identifier: Apache-2.0
// RateLimits: what tenants and holders of capabilities may use in a second, and at once. There is an account for each tenant,
// and one for each block of a capability's chain that grants rates; work is charged to every account it belongs to, wherever
// on the server it is done. So all that was narrowed from a capability shares its rates, and all of a tenant's the tenant's.
// Rates are kept by the generic cell rate algorithm (ITU-T I.371): an account is a moment in time up to which its rate is used
// up, and may run ahead of the clock by kRateBurst. This says when work may begin; who does it waits. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "auth/grant.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace forebay::auth {

/// What an account that was idle may use at once: this much time's worth, and then one charge, however large.
constexpr base::Duration kRateBurst = std::chrono::milliseconds(100);
/// Accounts that nobody uses are forgotten when there are more than this, those that owe nothing first.
constexpr size_t kMaxIdleRateAccounts = 16'384;

/// What a piece of work uses.
struct RateCharge {
  uint64_t operations = 0;
  uint64_t bytes = 0;
};

class RateAccounts;
class TransferTurn;

class RateLimits {
 public:
  RateLimits();
  /// After every RateAccounts that it opened.
  ~RateLimits();
  RateLimits(const RateLimits&) = delete;
  RateLimits& operator=(const RateLimits&) = delete;

  /// The tenant's own rates from now on, for those who are at work already too.
  void SetTenant(TenantId tenant, const RateGrant& rates);
  /// The accounts of whoever works with `grant`.
  RateAccounts Open(const Grant& grant, base::TimePoint now);

  size_t accounts() const;

 private:
  friend class RateAccounts;
  friend class TransferTurn;
  struct Account;
  using Key = std::pair<TenantId, std::string>;  // with a block's digest; empty: the tenant's own
  using Accounts = std::map<Key, Account>;

  Account& UseTenant(TenantId tenant) FB_REQUIRES(mutex_);
  Account& UseBlock(TenantId tenant, const GrantedBlock& block) FB_REQUIRES(mutex_);
  Account& Use(const Key& key, std::string name) FB_REQUIRES(mutex_);
  void Leave(Account& account) FB_REQUIRES(mutex_);
  void Forget(base::TimePoint now) FB_REQUIRES(mutex_);
  /// Lets those who wait for a transfer of `account` begin, as far as there is room.
  void Admit(Account& account) FB_REQUIRES(mutex_);
  void WaitFor(Account& account, TransferTurn& turn) FB_REQUIRES(mutex_);

  mutable base::Mutex mutex_;
  Accounts accounts_ FB_GUARDED_BY(mutex_);
  size_t idle_ FB_GUARDED_BY(mutex_) = 0;  // accounts that nobody uses
  uint64_t turns_ FB_GUARDED_BY(mutex_) = 0;  // so far
};

/// Someone who waits to begin a transfer. Begun, or abandoned, before it is destroyed.
class TransferTurn {
 public:
  /// `begun` is called once, on any thread, under the lock of RateLimits: it must not block, nor call back.
  explicit TransferTurn(std::function<void()> begun) : begun_(std::move(begun)) {}
  TransferTurn(const TransferTurn&) = delete;
  TransferTurn& operator=(const TransferTurn&) = delete;

 private:
  friend class RateLimits;
  friend class RateAccounts;
  const std::function<void()> begun_;
  RateAccounts* accounts_ = nullptr;
  uint64_t number_ = 0;                       // by which it waits, wherever it does
  RateLimits::Account* waits_for_ = nullptr;  // null: not waiting (any more)
  std::list<TransferTurn*>::iterator place_{};
};

/// The accounts that one session's, or one call's, work is charged to. Thread-safe but for moving it.
class RateAccounts {
 public:
  RateAccounts() = default;  // no limits
  RateAccounts(RateAccounts&& other) noexcept
      : limits_(std::exchange(other.limits_, nullptr)), accounts_(std::exchange(other.accounts_, {})) {}
  RateAccounts& operator=(RateAccounts&& other) noexcept {
    std::swap(limits_, other.limits_);
    std::swap(accounts_, other.accounts_);
    return *this;
  }
  ~RateAccounts();

  /// False when charges never make anyone wait: nothing has a rate. Costs a few loads.
  bool HasRates() const;
  /// False when transfers need no turn.
  bool LimitsTransfers() const;

  /// Charges all accounts and gives the moment when the work may begin: `now`, or later. ResourceExhausted, with nothing
  /// charged, when that is after `latest`; the message says whose rate it is, and how long the wait would be.
  Result<base::TimePoint> Charge(const RateCharge& charge, base::TimePoint now, base::TimePoint latest);
  /// Takes back a charge whose work was not done.
  void Refund(const RateCharge& charge);

  /// True: a transfer has begun, to be ended by EndTransfer. False: `turn` will be told; the accounts stay where they are.
  bool BeginTransfer(TransferTurn& turn);
  /// `turn` waits no more. True when its transfer had begun before: then it is to be ended.
  bool Abandon(TransferTurn& turn);
  void EndTransfer();

 private:
  friend class RateLimits;
  RateAccounts(RateLimits& limits, std::vector<RateLimits::Account*> accounts)
      : limits_(&limits), accounts_(std::move(accounts)) {}

  /// The first one whose transfers are all under way; null when there is none.
  RateLimits::Account* Full() const;
  void Count();

  RateLimits* limits_ = nullptr;                // borrowed, outlives this
  std::vector<RateLimits::Account*> accounts_;  // the tenant's first; live as long as this counts as a user
};

}  // namespace forebay::auth
