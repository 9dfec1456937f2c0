// SPDX-License-Identifier: Apache-2.0
// Connector: what a client knows of its server before it has a connection: who it is itself (credentials or a capability),
// TLS, the control plane, the server's time, and the fabrics that lead there. Client::Core and RemoteStore make their pools
// of data connections from it. Thread-safe. Outlives its pools; is destroyed before the reactors of its pools, to which
// the threads of the fabrics post.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "auth/tls_context.h"
#include "base/clock.h"
#include "base/random.h"
#include "client/data_pool.h"
#include "client/operation_ids.h"
#include "control/client.h"
#include "fabric/movers.h"
#include "forebay/client.h"

namespace forebay::client {

class Connector {
 public:
  /// InvalidArgument for options that make no sense; otherwise what is wrong with credentials, capability or
  /// certificates. Does not connect yet.
  static Result<std::unique_ptr<Connector>> Open(const ClientOptions& options);
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  control::ControlClient& control() { return *control_; }
  const OperationIds& ids() const { return ids_; }
  base::Random& random() { return random_; }
  const base::Clock& clock() const { return clock_; }

  /// Opens a session, of at most `timeout`; blocks. Learns the server's time.
  Result<DataTarget> OpenSession(base::Duration timeout);
  /// As many connections as the options say, none open yet, on `reactor`; `threads` block while one is opened. Both are
  /// borrowed.
  Result<std::unique_ptr<DataPool>> MakePool(rt::Reactor& reactor, rt::ThreadPool& threads);

 private:
  Connector(const ClientOptions& options, std::unique_ptr<auth::TlsContext> tls)
      : fabric_(options.fabric),
        lanes_(options.connections),
        retry_(options.retry),
        tls_(std::move(tls)),
        movers_(random_, fabric::Side::kClient, tls_.get()) {}

  const std::string fabric_;
  const unsigned lanes_;
  const RetryOptions retry_;
  const base::SystemClock clock_;
  base::SecureRandom random_;
  OperationIds ids_{clock_, random_};
  std::unique_ptr<control::ControlClient> control_;
  const std::unique_ptr<auth::TlsContext> tls_;  // of the data plane; null without
  const fabric::Movers movers_;
};

}  // namespace forebay::client
