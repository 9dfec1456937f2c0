// SPDX-License-Identifier: Apache-2.0
#include "fabric/tcp_socket.h"

#include <netinet/tcp.h>

#include <cerrno>
#include <system_error>

#include "fabric/limits.h"
#include "fabric/secure_greeting.h"
#include "fabric/secure_stream.h"
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

/// A connected socket until it is a stream, with the channel that it has under TLS.
struct Wire {
  rt::Reactor& reactor;
  int fd;
  base::SecureChannel* channel;  // null in the clear
  rt::OpOptions until;
};

rt::Task<Status> SendPreamble(Wire wire, PreambleBytes bytes) {
  if (wire.channel != nullptr)
    co_return co_await SendSecurely(wire.reactor, wire.fd, *wire.channel, bytes, wire.until);
  // An empty socket buffer takes so little at once.
  const int sent = co_await wire.reactor.Send(wire.fd, bytes.data(), bytes.size(), MSG_WAITALL, wire.until);
  if (sent < 0) co_return Failed(wire.reactor, -sent, wire.until.deadline, "send the preamble");
  if (static_cast<size_t>(sent) != bytes.size())
    co_return Status::Unavailable("send the preamble: the connection broke");
  co_return Status();
}

rt::Task<Result<Preamble>> ReceivePreamble(Wire wire, Role expected) {
  PreambleBytes bytes;
  if (wire.channel != nullptr) {
    FB_CO_TRY(co_await ReceiveSecurely(wire.reactor, wire.fd, *wire.channel, bytes, wire.until));
    co_return DecodePreamble(bytes, expected);
  }
  size_t have = 0;
  while (have < bytes.size()) {
    const int got =
        co_await wire.reactor.Recv(wire.fd, bytes.data() + have, bytes.size() - have, 0, wire.until);
    if (got < 0) co_return Failed(wire.reactor, -got, wire.until.deadline, "wait for the peer's preamble");
    if (got == 0)
      co_return Status::Unavailable("the peer closed the connection instead of sending its preamble");
    have += static_cast<size_t>(got);
  }
  co_return DecodePreamble(bytes, expected);
}

/// The channel with its handshake done; null where there is to be none.
rt::Task<Result<std::unique_ptr<base::SecureChannel>>> Secure(rt::Reactor& reactor, int fd,
                                                              base::SecureChannels* secure,
                                                              rt::OpOptions until) {
  if (secure == nullptr) co_return nullptr;
  FB_CO_ASSIGN(auto channel, secure->Make());
  FB_CO_TRY(co_await ShakeHands(reactor, fd, *channel, until));
  co_return channel;
}

std::unique_ptr<ByteStream> StreamOf(Socket socket, std::unique_ptr<base::SecureChannel> channel,
                                     const std::string& peer) {
  auto plain = std::make_unique<TcpByteStream>(std::move(socket), peer);
  if (channel == nullptr) return plain;
  return std::make_unique<SecureStream>(std::move(plain), std::move(channel), peer);
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
                                  base::TimePoint deadline, base::SecureChannels* secure) {
  Socket socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  std::string peer = address.ToString();
  const std::string what = "connect to " + peer;
  if (socket.fd() < 0) co_return Status::FromErrno(errno, "a socket for " + peer);
  const rt::OpOptions until{.deadline = deadline};
  const int connected = co_await reactor.Connect(socket.fd(), address.get(), address.size(), until);
  if (connected < 0) co_return Failed(reactor, -connected, deadline, what);
  FB_CO_TRY(SetNoDelay(socket.fd()));
  auto channel = co_await Secure(reactor, socket.fd(), secure, until);
  if (!channel.ok()) co_return channel.status().WithContext(what);
  const Wire wire{.reactor = reactor, .fd = socket.fd(), .channel = channel->get(), .until = until};
  const Status sent = co_await SendPreamble(wire, EncodePreamble(PreambleOf(options, Role::kConnector)));
  if (!sent.ok()) co_return sent.WithContext(what);
  const auto preamble = co_await ReceivePreamble(wire, Role::kListener);
  if (!preamble.ok()) co_return preamble.status().WithContext(what);
  auto stream = StreamOf(std::move(socket), *std::move(channel), peer);
  co_return Greeted{std::move(stream), std::move(peer), Agreed(options, *preamble)};
}

rt::Task<Result<Greeted>> GreetConnector(rt::Reactor& reactor, Socket socket, EndpointOptions options,
                                         rt::OpOptions until, base::SecureChannels* secure) {
  std::string peer = PeerName(socket.fd());
  FB_CO_TRY(SetNoDelay(socket.fd()));
  FB_CO_ASSIGN(auto channel, co_await Secure(reactor, socket.fd(), secure, until));
  const Wire wire{.reactor = reactor, .fd = socket.fd(), .channel = channel.get(), .until = until};
  const auto preamble = co_await ReceivePreamble(wire, Role::kConnector);
  // Answered also when the version does not fit, so that the connector can say what is wrong; a stranger gets
  // nothing.
  if (preamble.ok() || preamble.status().code() == Code::kFailedPrecondition)
    FB_CO_TRY(co_await SendPreamble(wire, EncodePreamble(PreambleOf(options, Role::kListener))));
  FB_CO_TRY(preamble);
  auto stream = StreamOf(std::move(socket), std::move(channel), peer);
  co_return Greeted{std::move(stream), std::move(peer), Agreed(options, *preamble)};
}

}  // namespace forebay::fabric
