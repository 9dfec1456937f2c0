// SPDX-License-Identifier: Apache-2.0
#include "store/memory_wait.h"

#include <optional>
#include <utility>

#include "rt/completion.h"
#include "rt/timer.h"

namespace forebay::store {
namespace {

struct Waiter final : base::ArenaWaiter {
  explicit Waiter(rt::Reactor& home) : done(home) {}
  void Granted(base::Buffer buffer) override { done.Fulfil(std::move(buffer)); }

  rt::Completion<base::Buffer> done;  // an empty buffer when the deadline came first
};

}  // namespace

rt::Task<Result<base::Buffer>> AllocateOrWait(base::Arena& arena, const Context& context, size_t size) {
  Waiter waiter(context.reactor);
  if (std::optional<base::Buffer> buffer = arena.AllocateOrWait(size, &waiter)) co_return *std::move(buffer);
  rt::Timer timer(context.reactor);
  if (context.deadline != base::kNever) {
    timer.Arm(context.deadline, [&] {
      // When the waiter is not in the queue any more its memory is on the way here, and is taken in spite of
      // the deadline.
      if (arena.Withdraw(&waiter)) waiter.done.Fulfil({});
    });
  }
  base::Buffer buffer = co_await waiter.done.Wait();
  if (buffer.empty()) {
    co_return Status::ResourceExhausted(
        "no memory came free in time for {} bytes: the arena of {} is in use; allow more time or memory",
        size, base::FormatSize(arena.size_bytes()));
  }
  co_return buffer;
}

}  // namespace forebay::store
