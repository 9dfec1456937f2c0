// SPDX-License-Identifier: Apache-2.0
// ControlServer: the control plane's gRPC server. Every call goes through one door: the policy table says
// which right the method needs, the caller proves who it is, and only then is the request read, and answered
// by a store call on a reactor. A method without a row in the table, or without a handler, is refused.
// Thread-safe. What Start borrows, reactors running, outlives the server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "auth/audit.h"
#include "auth/rate_limits.h"
#include "auth/rpc_auth.h"
#include "auth/session_table.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status.h"
#include "control/access_keys.h"
#include "control/backups.h"
#include "control/store_devices.h"
#include "control/capability_authority.h"
#include "control/data_plane.h"
#include "control/scrubs.h"
#include "control/tenant_registry.h"
#include "rt/reactor.h"
#include "rt/task.h"
#include "store/object_store.h"

namespace forebay::control {

constexpr size_t kMaxRequestBytes = base::kMiB;
constexpr size_t kMaxCallsInProgress = 256;
/// A call whose request has not come whole by then is ended: it has a place among those in progress.
constexpr base::Duration kMaxRequestTime = std::chrono::seconds(10);
/// A call without a deadline, or with a later one, gets this one.
constexpr base::Duration kMaxCallTime = std::chrono::minutes(2);
/// A call that would have to wait longer for the rates of its tenant or capability is refused. At most half
/// of the calls in progress wait, so that there are places for those who need not.
constexpr base::Duration kMaxRateWait = std::chrono::seconds(10);

struct ControlServerOptions {
  std::string listen =
      "127.0.0.1:7400";       ///< "host:port"; port 0: any free one. On loopback, but for the next two
  std::string tls_directory;  ///< with it, TLS: as auth::TlsFiles, which has loaded it
  bool plaintext_beyond_loopback = false;
  /// The ways to the data plane, told to those who open a session.
  std::vector<DataEndpoint> data_endpoints;
  std::string version;  ///< told by Admin.Health
  size_t max_calls = kMaxCallsInProgress;
};

class ControlServer {
 public:
  using Options = ControlServerOptions;

  /// What the server works with; all borrowed until after Shutdown. Store calls are dealt out over `reactors`
  /// (at least one) in turn.
  struct Parts {
    store::ObjectStore& store;
    auth::SessionTable& sessions;
    auth::RpcAuthenticator& authenticator;
    auth::RateLimits& rates;
    CapabilityAuthority& capabilities;
    auth::Audit& audit;
    base::Random& random;
    TenantRegistry& tenants;
    AccessKeys& keys;
    std::vector<rt::Reactor*> reactors;
    const base::Clock& clock;
    base::Log& log;
    /// What the data plane moved; called on a reactor. Null: nothing is told of it.
    std::function<rt::Task<std::vector<FabricTraffic>>(rt::Reactor& here)> traffic = nullptr;
    Backups* backups = nullptr;       ///< null: of this store none are made
    StoreDevices* devices = nullptr;  ///< null: the store has none of its own
    Scrubs* scrubs = nullptr;         ///< null: this store does not scrub itself
  };

  /// Listens and serves. InvalidArgument for an address beyond loopback without TLS or none at all;
  /// Unavailable, with the reason, when it cannot be listened on.
  static Result<std::unique_ptr<ControlServer>> Start(Options options, Parts parts);
  /// Shuts down at once if nobody has.
  ~ControlServer();

  /// "host:port" really listened on.
  const std::string& address() const;
  uint16_t port() const;
  /// Those that have one of max_calls places.
  size_t calls_in_progress() const;

  /// Takes no new calls and waits for those in progress; what is not answered after `grace` is cancelled for
  /// its callers. BLOCKS until every store call has ended (they end by their deadlines), so never from a
  /// reactor. May be called again.
  void Shutdown(base::Duration grace);

 private:
  class Impl;
  explicit ControlServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::control
