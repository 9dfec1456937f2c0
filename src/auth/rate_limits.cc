// SPDX-License-Identifier: Apache-2.0
#include "auth/rate_limits.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/bytes.h"
#include "base/check.h"

namespace forebay::auth {
namespace {

/// How long `amount` lasts at `per_second`, which is not 0; at least a nanosecond for anything, so that charges keep their order.
base::Duration TimeFor(uint64_t amount, uint64_t per_second) {
  if (amount == 0) return base::Duration::zero();
  const unsigned __int128 ns = static_cast<unsigned __int128>(amount) * 1'000'000'000 / per_second;
  constexpr auto kMost = static_cast<unsigned __int128>(base::kMaxWait.count());
  return base::Duration(std::max<int64_t>(1, static_cast<int64_t>(std::min(ns, kMost))));
}

}  // namespace

/// Lives as long as someone uses it, and longer while it owes. All but the atomics is guarded by the lock of RateLimits.
struct RateLimits::Account {
  /// One rate of an account.
  struct Cell {
    std::atomic<uint64_t> per_second = 0;  // 0: no limit
    base::TimePoint used_until{};

    /// What was used up at another rate says nothing about this one: whoever had too little goes on at once
    /// with more.
    void Set(uint64_t rate) {
      if (per_second.exchange(rate, std::memory_order_relaxed) != rate) used_until = {};
    }
    base::TimePoint Start(base::TimePoint now) const {
      if (per_second.load(std::memory_order_relaxed) == 0) return now;
      return std::max(now, used_until - kRateBurst);
    }
    void Charge(uint64_t amount, base::TimePoint now) {
      const uint64_t rate = per_second.load(std::memory_order_relaxed);
      // Saturates a year ahead: time points stay far from their end.
      if (rate != 0) used_until = std::min(std::max(now, used_until) + TimeFor(amount, rate), now + base::kMaxWait);
    }
    void Refund(uint64_t amount) {
      const uint64_t rate = per_second.load(std::memory_order_relaxed);
      if (rate != 0) used_until -= TimeFor(amount, rate);
    }
  };

  std::string name;  // "tenant 4", "capability 00112233..."
  Cell bytes;
  Cell operations;
  std::atomic<uint32_t> max_transfers = 0;  // 0: no limit
  uint32_t transfers = 0;
  std::list<TransferTurn*> waiting{};
  size_t users = 0;
  bool kept = false;  // though nobody uses it: a tenant's with rates

  bool IsIdle() const { return users == 0 && !kept; }
  void Set(const RateGrant& rates) {
    bytes.Set(rates.bytes_per_s);
    operations.Set(rates.operations_per_s);
    max_transfers = rates.transfers;
  }
  bool HasRates() const {
    return bytes.per_second.load(std::memory_order_relaxed) != 0 || operations.per_second.load(std::memory_order_relaxed) != 0;
  }
  bool IsFull() const {
    const uint32_t most = max_transfers.load(std::memory_order_relaxed);
    return most != 0 && transfers >= most;
  }
  base::TimePoint Start(const RateCharge& charge, base::TimePoint now) const {
    return std::max(charge.bytes == 0 ? now : bytes.Start(now), charge.operations == 0 ? now : operations.Start(now));
  }
  Status TooLong(const RateCharge& charge, base::TimePoint start, base::TimePoint now) const {
    const auto wait_ms = std::chrono::ceil<std::chrono::milliseconds>(start - now).count();
    if (charge.bytes != 0 && bytes.Start(now) == start)
      return Status::ResourceExhausted("{} may move {} a second, and would have to wait {} ms, longer than the request may take",
                                       name, base::FormatSize(bytes.per_second), wait_ms);
    return Status::ResourceExhausted("{} has {} operations a second, and would have to wait {} ms, longer than the request may take",
                                     name, operations.per_second.load(), wait_ms);
  }
  bool Owes(base::TimePoint now) const { return bytes.used_until > now || operations.used_until > now; }
};

RateLimits::RateLimits() = default;

RateLimits::~RateLimits() {
  const base::MutexLock lock(mutex_);
  for (const auto& [key, account] : accounts_) FB_CHECK(account.users == 0);
}

RateLimits::Account& RateLimits::UseTenant(TenantId tenant) {
  return Use({tenant, {}}, fmt::format("tenant {}", static_cast<uint64_t>(tenant)));
}

RateLimits::Account& RateLimits::UseBlock(TenantId tenant, const GrantedBlock& block) {
  Account& account = Use({tenant, block.digest}, fmt::format("capability {}", base::ToHex(block.id)));
  account.Set(block.rates);  // the same each time: the digest is of them too
  return account;
}

RateLimits::Account& RateLimits::Use(const Key& key, std::string name) {
  const auto [at, made] = accounts_.try_emplace(key);
  Account& account = at->second;
  if (made) {
    account.name = std::move(name);
  } else if (account.IsIdle()) {
    --idle_;
  }
  ++account.users;
  return account;
}

void RateLimits::Leave(Account& account) {
  --account.users;
  if (account.IsIdle()) ++idle_;
}

void RateLimits::SetTenant(TenantId tenant, const RateGrant& rates) {
  const base::MutexLock lock(mutex_);
  Account& account = UseTenant(tenant);
  account.Set(rates);
  account.kept = rates != RateGrant{};
  Admit(account);
  Leave(account);
}

RateAccounts RateLimits::Open(const Grant& grant, base::TimePoint now) {
  const base::MutexLock lock(mutex_);
  if (idle_ > kMaxIdleRateAccounts) Forget(now);
  std::vector<Account*> accounts = {&UseTenant(grant.tenant)};
  for (const GrantedBlock& block : grant.blocks) {
    if (block.rates != RateGrant{}) accounts.push_back(&UseBlock(grant.tenant, block));
  }
  return {*this, std::move(accounts)};
}

void RateLimits::Forget(base::TimePoint now) {
  idle_ -= std::erase_if(accounts_, [now](const auto& entry) { return entry.second.IsIdle() && !entry.second.Owes(now); });
  if (idle_ <= kMaxIdleRateAccounts / 2) return;
  idle_ -= std::erase_if(accounts_, [](const auto& entry) { return entry.second.IsIdle(); });
}

void RateLimits::Admit(Account& account) {
  while (!account.waiting.empty() && !account.IsFull()) {
    TransferTurn& turn = *account.waiting.front();
    account.waiting.pop_front();
    Account* const full = turn.accounts_->Full();
    if (full != nullptr) {  // there is room here, but not in the other one that it needs
      WaitFor(*full, turn);
      continue;
    }
    turn.waits_for_ = nullptr;
    turn.accounts_->Count();
    turn.begun_();
  }
}

void RateLimits::WaitFor(Account& account, TransferTurn& turn) {
  auto at = account.waiting.end();
  while (at != account.waiting.begin() && (*std::prev(at))->number_ > turn.number_) --at;
  turn.waits_for_ = &account;
  turn.place_ = account.waiting.insert(at, &turn);
}

size_t RateLimits::accounts() const {
  const base::MutexLock lock(mutex_);
  return accounts_.size();
}

RateAccounts::~RateAccounts() {
  if (limits_ == nullptr) return;
  const base::MutexLock lock(limits_->mutex_);
  for (RateLimits::Account* const account : accounts_) limits_->Leave(*account);
}

bool RateAccounts::HasRates() const {
  return std::ranges::any_of(accounts_, [](const RateLimits::Account* account) { return account->HasRates(); });
}

bool RateAccounts::LimitsTransfers() const {
  return std::ranges::any_of(accounts_, [](const RateLimits::Account* account) {
    return account->max_transfers.load(std::memory_order_relaxed) != 0;
  });
}

Result<base::TimePoint> RateAccounts::Charge(const RateCharge& charge, base::TimePoint now, base::TimePoint latest) {
  if (limits_ == nullptr) return now;
  const base::MutexLock lock(limits_->mutex_);
  base::TimePoint start = now;
  const RateLimits::Account* slowest = nullptr;
  for (const RateLimits::Account* const account : accounts_) {
    const base::TimePoint theirs = account->Start(charge, now);
    if (theirs <= start) continue;
    start = theirs;
    slowest = account;
  }
  if (start > latest && slowest != nullptr) return slowest->TooLong(charge, start, now);
  for (RateLimits::Account* const account : accounts_) {
    account->bytes.Charge(charge.bytes, now);
    account->operations.Charge(charge.operations, now);
  }
  return start;
}

void RateAccounts::Refund(const RateCharge& charge) {
  if (limits_ == nullptr) return;
  const base::MutexLock lock(limits_->mutex_);
  for (RateLimits::Account* const account : accounts_) {
    account->bytes.Refund(charge.bytes);
    account->operations.Refund(charge.operations);
  }
}

RateLimits::Account* RateAccounts::Full() const {
  const auto full = std::ranges::find_if(accounts_, [](const RateLimits::Account* account) { return account->IsFull(); });
  return full == accounts_.end() ? nullptr : *full;
}

void RateAccounts::Count() {
  for (RateLimits::Account* const account : accounts_) ++account->transfers;
}

bool RateAccounts::BeginTransfer(TransferTurn& turn) {
  if (limits_ == nullptr) return true;
  const base::MutexLock lock(limits_->mutex_);
  RateLimits::Account* const full = Full();
  if (full == nullptr) {
    Count();
    return true;
  }
  turn.accounts_ = this;
  turn.number_ = ++limits_->turns_;
  limits_->WaitFor(*full, turn);
  return false;
}

bool RateAccounts::Abandon(TransferTurn& turn) {
  if (limits_ == nullptr) return true;
  const base::MutexLock lock(limits_->mutex_);
  if (turn.waits_for_ == nullptr) return true;
  turn.waits_for_->waiting.erase(turn.place_);
  turn.waits_for_ = nullptr;
  return false;
}

void RateAccounts::EndTransfer() {
  if (limits_ == nullptr) return;
  const base::MutexLock lock(limits_->mutex_);
  for (RateLimits::Account* const account : accounts_) --account->transfers;
  // Who waits for a capability's also needs the tenant's: it goes first.
  for (auto account = accounts_.rbegin(); account != accounts_.rend(); ++account) limits_->Admit(**account);
}

}  // namespace forebay::auth
