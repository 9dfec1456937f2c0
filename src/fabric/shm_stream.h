// SPDX-License-Identifier: Apache-2.0
// ShmByteStream: a ByteStream over two rings in shared memory. The Unix socket that the connection began on
// is the bell: a byte on it wakes a peer that sleeps, and its end is the end of the peer. A side that is
// awake is never rung; one that sleeps costs nothing. All copying is done in turns of the reactor, by the
// side that calls: so an operation that waits touches no memory. Descriptors of what is lent come with rings.
// Reactor-local from Start on.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "fabric/byte_stream.h"
#include "fabric/shm_memory.h"
#include "fabric/shm_ring.h"
#include "fabric/socket.h"
#include "rt/sync.h"

namespace forebay::fabric {

class ShmByteStream final : public ByteStream {
 public:
  /// Which side passes descriptors to which.
  struct Loans {
    bool takes = false;   // the peer to us; else the kernel drops them
    bool passes = false;  // we to the peer
  };

  /// `own` and `peer` have the layout and sizes that ShmRingWriter and ShmRingReader ask for. `name` of the
  /// peer is for messages.
  ShmByteStream(Socket socket, ShmMapping own, ShmMapping peer, std::string name, Loans loans);

  void Start(rt::Reactor& reactor, rt::Gate& gate, rt::CancelToken& life) override;
  rt::Task<Result<size_t>> Receive(std::span<const iovec> places, rt::CancelToken& operation) override;
  rt::Task<Result<size_t>> Send(std::span<const iovec> pieces, rt::CancelToken& operation) override;
  bool takes_descriptors() const override { return loans_.takes; }
  bool passes_descriptors() const override { return loans_.passes; }
  bool PassDescriptor(int fd) override;
  rt::Task<Result<Socket>> ReceiveDescriptor() override;
  void Finish(ByteView last) override;
  void Close() override;

 private:
  /// Wakes whoever waits whenever the peer rings, and at the end of the socket.
  rt::Task<void> ListenForBell();
  /// Takes in what came with a ring. False for more than a rightful peer passes.
  bool TakeIn(std::vector<Socket> descriptors);
  void Ring();
  /// Lets others on this reactor have a turn after much copying.
  rt::Task<void> TakeTurns();
  Status Lied(const Status& how) const;

  Socket socket_;
  ShmMapping own_;
  ShmMapping peer_;
  const std::string name_;
  const Loans loans_;
  ShmRingWriter writer_;
  ShmRingReader reader_;

  // From Start on:
  rt::Reactor* reactor_ = nullptr;
  rt::CancelToken* life_ = nullptr;
  std::optional<rt::Event> rung_;  // set and reset at once
  bool hung_up_ = false;
  bool flooded_ = false;            // with descriptors
  std::deque<Socket> descriptors_;  // passed to us, oldest first
  size_t copied_ = 0;  // since the last turn that was left to others
};

}  // namespace forebay::fabric
