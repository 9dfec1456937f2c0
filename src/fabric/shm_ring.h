// SPDX-License-Identifier: Apache-2.0
// The rings of the shm fabric: bytes in order from one process to another. Each side has one piece of shared
// memory that it alone writes: its ring, and what it tells of itself. Layout: docs/formats/fabric-shm.md.
// What the peer's memory says may be anything, and may change while one looks: each position is read once and
// checked, and nothing of the peer's is ever used as an address. The worst a peer can do is to be found out.
// Reactor-local. Both borrow the mappings for their life.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/status.h"

namespace forebay::fabric {

/// The first bytes of each side's memory. Positions count all bytes since the start; a place in the ring is
/// their rest by its size. The waits count up: odd while its side sleeps until the peer rings, so that one
/// sleep is rung for once.
struct ShmControl {
  alignas(64) std::atomic<uint64_t> written;  // put into this side's ring
  std::atomic<uint64_t> data_wait;            // this side sleeps for bytes of the peer's
  alignas(64) std::atomic<uint64_t> taken;    // out of the peer's ring
  std::atomic<uint64_t> room_wait;            // this side sleeps for room in its own ring
};
static_assert(sizeof(ShmControl) == 128 && offsetof(ShmControl, data_wait) == 8 &&
              offsetof(ShmControl, taken) == 64 && offsetof(ShmControl, room_wait) == 72);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

/// The ring starts here.
constexpr size_t kShmControlBytes = 4096;
constexpr size_t kMinShmRingBytes = 4096;
constexpr size_t kMaxShmRingBytes = 16 * base::kMiB;
constexpr bool ShmRingSizeIsGood(uint64_t bytes) {
  return bytes >= kMinShmRingBytes && bytes <= kMaxShmRingBytes && (bytes & (bytes - 1)) == 0;
}

/// Bytes that are copied before the other side is told of them: so both copy at the same time.
constexpr size_t kShmStepBytes = 64 * base::kKiB;

class ShmRingWriter {
 public:
  /// `own` is control and ring, `peer` begins with a control.
  ShmRingWriter(MutableByteView own, ByteView peer);

  /// Bytes that may be put. InvalidArgument when the peer's position goes back or past what was put.
  Result<size_t> Room();
  /// Puts and publishes the first bytes of the pieces, from `skip` on: at most kShmStepBytes and at most
  /// `room`, which Room gave. Says how many.
  size_t Put(std::span<const iovec> pieces, size_t skip, size_t room);
  /// True, once for each sleep of the peer's, when it sleeps for bytes: ring.
  bool PeerAwaitsData();

  /// The owner goes to sleep until there is room: look at Room once more, then sleep.
  void StartWait();
  void EndWait();

 private:
  ShmControl& own_;
  const ShmControl& peer_;
  const MutableByteView ring_;
  uint64_t written_ = 0;
  uint64_t peer_taken_ = 0;  // when last looked at; at most written_
  uint64_t wait_ = 0;
  uint64_t rung_ = 0;
};

class ShmRingReader {
 public:
  /// `own` begins with a control, `peer` is control and ring.
  ShmRingReader(MutableByteView own, ByteView peer);

  /// Bytes that may be taken. InvalidArgument when the peer's position goes back or past what its ring holds.
  Result<size_t> Available();
  /// Takes the next bytes into the places, after `skip` bytes of them: at most kShmStepBytes and at most
  /// `available`, which Available gave. Says how many.
  size_t Take(std::span<const iovec> places, size_t skip, size_t available);
  /// True, once for each sleep of the peer's, when it sleeps for room and half of the ring is free: ring.
  bool PeerAwaitsRoom();

  /// The owner goes to sleep until there are bytes: look at Available once more, then sleep.
  void StartWait();
  void EndWait();
  /// Nothing that the peer puts from now on is seen.
  void Freeze();

 private:
  uint64_t Written() const;

  ShmControl& own_;
  const ShmControl& peer_;
  const ByteView ring_;
  uint64_t taken_ = 0;
  uint64_t peer_written_ = 0;  // when last looked at; from taken_ to taken_ + size of the ring
  uint64_t wait_ = 0;
  uint64_t rung_ = 0;
  uint64_t last_ = 0;  // once frozen
  bool frozen_ = false;
};

}  // namespace forebay::fabric
