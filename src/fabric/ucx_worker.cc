// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_worker.h"

#include <poll.h>

#include <utility>

#include "base/check.h"

namespace forebay::fabric {

namespace {
/// Rounds of progress before the reactor's other work has its turn.
constexpr int kRoundsPerTurn = 32;
}  // namespace

Result<std::unique_ptr<UcxWorker>> UcxWorker::Create(std::shared_ptr<UcxContext> context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // one reactor at a time
  ucp_worker_h handle = nullptr;
  ucs_status_t status = ucp_worker_create(context->handle(), &params, &handle);
  if (status != UCS_OK) return UcxError(status, "make a UCX worker");
  int event_fd = -1;
  status = ucp_worker_get_efd(handle, &event_fd);
  if (status != UCS_OK) {
    ucp_worker_destroy(handle);
    return UcxError(status, "get the descriptor of a UCX worker");
  }
  return std::unique_ptr<UcxWorker>(new UcxWorker(std::move(context), handle, event_fd));
}

UcxWorker::~UcxWorker() {
  FB_CHECK(!run_.has_value());
  ucp_worker_destroy(handle_);
}

void UcxWorker::Start(rt::Reactor& reactor, rt::MoveOnlyFunction after_progress) {
  FB_CHECK(!run_.has_value());
  run_.emplace(reactor);
  run_->after_progress = std::move(after_progress);
  reactor.Spawn(run_->gate, Loop());
}

rt::Task<void> UcxWorker::Stop() {
  if (!run_.has_value()) co_return;
  run_->stop.Cancel();
  co_await run_->gate.Close();
  run_.reset();
}

void UcxWorker::Kick() {
  kicked_ = true;
  if (run_.has_value() && run_->asleep != nullptr) run_->asleep->Cancel();
}

bool UcxWorker::Progress() {
  in_progress_ = true;
  const bool found = ucp_worker_progress(handle_) != 0;
  in_progress_ = false;
  return found;
}

rt::Task<void> UcxWorker::Loop() {
  while (!run_->stop.cancelled()) {
    kicked_ = false;
    int rounds = 0;
    while (rounds < kRoundsPerTurn && Progress()) ++rounds;
    run_->after_progress();
    // UCX looks, then arms; what a device (Soft-RoCE is one) completes in between makes the descriptor say
    // nothing: so the last look comes after.
    if (kicked_ || rounds == kRoundsPerTurn || ucp_worker_arm(handle_) != UCS_OK || Progress()) {
      co_await run_->reactor.Yield();
      continue;
    }
    rt::CancelToken wait(&run_->stop);
    run_->asleep = &wait;
    (void)co_await run_->reactor.Poll(event_fd_, POLLIN, {&wait});
    run_->asleep = nullptr;
  }
}

}  // namespace forebay::fabric
