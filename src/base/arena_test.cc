// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <algorithm>
#include <memory>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "base/random.h"

namespace forebay::base {
namespace {

constexpr size_t kOne = Arena::kMaxAllocation;

std::unique_ptr<Arena> MakeArena(size_t size = kOne) { return *Arena::Create(size); }

Buffer Take(Arena& arena, size_t size) {
  Result<Buffer> buffer = arena.Allocate(size);
  EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
  return buffer.ok() ? *std::move(buffer) : Buffer();
}

void Fill(Buffer& buffer, int value) { std::ranges::fill(buffer.writable(), static_cast<std::byte>(value)); }
bool HoldsOnly(const Buffer& buffer, int value) {
  return std::ranges::all_of(buffer.view(), [&](std::byte b) { return b == static_cast<std::byte>(value); });
}

TEST(Arena, RoundsItsSizeUpToTheLargestAllocation) {
  EXPECT_EQ(MakeArena(1)->size_bytes(), kOne);
  EXPECT_EQ(MakeArena(kOne + 1)->size_bytes(), 2 * kOne);
  EXPECT_EQ(MakeArena(kOne)->free_bytes(), kOne);
  EXPECT_EQ(Arena::Create(0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Arena::Create(SIZE_MAX).status().code(), Code::kInvalidArgument);
}

TEST(Arena, GivesPowerOfTwoPagesAlignedToTheirSize) {
  const auto arena = MakeArena(4 * kOne);
  for (const size_t size :
       {size_t{1}, size_t{4096}, size_t{4097}, size_t{10'000}, size_t{65'536}, kOne - 1, kOne}) {
    const size_t before = arena->free_bytes();
    const Buffer buffer = Take(*arena, size);
    const size_t taken = before - arena->free_bytes();
    EXPECT_EQ(buffer.size(), size);
    EXPECT_GE(taken, size);
    EXPECT_LT(taken, 2 * std::max(size, Arena::kPage));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % taken, 0U);
    const MutableByteView memory = arena->memory();
    EXPECT_TRUE(buffer.data() >= memory.data() && buffer.data() + taken <= memory.data() + memory.size());
  }
  EXPECT_EQ(arena->free_bytes(), 4 * kOne);
}

TEST(Arena, IsExhaustedAfterExactlyItsPagesAndMergesBackToAWhole) {
  const auto arena = MakeArena();
  std::vector<Buffer> pages;
  for (size_t i = 0; i < kOne / Arena::kPage; ++i) pages.push_back(Take(*arena, Arena::kPage));
  EXPECT_EQ(arena->free_bytes(), 0U);
  EXPECT_EQ(arena->Allocate(1).status().code(), Code::kResourceExhausted);

  std::vector<const std::byte*> addresses;
  for (const Buffer& page : pages) addresses.push_back(page.data());
  std::ranges::sort(addresses);
  for (size_t i = 1; i < addresses.size(); ++i) EXPECT_EQ(addresses[i] - addresses[i - 1], 4096);

  // Freed in a scrambled order, the buddies still find each other.
  SeededRandom random(5);
  while (!pages.empty()) {
    std::swap(pages[random.Below(pages.size())], pages.back());
    pages.pop_back();
  }
  EXPECT_EQ(Take(*arena, kOne).size(), kOne);
}

TEST(Arena, OnePageInUseKeepsTheWholeFromBeingGivenOut) {
  const auto arena = MakeArena();
  Buffer page = Take(*arena, 1);
  EXPECT_EQ(arena->Allocate(kOne).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(arena->Allocate(kOne / 2).ok());
  page = Buffer();
  EXPECT_TRUE(arena->Allocate(kOne).ok());
}

TEST(Buffer, IsFreedWithTheLastOfItsCopiesAndSlices) {
  const auto arena = MakeArena();
  Buffer buffer = Take(*arena, 8192);
  Fill(buffer, 1);
  Buffer copy = buffer;
  Buffer slice = buffer.Slice(5000, 100);
  Buffer of_slice = slice.Slice(100, 0);  // empty, and still a reference
  buffer = Buffer();
  copy = Buffer();
  EXPECT_EQ(arena->free_bytes(), kOne - 8192);
  EXPECT_TRUE(HoldsOnly(slice, 1));
  EXPECT_EQ(slice.size(), 100U);
  slice = Buffer();
  EXPECT_EQ(arena->free_bytes(), kOne - 8192);
  EXPECT_TRUE(of_slice.empty());
  of_slice = Buffer();
  EXPECT_EQ(arena->free_bytes(), kOne);
}

TEST(Buffer, MovesWithoutCountingAndSurvivesSelfAssignment) {
  const auto arena = MakeArena();
  Buffer buffer = Take(*arena, 100);
  Fill(buffer, 2);
  Buffer moved = std::move(buffer);
  EXPECT_TRUE(buffer.empty());  // NOLINT(bugprone-use-after-move): a moved-from buffer is empty
  EXPECT_EQ(buffer.data(), nullptr);
  Buffer& alias = moved;
  moved = alias;
  moved = std::move(alias);
  EXPECT_TRUE(HoldsOnly(moved, 2));
  EXPECT_EQ(moved.size(), 100U);
  Buffer other = Take(*arena, 100);
  other = moved;  // frees what it held
  EXPECT_EQ(arena->free_bytes(), kOne - Arena::kPage);
}

TEST(Buffer, MemoryIsNotReusedWhileAnySliceLives) {
  const auto arena = MakeArena();
  Buffer first = Take(*arena, kOne / 2);
  Fill(first, 3);
  const Buffer pinned = first.Slice(1000, 10);
  first = Buffer();
  std::vector<Buffer> rest;
  while (true) {
    Result<Buffer> next = arena->Allocate(Arena::kPage);
    if (!next.ok()) break;
    Fill(*next, 4);
    rest.push_back(*std::move(next));
  }
  EXPECT_EQ(rest.size(), kOne / 2 / Arena::kPage);
  EXPECT_TRUE(HoldsOnly(pinned, 3));
}

TEST(Arena, ThreadsNeverShareMemoryTheyDidNotShareThemselves) {
  const auto arena = MakeArena(2 * kOne);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(static_cast<uint64_t>(t));
      std::vector<Buffer> held;
      for (int i = 0; i < 500; ++i) {
        Result<Buffer> buffer = arena->Allocate(1 + random.Below(64 * kKiB));
        if (buffer.ok()) {
          Fill(*buffer, t);
          held.push_back(buffer->Slice(0, buffer->size()));
        }
        if (!held.empty() && (!buffer.ok() || random.Below(3) == 0)) {
          const size_t at = random.Below(held.size());
          if (!HoldsOnly(held[at], t)) ++wrong;
          held[at] = held.back();
          held.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(arena->free_bytes(), 2 * kOne);
}

TEST(Arena, CopiesOfOneBufferMayEndOnAnyThread) {
  const auto arena = MakeArena();
  Buffer buffer = Take(*arena, 100);
  Fill(buffer, 6);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, copy = buffer] {
      for (int i = 0; i < 1000; ++i) {
        const Buffer again = copy;
        if (!HoldsOnly(again.Slice(i % 100, 1), 6)) ++wrong;
      }
    });
  }
  buffer = Buffer();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(arena->free_bytes(), kOne);
}

class RecordingRegistrar final : public ArenaRegistrar {
 public:
  explicit RecordingRegistrar(Status answer = {}) : answer_(std::move(answer)) {}
  Status Register(MutableByteView memory) override {
    ++registered;
    last = memory;
    return answer_;
  }
  void Unregister(MutableByteView memory) override {
    ++unregistered;
    EXPECT_EQ(memory.data(), last.data());
  }
  int registered = 0;
  int unregistered = 0;
  MutableByteView last;

 private:
  Status answer_;
};

TEST(Arena, TellsEachRegistrarOnceWhenItComesAndOnceWhenItGoes) {
  RecordingRegistrar early;
  RecordingRegistrar late;
  auto arena = MakeArena(2 * kOne);
  EXPECT_TRUE(arena->AddRegistrar(&early).ok());
  EXPECT_TRUE(arena->AddRegistrar(&late).ok());
  EXPECT_EQ(early.registered, 1);
  EXPECT_EQ(early.last.data(), arena->memory().data());
  EXPECT_EQ(early.last.size(), 2 * kOne);
  arena->RemoveRegistrar(&early);
  arena->RemoveRegistrar(&early);
  EXPECT_EQ(early.unregistered, 1);
  arena.reset();
  EXPECT_EQ(early.unregistered, 1);
  EXPECT_EQ(late.unregistered, 1);
}

TEST(Arena, StaysUsableWhenARegistrarRefuses) {
  RecordingRegistrar refusing(Status::ResourceExhausted("memlock"));
  auto arena = MakeArena();
  EXPECT_EQ(arena->AddRegistrar(&refusing).code(), Code::kResourceExhausted);
  EXPECT_TRUE(arena->Allocate(1).ok());
  arena.reset();
  EXPECT_EQ(refusing.unregistered, 0);
}

class KeepingWaiter final : public ArenaWaiter {
 public:
  void Granted(Buffer buffer) override { granted = std::move(buffer); }
  Buffer granted;
};

TEST(Arena, ServesWaitersInTheirOrderAsMemoryIsFreed) {
  const auto arena = MakeArena();
  Buffer lower = Take(*arena, kOne / 2);
  Buffer upper = Take(*arena, kOne / 2);
  KeepingWaiter large;
  KeepingWaiter small;
  EXPECT_FALSE(arena->AllocateOrWait(kOne, &large).has_value());
  EXPECT_FALSE(arena->AllocateOrWait(1, &small).has_value());
  lower = Buffer();
  EXPECT_TRUE(large.granted.empty());
  EXPECT_TRUE(small.granted.empty());  // it would fit, but it came later
  upper = Buffer();
  EXPECT_EQ(large.granted.size(), kOne);
  EXPECT_TRUE(small.granted.empty());
  large.granted = Buffer();
  EXPECT_EQ(small.granted.size(), 1U);
}

TEST(Arena, DoesNotQueueWhileThereIsMemory) {
  const auto arena = MakeArena();
  KeepingWaiter waiter;
  const std::optional<Buffer> buffer = arena->AllocateOrWait(100, &waiter);
  ASSERT_TRUE(buffer.has_value());
  EXPECT_EQ(buffer->size(), 100U);
  EXPECT_FALSE(arena->Withdraw(&waiter));
}

TEST(Arena, WithdrawingTheFirstLetsTheNextOneIn) {
  const auto arena = MakeArena();
  const Buffer pin = Take(*arena, 1);
  KeepingWaiter large;
  KeepingWaiter small;
  EXPECT_FALSE(arena->AllocateOrWait(kOne, &large).has_value());
  EXPECT_FALSE(arena->AllocateOrWait(1, &small).has_value());  // behind, though there is room
  EXPECT_TRUE(arena->Withdraw(&large));
  EXPECT_EQ(small.granted.size(), 1U);
  EXPECT_FALSE(arena->Withdraw(&small));
  EXPECT_TRUE(large.granted.empty());
}

TEST(Arena, ContentIsNamedOnceFrozenAndNeverTwice) {
  const auto arena = MakeArena();
  Buffer buffer = Take(*arena, 8192);
  EXPECT_EQ(buffer.content_id(), 0U);
  EXPECT_EQ(Buffer().content_id(), 0U);
  const Buffer slice = buffer.Slice(100, 10);
  slice.Freeze();
  const uint64_t id = buffer.content_id();
  EXPECT_NE(id, 0U);
  EXPECT_EQ(slice.content_id(), id);
  buffer.Freeze();
  EXPECT_EQ(buffer.content_id(), id);
  const Buffer other = Take(*arena, 8192);
  other.Freeze();
  EXPECT_NE(other.content_id(), id);
}

TEST(Arena, MemoryThatIsUsedAgainHasNewContent) {
  const auto arena = MakeArena();
  std::set<uint64_t> seen;
  std::set<const std::byte*> places;
  for (int i = 0; i < 100; ++i) {
    Buffer buffer = Take(*arena, kOne);
    EXPECT_EQ(buffer.content_id(), 0U);
    EXPECT_EQ(buffer.writable().size(), kOne);
    buffer.Freeze();
    seen.insert(buffer.content_id());
    places.insert(buffer.data());
  }
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_LT(places.size(), 100U);
}

TEST(ArenaDeathTest, WhatIsFrozenIsNotWritten) {
  const auto arena = MakeArena();
  Buffer buffer = Take(*arena, 10);
  buffer.Freeze();
  EXPECT_DEATH((void)buffer.writable(), "content_id");
}

}  // namespace
}  // namespace forebay::base
