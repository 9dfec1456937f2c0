// SPDX-License-Identifier: Apache-2.0
// ByteStream: what a StreamConnection needs of a transport: bytes in order each way, operations that end soon
// after they were cancelled and, on one host, descriptors in order beside the bytes. `tcp` has a socket
// behind it, `shm` two rings in shared memory. The memory rule: places and pieces of an operation are touched
// until it returned, never after. Reactor-local from Start on; made and handed over on any thread. One
// Receive and one Send at a time.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "fabric/fabric.h"
#include "fabric/kept_descriptors.h"
#include "fabric/socket.h"
#include "rt/cancel.h"
#include "rt/gate.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

class ByteStream {
 public:
  /// Where we copy, in one turn of the reactor, before others on it have theirs.
  static constexpr size_t kTurnBytes = 256 * base::kKiB;
  /// Passed and not received yet: a peer that passes more lies.
  static constexpr size_t kMaxDescriptors = 64;

  virtual ~ByteStream() = default;

  /// Before anything else, on the reactor that it lives on. What it starts there is in `gate` and ends once
  /// `life` is cancelled; all three are borrowed for the stream's life.
  virtual void Start(rt::Reactor& reactor, rt::Gate& gate, rt::CancelToken& life) = 0;

  /// The next bytes, into the places in order: at least one; 0 at the end of the stream. Cancelled when
  /// `operation` was, with nothing received; any other error ends the stream.
  virtual rt::Task<Result<size_t>> Receive(std::span<const iovec> places, rt::CancelToken& operation) = 0;
  /// Sends the first bytes of the pieces, at least one, and says how many. Cancelled when `operation` was,
  /// with nothing sent; any other error ends the stream.
  virtual rt::Task<Result<size_t>> Send(std::span<const iovec> pieces, rt::CancelToken& operation) = 0;

  /// Whether the peer may pass descriptors to us, and we to it.
  virtual bool takes_descriptors() const { return false; }
  virtual bool passes_descriptors() const { return false; }
  /// Passes `fd`, which stays the caller's, without waiting; behind earlier ones, but in no order with bytes.
  /// False, and nothing was passed, when there is no room for it now.
  virtual bool PassDescriptor(int /*fd*/) { return false; }
  /// The next one of the peer's. An error ends the stream. One caller at a time.
  virtual rt::Task<Result<Socket>> ReceiveDescriptor() {
    co_return Status::Unimplemented("this transport passes no descriptors");
  }

  /// Sends `last` if there is room for all of it at once, and then the end of the stream. Nothing is sent
  /// after it.
  virtual void Finish(ByteView last) = 0;
  /// Lets go of everything. After the gate was closed and awaited.
  virtual void Close() = 0;
};

class LentBlocks;

/// A connection whose sides have told each other their limits.
struct Greeted {
  std::unique_ptr<ByteStream> stream;
  std::string peer;        // for people
  EndpointOptions limits;  // our times and max_regions; of sizes and counts, what both sides accept
  /// What to lend to the peer; null: nothing. Shared with the other endpoints of its fabric.
  std::shared_ptr<LentBlocks> lent{};
  KeptDescriptors kept{};   // of what the peer lends
  uint16_t peer_keeps = 0;  // of what we lend
};

}  // namespace forebay::fabric
