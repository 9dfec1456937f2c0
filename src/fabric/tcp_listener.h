// SPDX-License-Identifier: Apache-2.0
// TcpFabricListener: accepts sockets and greets them, many at a time, so that a connection that dawdles holds up nobody; what
// is greeted waits in a bounded queue for Accept. When all places are taken, the longest ungreeted one has to go.
// Reactor-local. Destroyed after Close was awaited.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/random.h"
#include "fabric/fabric.h"
#include "fabric/tcp_socket.h"
#include "rt/channel.h"
#include "rt/gate.h"
#include "rt/sync.h"
#include "rt/tcp.h"

namespace forebay::fabric {

class TcpFabricListener final : public Listener {
 public:
  /// Connections that are being greeted or wait for Accept.
  static constexpr size_t kMaxWaiting = 256;

  TcpFabricListener(rt::Reactor& reactor, rt::TcpListener socket, EndpointOptions options, base::Random& random);
  ~TcpFabricListener() override;

  std::string address() const override { return address_; }
  rt::Task<Result<std::unique_ptr<Endpoint>>> Accept(rt::Reactor& home) override;
  rt::Task<void> Close() override;

 private:
  rt::Task<void> AcceptLoop();
  rt::Task<void> Greet(Socket socket);

  rt::Reactor& reactor_;
  std::optional<rt::TcpListener> socket_;  // until Close
  const std::string address_;
  const EndpointOptions options_;
  base::Random& random_;
  rt::CancelToken life_;  // cancelled by Close
  rt::Semaphore places_;
  std::list<rt::CancelToken> greeting_;  // oldest first
  rt::Channel<TcpGreeted> greeted_;
  rt::Gate accepting_;  // calls of Accept
  rt::Gate gate_;       // our coroutines
};

}  // namespace forebay::fabric
