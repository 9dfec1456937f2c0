// SPDX-License-Identifier: Apache-2.0
// Eviction: space of the devices, for whoever writes: from what is free, else from what cache-class buckets hold. Below one
// watermark it evicts in the background until another; who finds no space evicts right then, waits until the units are
// there, and goes on. Also the background work of cache buckets: what has expired, and what was found to be gone.
// Called on the reactor of the context.
#pragma once

#include <cstdint>

#include "engine/core.h"
#include "engine/object_state.h"
#include "rt/task.h"
#include "store/object_store.h"

namespace forebay::engine {

/// Whether who needs space may wait for readers. Who has versions open itself must not: their units come back when it is done.
enum class WaitForReaders : uint8_t { kNo, kYes };

/// As Allocator::Reserve; but ResourceExhausted only when nothing can be evicted, until the context's deadline.
rt::Task<Result<UnitRun>> ReserveUnits(Core& core, const store::Context& context, uint32_t units, WaitForReaders wait);

/// Evicts until `bytes` are free and waits for the readers that hold what was evicted. False when that cannot be, or took too
/// long.
rt::Task<bool> MakeRoom(Core& core, const store::Context& context, uint64_t bytes);

/// The same for background work: without a deadline, and until the bytes are on their way.
rt::Task<bool> EvictFor(Core& core, rt::Reactor& reactor, uint64_t bytes);

/// On `reactor`: starts to evict, or to take out what has expired, when that is due.
void EvictAhead(Core& core, rt::Reactor& reactor);

/// On `reactor`: starts to remove a version whose content was found to be gone.
void RemoveGone(Core& core, rt::Reactor& reactor, const ObjectState& object);

}  // namespace forebay::engine
