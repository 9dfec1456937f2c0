// SPDX-License-Identifier: Apache-2.0
// Arena: one run of page-aligned memory that payload lives in while it is on its way or in the memory tier, and
// Buffer: a reference-counted piece of it. Because payload never leaves an arena, whoever moves bytes (io_uring,
// libfabric, verbs) registers each arena once, through ArenaRegistrar, and no layer above knows of any NIC.
// The one invariant: memory of a Buffer is not reused while any reference to it lives.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/status.h"

namespace forebay::base {

class Arena;

/// Told about every arena it is added to. Implemented by those who move bytes.
class ArenaRegistrar {
 public:
  virtual ~ArenaRegistrar() = default;
  /// `memory` stays mapped until Unregister. A failure (memlock too small) leaves the arena usable, unregistered.
  virtual Status Register(MutableByteView memory) = 0;
  virtual void Unregister(MutableByteView memory) = 0;
};

/// A pinned piece of an arena. Copies share the memory; it is freed with the last of them, on whatever thread.
/// An empty Buffer refers to nothing. The arena must outlive all its buffers.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer& other);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(const Buffer& other);
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  const std::byte* data() const { return data_; }
  ByteView view() const { return {data_, size_}; }
  /// For whoever allocated it and fills it before sharing; never of what is frozen.
  MutableByteView writable();
  /// Promises that the bytes of the whole allocation, slices included, stay as they are while any reference to it lives.
  /// Not of an empty buffer.
  void Freeze() const;
  /// Names the bytes of a frozen allocation: no other content, of this or another arena, ever has the same number. 0 while it
  /// is not frozen. So whoever sees number, place and size again may take it that the bytes are the same.
  uint64_t content_id() const;
  /// Shares [offset, offset + length) of this buffer; the caller keeps the range inside.
  Buffer Slice(size_t offset, size_t length) const;

 private:
  friend class Arena;
  Buffer(Arena* arena, uint32_t first_page, std::byte* data, size_t size)
      : arena_(arena), first_page_(first_page), data_(data), size_(size) {}
  void Release();

  Arena* arena_ = nullptr;  // borrowed; outlives every buffer
  uint32_t first_page_ = 0;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Someone who waits for memory of a full arena; embedded in whatever waits.
class ArenaWaiter {
 public:
  virtual ~ArenaWaiter() = default;
  /// The awaited memory: once, on whatever thread freed it, with no lock held. Must not block. The waiter may be gone when
  /// this returns.
  virtual void Granted(Buffer buffer) = 0;
};

class Arena {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kMaxAllocation = size_t{1} << 20;

  /// Maps `size_bytes` (rounded up to kMaxAllocation). ResourceExhausted when the memory is not to be had.
  static Result<std::unique_ptr<Arena>> Create(size_t size_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `size` bytes, 1 to kMaxAllocation, page-aligned, of undefined content; takes the next power-of-two pages.
  /// ResourceExhausted when nothing is free: the caller evicts or waits.
  Result<Buffer> Allocate(size_t size);

  /// The same, but when nothing is free (or others wait already) `waiter` is queued and nothing is returned. Waiters are
  /// served in the order in which they came as memory is freed; a large request is not overtaken by small ones that wait,
  /// though Allocate does not stand in line. A waiter that was queued stays alive until Granted or a Withdraw.
  std::optional<Buffer> AllocateOrWait(size_t size, ArenaWaiter* waiter);
  /// True when `waiter` was still queued: Granted will not be called. False: it has been called, or is about to be.
  bool Withdraw(ArenaWaiter* waiter);

  /// Offers this arena to `registrar`, which must stay until the arena is destroyed or RemoveRegistrar.
  Status AddRegistrar(ArenaRegistrar* registrar);
  void RemoveRegistrar(ArenaRegistrar* registrar);

  MutableByteView memory() const { return memory_; }
  size_t size_bytes() const { return memory_.size(); }
  size_t free_bytes() const { return free_bytes_.load(std::memory_order_relaxed); }

 private:
  friend class Buffer;
  static constexpr unsigned kOrders = 9;  // 4 KiB to 1 MiB

  explicit Arena(MutableByteView memory);
  struct Waiting {
    ArenaWaiter* waiter;  // borrowed until granted or withdrawn
    size_t size;
  };
  using Grants = std::vector<std::pair<ArenaWaiter*, Buffer>>;

  void Free(uint32_t first_page);
  /// Empty when nothing fits.
  Buffer Take(size_t size) FB_REQUIRES(mutex_);
  /// Memory for those in front of the queue, as far as there is any.
  Grants GrantWaiting() FB_REQUIRES(mutex_);
  void PushFree(unsigned order, uint32_t page) FB_REQUIRES(mutex_);
  bool RemoveFree(unsigned order, uint32_t page) FB_REQUIRES(mutex_);

  /// One per page. For the first page of an allocation: its references and order. For the first page of a free
  /// run: its place in the free list of its order.
  struct PageState {
    std::atomic<uint32_t> references{0};
    uint8_t order = 0;
    bool free_head = false;
    uint32_t list_index = 0;
    std::atomic<uint64_t> content_id{0};  // once frozen
  };

  const MutableByteView memory_;
  std::atomic<size_t> free_bytes_{0};
  std::atomic<uint64_t> next_content_id_;  // from a random start, so that those of two arenas do not meet
  Mutex mutex_;
  std::vector<PageState> pages_;
  std::vector<uint32_t> free_lists_[kOrders] FB_GUARDED_BY(mutex_);
  std::deque<Waiting> waiting_ FB_GUARDED_BY(mutex_);
  std::vector<ArenaRegistrar*> registrars_ FB_GUARDED_BY(mutex_);  // borrowed
};

}  // namespace forebay::base
