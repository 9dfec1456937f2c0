// SPDX-License-Identifier: Apache-2.0
// TcpListener and TcpStream: TCP on a reactor, short reads and writes handled. Each call takes a deadline (kNever: none)
// and ends with DeadlineExceeded when it passed, Cancelled after Abort or Close, Unavailable when the peer or the network
// broke the connection. After a failed or ended-early write the stream's position is unknown: abort it.
// Reactor-local. Buffers stay the caller's and stay put until the call has ended; a stream or listener is destroyed only
// when no call is in progress on it (checked). One reader and one writer at a time.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "rt/address.h"
#include "rt/operation.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::rt {

struct TcpOptions {
  bool no_delay = true;
  int send_buffer_bytes = 0;     ///< 0: the system's default, which grows by itself
  int receive_buffer_bytes = 0;  ///< the same
};

class TcpStream {
 public:
  /// Connects to a numeric address; see Resolve for names.
  static Task<Result<TcpStream>> Connect(Reactor& reactor, SocketAddress address, TimePoint deadline = kNever,
                                         TcpOptions options = {}, CancelToken* token = nullptr);
  static Task<Result<TcpStream>> Connect(Reactor& reactor, std::string host, uint16_t port, TimePoint deadline = kNever,
                                         TcpOptions options = {}, CancelToken* token = nullptr);
  /// Takes over a connected socket. It must be in blocking mode, which io_uring needs.
  static Result<TcpStream> Adopt(Reactor& reactor, int fd, TcpOptions options = {});

  TcpStream(TcpStream&&) noexcept;
  TcpStream& operator=(TcpStream&&) noexcept;
  ~TcpStream();

  /// At least one byte unless `buffer` is empty; 0 at the end of the stream.
  Task<Result<size_t>> ReadSome(std::span<std::byte> buffer, TimePoint deadline = kNever);
  /// Fills `buffer`. OutOfRange when the stream ended before the first byte: a clean end; Unavailable when in the middle.
  Task<Status> ReadExactly(std::span<std::byte> buffer, TimePoint deadline = kNever);
  Task<Status> WriteAll(std::span<const std::byte> buffer, TimePoint deadline = kNever);
  /// Writes all the pieces, in order. The array `iov` is used up (its entries change), the bytes are not.
  Task<Status> WriteAllv(std::span<iovec> iov, TimePoint deadline = kNever);

  /// One receive or send as a plain operation, without a coroutine frame: results as in operation.h, short ones included.
  Operation Receive(std::span<std::byte> buffer, int flags = 0, TimePoint deadline = kNever);
  Operation SendMessage(const msghdr* message, int flags = 0, TimePoint deadline = kNever);

  /// Sends the end of the stream; reading goes on.
  Status ShutdownWrite();
  /// Ends the calls in progress with Cancelled (await them before destroying the stream) and cuts the connection: the peer
  /// sees a reset when the stream is destroyed, or an end of stream with `reset` false.
  void Abort(bool reset = true);
  bool aborted() const;

  int fd() const;
  Reactor& reactor() const;
  /// Cancelled by Abort; for further operations on the descriptor.
  CancelToken& token() const;
  const SocketAddress& local() const;
  const SocketAddress& peer() const;

 private:
  struct State;
  explicit TcpStream(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;  // behind a pointer, so that a stream can move while a call is in progress
};

class TcpListener {
 public:
  static constexpr int kDefaultBacklog = 1024;

  /// `host` is numeric; port 0 takes a free one. FailedPrecondition when the port is taken.
  static Result<TcpListener> Listen(Reactor& reactor, std::string_view host, uint16_t port, TcpOptions options = {},
                                    int backlog = kDefaultBacklog);

  TcpListener(TcpListener&&) noexcept;
  TcpListener& operator=(TcpListener&&) noexcept;
  ~TcpListener();

  /// The next connection. ResourceExhausted when the process is out of descriptors: wait a little and go on.
  /// The stream belongs to `reactor` when given, to the listener's otherwise.
  Task<Result<TcpStream>> Accept(TimePoint deadline = kNever, Reactor* reactor = nullptr);
  /// Ends Accept with Cancelled, now and later.
  void Close();

  const SocketAddress& LocalAddress() const;
  int fd() const;

 private:
  struct State;
  explicit TcpListener(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace forebay::rt
