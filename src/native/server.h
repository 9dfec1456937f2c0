// SPDX-License-Identifier: Apache-2.0
// Server: the data plane of a Forebay server. It listens on a fabric, spreads connections over the reactors,
// and serves each by a Connection until told to stop. It knows the store by its interface only, and sessions
// by the table that the control plane fills. Thread-safe in address and connections; Start and Stop run on
// the first reactor. Stop has returned before it is destroyed or a reactor stops.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "auth/audit.h"
#include "auth/rate_limits.h"
#include "auth/session_table.h"
#include "base/log.h"
#include "fabric/fabric.h"
#include "native/options.h"
#include "rt/gate.h"
#include "rt/reactor.h"
#include "store/object_store.h"

namespace forebay::native {

/// Where to listen, on one fabric.
struct ListenOn {
  fabric::Fabric& fabric;
  std::string address;
};

/// What went over one fabric since the server was made.
struct Traffic {
  std::string fabric;
  uint64_t connections = 0;     // now
  fabric::EndpointStats stats;  // of all its connections, those that ended included
};

class Server {
 public:
  /// All are borrowed; `ways` and `reactors` hold at least one each.
  Server(ServerOptions options, std::vector<ListenOn> ways, store::ObjectStore& store,
         auth::SessionTable& sessions, auth::RateLimits& rates, std::vector<rt::Reactor*> reactors, base::Log& log,
         auth::Audit& audit);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Listens on every way and begins to serve. Fails as Fabric::Listen does, with the way's name, and with
  /// InvalidArgument for options that leave no room for one chunk; then it listens nowhere.
  rt::Task<Status> Start();
  /// Takes no new connections and requests, lets those in progress finish for up to `grace`, fences what is
  /// left, and returns when nothing of the server runs any more. Idempotent.
  rt::Task<void> Stop(base::Duration grace);

  /// Where clients connect, in the order of the ways: "127.0.0.1:41234". Empty before Start.
  const std::vector<std::string>& addresses() const { return addresses_; }
  /// Asks every reactor. Called on one of them, while the server runs.
  rt::Task<std::vector<Traffic>> AskTraffic(rt::Reactor& here);
  size_t connections() const { return connections_.load(std::memory_order_relaxed); }

 private:
  class Shard;

  rt::Task<void> AcceptLoop(size_t way);
  void Adopt(Shard& shard, size_t way, std::unique_ptr<fabric::Endpoint> endpoint);

  const ServerOptions options_;
  const std::vector<ListenOn> ways_;
  base::Log& log_;
  rt::Reactor& home_;
  std::vector<std::unique_ptr<Shard>> shards_;                // one per reactor, touched there only
  std::vector<std::unique_ptr<fabric::Listener>> listeners_;  // of the ways
  rt::Gate accepting_;
  rt::CancelToken stopping_;
  std::vector<std::string> addresses_;
  std::atomic<size_t> connections_{0};
};

}  // namespace forebay::native
