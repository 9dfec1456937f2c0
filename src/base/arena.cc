// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace forebay::base {
namespace {

unsigned OrderOf(size_t size) {
  const size_t pages = std::bit_ceil(DivideUp(size, Arena::kPage));
  return static_cast<unsigned>(std::countr_zero(pages));
}

}  // namespace

Buffer::Buffer(const Buffer& other)
    : arena_(other.arena_), first_page_(other.first_page_), data_(other.data_), size_(other.size_) {
  if (arena_ != nullptr) arena_->pages_[first_page_].references.fetch_add(1, std::memory_order_relaxed);
}

Buffer::Buffer(Buffer&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)),
      first_page_(other.first_page_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(const Buffer& other) {
  if (this != &other) *this = Buffer(other);
  return *this;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  Release();
  arena_ = std::exchange(other.arena_, nullptr);
  first_page_ = other.first_page_;
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Buffer::~Buffer() { Release(); }

void Buffer::Release() {
  if (arena_ == nullptr) return;
  if (arena_->pages_[first_page_].references.fetch_sub(1, std::memory_order_acq_rel) == 1) arena_->Free(first_page_);
  arena_ = nullptr;
}

Buffer Buffer::Slice(size_t offset, size_t length) const {
  FB_CHECK(RangeFits(offset, length, size_));
  Buffer slice(*this);
  slice.data_ += offset;
  slice.size_ = length;
  return slice;
}

MutableByteView Buffer::writable() {
  FB_CHECK(content_id() == 0);
  return {data_, size_};
}

void Buffer::Freeze() const {
  FB_CHECK(arena_ != nullptr);
  std::atomic<uint64_t>& id = arena_->pages_[first_page_].content_id;
  if (id.load(std::memory_order_acquire) != 0) return;
  uint64_t made = 0;
  while (made == 0) made = arena_->next_content_id_.fetch_add(1, std::memory_order_relaxed);
  uint64_t none = 0;
  id.compare_exchange_strong(none, made, std::memory_order_acq_rel);
}

uint64_t Buffer::content_id() const {
  return arena_ == nullptr ? 0 : arena_->pages_[first_page_].content_id.load(std::memory_order_acquire);
}

Result<std::unique_ptr<Arena>> Arena::Create(size_t size_bytes) {
  constexpr size_t kLimit = (size_t{UINT32_MAX} - 255) * kPage;
  if (size_bytes == 0 || size_bytes > kLimit)
    return Status::InvalidArgument("an arena of {} bytes: ask for 1 to {}", size_bytes, kLimit);
  const size_t size = RoundUp(size_bytes, kMaxAllocation);
  // Aligned to the largest allocation, so that buddies are found by arithmetic and huge pages fit.
  void* raw = mmap(nullptr, size + kMaxAllocation, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED)
    return Status::ResourceExhausted("no memory for an arena of {}; lower the memory settings", FormatSize(size));
  const auto start = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = RoundUp(start, kMaxAllocation);
  if (aligned != start) munmap(raw, aligned - start);
  const uintptr_t tail = start + size + kMaxAllocation - (aligned + size);
  if (tail != 0) munmap(reinterpret_cast<void*>(aligned + size), tail);
  auto* memory = reinterpret_cast<std::byte*>(aligned);
  madvise(memory, size, MADV_HUGEPAGE);  // only a hint: small pages work too
  return std::unique_ptr<Arena>(new Arena(MutableByteView(memory, size)));
}

Arena::Arena(MutableByteView memory)
    : memory_(memory),
      free_bytes_(memory.size()),
      next_content_id_(SecureRandom().Next64()),
      pages_(memory.size() / kPage) {
  MutexLock lock(mutex_);
  const size_t step = kMaxAllocation / kPage;
  for (size_t page = pages_.size(); page >= step; page -= step)
    PushFree(kOrders - 1, static_cast<uint32_t>(page - step));
}

Arena::~Arena() {
  FB_CHECK(free_bytes_.load() == memory_.size());  // a buffer outlived its arena
  MutexLock lock(mutex_);
  FB_CHECK(waiting_.empty());
  for (ArenaRegistrar* registrar : registrars_) registrar->Unregister(memory_);
  munmap(memory_.data(), memory_.size());
}

void Arena::PushFree(unsigned order, uint32_t page) {
  PageState& state = pages_[page];
  state.order = static_cast<uint8_t>(order);
  state.free_head = true;
  state.list_index = static_cast<uint32_t>(free_lists_[order].size());
  free_lists_[order].push_back(page);
}

bool Arena::RemoveFree(unsigned order, uint32_t page) {
  PageState& state = pages_[page];
  if (!state.free_head || state.order != order) return false;
  std::vector<uint32_t>& list = free_lists_[order];
  const uint32_t moved = list.back();
  list[state.list_index] = moved;
  pages_[moved].list_index = state.list_index;
  list.pop_back();
  state.free_head = false;
  return true;
}

Buffer Arena::Take(size_t size) {
  FB_CHECK(size > 0 && size <= kMaxAllocation);
  const unsigned order = OrderOf(size);
  unsigned from = order;
  while (from < kOrders && free_lists_[from].empty()) ++from;
  if (from == kOrders) return {};
  const uint32_t page = free_lists_[from].back();
  RemoveFree(from, page);
  while (from > order) {  // split: keep the lower half, free the upper
    --from;
    PushFree(from, page + (1U << from));
  }
  pages_[page].order = static_cast<uint8_t>(order);
  pages_[page].references.store(1, std::memory_order_relaxed);
  pages_[page].content_id.store(0, std::memory_order_relaxed);
  free_bytes_.fetch_sub(kPage << order, std::memory_order_relaxed);
  return Buffer(this, page, memory_.data() + size_t{page} * kPage, size);
}

Result<Buffer> Arena::Allocate(size_t size) {
  MutexLock lock(mutex_);
  Buffer buffer = Take(size);
  if (buffer.empty()) return Status::ResourceExhausted("the memory arena of {} is full", FormatSize(memory_.size()));
  return buffer;
}

std::optional<Buffer> Arena::AllocateOrWait(size_t size, ArenaWaiter* waiter) {
  MutexLock lock(mutex_);
  Buffer buffer = waiting_.empty() ? Take(size) : Buffer();
  if (!buffer.empty()) return buffer;
  waiting_.push_back({waiter, size});
  return std::nullopt;
}

bool Arena::Withdraw(ArenaWaiter* waiter) {
  Grants granted;
  bool was_queued = false;
  {
    MutexLock lock(mutex_);
    was_queued = std::erase_if(waiting_, [&](const Waiting& entry) { return entry.waiter == waiter; }) != 0;
    granted = GrantWaiting();  // those behind it may want less
  }
  for (auto& [next, buffer] : granted) next->Granted(std::move(buffer));
  return was_queued;
}

Arena::Grants Arena::GrantWaiting() {
  Grants granted;
  while (!waiting_.empty()) {
    Buffer buffer = Take(waiting_.front().size);
    if (buffer.empty()) break;
    granted.emplace_back(waiting_.front().waiter, std::move(buffer));
    waiting_.pop_front();
  }
  return granted;
}

void Arena::Free(uint32_t first_page) {
  Grants granted;
  {
    MutexLock lock(mutex_);
    unsigned order = pages_[first_page].order;
    free_bytes_.fetch_add(kPage << order, std::memory_order_relaxed);
    uint32_t page = first_page;
    while (order + 1 < kOrders) {  // merge with the buddy while it is free too
      const uint32_t buddy = page ^ (1U << order);
      if (!RemoveFree(order, buddy)) break;
      page = std::min(page, buddy);
      ++order;
    }
    PushFree(order, page);
    granted = GrantWaiting();
  }
  for (auto& [waiter, buffer] : granted) waiter->Granted(std::move(buffer));
}

Status Arena::AddRegistrar(ArenaRegistrar* registrar) {
  FB_TRY(registrar->Register(memory_));
  MutexLock lock(mutex_);
  registrars_.push_back(registrar);
  return {};
}

void Arena::RemoveRegistrar(ArenaRegistrar* registrar) {
  MutexLock lock(mutex_);
  if (std::erase(registrars_, registrar) != 0) registrar->Unregister(memory_);
}

}  // namespace forebay::base
