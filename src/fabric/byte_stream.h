// SPDX-License-Identifier: Apache-2.0
// ByteStream: what a StreamConnection needs of a transport: bytes in order each way, and operations that end
// soon after they were cancelled. `tcp` has a socket behind it, `shm` two rings in shared memory. The memory
// rule: places and pieces of an operation are touched until it returned, never after. Reactor-local from
// Start on; made and handed over on any thread. One Receive and one Send at a time.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "fabric/fabric.h"
#include "rt/cancel.h"
#include "rt/gate.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

class ByteStream {
 public:
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

  /// Sends `last` if there is room for all of it at once, and then the end of the stream. Nothing is sent
  /// after it.
  virtual void Finish(ByteView last) = 0;
  /// Lets go of everything. After the gate was closed and awaited.
  virtual void Close() = 0;
};

/// A connection whose sides have told each other their limits.
struct Greeted {
  std::unique_ptr<ByteStream> stream;
  std::string peer;        // for people
  EndpointOptions limits;  // our times and max_regions; of sizes and counts, what both sides accept
};

}  // namespace forebay::fabric
