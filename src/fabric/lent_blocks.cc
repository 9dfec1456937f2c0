// SPDX-License-Identifier: Apache-2.0
#include "fabric/lent_blocks.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fabric/byte_stream.h"
#include "fabric/limits.h"
#include "fabric/shm_memory.h"

namespace forebay::fabric {

namespace {

constexpr size_t kTurnBytes = ByteStream::kTurnBytes;
/// Transfers that are remembered after they were sent for the first time: at least so many, at most twice.
constexpr size_t kRememberedTransfers = 4096;

/// Of all descriptors that this process may have, an eighth: the rest is for connections.
size_t DescriptorsToSpend() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<size_t>(limit.rlim_cur) / 8;
}

Status Write(const Socket& memory, ByteView bytes, uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t wrote = pwrite(memory.fd(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return Status::FromErrno(wrote == 0 ? ENOSPC : errno, "fill lent memory");
    at += static_cast<size_t>(wrote);
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return Status();
}

}  // namespace

// Shortening is what the seals leave to us.
LentBlock::~LentBlock() { (void)!ftruncate(memory_.fd(), 0); }

size_t LentBlocks::KeyHash::operator()(const Key& key) const {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (const Piece& piece : key) {
    hash ^= piece.content_id ^ (reinterpret_cast<uintptr_t>(piece.data) << 20) ^ piece.size;
    hash = (hash ^ (hash >> 29)) * 0xff51afd7ed558ccd;
  }
  return static_cast<size_t>(hash ^ (hash >> 32));
}

LentBlocks::LentBlocks(LentBlocksOptions options)
    : options_(options), max_blocks_(std::min(kMaxBlocks, DescriptorsToSpend() / 2)) {}

rt::Task<LentBlocks::Loan> LentBlocks::Lend(rt::Reactor& reactor, std::span<const base::Buffer> data) {
  const std::optional<Key> key = KeyOf(data);
  if (!key.has_value()) co_return Loan();
  bool claimed = false;
  Loan loan = Look(*key, MemoryFor(TotalSize(data)), reactor.Now(), &claimed);
  if (!claimed) co_return loan;
  auto filled = co_await Fill(reactor, data);
  loan.block = filled.ok() ? *std::move(filled) : nullptr;
  loan.copied = loan.block != nullptr;
  Settle(*key, loan.block, reactor.Now());
  co_return loan;
}

rt::Task<LentBlocks::Filled> LentBlocks::Fill(rt::Reactor& reactor, std::span<const base::Buffer> data) {
  FB_CO_ASSIGN(Socket memory, CreateLentMemory());
  co_await PutLargePages(reactor, memory, TotalSize(data));
  uint64_t at = 0;
  size_t in_turn = 0;
  for (const base::Buffer& buffer : data) {
    for (ByteView rest = buffer.view(); !rest.empty();) {
      const ByteView step = rest.first(std::min(rest.size(), kTurnBytes - in_turn));
      FB_CO_TRY(Write(memory, step, at));
      at += step.size();
      in_turn += step.size();
      rest = rest.subspan(step.size());
      if (in_turn < kTurnBytes) continue;
      co_await reactor.Yield();
      in_turn = 0;
    }
  }
  FB_CO_ASSIGN(Socket reading, SealLentMemory(memory));
  co_return std::make_shared<const LentBlock>(++last_number_, std::move(memory), std::move(reading));
}

/// One takes 0.2 ms; some 10 ms when a virtual machine never touched that memory before, as small ones would together.
rt::Task<void> LentBlocks::PutLargePages(rt::Reactor& reactor, const Socket& memory, uint64_t bytes) {
  for (uint64_t at = 0; at + kLargePageBytes <= MemoryFor(bytes); at += kLargePageBytes) {
    if (reactor.Now() < small_pages_until_.load(std::memory_order_relaxed)) co_return;
    if (!PutLargePage(memory, at))
      small_pages_until_.store(base::DeadlineAfter(reactor.Now(), kRest), std::memory_order_relaxed);
    co_await reactor.Yield();
  }
}

uint64_t LentBlocks::MemoryFor(uint64_t bytes) {
  const uint64_t rest = bytes % kLargePageBytes;
  return rest < kLargePageBytes / 2 ? bytes : bytes - rest + kLargePageBytes;
}

size_t LentBlocks::bytes() const {
  base::MutexLock lock(mutex_);
  return bytes_;
}

size_t LentBlocks::blocks() const {
  base::MutexLock lock(mutex_);
  return entries_.size();
}

/// Nothing when the bytes are few, or not sure to stay as they are.
std::optional<LentBlocks::Key> LentBlocks::KeyOf(std::span<const base::Buffer> data) const {
  const uint64_t bytes = TotalSize(data);
  if (bytes < options_.least_bytes || MemoryFor(bytes) > options_.budget_bytes) return std::nullopt;
  Key key;
  key.reserve(data.size());
  for (const base::Buffer& buffer : data) {
    const uint64_t content_id = buffer.content_id();
    if (content_id == 0) return std::nullopt;
    key.push_back({content_id, buffer.data(), buffer.size()});
  }
  return key;
}

LentBlocks::Loan LentBlocks::Look(const Key& key, size_t bytes, base::TimePoint now, bool* claimed) {
  Blocks evicted;  // freed outside of the lock
  base::MutexLock lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end()) {
    Entry& entry = found->second;
    if (entry.block != nullptr) order_.splice(order_.begin(), order_, entry.place);
    return {.block = entry.block};
  }
  if (now < rests_until_ || !IsKnown(key) || !MakeRoom(bytes, now, &evicted)) return {};
  entries_.emplace(key, Entry{.bytes = bytes});
  bytes_ += bytes;
  *claimed = true;
  return {};
}

/// True when it was sent before, as far as that is remembered. A wrong yes costs one copy.
bool LentBlocks::IsKnown(const Key& key) {
  const size_t hash = KeyHash()(key);
  if (options_.at_first_sight || sent_.contains(hash) || sent_before_.contains(hash)) return true;
  if (sent_.size() == kRememberedTransfers) sent_before_ = std::exchange(sent_, {});
  sent_.insert(hash);
  return false;
}

bool LentBlocks::MakeRoom(size_t bytes, base::TimePoint now, Blocks* evicted) {
  size_t kept_bytes = bytes_;
  size_t kept = entries_.size();
  for (auto victim = order_.rbegin(); kept_bytes + bytes > options_.budget_bytes || kept >= max_blocks_; ++victim) {
    if (victim == order_.rend()) return false;
    const Entry& entry = entries_.find(**victim)->second;
    if (now - entry.filled < options_.least_stay) return false;  // and nothing is evicted for nothing
    kept_bytes -= entry.bytes;
    --kept;
  }
  while (entries_.size() > kept) {
    const auto victim = entries_.find(*order_.back());
    bytes_ -= victim->second.bytes;
    evicted->push_back(std::move(victim->second.block));
    order_.pop_back();
    entries_.erase(victim);
  }
  return true;
}

/// What was claimed is filled; null: it cannot be.
void LentBlocks::Settle(const Key& key, std::shared_ptr<const LentBlock> block, base::TimePoint now) {
  base::MutexLock lock(mutex_);
  const auto entry = entries_.find(key);
  if (block == nullptr) {
    bytes_ -= entry->second.bytes;
    entries_.erase(entry);
    rests_until_ = base::DeadlineAfter(now, kRest);
    return;
  }
  entry->second.block = std::move(block);
  entry->second.filled = now;
  entry->second.place = order_.insert(order_.begin(), &entry->first);
}

}  // namespace forebay::fabric
