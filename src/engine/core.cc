// SPDX-License-Identifier: Apache-2.0
#include "engine/core.h"

namespace forebay::engine {
namespace {

rt::Task<void> ZeroGroup(Core& core, rt::Reactor& reactor, UnitRun group) {
  const uint64_t begin = group.offset_bytes();
  const Status status =
      co_await core.devices.at(group.device).ZeroAhead(reactor, begin, begin + group.length_bytes());
  // Only an optimisation: the writes themselves will tell when something is wrong with the device.
  core.allocator.EndZeroing(group, status.ok());
}

rt::Task<void> CommitTo(Core& core, rt::Reactor& reactor, std::unique_ptr<meta::Transaction> transaction,
                        std::shared_ptr<Status> outcome) {
  *outcome = co_await core.meta->Commit(reactor, std::move(transaction));
}

}  // namespace

rt::Task<Status> Commit(Core& core, const store::Context& context,
                        std::unique_ptr<meta::Transaction> transaction) {
  auto outcome =
      std::make_shared<Status>();  // shared with the commit, which goes on when the deadline comes first
  FB_CO_ASSIGN(const bool ended, co_await core.gates.RunUntil(
                                     context.reactor, context.deadline,
                                     CommitTo(core, context.reactor, std::move(transaction), outcome)));
  if (!ended) co_return CommitIsLate();
  co_return *outcome;
}

Status CommitIsLate() {
  return Status::DeadlineExceeded(
      "the commit did not end before the deadline: whether it took place is not known yet");
}

void ZeroAhead(Core& core, rt::Reactor& reactor) {
  const std::optional<UnitRun> group = core.allocator.BeginZeroing();
  if (!group) return;
  if (!core.gates.Spawn(reactor, ZeroGroup(core, reactor, *group))) core.allocator.EndZeroing(*group, false);
}

}  // namespace forebay::engine
