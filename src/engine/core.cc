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

}  // namespace

void ZeroAhead(Core& core, rt::Reactor& reactor) {
  const std::optional<UnitRun> group = core.allocator.BeginZeroing();
  if (!group) return;
  if (!core.gates.Spawn(reactor, ZeroGroup(core, reactor, *group))) core.allocator.EndZeroing(*group, false);
}

}  // namespace forebay::engine
