// SPDX-License-Identifier: Apache-2.0
// Door: the one way in. gRPC hands it every call, whatever method it names, and each goes the same way: a
// place among the calls in progress, the policy's row, the proof, then the request's bytes, then whether the
// caller's grant covers what they name, then the caller's rates, then the method on a reactor, then the
// answer. Refusals and administrative acts are audited. No method can be reached around it, because gRPC
// knows no other service. Bytes of callers who proved nothing are not read. Private to src/control: it
// includes gRPC. Thread-safe. Outlives the gRPC server that it is registered with.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string_view>
#include <vector>

#include <grpcpp/generic/async_generic_service.h>

#include "auth/audit.h"
#include "auth/rate_limits.h"
#include "auth/rpc_auth.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "control/method.h"
#include "rt/cancel.h"
#include "rt/gate.h"
#include "rt/reactor.h"

namespace forebay::control {

class Door final : public grpc::CallbackGenericService {
 public:
  /// Unauthenticated when a grant that was proved has been revoked, or has expired, since. Called from several threads.
  using StillGood = std::function<Status(const auth::Grant&)>;

  /// The references and the reactors are borrowed for the door's life. `reactors` has at least one.
  Door(MethodTable methods, auth::RpcAuthenticator& authenticator, auth::RateLimits& rates,
       const std::vector<rt::Reactor*>& reactors, const base::Clock& clock, auth::Audit& audit,
       StillGood still_good, size_t max_calls);
  /// After Close.
  ~Door() override;

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;

  size_t calls_in_progress() const;
  /// Waits until no call is in progress, then lets no more onto the reactors. BLOCKS; the gRPC server has
  /// been shut down.
  void Close();

 private:
  class Call;

  /// A reactor, and the calls that run there.
  struct Lane {
    explicit Lane(rt::Reactor& to) : reactor(to), gate(to) {}
    rt::Reactor& reactor;
    rt::Gate gate;
  };

  /// Everything that may refuse a call before its bytes are read. Fills in the policy's row, the caller and the method.
  Status Admit(const grpc::GenericCallbackServerContext& context, auth::PolicyRow* row, Caller* caller,
               std::unique_ptr<Method>* method);
  Status Enter();
  void Leave(bool entered);
  Lane& NextLane();
  /// A place among the calls that wait for their rates; false when all are taken.
  bool EnterWait();
  void LeaveWait();
  /// From now on the call's request has to come within kMaxRequestTime.
  void ExpectRequest(Call& call);
  /// False when that time was over first: the call has been ended.
  bool RequestCame(Call& call);
  /// Ends calls whose requests do not come, while there are any to wait for.
  rt::Task<void> WatchRequests();

  struct Expected {
    Call* call;
    base::TimePoint until;
  };

  const MethodTable methods_;
  auth::RpcAuthenticator& authenticator_;
  auth::RateLimits& rates_;
  const base::Clock& clock_;
  auth::Audit& audit_;
  const StillGood still_good_;
  const size_t max_calls_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<size_t> next_lane_ = 0;
  mutable base::Mutex mutex_;
  base::ConditionVariable changed_;
  size_t calls_ FB_GUARDED_BY(mutex_) = 0;        // that have a place
  size_t waiting_ FB_GUARDED_BY(mutex_) = 0;      // of those, for their rates
  size_t known_calls_ FB_GUARDED_BY(mutex_) = 0;  // that gRPC has not let go of, refused ones too
  std::list<Expected> expected_ FB_GUARDED_BY(mutex_);  // calls whose requests have not come, the oldest first
  bool watching_ FB_GUARDED_BY(mutex_) = false;         // WatchRequests runs, or will
  rt::CancelToken closing_;                             // of the first lane's reactor
};

}  // namespace forebay::control
