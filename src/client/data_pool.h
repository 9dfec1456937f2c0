// SPDX-License-Identifier: Apache-2.0
// DataPool: the data connections of one client. Calls are spread over its lanes; a lane whose connection is
// lost opens a new session at its next call. Opening is injected, so that a test needs no control plane.
// Reactor-local. Close has returned before it is destroyed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/data_session.h"
#include "client/mover_choice.h"
#include "client/retry.h"
#include "fabric/fabric.h"
#include "rt/cancel.h"
#include "rt/gate.h"
#include "rt/sync.h"
#include "rt/thread_pool.h"

namespace forebay::client {

/// Where a session's data connection may go, and its key.
struct DataTarget {
  SessionKey key;
  std::vector<control::DataEndpoint> endpoints;  // as the server offers them
};

class DataPool {
 public:
  /// Opens a session on the control plane within `timeout`; blocks; called on threads of the pool.
  using Opener = std::function<Result<DataTarget>(base::Duration timeout)>;

  /// All are borrowed. `lanes` is at least 1.
  DataPool(rt::Reactor& reactor, MoverChoice choice, rt::ThreadPool& threads, Opener open, unsigned lanes,
           base::Random& random, RetryOptions retry = {});

  /// A session of the next lane, opened if need be. It stays good as long as its gate is held
  /// (DataSession::Hold), or until the caller suspends.
  rt::Task<Result<DataSession*>> Next(base::TimePoint deadline);

  /// Runs `call(session)`, which gives a Task of a Result. With `again`, anew on another session when there
  /// was none or it was lost, as often as the pool's options say.
  template <typename Call>
  auto With(base::TimePoint deadline, bool again, Call call) -> std::invoke_result_t<Call&, DataSession&> {
    for (Attempts attempts(retry_, random_, again);;) {
      auto result = co_await Once(deadline, call);
      if (result.ok()) co_return result;
      const std::optional<base::Duration> pause = attempts.Next(result.error(), reactor_.Now(), deadline);
      if (!pause || !co_await Pause(*pause)) co_return attempts.Explain(result.error());
    }
  }

  /// Sleeps; false when Close ended it.
  rt::Task<bool> Pause(base::Duration pause);

  /// Opens all lanes, so that the first calls need not; the first failure.
  rt::Task<Status> OpenAll(base::TimePoint deadline);
  /// Calls in progress fail with Unavailable(reason); returns when nothing runs any more.
  rt::Task<void> Close(Status reason);

  /// How the last connection was made, for people: "tcp to 127.0.0.1:7401"; empty before.
  const std::string& path() const { return path_; }
  /// Why that way: a sentence without its full stop.
  const std::string& path_reason() const { return path_reason_; }

 private:
  struct Lane {
    explicit Lane(rt::Reactor& reactor) : opening(reactor) {}
    std::unique_ptr<DataSession> session;
    rt::Mutex opening;
  };

  template <typename Call>
  auto Once(base::TimePoint deadline, Call& call) -> std::invoke_result_t<Call&, DataSession&> {
    FB_CO_ASSIGN(DataSession* const session, co_await Next(deadline));
    co_return co_await call(*session);
  }
  rt::Task<Result<DataSession*>> Ready(Lane& lane, base::TimePoint deadline);
  rt::Task<Result<std::unique_ptr<DataSession>>> Open(base::TimePoint deadline);
  rt::Task<Result<std::unique_ptr<DataSession>>> Take(Way way, SessionKey key, base::TimePoint deadline);
  void Retire(std::unique_ptr<DataSession> session);

  rt::Reactor& reactor_;
  const MoverChoice choice_;
  rt::ThreadPool& threads_;
  const Opener open_;
  base::Random& random_;
  const RetryOptions retry_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  size_t turn_ = 0;
  std::string path_;
  std::string path_reason_;
  Status closed_;
  rt::CancelToken life_;
  rt::Gate gate_;
};

}  // namespace forebay::client
