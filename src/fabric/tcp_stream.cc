// SPDX-License-Identifier: Apache-2.0
#include "fabric/tcp_stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace forebay::fabric {

namespace {

Result<size_t> ResultOf(int result, std::string_view what, std::string_view peer) {
  if (result >= 0) return static_cast<size_t>(result);
  if (result == -ECANCELED) return Status::Cancelled("cancelled");
  return Status::Unavailable("{} {}: {}", what, peer, std::generic_category().message(-result));
}

}  // namespace

void TcpByteStream::Start(rt::Reactor& reactor, rt::Gate& /*gate*/, rt::CancelToken& /*life*/) {
  reactor_ = &reactor;
}

rt::Task<Result<size_t>> TcpByteStream::Receive(std::span<const iovec> places, rt::CancelToken& operation) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(places.data());  // the kernel only reads it
  message.msg_iovlen = places.size();
  co_return ResultOf(co_await reactor_->Recvmsg(socket_.fd(), &message, 0, {&operation}), "receive from",
                     peer_);
}

rt::Task<Result<size_t>> TcpByteStream::Send(std::span<const iovec> pieces, rt::CancelToken& operation) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());  // the kernel only reads it
  message.msg_iovlen = pieces.size();
  co_return ResultOf(co_await reactor_->Sendmsg(socket_.fd(), &message, 0, {&operation}), "send to", peer_);
}

void TcpByteStream::Finish(ByteView last) {
  if (!last.empty()) (void)!send(socket_.fd(), last.data(), last.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  shutdown(socket_.fd(), SHUT_WR);
}

}  // namespace forebay::fabric
