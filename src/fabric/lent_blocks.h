// SPDX-License-Identifier: Apache-2.0
// LentBlocks: payload that was sent more than once, each piece of it copied into memory of its own that peers
// of this host read by a descriptor; so whoever sends it again copies nothing. A block holds the bytes of one
// transfer and nothing else, and is lent only for a transfer of the very same frozen buffers: to a peer that
// is to get each of its bytes. Nobody can write to a block, and its memory is the owner's to take back at any
// time: it is gone when the block is, whoever holds descriptors. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "fabric/socket.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

struct LentBlocksOptions {
  size_t budget_bytes = 64 * base::kMiB;
  /// Less is copied into a ring sooner than a descriptor is passed.
  size_t least_bytes = 256 * base::kKiB;
  /// Not until it is sent for the second time: most payload is sent once.
  bool at_first_sight = false;
  /// A block stays for so long: so at most one budget is copied in this time, however badly the load fits.
  base::Duration least_stay = std::chrono::seconds(1);
};

/// Filled memory. Taken back from whoever reads it when this is destroyed.
class LentBlock {
 public:
  LentBlock(uint64_t number, Socket memory, Socket reading)
      : number_(number), memory_(std::move(memory)), reading_(std::move(reading)) {}
  ~LentBlock();
  LentBlock(const LentBlock&) = delete;
  LentBlock& operator=(const LentBlock&) = delete;

  /// For peers.
  int descriptor() const { return reading_.fd(); }
  /// Of no other block of the same LentBlocks, ever; not 0.
  uint64_t number() const { return number_; }

 private:
  const uint64_t number_;
  const Socket memory_;
  const Socket reading_;
};

class LentBlocks {
 public:
  /// Each has two descriptors. Fewer where the process may have few.
  static constexpr size_t kMaxBlocks = 4096;
  /// After a block could not be made, or a large page was not to be had, none is tried for so long.
  static constexpr base::Duration kRest = std::chrono::seconds(10);
  /// Of the memory of a block of `bytes`: large pages, where at least half of each is used.
  static uint64_t MemoryFor(uint64_t bytes);

  explicit LentBlocks(LentBlocksOptions options);

  struct Loan {
    /// Shared: another reactor may evict it while its descriptor is sent.
    std::shared_ptr<const LentBlock> block;
    bool copied = false;  // for this transfer: the block is new
  };
  /// The block for exactly these bytes; none when they are to be sent in another way. `data` stays put
  /// meanwhile.
  rt::Task<Loan> Lend(rt::Reactor& reactor, std::span<const base::Buffer> data);

  size_t bytes() const;
  size_t blocks() const;

 private:
  struct Piece {
    uint64_t content_id;
    const std::byte* data;
    size_t size;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  using Key = std::vector<Piece>;
  using Filled = Result<std::shared_ptr<const LentBlock>>;
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Entry {
    std::shared_ptr<const LentBlock> block;  // null while it is being filled
    size_t bytes = 0;
    base::TimePoint filled{};
    std::list<const Key*>::iterator place{};  // in order_, once filled
  };
  using Blocks = std::vector<std::shared_ptr<const LentBlock>>;

  rt::Task<Filled> Fill(rt::Reactor& reactor, std::span<const base::Buffer> data);
  rt::Task<void> PutLargePages(rt::Reactor& reactor, const Socket& memory, uint64_t bytes);

  std::optional<Key> KeyOf(std::span<const base::Buffer> data) const;
  /// The block, if there is one. Else, when it is worth one and there is room, `claimed`: the caller fills
  /// it.
  Loan Look(const Key& key, size_t bytes, base::TimePoint now, bool* claimed);
  bool IsKnown(const Key& key) FB_REQUIRES(mutex_);
  bool MakeRoom(size_t bytes, base::TimePoint now, Blocks* evicted) FB_REQUIRES(mutex_);
  void Settle(const Key& key, std::shared_ptr<const LentBlock> block, base::TimePoint now);

  const LentBlocksOptions options_;
  const size_t max_blocks_;
  mutable base::Mutex mutex_;
  std::unordered_map<Key, Entry, KeyHash> entries_ FB_GUARDED_BY(mutex_);
  std::list<const Key*> order_ FB_GUARDED_BY(mutex_);  // of filled ones, most recently used first
  size_t bytes_ FB_GUARDED_BY(mutex_) = 0;
  std::unordered_set<size_t> sent_ FB_GUARDED_BY(mutex_);  // hashes of what was sent of late
  std::unordered_set<size_t> sent_before_ FB_GUARDED_BY(mutex_);
  base::TimePoint rests_until_ FB_GUARDED_BY(mutex_){};
  std::atomic<uint64_t> last_number_{0};
  std::atomic<base::TimePoint> small_pages_until_{base::TimePoint{}};
};

}  // namespace forebay::fabric
