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

#include "auth/session_table.h"
#include "base/log.h"
#include "fabric/fabric.h"
#include "native/options.h"
#include "rt/gate.h"
#include "rt/reactor.h"
#include "store/object_store.h"

namespace forebay::native {

class Server {
 public:
  /// All are borrowed; `reactors` holds at least one.
  Server(ServerOptions options, fabric::Fabric& fabric, store::ObjectStore& store,
         auth::SessionTable& sessions, std::vector<rt::Reactor*> reactors, base::Log& log);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Listens and begins to serve; does not suspend. Fails as Fabric::Listen does, and with InvalidArgument
  /// for options that leave no room for one chunk.
  rt::Task<Status> Start();
  /// Takes no new connections and requests, lets those in progress finish for up to `grace`, fences what is
  /// left, and returns when nothing of the server runs any more. Idempotent.
  rt::Task<void> Stop(base::Duration grace);

  /// Where clients connect: "127.0.0.1:41234". Empty before Start.
  const std::string& address() const { return address_; }
  size_t connections() const { return connections_.load(std::memory_order_relaxed); }

 private:
  class Shard;

  rt::Task<void> AcceptLoop();
  void Adopt(Shard& shard, std::unique_ptr<fabric::Endpoint> endpoint);

  const ServerOptions options_;
  fabric::Fabric& fabric_;
  base::Log& log_;
  rt::Reactor& home_;
  std::vector<std::unique_ptr<Shard>> shards_;  // one per reactor, touched there only
  std::unique_ptr<fabric::Listener> listener_;
  rt::Gate accepting_;
  rt::CancelToken stopping_;
  std::string address_;
  std::atomic<size_t> connections_{0};
};

}  // namespace forebay::native
