// SPDX-License-Identifier: Apache-2.0
#include "engine/memory.h"

#include <algorithm>
#include <utility>

#include "rt/timer.h"

namespace forebay::engine {
namespace {

/// Writers get pieces of this size without evicting half of the tier to find neighbouring blocks.
constexpr size_t kEasySize = 64 * base::kKiB;

class ArenaGrant final : public base::ArenaWaiter {
 public:
  explicit ArenaGrant(rt::Reactor& home) : done(home) {}
  void Granted(base::Buffer buffer) override { done.Fulfil(std::move(buffer)); }
  rt::Completion<base::Buffer> done;
};

}  // namespace

std::optional<base::Buffer> Memory::TryOne(size_t size) {
  while (true) {
    Result<base::Buffer> buffer = arena_.Allocate(size);
    if (buffer.ok()) return *std::move(buffer);
    if (!tier_.EvictOne()) return std::nullopt;
  }
}

std::optional<std::vector<base::Buffer>> Memory::TryAllocate(const std::vector<size_t>& sizes) {
  if (waiting_.load() != 0) return std::nullopt;  // do not overtake
  std::vector<base::Buffer> buffers;
  buffers.reserve(sizes.size());
  for (const size_t size : sizes) {
    std::optional<base::Buffer> buffer = TryOne(size);
    if (!buffer) return std::nullopt;
    buffers.push_back(*std::move(buffer));
  }
  return buffers;
}

rt::Task<Result<std::vector<base::Buffer>>> Memory::Allocate(rt::Reactor& reactor, base::TimePoint deadline,
                                                             std::vector<size_t> sizes) {
  if (std::optional<std::vector<base::Buffer>> buffers = TryAllocate(sizes)) co_return *std::move(buffers);
  size_t total = 0;
  for (const size_t size : sizes) total += size;
  if (total > arena_.size_bytes() / 2)
    co_return Status::ResourceExhausted(
        "one operation needs {} of memory and there are {} in all: give the server more memory",
        base::FormatSize(total), base::FormatSize(arena_.size_bytes()));
  if (!co_await BeginTurn(reactor, deadline)) co_return TooLate();
  const Turn turn(*this);
  std::vector<base::Buffer> buffers;
  buffers.reserve(sizes.size());
  for (const size_t size : sizes) {
    FB_CO_ASSIGN(base::Buffer buffer, co_await WaitForOne(reactor, deadline, size));
    buffers.push_back(std::move(buffer));
  }
  co_return buffers;
}

std::optional<base::Buffer> Memory::TryAllocateUpTo(size_t size) {
  if (waiting_.load() != 0) return std::nullopt;  // do not overtake
  for (size_t want = size; want > kEasySize; want /= 2) {
    Result<base::Buffer> buffer = arena_.Allocate(std::min(size, base::RoundUp(want, base::Arena::kPage)));
    if (buffer.ok()) return *std::move(buffer);
  }
  // Down to one page: a scattered arena has small pieces when it has nothing else.
  for (size_t want = std::min(size, kEasySize);;) {
    if (std::optional<base::Buffer> buffer = TryOne(want)) return buffer;
    if (want <= base::Arena::kPage) return std::nullopt;
    want = base::RoundUp(want / 2, base::Arena::kPage);
  }
}

rt::Task<Result<base::Buffer>> Memory::AllocateUpTo(rt::Reactor& reactor, base::TimePoint deadline,
                                                    size_t size) {
  size = std::min(size, base::Arena::kMaxAllocation);
  if (std::optional<base::Buffer> buffer = TryAllocateUpTo(size)) co_return *std::move(buffer);
  if (!co_await BeginTurn(reactor, deadline)) co_return TooLate();
  const Turn turn(*this);
  co_return co_await WaitForOne(reactor, deadline, std::min(size, kEasySize));
}

rt::Task<Result<base::Buffer>> Memory::WaitForOne(rt::Reactor& reactor, base::TimePoint deadline,
                                                  size_t size) {
  if (std::optional<base::Buffer> buffer = TryOne(size)) co_return *std::move(buffer);
  ArenaGrant grant(reactor);
  if (std::optional<base::Buffer> buffer = arena_.AllocateOrWait(size, &grant)) co_return *std::move(buffer);
  // Inserts are held now, so what this finds in the tier is all there will be.
  while (tier_.EvictOne()) {
  }
  rt::Timer timer(reactor);
  if (deadline != base::kNever) {
    timer.Arm(deadline, [this, &grant] {
      if (arena_.Withdraw(&grant)) grant.done.Fulfil(base::Buffer());
    });
  }
  base::Buffer buffer = co_await grant.done.Wait();
  timer.Cancel();
  if (buffer.empty()) co_return TooLate();
  co_return buffer;
}

rt::Task<bool> Memory::BeginTurn(rt::Reactor& reactor, base::TimePoint deadline) {
  waiting_.fetch_add(1);
  tier_.HoldInserts();
  rt::Completion<bool> mine(reactor);
  {
    base::MutexLock lock(mutex_);
    if (!std::exchange(taken_, true)) co_return true;
    queue_.push_back(&mine);
  }
  rt::Timer timer(reactor);
  if (deadline != base::kNever) {
    timer.Arm(deadline, [this, &mine] {
      {
        base::MutexLock lock(mutex_);
        if (std::erase(queue_, &mine) == 0) return;
      }
      mine.Fulfil(false);
    });
  }
  const bool granted = co_await mine.Wait();
  timer.Cancel();
  if (!granted) Leave();
  co_return granted;
}

void Memory::EndTurn() {
  rt::Completion<bool>* next = nullptr;
  {
    base::MutexLock lock(mutex_);
    if (queue_.empty()) {
      taken_ = false;
    } else {
      next = queue_.front();
      queue_.pop_front();
    }
  }
  Leave();
  if (next != nullptr) next->Fulfil(true);
}

void Memory::Leave() {
  tier_.ReleaseInserts();
  waiting_.fetch_sub(1);
}

Status Memory::TooLate() const {
  return Status::ResourceExhausted(
      "no memory came free in the arena of {} before the deadline: lower the load or give the server more "
      "memory",
      base::FormatSize(arena_.size_bytes()));
}

}  // namespace forebay::engine
