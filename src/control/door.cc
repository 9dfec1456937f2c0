// SPDX-License-Identifier: Apache-2.0
#include "control/door.h"

#include <algorithm>
#include <utility>

#include <grpc/support/time.h>

#include "control/server.h"
#include "rt/call_on.h"
#include "rt/cancel.h"

namespace forebay::control {

namespace {

/// Need the right of an administrator, and are no acts.
constexpr std::string_view kQuestions[] = {"/forebay.control.v1.Admin/GetBackup", "/forebay.control.v1.Admin/GetScrub", "/forebay.control.v1.Admin/Space",
                                           "/forebay.control.v1.Admin/Stats"};

/// What the audit tells of when it is done.
bool IsAct(const auth::PolicyRow& row) {
  return row.right == auth::Right::kAdmin && std::ranges::find(kQuestions, row.operation) == std::end(kQuestions);
}

constexpr auth::RateCharge kOneOperation = {.operations = 1};
/// Of a method's work: so much costs another operation, which is owed afterwards. A row is cheaper than a call.
constexpr uint64_t kWorkOfOneOperation = 100;

/// Work on buckets and objects. Administration is free, so that whoever may raise a limit can do so when it
/// is used up; and so are sessions, whose work the data plane charges.
bool IsCharged(const auth::PolicyRow& row) {
  return row.scope == auth::Scope::kKey || row.scope == auth::Scope::kPrefix ||
         row.scope == auth::Scope::kBucket;
}

/// When the call must have ended, on `clock`: the caller's deadline, but within kMaxCallTime.
base::TimePoint DeadlineOf(const grpc::CallbackServerContext& context, const base::Clock& clock) {
  base::Duration left = kMaxCallTime;
  const gpr_timespec deadline = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC);
  const gpr_timespec until = gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
  if (until.tv_sec < std::chrono::duration_cast<std::chrono::seconds>(kMaxCallTime).count()) {
    left = std::chrono::seconds(until.tv_sec) + std::chrono::nanoseconds(until.tv_nsec);
  }
  return base::DeadlineAfter(clock.Now(), left);
}

}  // namespace

/// One call, from gRPC's first word to its last; deletes itself then. gRPC calls the On... functions one
/// after the other; between OnReadDone and Finish the call belongs to the reactor's thread. Who takes it off the door's list of
/// expected requests first, OnReadDone or the watcher on the first lane, finishes it.
class Door::Call final : public grpc::ServerGenericBidiReactor {
 public:
  Call(Door& door, grpc::GenericCallbackServerContext& context)
      : door_(door), context_(context), lane_(door.NextLane()) {
    Status status = door_.Enter();
    entered_ = status.ok();
    if (status.ok()) status = door_.Admit(context_, &row_, &caller_, &method_);
    if (!status.ok()) {
      if (entered_) Refuse(status);
      Finish(ToGrpc(status));
    } else if (row_.right == auth::Right::kPublic) {
      Start();  // a public method: its request is empty, and waiting for it would let anyone hold a place
    } else {
      door_.ExpectRequest(*this);
      StartRead(&request_);
    }
  }

  /// Its request did not come in time. Ends the read too, which then finds that the call was over.
  void TimeOut() {
    Finish(ToGrpc(Status::Unavailable("the call's request did not come within {} s",
                                      std::chrono::duration_cast<std::chrono::seconds>(kMaxRequestTime).count())));
  }

  void OnReadDone(bool ok) override {
    if (!door_.RequestCame(*this)) return;
    // Not ok: the caller left or closed without a request, or the request is too large, which gRPC tells by
    // itself.
    const Status status =
        ok ? method_->Parse(&request_)
           : Status::InvalidArgument("the call ended without one request of at most {} bytes",
                                     kMaxRequestBytes);
    request_.Clear();
    if (!status.ok()) return Finish(ToGrpc(status));
    // The proof came with the headers, and its caller may have taken its time since.
    Status allowed = door_.still_good_(*caller_.grant);
    if (allowed.ok()) allowed = auth::CheckGrant(*caller_.grant, row_, method_->target());
    for (const Requirement& also : method_->also())
      if (allowed.ok()) allowed = auth::CheckGrant(*caller_.grant, also.row, also.target);
    if (!allowed.ok()) {
      Refuse(allowed);
      return Finish(ToGrpc(allowed));
    }
    Start();
  }

  /// The caller left, or the server stops: what waits for its rates waits no more.
  void OnCancel() override {
    lane_.reactor.Post([cancel = cancel_] { cancel->Cancel(); });
  }

  void OnDone() override {
    Door& door = door_;
    const bool entered = entered_;
    delete this;
    door.Leave(entered);
  }

 private:
  auth::Act Act(const std::string& peer) const {
    return {.operation = context_.method(),
            .grant = caller_.grant.get(),
            .target = method_ == nullptr ? auth::Target() : method_->target(),
            .peer = peer};
  }
  void Refuse(const Status& reason) { door_.audit_.Denied(Act(context_.peer()), reason); }

  void Start() {
    lane_.reactor.Post([this] {
      if (!lane_.reactor.Spawn(lane_.gate, Run(lane_.reactor))) {
        Finish(ToGrpc(Status::Unavailable("the server is stopping")));
      }
    });
  }

  rt::Task<void> Run(rt::Reactor& reactor) {
    store::Context context{.reactor = reactor,
                           .tenant = caller_.grant == nullptr ? TenantId::kNone : caller_.grant->tenant,
                           .operation = {},
                           .deadline = DeadlineOf(context_, door_.clock_)};
    Status status;
    if (context.deadline <= door_.clock_.Now()) {
      status = Status::DeadlineExceeded("the deadline passed before {} began", context_.method());
    } else {
      if (IsCharged(row_)) status = co_await WaitForRates(context);
      if (status.ok()) status = co_await method_->Run(caller_, context);
      if (status.ok() && IsCharged(row_)) Owe(context.reactor.Now());
    }
    if (status.code() == Code::kPermissionDenied || status.code() == Code::kUnauthenticated) {
      Refuse(status);
    } else if (IsAct(row_)) {
      door_.audit_.Done(Act(context_.peer()), status);
    }
    if (status.ok()) status = method_->Serialize(&response_);
    // The last touch: gRPC may delete this at once, on another thread.
    if (status.ok()) {
      StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
    } else {
      Finish(ToGrpc(status));
    }
  }

  /// What the call cost beyond the operation that it was charged: later calls wait for it.
  void Owe(base::TimePoint now) {
    const uint64_t operations = method_->work() / kWorkOfOneOperation;
    if (operations == 0) return;
    auth::RateAccounts accounts = door_.rates_.Open(*caller_.grant, now);
    (void)accounts.Charge({.operations = operations}, now, base::kNever);
  }

  rt::Task<Status> WaitForRates(const store::Context& context) {
    const base::TimePoint now = context.reactor.Now();
    auth::RateAccounts accounts = door_.rates_.Open(*caller_.grant, now);
    FB_CO_ASSIGN(const base::TimePoint start,
                 accounts.Charge(kOneOperation, now, std::min(context.deadline, now + kMaxRateWait)));
    if (start <= now) co_return Status();
    if (!door_.EnterWait()) {
      accounts.Refund(kOneOperation);
      co_return Status::ResourceExhausted(
          "as many calls wait for the rate limits of their tenants as may; try again soon");
    }
    const bool waited = co_await context.reactor.SleepUntil(start, cancel_.get());
    door_.LeaveWait();
    if (!waited) {
      accounts.Refund(kOneOperation);
      co_return Status::Cancelled("the call ended while it waited for the rate limits of its tenant");
    }
    co_return door_.still_good_(*caller_.grant);  // it may have been revoked meanwhile
  }

  friend class Door;

  Door& door_;
  grpc::GenericCallbackServerContext& context_;
  Lane& lane_;
  std::list<Expected>::iterator expected_at_{};  // in the door's list, under its mutex, while expected_
  bool expected_ = false;
  /// Shared with what OnCancel posts, which may come when the call is gone.
  const std::shared_ptr<rt::CancelToken> cancel_ = std::make_shared<rt::CancelToken>();
  bool entered_ = false;
  auth::PolicyRow row_{};
  Caller caller_;
  std::unique_ptr<Method> method_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
};

Door::Door(MethodTable methods, auth::RpcAuthenticator& authenticator, auth::RateLimits& rates,
           const std::vector<rt::Reactor*>& reactors, const base::Clock& clock, auth::Audit& audit,
           StillGood still_good, size_t max_calls)
    : methods_(std::move(methods)),
      authenticator_(authenticator),
      rates_(rates),
      clock_(clock),
      audit_(audit),
      still_good_(std::move(still_good)),
      max_calls_(max_calls) {
  for (rt::Reactor* reactor : reactors) lanes_.push_back(std::make_unique<Lane>(*reactor));
}

Door::~Door() = default;

grpc::ServerGenericBidiReactor* Door::CreateReactor(grpc::GenericCallbackServerContext* context) {
  return new Call(*this, *context);  // deletes itself in OnDone
}

Status Door::Admit(const grpc::GenericCallbackServerContext& context, auth::PolicyRow* row, Caller* caller,
                   std::unique_ptr<Method>* method) {
  const std::string& name = context.method();
  FB_ASSIGN(*row, auth::PolicyOf(name));
  if (row->right != auth::Right::kPublic) {
    const auto& metadata = context.client_metadata();
    const grpc::string_ref key(auth::kRpcAuthKey.data(), auth::kRpcAuthKey.size());
    if (metadata.count(key) != 1) {
      return Status::Unauthenticated(
          "the call carries {} `{}` values; it needs one: give the credentials file of the "
          "server's directory (--credentials), or a capability (--cap)",
          metadata.count(key), auth::kRpcAuthKey);
    }
    const grpc::string_ref proof = metadata.find(key)->second;
    FB_ASSIGN(*caller, authenticator_.Verify(name, {proof.data(), proof.size()}));
  }
  const auto found = methods_.find(name);
  if (found == methods_.end()) return Status::Unimplemented("this server does not implement {}", name);
  *method = found->second();
  return {};
}

Status Door::Enter() {
  base::MutexLock lock(mutex_);
  ++known_calls_;
  if (calls_ >= max_calls_) {
    return Status::ResourceExhausted("{} calls are in progress, which is the limit; try again soon", calls_);
  }
  ++calls_;
  return {};
}

void Door::Leave(bool entered) {
  base::MutexLock lock(mutex_);
  if (entered) --calls_;
  if (--known_calls_ == 0) changed_.NotifyAll();  // under the lock: once Close has it, the door may go
}

bool Door::EnterWait() {
  base::MutexLock lock(mutex_);
  if (waiting_ >= max_calls_ / 2) return false;
  ++waiting_;
  return true;
}

void Door::LeaveWait() {
  base::MutexLock lock(mutex_);
  --waiting_;
}

void Door::ExpectRequest(Call& call) {
  const base::TimePoint until = clock_.Now() + kMaxRequestTime;
  bool begin = false;
  {
    base::MutexLock lock(mutex_);
    call.expected_at_ = expected_.insert(expected_.end(), {&call, until});
    call.expected_ = true;
    begin = !std::exchange(watching_, true);
  }
  if (!begin) return;
  Lane& lane = *lanes_.front();
  lane.reactor.Post([this, &lane] { (void)lane.reactor.Spawn(lane.gate, WatchRequests()); });
}

bool Door::RequestCame(Call& call) {
  base::MutexLock lock(mutex_);
  if (!std::exchange(call.expected_, false)) return false;
  expected_.erase(call.expected_at_);
  return true;
}

rt::Task<void> Door::WatchRequests() {
  rt::Reactor& reactor = lanes_.front()->reactor;
  while (!closing_.cancelled()) {
    std::vector<Call*> late;  // theirs alone until they are finished
    base::TimePoint next = base::kNever;
    {
      base::MutexLock lock(mutex_);
      while (!expected_.empty() && expected_.front().until <= reactor.Now()) {
        late.push_back(expected_.front().call);
        late.back()->expected_ = false;
        expected_.pop_front();
      }
      if (expected_.empty()) {
        watching_ = false;
      } else {
        next = expected_.front().until;
      }
    }
    for (Call* call : late) call->TimeOut();
    if (next == base::kNever) co_return;
    (void)co_await reactor.SleepUntil(next, &closing_);
  }
}

Door::Lane& Door::NextLane() {
  return *lanes_[next_lane_.fetch_add(1, std::memory_order_relaxed) % lanes_.size()];
}

size_t Door::calls_in_progress() const {
  base::MutexLock lock(mutex_);
  return calls_;
}

void Door::Close() {
  {
    base::MutexLock lock(mutex_);
    while (known_calls_ != 0) changed_.Wait(mutex_);
  }
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    rt::RunOn(lane->reactor, [this, &lane] {
      if (lane == lanes_.front()) closing_.Cancel();
      return lane->gate.Close();
    });
  }
}

}  // namespace forebay::control
