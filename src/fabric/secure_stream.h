// SPDX-License-Identifier: Apache-2.0
// SecureStream: a ByteStream over another one, encrypted by a SecureChannel. Plain bytes are sealed out of
// the pieces and opened into the places within the call, so that the memory rule holds by itself; what is on
// the wire lives in the channel's two buffers. One coroutine sends what was sealed, also when the call that
// sealed it was cancelled, since half a record would end the connection. Reactor-local from Start on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/secure_channel.h"
#include "fabric/byte_stream.h"
#include "rt/sync.h"

namespace forebay::fabric {

class SecureStream final : public ByteStream {
 public:
  /// The channel's handshake is done. `peer` is for messages.
  SecureStream(std::unique_ptr<ByteStream> wire, std::unique_ptr<base::SecureChannel> channel,
               std::string peer)
      : wire_(std::move(wire)), channel_(std::move(channel)), peer_(std::move(peer)) {}

  void Start(rt::Reactor& reactor, rt::Gate& gate, rt::CancelToken& life) override;
  rt::Task<Result<size_t>> Receive(std::span<const iovec> places, rt::CancelToken& operation) override;
  /// Returns when the bytes are the wire's, or sealed and cancelled: then they count as sent, and will be.
  rt::Task<Result<size_t>> Send(std::span<const iovec> pieces, rt::CancelToken& operation) override;
  void Finish(ByteView last) override;
  void Close() override { wire_->Close(); }

 private:
  rt::Task<void> Carry();
  void WakeSenders();

  const std::unique_ptr<ByteStream> wire_;
  const std::unique_ptr<base::SecureChannel> channel_;
  const std::string peer_;
  rt::CancelToken* life_ = nullptr;   // from Start on
  std::optional<rt::Event> sealed_;   // there is something to carry
  std::optional<rt::Event> carried_;  // set and reset at once: some of it is the wire's
  bool carrying_ = false;             // the wire has the outgoing bytes in its hands
  Status broken_;                     // why the wire takes no more
};

}  // namespace forebay::fabric
