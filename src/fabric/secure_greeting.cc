// SPDX-License-Identifier: Apache-2.0
#include "fabric/secure_greeting.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace forebay::fabric {

namespace {

/// What a peer that is refused may still send before it has read why.
constexpr size_t kMaxDrainedBytes = 64 * base::kKiB;

Status Failed(int result, std::string_view what) {
  if (result == -ETIMEDOUT) return Status::DeadlineExceeded("{}: the deadline passed", what);
  if (result == -ECANCELED) return Status::Cancelled("{}: cancelled", what);
  if (result == 0) return Status::Unavailable("{}: the peer closed the connection", what);
  return Status::Unavailable("{}: {}", what, std::generic_category().message(-result));
}

rt::Task<Status> SendOutgoing(rt::Reactor& reactor, int fd, base::SecureChannel& channel,
                              rt::OpOptions until) {
  while (!channel.outgoing().empty()) {
    const ByteView out = channel.outgoing();
    const int sent = co_await reactor.Send(fd, out.data(), out.size(), MSG_NOSIGNAL, until);
    if (sent <= 0) co_return Failed(sent, "send to the peer over TLS");
    channel.Sent(static_cast<size_t>(sent));
  }
  co_return Status();
}

rt::Task<Status> ReceiveIncoming(rt::Reactor& reactor, int fd, base::SecureChannel& channel,
                                 rt::OpOptions until) {
  const MutableByteView room = channel.incoming();
  if (room.empty()) co_return Status::Unavailable("the peer's first bytes over TLS are no greeting");
  const int got = co_await reactor.Recv(fd, room.data(), room.size(), 0, until);
  if (got <= 0) co_return Failed(got, "wait for the peer over TLS");
  channel.Received(static_cast<size_t>(got));
  co_return Status();
}

/// Tells the peer why, if it can be told at once. A socket closed with bytes unread would be reset, and the
/// reason lost with it: so its last bytes are taken first.
rt::Task<void> Refuse(rt::Reactor& reactor, int fd, base::SecureChannel& channel, rt::OpOptions until) {
  const ByteView out = channel.outgoing();
  if (out.empty() || send(fd, out.data(), out.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) co_return;
  shutdown(fd, SHUT_WR);
  std::array<std::byte, 4096> nowhere;
  for (size_t drained = 0; drained < kMaxDrainedBytes;) {
    const int got = co_await reactor.Recv(fd, nowhere.data(), nowhere.size(), 0, until);
    if (got <= 0) co_return;
    drained += static_cast<size_t>(got);
  }
}

}  // namespace

rt::Task<Status> ShakeHands(rt::Reactor& reactor, int fd, base::SecureChannel& channel, rt::OpOptions until) {
  while (true) {
    const Result<bool> done = channel.Handshake();
    if (!done.ok()) {
      co_await Refuse(reactor, fd, channel, until);
      co_return done.status();
    }
    FB_CO_TRY(co_await SendOutgoing(reactor, fd, channel, until));
    if (*done) co_return Status();
    FB_CO_TRY(co_await ReceiveIncoming(reactor, fd, channel, until));
  }
}

rt::Task<Status> SendSecurely(rt::Reactor& reactor, int fd, base::SecureChannel& channel, ByteView bytes,
                              rt::OpOptions until) {
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};  // only read
  FB_CO_ASSIGN(const size_t sealed, channel.Seal({&piece, 1}));
  if (sealed != bytes.size())
    co_return Status::Internal("a greeting of {} bytes does not fit TLS", bytes.size());
  co_return co_await SendOutgoing(reactor, fd, channel, until);
}

rt::Task<Status> ReceiveSecurely(rt::Reactor& reactor, int fd, base::SecureChannel& channel,
                                 MutableByteView into, rt::OpOptions until) {
  while (!into.empty()) {
    const iovec place{into.data(), into.size()};
    FB_CO_ASSIGN(const size_t opened, channel.Open({&place, 1}));
    into = into.subspan(opened);
    if (opened == 0 && channel.peer_ended())
      co_return Status::Unavailable("the peer closed the connection instead of sending its preamble");
    if (opened == 0) FB_CO_TRY(co_await ReceiveIncoming(reactor, fd, channel, until));
  }
  co_return Status();
}

}  // namespace forebay::fabric
