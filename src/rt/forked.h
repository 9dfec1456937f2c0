// SPDX-License-Identifier: Apache-2.0
// Forked: a coroutine that runs at once, as far as it can without suspending, and frees itself at its end.
// For the parts of one piece of work: what they share (a count of those running, an event) belongs to the
// whole, which waits for all of them before it ends. A part that never suspends costs one frame from the
// thread's free list. Reactor-local.
#pragma once

#include <coroutine>
#include <cstddef>

#include "rt/frame_memory.h"
#include "rt/task.h"

namespace forebay::rt {

struct Forked {
  struct promise_type {
    Forked get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { internal::ExceptionLeftTask(); }

    static void* operator new(size_t size) { return AllocateFrame(size); }
    static void operator delete(void* frame, size_t size) { FreeFrame(frame, size); }
  };
};

}  // namespace forebay::rt
