// SPDX-License-Identifier: Apache-2.0
#include "fabric/shm_ring.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace forebay::fabric {

namespace {

ShmControl& ControlOf(MutableByteView memory) {
  FB_CHECK(memory.size() > kShmControlBytes && ShmRingSizeIsGood(memory.size() - kShmControlBytes));
  return *reinterpret_cast<ShmControl*>(memory.data());
}
const ShmControl& ControlOf(ByteView memory) {
  FB_CHECK(memory.size() > kShmControlBytes && ShmRingSizeIsGood(memory.size() - kShmControlBytes));
  return *reinterpret_cast<const ShmControl*>(memory.data());
}

/// Goes through a list of pieces of memory from `skip` bytes on, in parts that are whole in a ring of
/// `ring_size` from `position` on as well; at most `limit` bytes. Gives how many there were.
template <typename Copy>
size_t ForEachPart(std::span<const iovec> pieces, size_t skip, size_t limit, uint64_t position,
                   size_t ring_size, Copy copy) {
  size_t done = 0;
  for (const iovec& piece : pieces) {
    if (skip >= piece.iov_len) {
      skip -= piece.iov_len;
      continue;
    }
    for (size_t at = skip; at < piece.iov_len && done < limit;) {
      const size_t in_ring = (position + done) & (ring_size - 1);
      const size_t part = std::min({piece.iov_len - at, limit - done, ring_size - in_ring});
      copy(static_cast<std::byte*>(piece.iov_base) + at, in_ring, part);
      at += part;
      done += part;
    }
    skip = 0;
    if (done == limit) break;
  }
  return done;
}

/// Both sides store what they did and then look at what the other did: one of the two sees the other.
void StoreThenLook() { std::atomic_thread_fence(std::memory_order_seq_cst); }

/// True once for each odd value.
bool IsNewSleep(uint64_t wait, uint64_t& rung) {
  if ((wait & 1) == 0 || wait == rung) return false;
  rung = wait;
  return true;
}

}  // namespace

// ---- writing ----

ShmRingWriter::ShmRingWriter(MutableByteView own, ByteView peer)
    : own_(ControlOf(own)), peer_(ControlOf(peer)), ring_(own.subspan(kShmControlBytes)) {}

Result<size_t> ShmRingWriter::Room() {
  const uint64_t taken = peer_.taken.load(std::memory_order_acquire);
  if (taken < peer_taken_ || taken > written_) {
    return Status::InvalidArgument("the peer broke the protocol: it took {} bytes, after {}, of {}", taken,
                                   peer_taken_, written_);
  }
  peer_taken_ = taken;
  return ring_.size() - (written_ - taken);
}

size_t ShmRingWriter::Put(std::span<const iovec> pieces, size_t skip, size_t room) {
  const size_t done = ForEachPart(
      pieces, skip, std::min(room, kShmStepBytes), written_, ring_.size(),
      [this](const std::byte* from, size_t at, size_t size) { std::memcpy(ring_.data() + at, from, size); });
  written_ += done;
  own_.written.store(written_, std::memory_order_release);
  return done;
}

bool ShmRingWriter::PeerAwaitsData() {
  StoreThenLook();
  return IsNewSleep(peer_.data_wait.load(std::memory_order_relaxed), rung_);
}

void ShmRingWriter::StartWait() {
  own_.room_wait.store(++wait_, std::memory_order_relaxed);
  StoreThenLook();
}

void ShmRingWriter::EndWait() { own_.room_wait.store(++wait_, std::memory_order_relaxed); }

// ---- reading ----

ShmRingReader::ShmRingReader(MutableByteView own, ByteView peer)
    : own_(ControlOf(own)), peer_(ControlOf(peer)), ring_(peer.subspan(kShmControlBytes)) {}

uint64_t ShmRingReader::Written() const {
  return frozen_ ? last_ : peer_.written.load(std::memory_order_acquire);
}

Result<size_t> ShmRingReader::Available() {
  const uint64_t written = Written();
  if (written < peer_written_ || written - taken_ > ring_.size()) {
    return Status::InvalidArgument(
        "the peer broke the protocol: it wrote {} bytes, after {}, of which {} were taken, to a ring "
        "of {}",
        written, peer_written_, taken_, ring_.size());
  }
  peer_written_ = written;
  return written - taken_;
}

size_t ShmRingReader::Take(std::span<const iovec> places, size_t skip, size_t available) {
  const size_t done = ForEachPart(
      places, skip, std::min(available, kShmStepBytes), taken_, ring_.size(),
      [this](std::byte* to, size_t at, size_t size) { std::memcpy(to, ring_.data() + at, size); });
  taken_ += done;
  own_.taken.store(taken_, std::memory_order_release);
  return done;
}

bool ShmRingReader::PeerAwaitsRoom() {
  StoreThenLook();
  const uint64_t wait = peer_.room_wait.load(std::memory_order_relaxed);
  if ((wait & 1) == 0 || Written() - taken_ > ring_.size() / 2) return false;
  return IsNewSleep(wait, rung_);
}

void ShmRingReader::StartWait() {
  own_.data_wait.store(++wait_, std::memory_order_relaxed);
  StoreThenLook();
}

void ShmRingReader::EndWait() { own_.data_wait.store(++wait_, std::memory_order_relaxed); }

void ShmRingReader::Freeze() {
  last_ = Written();
  frozen_ = true;
}

}  // namespace forebay::fabric
