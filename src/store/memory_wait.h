// SPDX-License-Identifier: Apache-2.0
// Waiting for memory of an arena, for writers: first come, first served, woken by whoever frees it on
// whatever thread. Thread-safe: holds no state.
#pragma once

#include <cstddef>

#include "base/arena.h"
#include "base/status.h"
#include "rt/task.h"
#include "store/object_store.h"

namespace forebay::store {

/// `size` bytes (1 to Arena::kMaxAllocation) of `arena`, at once or as soon as they are free; suspends until
/// then. ResourceExhausted when the context's deadline comes first. The arena outlives the task.
rt::Task<Result<base::Buffer>> AllocateOrWait(base::Arena& arena, const Context& context, size_t size);

}  // namespace forebay::store
