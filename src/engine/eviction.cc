// SPDX-License-Identifier: Apache-2.0
#include "engine/eviction.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "engine/cache_transactions.h"

namespace forebay::engine {
namespace {

/// A request without an earlier deadline waits for space that long: a reader may hold it for ever.
constexpr base::Duration kLongestWait = std::chrono::seconds(10);
/// Evicted at once, at least: of a small store less.
constexpr uint64_t kEvictAtOnceBytes = 16 * base::kMiB;
constexpr uint64_t kSmallestPart = 64;
/// Between two looks for what has expired.
constexpr uint64_t kExpiryEveryMs = 1000;

/// Objects that cannot be evicted for damage, before it is called off.
constexpr int kMaxFailures = 16;

enum class Wait : uint8_t { kNo, kForReaders };

/// Until `bytes` are free, or on their way with kNo. False when nothing more can be evicted, or at the deadline.
rt::Task<bool> EvictUntil(Core& core, store::Context context, uint64_t bytes, Wait wait) {
  const uint64_t at_once = std::min(kEvictAtOnceBytes, core.allocator.capacity_bytes() / kSmallestPart);
  uint64_t last_round = UINT64_MAX;  // when something was evicted last
  int failures = 0;
  while (true) {
    const uint64_t times = core.freed.times();
    core.epochs.Collect();
    const uint64_t free = core.allocator.free_bytes();
    if (free >= bytes) co_return true;
    if (context.deadline != base::kNever && context.reactor.Now() >= context.deadline) co_return false;
    const uint64_t coming = core.epochs.retired_bytes();
    if (free + coming >= bytes) {
      if (wait == Wait::kNo) co_return true;
      (void)co_await core.freed.Wait(context.reactor, context.deadline, times);
      continue;
    }
    auto outcome = std::make_shared<EvictionOutcome>();  // shared with the commit, which goes on at the deadline
    const Status evicted =
        co_await Commit(core, context, MakeEvict(core, std::max(bytes - free - coming, at_once), outcome));
    // Behind a damaged row the next attempt goes on.
    if (evicted.code() == Code::kDataLoss && ++failures < kMaxFailures) {
      core.log.Warning("an object of a cache could not be evicted: {}", evicted.ToString());
      continue;
    }
    if (!evicted.ok()) co_return false;
    if (outcome->evicted + outcome->expired != 0 || last_round == UINT64_MAX) {
      last_round = outcome->rounds;
    } else if (outcome->rounds >= last_round + 2) {
      // The hand went around, and took each second chance on its way.
      if (wait == Wait::kNo || coming == 0) co_return false;
      (void)co_await core.freed.Wait(context.reactor, context.deadline, times);
    }
  }
}

Result<UnitRun> TryReserve(Core& core, uint32_t units) {
  Result<UnitRun> run = core.allocator.Reserve(units);
  if (run.ok()) return run;
  core.epochs.Collect();
  return core.allocator.Reserve(units);
}

rt::Task<void> EvictInBackground(Core& core, rt::Reactor& reactor) {
  (void)co_await EvictUntil(core, {.reactor = reactor}, core.evict_until_bytes(), Wait::kNo);
  core.evicting.store(false, std::memory_order_release);
}

rt::Task<void> TakeExpired(Core& core, rt::Reactor& reactor) {
  const store::Context context{.reactor = reactor};
  auto outcome = std::make_shared<EvictionOutcome>();
  do {
    *outcome = {};
    const Status status = co_await Commit(core, context, MakeEvict(core, 0, outcome));
    if (!status.ok()) {
      core.log.Warning("expired objects could not be removed: {}", status.ToString());  // they are another time
      break;
    }
  } while (outcome->expired == kMaxEvictedAtOnce);
  core.evicting.store(false, std::memory_order_release);
}

rt::Task<void> RemoveVersion(Core& core, rt::Reactor& reactor, uint64_t bucket, std::string key, uint64_t version) {
  const Status status =
      co_await Commit(core, {.reactor = reactor}, MakeRemoveGone(core, bucket, std::move(key), version));
  if (!status.ok()) core.log.Warning("an object of a cache that is gone could not be removed: {}", status.ToString());
}

bool BeginBackground(Core& core) { return !core.evicting.exchange(true, std::memory_order_acquire); }

}  // namespace

rt::Task<bool> MakeRoom(Core& core, const store::Context& context, uint64_t bytes) {
  if (!core.order.has_buckets()) co_return false;
  store::Context bounded = context;
  bounded.deadline = std::min(context.deadline, base::DeadlineAfter(context.reactor.Now(), kLongestWait));
  bounded.operation = {};
  co_return co_await EvictUntil(core, bounded, bytes, Wait::kForReaders);
}

rt::Task<bool> EvictFor(Core& core, rt::Reactor& reactor, uint64_t bytes) {
  if (!core.order.has_buckets() || core.commits->cache_bytes() == 0) co_return false;
  co_return co_await EvictUntil(core, {.reactor = reactor}, bytes, Wait::kNo);
}

rt::Task<Result<UnitRun>> ReserveUnits(Core& core, const store::Context& context, uint32_t units, WaitForReaders wait) {
  constexpr int kAttempts = 64;  // others may take what was evicted: then more is, until nothing is left or the deadline
  Result<UnitRun> run = TryReserve(core, units);
  for (int attempt = 0; attempt < kAttempts && core.order.has_buckets(); ++attempt) {
    // A run that is much shorter is what a full device has left.
    if (run.ok() && run->units >= units / 2) break;
    if (run.ok()) core.allocator.Release(*run);
    const uint64_t wanted = core.allocator.free_bytes() + uint64_t{units} * device::kUnit;
    bool room = false;
    if (wait == WaitForReaders::kYes) {
      room = co_await MakeRoom(core, context, wanted);
    } else {
      store::Context bounded{.reactor = context.reactor, .deadline = context.deadline};
      room = co_await EvictUntil(core, bounded, wanted, Wait::kNo);
    }
    run = TryReserve(core, units);
    if (!room) break;
  }
  EvictAhead(core, context.reactor);
  if (!run.ok() && core.order.has_buckets())
    co_return Status::ResourceExhausted(
        "{}, and of the {} of cache objects none can be evicted now: they are pinned, parts of uploads, or held by readers",
        run.error().message(), base::FormatSize(core.commits->cache_bytes()));
  co_return run;
}

void EvictAhead(Core& core, rt::Reactor& reactor) {
  if (!core.order.has_buckets()) return;
  if (core.commits->cache_bytes() != 0 &&
      core.allocator.free_bytes() + core.epochs.retired_bytes() < core.evict_below_bytes()) {
    if (BeginBackground(core) && !core.gates.Spawn(reactor, EvictInBackground(core, reactor)))
      core.evicting.store(false, std::memory_order_release);
    return;
  }
  if (!core.buckets.has_ttl()) return;
  const uint64_t now_ms = core.operations.NowMs();
  if (now_ms < core.next_expiry_ms.load(std::memory_order_relaxed) || !BeginBackground(core)) return;
  core.next_expiry_ms.store(now_ms + kExpiryEveryMs, std::memory_order_relaxed);
  if (!core.gates.Spawn(reactor, TakeExpired(core, reactor))) core.evicting.store(false, std::memory_order_release);
}

void RemoveGone(Core& core, rt::Reactor& reactor, const ObjectState& object) {
  (void)core.gates.Spawn(reactor, RemoveVersion(core, reactor, object.bucket, object.info.key, object.info.version));
}

}  // namespace forebay::engine
