// SPDX-License-Identifier: Apache-2.0
// Fabric: how bytes move between processes. A Fabric listens and connects; an Endpoint is one connection: small
// messages both ways, memory regions offered to the peer, and one-sided reads and writes of the peer's regions.
// Implementations: `tcp` and `shm` (ours), `ofi` (libfabric), `ucx`, an in-process twin. One behaviour suite, hostile peers
// included, runs over all of them (fabric_suite.h).
//
// Words. Offer: gives the peer one direction of one exact range of memory until it is withdrawn, expires or the endpoint
// is fenced. Delivered: a Write that returned ok has its bytes in the target's memory and its key was accepted.
// Withdraw: after it returned, no byte of the region changes and no byte of it is read, though the connection goes on.
// Fence: tears the connection down; after it returned nothing of the peer touches any region.
// Reactor-local: an endpoint and its regions belong to the reactor it was made on.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/arena.h"
#include "base/clock.h"
#include "base/status.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

enum class Direction : uint8_t {
  kPeerReads = 1,   // the peer may read from it: the source of a put
  kPeerWrites = 2,  // the peer may write into it: the target of a get
};

/// What the owner of a region tells its peer. Travels in messages; it is worth nothing on another connection.
struct RegionToken {
  uint64_t key = 0;  // random, never 0
  uint64_t length = 0;
  Direction direction = Direction::kPeerWrites;
  friend bool operator==(const RegionToken&, const RegionToken&) = default;
};

struct EndpointOptions {
  size_t max_message_bytes = base::kMiB / 4;
  uint32_t max_regions = 1024;                                     // offered at once
  uint32_t max_transfers = 1024;                                   // one-sided operations of ours in flight
  size_t max_transfer_bytes = base::kMiB;                          // one Read or Write
  base::Duration dead_after = std::chrono::seconds(5);             // silence while something of ours is awaited
  base::Duration idle_dead_after = std::chrono::seconds(15);       // silence at all; a probe goes out at a third of it
};

/// Bytes and operations of one endpoint since it was made.
struct EndpointStats {
  uint64_t messages_sent = 0;
  uint64_t messages_received = 0;
  uint64_t writes = 0;            // one-sided, by us, delivered
  uint64_t reads = 0;
  uint64_t bytes_written = 0;     // by these
  uint64_t bytes_read = 0;
  uint64_t copied_bytes = 0;      // of these, by this side's processor, the kernel included; none where an adapter moves them
  uint64_t payload_bytes_copied = 0;  // of SendWithPayload, by code of ours: what could not be sent from where it was
  uint64_t peer_bytes_written = 0;
  uint64_t peer_bytes_read = 0;
  uint64_t refused = 0;           // the peer's transfers that broke a region's rules

  EndpointStats& operator+=(const EndpointStats& other) {
    messages_sent += other.messages_sent;
    messages_received += other.messages_received;
    writes += other.writes;
    reads += other.reads;
    bytes_written += other.bytes_written;
    bytes_read += other.bytes_read;
    copied_bytes += other.copied_bytes;
    payload_bytes_copied += other.payload_bytes_copied;
    peer_bytes_written += other.peer_bytes_written;
    peer_bytes_read += other.peer_bytes_read;
    refused += other.refused;
    return *this;
  }
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;  // fences when that has not been done; the owner awaits Fence() first

  /// Queues `message` (at most max_message_bytes, taken over) behind earlier ones; returns when it is handed to the
  /// transport. Unavailable once the connection is gone. Messages arrive in order, whole, or not at all.
  virtual rt::Task<Status> Send(Bytes message) = 0;
  /// The same for a message whose tail is payload that lives elsewhere: `head` then the buffers, without a copy of ours.
  virtual rt::Task<Status> SendWithPayload(Bytes head, std::vector<base::Buffer> payload) = 0;
  /// The next message. Unavailable with the reason once the connection is gone and nothing is left. One caller at a time.
  virtual rt::Task<Result<Bytes>> Receive() = 0;

  /// Offers `memory`, borrowed until Withdraw (or Fence) has returned. ResourceExhausted at max_regions.
  virtual Result<RegionToken> Offer(MutableByteView memory, Direction direction, base::TimePoint expiry) = 0;
  /// Ends an offer: returns when nothing of the peer's can touch it any more; the connection lives on, and a transfer of
  /// the peer that is under way ends with an error at the peer. NotFound when there is no such offer.
  virtual rt::Task<Status> Withdraw(RegionToken region) = 0;

  /// Writes the buffers, in order, to [offset, ...) of the peer's region. Ok = delivered. PermissionDenied when the peer
  /// refused (key, range, direction, expiry); Unavailable when the connection died: the bytes may or may not be there.
  virtual rt::Task<Status> Write(RegionToken remote, uint64_t offset, std::vector<base::Buffer> data,
                                 base::TimePoint deadline) = 0;
  /// Reads data.size() bytes from `offset` of the peer's region into `data`, which must stay until this returns. After an
  /// error or the deadline no byte of `data` changes any more.
  virtual rt::Task<Status> Read(RegionToken remote, uint64_t offset, MutableByteView data, base::TimePoint deadline) = 0;

  /// Tears down: outstanding calls end with Unavailable(reason). After it returned no region is touched. Idempotent.
  virtual rt::Task<void> Fence(Status reason) = 0;
  /// Ok while connected, otherwise why not.
  virtual Status state() const = 0;
  virtual std::string peer() const = 0;
  virtual rt::Reactor& reactor() const = 0;
  virtual EndpointStats stats() const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  /// The address peers connect to, with the port (or name) that was really taken: "127.0.0.1:41234".
  virtual std::string address() const = 0;
  /// The next connection, as an endpoint that belongs to `home` (which may be another reactor than the listener's; hand
  /// it over with Post before the first use). Called on the listener's reactor. Cancelled once Close was called. An error
  /// of one connection attempt never ends the listener.
  virtual rt::Task<Result<std::unique_ptr<Endpoint>>> Accept(rt::Reactor& home) = 0;
  virtual rt::Task<void> Close() = 0;
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const = 0;
  /// `address` is "host:port", numeric or a name; port 0 lets the system choose. For shm "/path/of/socket" or "@name".
  virtual Result<std::unique_ptr<Listener>> Listen(rt::Reactor& reactor, const std::string& address,
                                                   EndpointOptions options) = 0;
  virtual rt::Task<Result<std::unique_ptr<Endpoint>>> Connect(rt::Reactor& reactor, std::string address,
                                                              EndpointOptions options, base::TimePoint deadline) = 0;
};

}  // namespace forebay::fabric
