// SPDX-License-Identifier: Apache-2.0
#include "fabric/tcp_socket.h"

#include <netinet/tcp.h>

#include <cerrno>
#include <system_error>

#include "fabric/limits.h"
#include "fabric/tcp_stream.h"

namespace forebay::fabric {

namespace {

Status Failed(rt::Reactor& reactor, int error, base::TimePoint deadline, std::string_view what) {
  // The kernel's own ETIMEDOUT is not ours.
  if (error == ETIMEDOUT && deadline <= reactor.Now())
    return Status::DeadlineExceeded("{}: the deadline passed", what);
  if (error == ECANCELED) return Status::Cancelled("{}: cancelled", what);
  return Status::Unavailable("{}: {}", what, std::generic_category().message(error));
}

rt::Task<Status> SendPreamble(rt::Reactor& reactor, int fd, PreambleBytes bytes, rt::OpOptions until) {
  // An empty socket buffer takes so little at once.
  const int sent = co_await reactor.Send(fd, bytes.data(), bytes.size(), MSG_WAITALL, until);
  if (sent < 0) co_return Failed(reactor, -sent, until.deadline, "send the preamble");
  if (static_cast<size_t>(sent) != bytes.size())
    co_return Status::Unavailable("send the preamble: the connection broke");
  co_return Status();
}

rt::Task<Result<Preamble>> ReceivePreamble(rt::Reactor& reactor, int fd, Role expected, rt::OpOptions until) {
  PreambleBytes bytes;
  size_t have = 0;
  while (have < bytes.size()) {
    const int got = co_await reactor.Recv(fd, bytes.data() + have, bytes.size() - have, 0, until);
    if (got < 0) co_return Failed(reactor, -got, until.deadline, "wait for the peer's preamble");
    if (got == 0)
      co_return Status::Unavailable("the peer closed the connection instead of sending its preamble");
    have += static_cast<size_t>(got);
  }
  co_return DecodePreamble(bytes, expected);
}

Status SetNoDelay(int fd) {
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
    return Status::FromErrno(errno, "TCP_NODELAY");
  return Status();
}

EndpointOptions Agreed(const EndpointOptions& own, const Preamble& peer) {
  EndpointOptions theirs;
  theirs.max_message_bytes = peer.max_message_bytes;
  theirs.max_transfer_bytes = peer.max_transfer_bytes;
  theirs.max_transfers = peer.max_transfers;
  return CommonLimits(own, theirs);
}

std::string PeerName(int fd) {
  const auto peer = rt::SocketAddress::PeerOf(fd);
  return peer.ok() ? peer->ToString() : "a peer that is gone";
}

}  // namespace

Preamble PreambleOf(const EndpointOptions& options, Role role) {
  return {.role = role,
          .max_message_bytes = static_cast<uint32_t>(options.max_message_bytes),
          .max_transfer_bytes = static_cast<uint32_t>(options.max_transfer_bytes),
          .max_transfers = options.max_transfers};
}

rt::Task<Result<Greeted>> DialTcp(rt::Reactor& reactor, rt::SocketAddress address, EndpointOptions options,
                                  base::TimePoint deadline) {
  Socket socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  if (socket.fd() < 0) co_return Status::FromErrno(errno, "a socket for " + address.ToString());
  const rt::OpOptions until{.deadline = deadline};
  const int connected = co_await reactor.Connect(socket.fd(), address.get(), address.size(), until);
  if (connected < 0) co_return Failed(reactor, -connected, deadline, "connect to " + address.ToString());
  FB_CO_TRY(SetNoDelay(socket.fd()));
  const Status sent = co_await SendPreamble(reactor, socket.fd(),
                                            EncodePreamble(PreambleOf(options, Role::kConnector)), until);
  if (!sent.ok()) co_return sent.WithContext("connect to " + address.ToString());
  const auto preamble = co_await ReceivePreamble(reactor, socket.fd(), Role::kListener, until);
  if (!preamble.ok()) co_return preamble.status().WithContext("connect to " + address.ToString());
  std::string peer = address.ToString();
  auto stream = std::make_unique<TcpByteStream>(std::move(socket), peer);
  co_return Greeted{std::move(stream), std::move(peer), Agreed(options, *preamble)};
}

rt::Task<Result<Greeted>> GreetConnector(rt::Reactor& reactor, Socket socket, EndpointOptions options,
                                         rt::OpOptions until) {
  std::string peer = PeerName(socket.fd());
  FB_CO_TRY(SetNoDelay(socket.fd()));
  const auto preamble = co_await ReceivePreamble(reactor, socket.fd(), Role::kConnector, until);
  // Answered also when the version does not fit, so that the connector can say what is wrong; a stranger gets
  // nothing.
  if (preamble.ok() || preamble.status().code() == Code::kFailedPrecondition) {
    FB_CO_TRY(co_await SendPreamble(reactor, socket.fd(),
                                    EncodePreamble(PreambleOf(options, Role::kListener)), until));
  }
  FB_CO_TRY(preamble);
  auto stream = std::make_unique<TcpByteStream>(std::move(socket), peer);
  co_return Greeted{std::move(stream), std::move(peer), Agreed(options, *preamble)};
}

}  // namespace forebay::fabric
