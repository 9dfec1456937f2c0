// SPDX-License-Identifier: Apache-2.0
#include "rt/tcp.h"

#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace forebay::rt {

namespace {

Status SetOption(int fd, int level, int name, int value, std::string_view what) {
  if (setsockopt(fd, level, name, &value, sizeof(value)) != 0) {
    return Status::FromErrno(errno, fmt::format("set {} to {}", what, value));
  }
  return Status();
}

Status SetBuffers(int fd, const TcpOptions& options) {
  if (options.send_buffer_bytes > 0) {
    FB_TRY(SetOption(fd, SOL_SOCKET, SO_SNDBUF, options.send_buffer_bytes, "the socket's send buffer"));
  }
  if (options.receive_buffer_bytes > 0) {
    FB_TRY(SetOption(fd, SOL_SOCKET, SO_RCVBUF, options.receive_buffer_bytes, "the socket's receive buffer"));
  }
  return Status();
}

// Owns a descriptor until it is released.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

struct TcpStream::State {
  State(Reactor& home, int socket) : reactor(home), fd(socket) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { close(fd); }

  OpOptions Options(TimePoint deadline) { return {.token = &token, .deadline = deadline}; }

  /// What a failed operation means. ETIMEDOUT is also what the kernel says of a peer that stopped answering.
  Status Failed(int error, std::string_view what, TimePoint deadline) const {
    if (error == ECANCELED) return Status::Cancelled("{} {}: the connection was aborted", what, peer.ToString());
    if (error == ETIMEDOUT && deadline <= reactor.Now()) {
      return Status::DeadlineExceeded("{} {}: the deadline passed", what, peer.ToString());
    }
    return Status::Unavailable("{} {}: {}", what, peer.ToString(), std::generic_category().message(error));
  }

  static Task<Result<size_t>> ReadSome(State& state, std::span<std::byte> buffer, TimePoint deadline);
  static Task<Status> ReadExactly(State& state, std::span<std::byte> buffer, TimePoint deadline);
  static Task<Status> WriteAll(State& state, std::span<const std::byte> buffer, TimePoint deadline);
  static Task<Status> WriteAllv(State& state, std::span<iovec> iov, TimePoint deadline);

  Reactor& reactor;
  const int fd;
  SocketAddress local;
  SocketAddress peer;
  CancelToken token;
};

TcpStream::TcpStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
TcpStream::TcpStream(TcpStream&&) noexcept = default;
TcpStream& TcpStream::operator=(TcpStream&&) noexcept = default;
TcpStream::~TcpStream() = default;

Task<Result<TcpStream>> TcpStream::Connect(Reactor& reactor, SocketAddress address, TimePoint deadline, TcpOptions options,
                                           CancelToken* token) {
  Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  if (socket.get() < 0) co_return Status::FromErrno(errno, "socket for " + address.ToString());
  FB_CO_TRY(SetBuffers(socket.get(), options));  // before connecting: the window scale is settled then
  const int result = co_await reactor.Connect(socket.get(), address.get(), address.size(), {token, deadline});
  if (result == -ECANCELED) co_return Status::Cancelled("connect to {}: cancelled", address.ToString());
  if (result == -ETIMEDOUT && deadline <= reactor.Now()) {
    co_return Status::DeadlineExceeded("connect to {}: the deadline passed", address.ToString());
  }
  if (result < 0) {
    co_return Status::Unavailable("connect to {}: {}", address.ToString(), std::generic_category().message(-result));
  }
  co_return Adopt(reactor, socket.release(), options);
}

Task<Result<TcpStream>> TcpStream::Connect(Reactor& reactor, std::string host, uint16_t port, TimePoint deadline,
                                           TcpOptions options, CancelToken* token) {
  FB_CO_ASSIGN(const SocketAddress address, SocketAddress::Parse(host, port));
  co_return co_await Connect(reactor, address, deadline, options, token);
}

Result<TcpStream> TcpStream::Adopt(Reactor& reactor, int fd, TcpOptions options) {
  auto state = std::make_unique<State>(reactor, fd);
  FB_TRY(SetBuffers(fd, options));
  if (options.no_delay) FB_TRY(SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"));
  FB_ASSIGN(state->local, SocketAddress::LocalOf(fd));
  auto peer = SocketAddress::PeerOf(fd);
  // A peer that has gone since is no reason to refuse: the first read says so.
  if (peer.ok()) state->peer = *peer;
  return TcpStream(std::move(state));
}

Task<Result<size_t>> TcpStream::State::ReadSome(State& state, std::span<std::byte> buffer, TimePoint deadline) {
  const int got = co_await state.reactor.Recv(state.fd, buffer.data(), buffer.size(), 0, state.Options(deadline));
  if (got < 0) co_return state.Failed(-got, "read from", deadline);
  co_return static_cast<size_t>(got);
}

Task<Status> TcpStream::State::ReadExactly(State& state, std::span<std::byte> buffer, TimePoint deadline) {
  size_t done = 0;
  while (done < buffer.size()) {
    // WAITALL: the kernel gathers the pieces; it still comes back short at the end of the stream and on errors.
    const int got = co_await state.reactor.Recv(state.fd, buffer.data() + done, buffer.size() - done, MSG_WAITALL,
                                                state.Options(deadline));
    if (got < 0) co_return state.Failed(-got, "read from", deadline);
    if (got == 0) {
      if (done == 0) co_return Status::OutOfRange("{} ended the stream", state.peer.ToString());
      co_return Status::Unavailable("{} ended the stream after {} of {} bytes", state.peer.ToString(), done, buffer.size());
    }
    done += static_cast<size_t>(got);
  }
  co_return Status();
}

Task<Status> TcpStream::State::WriteAll(State& state, std::span<const std::byte> buffer, TimePoint deadline) {
  size_t done = 0;
  while (done < buffer.size()) {
    const int sent = co_await state.reactor.Send(state.fd, buffer.data() + done, buffer.size() - done, MSG_WAITALL,
                                                 state.Options(deadline));
    if (sent < 0) co_return state.Failed(-sent, "write to", deadline);
    done += static_cast<size_t>(sent);
  }
  co_return Status();
}

Task<Status> TcpStream::State::WriteAllv(State& state, std::span<iovec> iov, TimePoint deadline) {
  while (true) {
    while (!iov.empty() && iov.front().iov_len == 0) iov = iov.subspan(1);
    if (iov.empty()) co_return Status();
    msghdr message{};
    message.msg_iov = iov.data();
    message.msg_iovlen = std::min<size_t>(iov.size(), IOV_MAX);
    const int sent = co_await state.reactor.Sendmsg(state.fd, &message, MSG_WAITALL, state.Options(deadline));
    if (sent < 0) co_return state.Failed(-sent, "write to", deadline);
    for (auto left = static_cast<size_t>(sent); left > 0;) {
      iovec& piece = iov.front();
      const size_t step = std::min(left, piece.iov_len);
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + step;
      piece.iov_len -= step;
      left -= step;
      if (piece.iov_len == 0) iov = iov.subspan(1);
    }
  }
}

// Not coroutines themselves, so that a stream may be moved between the call and the start of the task.
Task<Result<size_t>> TcpStream::ReadSome(std::span<std::byte> buffer, TimePoint deadline) {
  return State::ReadSome(*state_, buffer, deadline);
}
Task<Status> TcpStream::ReadExactly(std::span<std::byte> buffer, TimePoint deadline) {
  return State::ReadExactly(*state_, buffer, deadline);
}
Task<Status> TcpStream::WriteAll(std::span<const std::byte> buffer, TimePoint deadline) {
  return State::WriteAll(*state_, buffer, deadline);
}
Task<Status> TcpStream::WriteAllv(std::span<iovec> iov, TimePoint deadline) {
  return State::WriteAllv(*state_, iov, deadline);
}

Operation TcpStream::Receive(std::span<std::byte> buffer, int flags, TimePoint deadline) {
  return state_->reactor.Recv(state_->fd, buffer.data(), buffer.size(), flags, state_->Options(deadline));
}

Operation TcpStream::SendMessage(const msghdr* message, int flags, TimePoint deadline) {
  return state_->reactor.Sendmsg(state_->fd, message, flags, state_->Options(deadline));
}

Status TcpStream::ShutdownWrite() {
  if (shutdown(state_->fd, SHUT_WR) != 0) return Status::FromErrno(errno, "shut down " + state_->peer.ToString());
  return Status();
}

void TcpStream::Abort(bool reset) {
  if (reset) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(state_->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  } else {
    shutdown(state_->fd, SHUT_RDWR);
  }
  state_->token.Cancel();
}

bool TcpStream::aborted() const { return state_->token.cancelled(); }
int TcpStream::fd() const { return state_->fd; }
Reactor& TcpStream::reactor() const { return state_->reactor; }
CancelToken& TcpStream::token() const { return state_->token; }
const SocketAddress& TcpStream::local() const { return state_->local; }
const SocketAddress& TcpStream::peer() const { return state_->peer; }

struct TcpListener::State {
  State(Reactor& home, int socket, TcpOptions stream_options) : reactor(home), fd(socket), options(stream_options) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { close(fd); }

  static Task<Result<TcpStream>> Accept(State& state, TimePoint deadline, Reactor* reactor);

  Reactor& reactor;
  const int fd;
  const TcpOptions options;
  SocketAddress local;
  CancelToken token;
};

TcpListener::TcpListener(std::unique_ptr<State> state) : state_(std::move(state)) {}
TcpListener::TcpListener(TcpListener&&) noexcept = default;
TcpListener& TcpListener::operator=(TcpListener&&) noexcept = default;
TcpListener::~TcpListener() = default;

Result<TcpListener> TcpListener::Listen(Reactor& reactor, std::string_view host, uint16_t port, TcpOptions options,
                                        int backlog) {
  FB_ASSIGN(const SocketAddress address, SocketAddress::Parse(host, port));
  const std::string what = "listen on " + address.ToString();
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
  if (fd < 0) return Status::FromErrno(errno, what);
  auto state = std::make_unique<State>(reactor, fd, options);
  FB_TRY(SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
  FB_TRY(SetBuffers(fd, options));  // accepted sockets inherit them
  if (bind(fd, address.get(), address.size()) != 0) {
    if (errno == EADDRINUSE) {
      return Status::FailedPrecondition("{}: another process listens there; choose another port, or 0 for a free one", what);
    }
    return Status::FromErrno(errno, what);
  }
  if (listen(fd, backlog) != 0) return Status::FromErrno(errno, what);
  FB_ASSIGN(state->local, SocketAddress::LocalOf(fd));
  return TcpListener(std::move(state));
}

Task<Result<TcpStream>> TcpListener::State::Accept(State& state, TimePoint deadline, Reactor* reactor) {
  while (true) {
    const int result = co_await state.reactor.Accept(state.fd, {.token = &state.token, .deadline = deadline});
    if (result >= 0) {
      TcpOptions options = state.options;
      options.send_buffer_bytes = options.receive_buffer_bytes = 0;  // inherited
      co_return TcpStream::Adopt(reactor != nullptr ? *reactor : state.reactor, result, options);
    }
    const std::string where = state.local.ToString();
    switch (-result) {
      case ECONNABORTED: continue;  // that peer went away while it was queued
      case ECANCELED: co_return Status::Cancelled("accept on {}: the listener was closed", where);
      case ETIMEDOUT: co_return Status::DeadlineExceeded("accept on {}: the deadline passed", where);
      default: co_return Status::FromErrno(-result, "accept on " + where);
    }
  }
}

Task<Result<TcpStream>> TcpListener::Accept(TimePoint deadline, Reactor* reactor) {
  return State::Accept(*state_, deadline, reactor);
}

void TcpListener::Close() { state_->token.Cancel(); }
const SocketAddress& TcpListener::LocalAddress() const { return state_->local; }
int TcpListener::fd() const { return state_->fd; }

}  // namespace forebay::rt
