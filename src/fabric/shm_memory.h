// SPDX-License-Identifier: Apache-2.0
// Memory that two processes share by descriptor: made by one, which alone may write to it, and mapped
// read-only by the other, or read from where it is lent. Neither can make the other fault: its maker seals the size and every new way of
// writing before the descriptor leaves, and whoever receives one believes nothing else than those seals.
// Reactor-local; may be handed over.
#pragma once

#include <cstddef>
#include <utility>

#include "base/bytes.h"
#include "base/status.h"
#include "fabric/socket.h"

namespace forebay::fabric {

/// Owns a mapping, or nothing. A child made by fork does not get it.
class ShmMapping {
 public:
  ShmMapping() = default;
  ShmMapping(ShmMapping&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  ShmMapping& operator=(ShmMapping&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~ShmMapping() { Unmap(); }

  ByteView bytes() const { return memory_; }
  /// Only of memory that CreateShm made.
  MutableByteView writable() const { return memory_; }
  void Unmap();

 private:
  friend Result<ShmMapping> MapShm(int fd, size_t size, bool writable);  // shm_memory.cc
  explicit ShmMapping(MutableByteView memory) : memory_(memory) {}

  MutableByteView memory_;
};

struct ShmMemory {
  ShmMapping mapping;
  Socket descriptor;  // for the peer; the mapping does not need it
};

/// `size` bytes of zeros, a multiple of the page, writable by the caller alone. ResourceExhausted, or what
/// the kernel says.
Result<ShmMemory> CreateShm(size_t size);
/// Maps what a peer sent, read-only. InvalidArgument unless it is memory of exactly `size` bytes that nobody
/// can shrink, punch holes into, or newly write to.
Result<ShmMapping> MapPeerShm(int fd, size_t size);

// ---- lent memory: its maker fills it once and gives it away to be read, not mapped ----

/// Of large pages: reading through them costs less than half of what it costs through small ones.
constexpr size_t kLargePageBytes = 2 * base::kMiB;

/// Empty; the descriptor can write. Whoever else can open it is its maker's user.
Result<Socket> CreateLentMemory();
/// Puts one large page of zeros under the bytes from `at` on, which is a multiple of its size, before they are written;
/// whatever the system's settings for large pages say. False where there is none to be had: then it has small ones.
bool PutLargePage(const Socket& memory, uint64_t at);
/// Once it is filled: from now on nobody can write to it, its maker included, nor make it longer, nor keep its maker from
/// making it shorter. Gives a descriptor for others, which can only read.
Result<Socket> SealLentMemory(const Socket& memory);
/// What a peer lent. InvalidArgument unless it is sealed memory that can only be read: reading it neither waits for
/// anybody nor sees two contents.
Status CheckLentMemory(int fd);

}  // namespace forebay::fabric
