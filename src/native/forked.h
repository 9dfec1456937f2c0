// SPDX-License-Identifier: Apache-2.0
// Forked: a coroutine that runs at once, as far as it can without suspending, and frees itself at its end. For the parts of
// one request: what they share (a count of those running, an event) belongs to the request, which waits for all of them
// before it ends. A part that never suspends costs one frame from the reactor's free list.
// Reactor-local.
#pragma once

#include <coroutine>
#include <cstddef>

#include "rt/frame_memory.h"
#include "rt/task.h"

namespace forebay::native {

struct Forked {
  struct promise_type {
    Forked get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { rt::internal::ExceptionLeftTask(); }

    static void* operator new(size_t size) { return rt::AllocateFrame(size); }
    static void operator delete(void* frame, size_t size) { rt::FreeFrame(frame, size); }
  };
};

}  // namespace forebay::native
