// SPDX-License-Identifier: Apache-2.0
// RemoteLink: how a RemoteStore calls its server. Each reactor that calls has data connections of its own, made at its first
// call, so that payload never changes threads; calls of the control plane block threads of the link. Calls carry the
// context's deadline and operation id, and are made again as RetryOptions say while no server answers: a change only
// when it has an id. Thread-safe. Close has returned before it is destroyed, and the reactors outlive it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "base/mutex.h"
#include "client/connector.h"
#include "client/retry.h"
#include "rt/thread_pool.h"
#include "store/checks.h"
#include "store/object_store.h"

namespace forebay::client {

class RemoteLink {
 public:
  /// Asks the server for its time, so that one that is not there, or refuses the credential, shows here. Blocks.
  static Result<std::unique_ptr<RemoteLink>> Open(const ClientOptions& options, TenantId tenant);
  RemoteLink(const RemoteLink&) = delete;
  RemoteLink& operator=(const RemoteLink&) = delete;

  /// On `here`: ends all connections. No call is in progress, and none comes any more.
  rt::Task<void> Close(rt::Reactor& here);

  control::ControlClient& control() { return connector_->control(); }
  /// Whose contexts are served.
  TenantId tenant() const { return tenant_; }
  /// What the server calls the one for whom the credential stands.
  TenantId tenant_there() const { return tenant_there_; }
  /// PermissionDenied: `what` is the server's matter.
  Status NotOurs(std::string_view what) const;
  /// Never goes back.
  uint64_t operation_time_ms() const;
  /// Unavailable after a call that got no answer, until one does.
  Status health() const;
  /// PermissionDenied for a tenant that is not served, DeadlineExceeded when it is too late for `what`.
  Status Admit(const store::Context& context, std::string_view what) const;
  /// The context's, or as much time as the options give a call when that ends earlier.
  base::TimePoint DeadlineOf(const store::Context& context) const;

  /// A call of the control plane: `call` takes the time left and gives a Status or a Result; runs on a thread of the link.
  template <typename Call>
  auto Ask(const store::Context& context, std::string_view what, bool again, Call call)
      -> rt::Task<std::invoke_result_t<Call&, base::Duration>> {
    using Answer = std::invoke_result_t<Call&, base::Duration>;
    FB_CO_TRY(Admit(context, what));
    FB_CO_ASSIGN(DataPool* const pool, PoolOf(context.reactor));
    const base::TimePoint deadline = DeadlineOf(context);
    const base::Clock& clock = context.reactor.clock();
    for (Attempts attempts(options_.retry, connector_->random(), again);;) {
      Answer answer = co_await rt::Offload(context.reactor, threads_, [&]() -> Answer {
        const base::Duration left = deadline - clock.Now();
        if (left <= base::Duration::zero())
          return Status::DeadlineExceeded("no time was left to ask {} for a {}", options_.server, what);
        return call(left);
      });
      const Status status = base::StatusOf(answer);
      Note(status);
      if (status.ok()) co_return answer;
      const std::optional<base::Duration> pause = attempts.Next(status, context.reactor.Now(), deadline);
      if (!pause || !co_await pool->Pause(*pause)) co_return attempts.Explain(status);
    }
  }

  /// A call of the data plane: `call` takes a session and the deadline, and gives a Task of a Result.
  template <typename Call>
  auto Data(const store::Context& context, std::string_view what, bool again, Call call)
      -> std::invoke_result_t<Call&, DataSession&, base::TimePoint> {
    FB_CO_TRY(Admit(context, what));
    FB_CO_ASSIGN(DataPool* const pool, PoolOf(context.reactor));
    const base::TimePoint deadline = DeadlineOf(context);
    auto answer = co_await pool->With(deadline, again,
                                      [&](DataSession& session) { return call(session, deadline); });
    Note(base::StatusOf(answer));
    co_return answer;
  }

 private:
  RemoteLink(const ClientOptions& options, TenantId tenant);
  /// Of the calling reactor.
  Result<DataPool*> PoolOf(rt::Reactor& reactor);
  void Note(const Status& status);

  const ClientOptions options_;
  const TenantId tenant_;
  TenantId tenant_there_ = TenantId::kNone;  // constant after Open
  std::unique_ptr<Connector> connector_;
  rt::ThreadPool openers_;  // apart from the others, which may all wait for a server that does not answer
  rt::ThreadPool threads_;
  mutable std::atomic<uint64_t> last_time_ms_{0};
  std::atomic<bool> answers_{true};
  mutable base::Mutex mutex_;
  Status trouble_ FB_GUARDED_BY(mutex_);  // of the last call, while it got no answer
  std::unordered_map<rt::Reactor*, std::unique_ptr<DataPool>> pools_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::client
