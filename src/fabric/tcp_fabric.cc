// SPDX-License-Identifier: Apache-2.0
#include "fabric/tcp_fabric.h"

#include <utility>
#include <vector>

#include "fabric/limits.h"
#include "fabric/connection_endpoint.h"
#include "fabric/stream_connection.h"
#include "fabric/stream_listener.h"
#include "fabric/tcp_socket.h"
#include "rt/tcp.h"

namespace forebay::fabric {

namespace {

class TcpListeningSocket final : public ListeningSocket {
 public:
  TcpListeningSocket(rt::TcpListener listener, base::SecureChannels* secure)
      : listener_(std::move(listener)), secure_(secure) {}
  int fd() const override { return listener_.fd(); }
  std::string address() const override { return listener_.LocalAddress().ToString(); }
  rt::Task<Result<Greeted>> Greet(rt::Reactor& reactor, Socket socket, EndpointOptions options,
                                  rt::OpOptions until) override {
    return GreetConnector(reactor, std::move(socket), options, until, secure_);
  }

 private:
  rt::TcpListener listener_;
  base::SecureChannels* const secure_;  // the fabric's
};

}  // namespace

Result<std::unique_ptr<Listener>> TcpFabric::Listen(rt::Reactor& reactor, const std::string& address,
                                                    EndpointOptions options) {
  FB_TRY(CheckOptions(options));
  FB_ASSIGN(const rt::HostPort parts, rt::SplitHostPort(address));
  std::string host = parts.host;
  if (!rt::SocketAddress::Parse(host, parts.port).ok()) {
    FB_ASSIGN(const auto addresses, rt::Resolve(host, parts.port));
    FB_ASSIGN(const rt::HostPort numeric, rt::SplitHostPort(addresses.front().ToString()));
    host = numeric.host;
  }
  FB_ASSIGN(auto listener, rt::TcpListener::Listen(reactor, host, parts.port));
  auto socket = std::make_unique<TcpListeningSocket>(std::move(listener), secure_);
  return std::unique_ptr<Listener>(
      std::make_unique<StreamListener>(reactor, std::move(socket), options, random_));
}

rt::Task<Result<std::unique_ptr<Endpoint>>> TcpFabric::Connect(rt::Reactor& reactor, std::string address,
                                                               EndpointOptions options,
                                                               base::TimePoint deadline) {
  FB_CO_TRY(CheckOptions(options));
  FB_CO_ASSIGN(const auto addresses, co_await Lookup(reactor, address));
  Status why = Status::NotFound("{} has no address", address);
  for (const rt::SocketAddress& candidate : addresses) {
    auto greeted = co_await DialTcp(reactor, candidate, options, deadline, secure_);
    if (greeted.ok()) {
      auto connection = std::make_unique<StreamConnection>(reactor, *std::move(greeted), options, random_);
      connection->Start();
      co_return std::unique_ptr<Endpoint>(std::make_unique<ConnectionEndpoint<StreamConnection>>(std::move(connection)));
    }
    why = greeted.status();
  }
  co_return why;
}

rt::Task<Result<std::vector<rt::SocketAddress>>> TcpFabric::Lookup(rt::Reactor& reactor,
                                                                   std::string address) {
  FB_CO_ASSIGN(const rt::HostPort parts, rt::SplitHostPort(address));
  const auto numeric = rt::SocketAddress::Parse(parts.host, parts.port);
  if (numeric.ok()) co_return std::vector<rt::SocketAddress>{*numeric};
  co_return co_await rt::Offload(reactor, resolver(),
                                 [parts] { return rt::Resolve(parts.host, parts.port); });
}

rt::ThreadPool& TcpFabric::resolver() {
  base::MutexLock lock(mutex_);
  if (resolver_ == nullptr) resolver_ = std::make_unique<rt::ThreadPool>(1, "fb-resolve");
  return *resolver_;
}

}  // namespace forebay::fabric
