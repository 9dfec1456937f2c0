// SPDX-License-Identifier: Apache-2.0
// TcpByteStream: a ByteStream over a connected TCP socket. Each operation is one of the kernel's, straight
// from and to the memory given. Reactor-local from Start on.
#pragma once

#include <string>
#include <utility>

#include "fabric/byte_stream.h"
#include "fabric/socket.h"

namespace forebay::fabric {

class TcpByteStream final : public ByteStream {
 public:
  /// `peer` is for messages.
  TcpByteStream(Socket socket, std::string peer) : socket_(std::move(socket)), peer_(std::move(peer)) {}

  void Start(rt::Reactor& reactor, rt::Gate& gate, rt::CancelToken& life) override;
  rt::Task<Result<size_t>> Receive(std::span<const iovec> places, rt::CancelToken& operation) override;
  rt::Task<Result<size_t>> Send(std::span<const iovec> pieces, rt::CancelToken& operation) override;
  void Finish(ByteView last) override;
  void Close() override { socket_.Close(); }

 private:
  Socket socket_;
  const std::string peer_;
  rt::Reactor* reactor_ = nullptr;  // from Start on
};

}  // namespace forebay::fabric
