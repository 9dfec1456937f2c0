// SPDX-License-Identifier: Apache-2.0
#include "native/allowance.h"

namespace forebay::native {
namespace {

/// What is told to a transfer's turn, on any thread.
struct Wake {
  explicit Wake(rt::Reactor& r) : reactor(r), begun(r) {}
  rt::Reactor& reactor;
  rt::Event begun;
};

Status StoppedOr(const Request& request, Status otherwise) {
  Status stopped = request.Stopped();
  // A deadline is said to have passed by what it passed in.
  if (stopped.ok() || stopped.code() == Code::kDeadlineExceeded) return otherwise;
  return stopped;
}

}  // namespace

rt::Task<Status> Allowance::WaitForRates(Request& request, auth::RateCharge charge) {
  const rt::OpOptions until{.token = &request.cancel, .deadline = request.context.deadline};
  if (!co_await pace_.Acquire(1, until))
    co_return StoppedOr(request, Status::ResourceExhausted("the deadline passed while requests before this one waited for the rate "
                                                           "limits of the tenant or the capability"));
  const rt::Units first(pace_, 1);
  Result<base::TimePoint> start = accounts_.Charge(charge, reactor_.Now(), request.context.deadline);
  if (!start.ok()) co_return start.status();
  if (*start > reactor_.Now() && !co_await reactor_.SleepUntil(*start, &request.cancel)) {
    accounts_.Refund(charge);
    co_return request.Stopped();
  }
  co_return Status();
}

rt::Task<Result<Admission::Place>> Allowance::Admit(Request& request, auth::RateCharge charge, size_t bytes) {
  const bool charged = accounts_.HasRates();
  if (charged) {
    FB_CO_TRY(co_await WaitForRates(request, charge));
  }
  Admission::Place place = co_await admission_.Enter(*flow_, charge.operations, bytes,
                                                     {.token = &request.cancel, .deadline = request.context.deadline});
  if (place) co_return place;
  if (charged) accounts_.Refund(charge);
  co_return StoppedOr(request, Status::DeadlineExceeded("the server had no memory for a {} in time",
                                                        wire::TypeName(request.header.type)));
}

void Allowance::Owe(uint64_t bytes) {
  if (accounts_.HasRates() && bytes != 0) (void)accounts_.Charge({.operations = 0, .bytes = bytes}, reactor_.Now(), base::kNever);
}

void Allowance::Refund(uint64_t bytes) {
  if (accounts_.HasRates()) accounts_.Refund({.operations = 0, .bytes = bytes});
}

rt::Task<Result<Allowance::TransferPlace>> Allowance::BeginTransfer(Request& request) {
  if (!accounts_.LimitsTransfers()) co_return TransferPlace();
  const rt::OpOptions until{.token = &request.cancel, .deadline = request.context.deadline};
  const Status too_many = Status::ResourceExhausted(
      "the tenant or the capability had as many transfers under way as it may have, until the request's deadline");
  if (!co_await turns_.Acquire(1, until)) co_return StoppedOr(request, too_many);
  const rt::Units first(turns_, 1);
  const auto wake = std::make_shared<Wake>(reactor_);  // shared with what is posted, which may come late
  auth::TransferTurn turn([wake] { wake->reactor.Post([wake] { wake->begun.Set(); }); });
  if (accounts_.BeginTransfer(turn)) co_return TransferPlace(accounts_);
  if (!co_await wake->begun.Wait(until) && !accounts_.Abandon(turn)) co_return StoppedOr(request, too_many);
  co_return TransferPlace(accounts_);
}

}  // namespace forebay::native
