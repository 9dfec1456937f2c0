// SPDX-License-Identifier: Apache-2.0
// Device: a run of durable blocks, addressed by byte offset in units of kUnit. File, raw block, memory, faulty and
// recording implementations answer to this one interface and one behaviour suite.
// Every call suspends and runs on the caller's reactor; a device may be used from several reactors at once.
// Memory passed in, and the list of buffers, must stay until the call returns; addresses, lengths and offset are multiples
// of kUnit (O_DIRECT). An empty buffer in the list is skipped.
// The one invariant: after Flush returned ok, every Write that had returned before Flush was called survives power
// loss; nothing else is promised.
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::device {

/// Allocation and I/O unit of every device, in bytes.
constexpr uint64_t kUnit = 4096;

class Device {
 public:
  virtual ~Device() = default;

  /// What an operator calls it, for messages: a path or a twin's name.
  virtual const std::string& name() const = 0;
  virtual uint64_t size_bytes() const = 0;

  /// Fills `buffers` in order from `offset`. DataLoss on EIO or when the media ends early, Unavailable when the
  /// drive is gone, OutOfRange beyond the size, InvalidArgument when something is unaligned. Short reads are continued,
  /// never returned.
  virtual rt::Task<Status> Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) = 0;
  /// Writes `buffers` in order at `offset`. Not durable before a Flush. Fails as Read does, and with ResourceExhausted
  /// when the file system is full. A failure leaves the range undefined.
  virtual rt::Task<Status> Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) = 0;
  /// The durability point. After a failure nothing written since the last good Flush may be trusted: the caller
  /// stops writing (the kernel may have dropped the dirty pages and will not say so again).
  virtual rt::Task<Status> Flush(rt::Reactor& reactor) = 0;

  /// Writes zeros to [begin_bytes, end_bytes), so that a later write inside changes no file system metadata. Below
  /// `begin_bytes` lies what the caller has in use. What an earlier call of this process zeroed is left alone, since it
  /// may hold data by now. One call at a time (FailedPrecondition); write inside of the range after it returned. Does
  /// nothing where it does not matter.
  virtual rt::Task<Status> ZeroAhead(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes) = 0;

  /// On how many media each byte is: 2 for a mirror. Read gives one of the copies; who knows which bytes are right looks
  /// at each of them.
  virtual uint32_t copies() const { return 1; }
  /// As Read, of that copy alone (`copy` < copies()). Unavailable when it is not there.
  virtual rt::Task<Status> ReadCopy(rt::Reactor& reactor, uint32_t /*copy*/, uint64_t offset,
                                    std::span<const MutableByteView> buffers) {
    return Read(reactor, offset, buffers);
  }
  /// As Write, to that copy alone: to put right what is wrong there.
  virtual rt::Task<Status> WriteCopy(rt::Reactor& reactor, uint32_t /*copy*/, uint64_t offset,
                                     std::span<const ByteView> buffers) {
    return Write(reactor, offset, buffers);
  }
};

}  // namespace forebay::device
