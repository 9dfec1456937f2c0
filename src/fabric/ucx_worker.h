// SPDX-License-Identifier: Apache-2.0
// UcxWorker: a UCX worker (its queues, its endpoints, its descriptor to wait on) driven by a reactor.
// Progress runs in one coroutine that sleeps on the descriptor: an idle worker costs no processor time and no
// thread of ours. (UCX keeps one thread of its own per process, asleep, for events of devices and
// connections.) Each connection has a worker of its own: what a peer sends can then not claim to come from
// another, ending a connection is ending its worker, and it can move from the listener's reactor to another
// one as a whole. Reactor-local; may change its reactor while it is stopped. Destroyed stopped (checked).
#pragma once

#include <memory>
#include <optional>

#include <ucp/api/ucp.h>

#include "base/status.h"
#include "fabric/ucx_context.h"
#include "rt/cancel.h"
#include "rt/gate.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

class UcxWorker {
 public:
  static Result<std::unique_ptr<UcxWorker>> Create(std::shared_ptr<UcxContext> context);
  ~UcxWorker();

  ucp_worker_h handle() const { return handle_; }
  UcxContext& context() const { return *context_; }
  /// Only while it runs.
  rt::Reactor& reactor() const { return run_->reactor; }
  bool running() const { return run_.has_value(); }

  /// Drives the worker on `reactor` from now on. `after_progress` runs after each round, outside of UCX's
  /// callbacks.
  void Start(rt::Reactor& reactor, rt::MoveOnlyFunction after_progress);
  /// Suspends until nothing of it runs any more.
  rt::Task<void> Stop();
  /// Something was asked of UCX: has a look soon, also when asleep.
  void Kick();
  /// True inside of a callback of UCX's, where nothing may be sent or closed.
  bool in_callback() const { return in_progress_; }

 private:
  struct Running {
    explicit Running(rt::Reactor& home) : reactor(home), gate(home) {}
    rt::Reactor& reactor;
    rt::CancelToken stop;
    rt::CancelToken* asleep = nullptr;  // in the loop's frame
    rt::MoveOnlyFunction after_progress;
    rt::Gate gate;
  };

  UcxWorker(std::shared_ptr<UcxContext> context, ucp_worker_h handle, int event_fd)
      : context_(std::move(context)), handle_(handle), event_fd_(event_fd) {}
  rt::Task<void> Loop();
  /// True when there was something to do.
  bool Progress();

  const std::shared_ptr<UcxContext> context_;
  ucp_worker_h handle_;
  const int event_fd_;  // the worker's
  std::optional<Running> run_;
  bool kicked_ = false;
  bool in_progress_ = false;
};

}  // namespace forebay::fabric
