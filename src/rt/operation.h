// SPDX-License-Identifier: Apache-2.0
// Operation: one io_uring request as an awaitable. Its state lives in the awaiting coroutine's frame, the kernel knows it
// by address, so starting one allocates nothing. `co_await` gives the kernel's result: >= 0, or -errno; -ECANCELED
// when its token was cancelled, -ETIMEDOUT when its deadline passed. Invariant: the awaiting coroutine resumes only after
// the kernel is finished with the operation, so its buffers are the caller's again, whatever the result. An operation that
// had already done its work when the cancel came gives its real result.
// Reactor-local. Made by Reactor::Read and its siblings, and awaited in the same expression.
#pragma once

#include <cerrno>
#include <coroutine>
#include <cstdint>

#include "base/check.h"
#include "rt/cancel.h"
#include "rt/runnable.h"
#include "rt/timer_heap.h"

namespace forebay::rt {

class Reactor;

/// What can end an operation early. A disk read or write that is being carried out is not interrupted.
struct OpOptions {
  CancelToken* token = nullptr;  ///< borrowed until the operation ends
  TimePoint deadline = kNever;
};

class [[nodiscard]] Operation : private Resumption, private CancelNode, private TimerNode {
 public:
  /// The fields of a submission queue entry that Forebay uses, under the kernel's names.
  struct Request {
    uint8_t opcode = 0;
    int fd = -1;
    uint64_t off = 0;
    uint64_t addr = 0;
    uint32_t len = 0;
    uint32_t op_flags = 0;
  };

  Operation(Reactor& reactor, const Request& request, const OpOptions& options)
      : CancelNode(&OnCancel), TimerNode(&OnDeadline), reactor_(reactor), request_(request), options_(options) {}
  ~Operation() { FB_CHECK(state_ == State::kIdle); }

  bool await_ready() noexcept;
  void await_suspend(std::coroutine_handle<> awaiting) noexcept;
  int await_resume() const noexcept { return result_; }

 private:
  friend class Reactor;
  enum class State : uint8_t {
    kIdle,     // not started, or over
    kBacklog,        // waits for room in the submission queue
    kRunning,        // handed to the ring
    kCancelBacklog,  // the same, and its cancel request waits for room
  };

  static void OnCancel(CancelNode& self);
  static void OnDeadline(TimerNode& self);

  Reactor& reactor_;
  Request request_;
  OpOptions options_;
  int result_ = 0;
  State state_ = State::kIdle;
  int stop_reason_ = 0;  // ECANCELED or ETIMEDOUT once asked to end early
};

}  // namespace forebay::rt
