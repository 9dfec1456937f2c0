// SPDX-License-Identifier: Apache-2.0
// StreamListener: the Listener of `tcp` and `shm`. It accepts sockets and greets them, many at a time, so
// that a connection that dawdles holds up nobody; what is greeted waits in a bounded queue for Accept. When
// all places are taken, the longest ungreeted one has to go. Reactor-local. Destroyed after Close was
// awaited.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "base/random.h"
#include "fabric/byte_stream.h"
#include "fabric/fabric.h"
#include "fabric/socket.h"
#include "rt/channel.h"
#include "rt/gate.h"
#include "rt/operation.h"
#include "rt/sync.h"

namespace forebay::fabric {

/// A socket that listens, and how its transport greets what comes. Gone when it is destroyed.
class ListeningSocket {
 public:
  virtual ~ListeningSocket() = default;
  virtual int fd() const = 0;
  /// As in Listener.
  virtual std::string address() const = 0;
  /// Exchanges limits with the connector behind `socket`, within `until`.
  virtual rt::Task<Result<Greeted>> Greet(rt::Reactor& reactor, Socket socket, EndpointOptions options,
                                          rt::OpOptions until) = 0;
};

class StreamListener final : public Listener {
 public:
  /// Connections that are being greeted or wait for Accept.
  static constexpr size_t kMaxWaiting = 256;

  StreamListener(rt::Reactor& reactor, std::unique_ptr<ListeningSocket> socket, EndpointOptions options,
                 base::Random& random);
  ~StreamListener() override;

  std::string address() const override { return address_; }
  rt::Task<Result<std::unique_ptr<Endpoint>>> Accept(rt::Reactor& home) override;
  rt::Task<void> Close() override;

 private:
  rt::Task<void> AcceptLoop();
  rt::Task<void> Greet(Socket socket);

  rt::Reactor& reactor_;
  std::unique_ptr<ListeningSocket> socket_;  // until Close
  const std::string address_;
  const EndpointOptions options_;
  base::Random& random_;
  rt::CancelToken life_;  // cancelled by Close
  rt::Semaphore places_;
  std::list<rt::CancelToken> greeting_;  // oldest first
  rt::Channel<Greeted> greeted_;
  rt::Gate accepting_;  // calls of Accept
  rt::Gate gate_;       // our coroutines
};

}  // namespace forebay::fabric
