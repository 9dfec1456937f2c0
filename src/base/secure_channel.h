// SPDX-License-Identifier: Apache-2.0
// SecureChannel: one end of an encrypted connection, without any I/O of its own: bytes of the wire go in and
// out of its two buffers, plain bytes are sealed into the one and opened out of the other. Whoever has a
// socket carries the wire's bytes (fabric::SecureStream); what encrypts is auth::TlsContext, and neither
// knows the other. Memory is bounded by the two buffers: Seal takes nothing where there is no room.
// Reactor-local; may be handed over.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace forebay::base {

class SecureChannel {
 public:
  virtual ~SecureChannel() = default;

  /// Goes on with the handshake as far as what was received reaches: true once it is done, and the peer is
  /// who it should be. Each call may leave bytes in outgoing(), after an error too: they tell the peer why.
  /// Unauthenticated when one side does not accept the other's certificate, Unavailable when the bytes are
  /// wrong.
  virtual Result<bool> Handshake() = 0;

  /// Where the next bytes of the wire go; empty while Open has not taken enough of those that are there.
  virtual MutableByteView incoming() = 0;
  virtual void Received(size_t bytes) = 0;
  /// Bytes for the wire. They stay where they are until they are Sent; more may be added behind them.
  virtual ByteView outgoing() const = 0;
  virtual void Sent(size_t bytes) = 0;

  // After the handshake.

  /// Takes the first bytes of the pieces for the wire and says how many: 0 when there is no room, or nothing
  /// to take.
  virtual Result<size_t> Seal(std::span<const iovec> pieces) = 0;
  /// Puts plain bytes into the places, in order, and says how many: 0 when more of the wire is needed, when
  /// the outgoing bytes have to go first, or at the end. An error, when the bytes are not what the peer sent,
  /// is final.
  virtual Result<size_t> Open(std::span<const iovec> places) = 0;
  /// The peer said that nothing follows; a connection that ends without that was cut.
  virtual bool peer_ended() const = 0;
  /// Says the same to the peer, if there is room for it.
  virtual void End() = 0;
};

/// Makes the channels of one side, with its certificate and what it demands of its peers. Thread-safe.
class SecureChannels {
 public:
  virtual ~SecureChannels() = default;
  virtual Result<std::unique_ptr<SecureChannel>> Make() = 0;
};

}  // namespace forebay::base
