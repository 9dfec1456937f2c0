// SPDX-License-Identifier: Apache-2.0
// Client::Core: what stands behind the installed Client: one reactor thread with the data connections, and
// the control client. Blocking calls hop onto the reactor and wait; asynchronous ones start there.
// Thread-safe, except what says that it runs on the reactor.
#pragma once

#include <atomic>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "client/connector.h"
#include "client/data_pool.h"
#include "client/operations.h"
#include "client/retry.h"
#include "forebay/client.h"
#include "rt/gate.h"
#include "rt/reactor_thread.h"
#include "rt/thread_pool.h"

namespace forebay {

class Client::Core {
 public:
  static Result<std::unique_ptr<Core>> Open(ClientOptions options);
  ~Core();

  control::ControlClient& control() { return connector_->control(); }
  const client::OperationIds& ids() const { return connector_->ids(); }
  std::string path() const;
  std::string path_reason() const;

  /// The time a call has; the options' for kDefaultTimeout.
  base::Duration TimeFor(std::chrono::nanoseconds timeout) const {
    return timeout.count() > 0 ? timeout : options_.timeout;
  }
  base::TimePoint DeadlineFor(std::chrono::nanoseconds timeout) const {
    return base::DeadlineAfter(clock_.Now(), TimeFor(timeout));
  }
  /// The error as the caller sees it: what Unavailable is while the client goes away is kCancelled.
  Error ErrorOf(const Status& status) const;
  template <typename T>
  std::expected<T, Error> Expected(Result<T> result) const {
    if (result.ok()) return *std::move(result);
    return std::unexpected(ErrorOf(result.status()));
  }
  std::expected<void, Error> Expected(const Status& status) const {
    if (status.ok()) return {};
    return std::unexpected(ErrorOf(status));
  }

  /// FailedPrecondition inside of a callback, which would wait for itself.
  Status CheckMayBlock() const;
  /// Runs the task that `function` makes on the reactor and waits for its Result, when it may block.
  template <typename F>
  auto Block(F function) -> typename std::invoke_result_t<F&>::Value {
    if (const Status refused = CheckMayBlock(); !refused.ok()) return refused;
    return rt::RunOn(reactor(), std::move(function));
  }
  /// Makes a call of the control plane, on the caller's thread: `call` takes the time it has, and gives a
  /// Status or a Result. With `again`, anew as long as no server answers.
  template <typename F>
  auto Ask(std::chrono::nanoseconds timeout, bool again, F call) -> std::invoke_result_t<F&, base::Duration> {
    const base::TimePoint deadline = DeadlineFor(timeout);
    base::Duration left = TimeFor(timeout);
    for (client::Attempts attempts(options_.retry, connector_->random(), again);;) {
      auto result = call(left);
      const Status status = base::StatusOf(result);
      if (status.ok()) return result;
      const auto pause = attempts.Next(status, clock_.Now(), deadline);
      if (!pause || !Pause(*pause)) return attempts.Explain(status);
      left = deadline - clock_.Now();
      if (left <= base::Duration::zero()) return attempts.Explain(status);
    }
  }
  /// Starts the task that `function` makes on the reactor, in the order of these calls; after the client's
  /// end began, `refused` is called instead, there as well.
  template <typename F, typename Refused>
  void Start(F function, Refused refused) {
    if (reactor().InReactor()) return StartHere(std::move(function), std::move(refused));
    reactor().Post([this, function = std::move(function), refused = std::move(refused)]() mutable {
      StartHere(std::move(function), std::move(refused));
    });
  }

  // ---- on the reactor ----

  client::DataPool& pool() { return *pool_; }
  rt::Reactor& reactor() const { return thread_->reactor(); }
  // Both are made again when a connection is lost. The arguments are the caller's.

  rt::Task<Result<BatchResult<GetResult>>> Get(std::span<const GetItem> items, MutableByteView memory,
                                               base::TimePoint deadline);
  rt::Task<Result<BatchResult<PutResult>>> Put(std::span<const PutItem> items,
                                               std::span<const client::PutTicket> tickets, ByteView memory,
                                               base::TimePoint deadline);

 private:
  explicit Core(ClientOptions options) : options_(std::move(options)) {}
  /// False when there will be no other attempt: the client goes away, or a callback may not wait.
  bool Pause(base::Duration pause);
  template <typename F, typename Refused>
  void StartHere(F function, Refused refused) {
    if (gate_->closed()) return refused();
    reactor().Spawn(*gate_, std::move(function));
  }

  const ClientOptions options_;
  const base::SystemClock clock_;
  rt::ThreadPool threads_{1, "forebay-open"};  // blocks in the control plane while a session is opened
  std::unique_ptr<rt::ReactorThread> thread_;
  std::unique_ptr<client::Connector> connector_;  // goes before the reactor
  std::unique_ptr<rt::Gate> gate_;
  std::unique_ptr<client::DataPool> pool_;
  std::atomic<bool> ending_{false};
};

/// What a call that moves one object makes of the batch of one that it was.
template <typename T>
std::expected<T, Error> Single(std::expected<BatchResult<T>, Error> results) {
  if (!results) return std::unexpected(std::move(results).error());
  return std::move(results->front());
}

}  // namespace forebay
