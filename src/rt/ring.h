// SPDX-License-Identifier: Apache-2.0
// Ring: the io_uring of one reactor; the only place that knows which kernel features are there. Private to rt: the one
// header that includes liburing.
// Reactor-local after Enable; created on any thread.
#pragma once

#include <liburing.h>

#include <chrono>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/status.h"

namespace forebay::rt {

struct Ring {
  /// Fails with FailedPrecondition and the way out.
  static Result<std::unique_ptr<Ring>> Create(unsigned entries);
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring();

  /// Makes the calling thread the one that submits. Once.
  void Enable();
  /// Room for one more request, after handing the full queue to the kernel if need be; null when the kernel takes none now.
  io_uring_sqe* NextEntry();
  /// Requests that the kernel has not seen yet.
  bool HasUnsubmitted() const { return io_uring_sq_ready(&uring) != 0; }
  bool HasCompletions() const { return io_uring_cq_ready(&uring) != 0; }
  /// The kernel holds completions back until the thread enters it.
  bool KernelHasWork() const {
    return (__atomic_load_n(uring.sq.kflags, __ATOMIC_RELAXED) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
  }
  /// Hands over what is unsubmitted and collects completions; does not wait.
  void Enter();
  /// The same, and sleeps until there is a completion, `timeout` passed or a signal came.
  void EnterAndWait(std::optional<base::Duration> timeout);

  io_uring uring{};
  bool disabled = false;  // created disabled, until Enable
  uint64_t kernel_entries = 0;
};

}  // namespace forebay::rt
