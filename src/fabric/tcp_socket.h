// SPDX-License-Identifier: Apache-2.0
// What the tcp fabric does with a socket before it is an endpoint: connect, and exchange preambles. Each step has a deadline
// and a token; a peer that says nothing, too little or something else costs one descriptor until then.
// Reactor-local.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"
#include "fabric/fabric.h"
#include "fabric/tcp_frames.h"
#include "rt/address.h"
#include "rt/operation.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

/// Owns a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { Close(); }

  int fd() const { return fd_; }
  void Close();

 private:
  int fd_ = -1;
};

/// A connection whose preambles are exchanged.
struct TcpGreeted {
  Socket socket;
  std::string peer;        // "host:port"
  EndpointOptions limits;  // our times and max_regions; of sizes and counts, what both sides accept
};

Preamble PreambleOf(const EndpointOptions& options, Role role);

/// Connects and greets. Unavailable when nobody listens there, DeadlineExceeded, FailedPrecondition for another version.
rt::Task<Result<TcpGreeted>> DialTcp(rt::Reactor& reactor, rt::SocketAddress address, EndpointOptions options,
                                     base::TimePoint deadline);
/// The listener's part: waits for the connector's preamble and answers it.
rt::Task<Result<TcpGreeted>> GreetConnector(rt::Reactor& reactor, Socket socket, EndpointOptions options,
                                            rt::OpOptions until);

}  // namespace forebay::fabric
