// SPDX-License-Identifier: Apache-2.0
#include "fabric/lent_blocks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "fabric/fabric_fixture.h"
#include "fabric/shm_memory.h"

namespace forebay::fabric {
namespace {

using Loan = LentBlocks::Loan;
constexpr size_t kBlock = 256 * base::kKiB;

class LentBlocksTest : public testing::Test {
 protected:
  /// Of buffers as the memory tier has them, frozen.
  std::vector<base::Buffer> Data(uint64_t seed, bool frozen = true, size_t size = kBlock) {
    const Bytes content = Pattern(size, seed);
    std::vector<base::Buffer> data;
    for (size_t at = 0; at < size; at += kBlock / 4) {
      base::Buffer buffer = *arena_->Allocate(std::min(kBlock / 4, size - at));
      std::copy_n(content.begin() + static_cast<ptrdiff_t>(at), buffer.size(), buffer.writable().begin());
      if (frozen) buffer.Freeze();
      data.push_back(std::move(buffer));
    }
    return data;
  }
  Loan Lend(LentBlocks& blocks, const std::vector<base::Buffer>& data) {
    return reactor_->BlockOn([&] { return blocks.Lend(*reactor_, data); });
  }
  /// As for the second time.
  Loan LendAtOnce(LentBlocks& blocks, const std::vector<base::Buffer>& data) {
    Lend(blocks, data);
    return Lend(blocks, data);
  }
  static Bytes ContentOf(const Loan& loan) {
    Bytes content(2 * kBlock);
    const ssize_t got = pread(loan.block->descriptor(), content.data(), content.size(), 0);
    content.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return content;
  }

  base::FakeClock clock_;
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(8 * base::kMiB);
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create({.clock = &clock_});
};

TEST_F(LentBlocksTest, WhatIsSentForTheSecondTimeIsCopiedAndThenLent) {
  LentBlocks blocks({});
  const auto data = Data(1);
  EXPECT_EQ(Lend(blocks, data).block, nullptr);
  const Loan second = Lend(blocks, data), third = Lend(blocks, data);
  ASSERT_NE(second.block, nullptr);
  EXPECT_TRUE(second.copied);
  EXPECT_EQ(third.block, second.block);
  EXPECT_FALSE(third.copied);
  EXPECT_EQ(ContentOf(third), Pattern(kBlock, 1));  // and no byte more
  EXPECT_EQ(blocks.blocks(), 1u);
  EXPECT_EQ(blocks.bytes(), kBlock);
}

TEST_F(LentBlocksTest, AnyOtherRangeOfTheSameMemoryIsAnotherTransfer) {
  LentBlocks blocks({.least_bytes = 1});
  const auto data = Data(1);
  ASSERT_NE(LendAtOnce(blocks, data).block, nullptr);
  auto part = data;
  part.back() = part.back().Slice(0, part.back().size() - 1);
  EXPECT_EQ(Lend(blocks, part).block, nullptr);
  const auto swapped = std::vector{data[1], data[0], data[2], data[3]};
  EXPECT_EQ(Lend(blocks, swapped).block, nullptr);
  EXPECT_EQ(ContentOf(Lend(blocks, part)).size(), kBlock - 1);
  EXPECT_EQ(blocks.blocks(), 2u);
}

TEST_F(LentBlocksTest, OfManyEachIsKnownWhenItIsSentAgain) {
  LentBlocks blocks({.budget_bytes = 4096, .least_bytes = 1, .least_stay = base::Duration::zero()});
  std::vector<base::Buffer> all;
  for (int i = 0; i < 1000; ++i) {
    all.push_back(*arena_->Allocate(4096));
    all.back().Freeze();
    EXPECT_EQ(Lend(blocks, {all.back()}).block, nullptr);
  }
  for (const base::Buffer& buffer : all) EXPECT_NE(Lend(blocks, {buffer}).block, nullptr);
}

TEST_F(LentBlocksTest, MemoryThatWasUsedAgainIsNotTakenForWhatItHeldBefore) {
  LentBlocks blocks({});
  const std::byte* place = nullptr;
  {
    const auto data = Data(1);
    place = data[0].data();
    ASSERT_NE(LendAtOnce(blocks, data).block, nullptr);
  }
  const auto other = Data(2);
  ASSERT_EQ(other[0].data(), place);
  EXPECT_EQ(Lend(blocks, other).block, nullptr);
  EXPECT_EQ(ContentOf(Lend(blocks, other)), Pattern(kBlock, 2));
}

TEST_F(LentBlocksTest, WhatMayChangeOrIsSmallIsNotLent) {
  LentBlocks blocks({.budget_bytes = kBlock, .at_first_sight = true});
  EXPECT_EQ(LendAtOnce(blocks, Data(1, false)).block, nullptr);
  auto small = Data(1);
  small.pop_back();
  EXPECT_EQ(LendAtOnce(blocks, small).block, nullptr);
  auto large = Data(2);
  large.push_back(small.front());
  EXPECT_EQ(LendAtOnce(blocks, large).block, nullptr);  // more than the budget
  EXPECT_NE(Lend(blocks, Data(3)).block, nullptr);
}

TEST_F(LentBlocksTest, TheLeastRecentlyUsedIsTakenBackWhenItHasStayedForAWhile) {
  LentBlocks blocks({.budget_bytes = 2 * kBlock, .at_first_sight = true});
  const auto a = Data(1), b = Data(2), c = Data(3);
  const Socket of_a(dup(Lend(blocks, a).block->descriptor()));
  const Socket of_b(dup(Lend(blocks, b).block->descriptor()));
  EXPECT_EQ(Lend(blocks, c).block, nullptr);  // neither has stayed
  clock_.Advance(seconds(1));
  EXPECT_NE(Lend(blocks, a).block, nullptr);
  EXPECT_NE(Lend(blocks, c).block, nullptr);
  EXPECT_EQ(blocks.bytes(), 2 * kBlock);
  EXPECT_FALSE(Lend(blocks, a).copied);
  // Whoever keeps a descriptor has nothing: the memory is gone.
  struct stat file{};
  EXPECT_EQ(fstat(of_b.fd(), &file), 0);
  EXPECT_EQ(file.st_size, 0);
  EXPECT_EQ(file.st_blocks, 0);
  EXPECT_EQ(fstat(of_a.fd(), &file), 0);
  EXPECT_EQ(file.st_size, static_cast<off_t>(kBlock));
}

TEST_F(LentBlocksTest, LargeOnesTakeWholeLargePagesAndGiveThemBack) {
  EXPECT_EQ(LentBlocks::MemoryFor(base::kMiB - 1), base::kMiB - 1);
  EXPECT_EQ(LentBlocks::MemoryFor(base::kMiB), kLargePageBytes);
  EXPECT_EQ(LentBlocks::MemoryFor(kLargePageBytes), kLargePageBytes);
  EXPECT_EQ(LentBlocks::MemoryFor(kLargePageBytes + 1), kLargePageBytes + 1);
  LentBlocks blocks({.budget_bytes = 2 * kLargePageBytes, .at_first_sight = true});
  for (const size_t size : {base::kMiB, kLargePageBytes - 5, kLargePageBytes}) {
    SCOPED_TRACE(size);
    clock_.Advance(seconds(1));
    const Loan loan = Lend(blocks, Data(size, true, size));
    ASSERT_NE(loan.block, nullptr);
    EXPECT_TRUE(CheckLentMemory(loan.block->descriptor()).ok());
    struct stat file{};
    ASSERT_EQ(fstat(loan.block->descriptor(), &file), 0);
    EXPECT_EQ(file.st_size, static_cast<off_t>(size));
    EXPECT_LE(file.st_blocks * 512, static_cast<off_t>(kLargePageBytes));
    Bytes content(size + 1);
    ASSERT_EQ(pread(loan.block->descriptor(), content.data(), content.size(), 0), static_cast<ssize_t>(size));
    content.resize(size);
    EXPECT_EQ(content, Pattern(size, size));
  }
  EXPECT_EQ(blocks.blocks(), 2u);  // by what they take, not by what they hold
  EXPECT_EQ(blocks.bytes(), 2 * kLargePageBytes);
}

TEST_F(LentBlocksTest, MemoryOfALargePageIsGoneWithItsBlock) {
  Socket kept;
  {
    LentBlocks blocks({.at_first_sight = true});
    kept = Socket(dup(Lend(blocks, Data(1, true, kLargePageBytes)).block->descriptor()));
  }
  struct stat file{};
  ASSERT_EQ(fstat(kept.fd(), &file), 0);
  EXPECT_EQ(file.st_size, 0);
  EXPECT_EQ(file.st_blocks, 0);
}

TEST_F(LentBlocksTest, NobodyChangesABlockOrKeepsIt) {
  std::optional<LentBlocks> blocks;
  blocks.emplace(LentBlocksOptions{.at_first_sight = true});
  const Socket reading(dup(Lend(*blocks, Data(1)).block->descriptor()));
  EXPECT_TRUE(CheckLentMemory(reading.fd()).ok());
  EXPECT_EQ(pwrite(reading.fd(), "x", 1, 0), -1);
  EXPECT_EQ(ftruncate(reading.fd(), 0), -1);
  // Its own user may open it anew, root whatever the rights are; the seals are for all.
  const std::string path = "/proc/self/fd/" + std::to_string(reading.fd());
  const Socket writing(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (writing.fd() >= 0) {
    EXPECT_EQ(pwrite(writing.fd(), "x", 1, 0), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(ftruncate(writing.fd(), 2 * kBlock), -1);
    EXPECT_EQ(fallocate(writing.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBlock), -1);
    EXPECT_EQ(mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_SHARED, writing.fd(), 0), MAP_FAILED);
    EXPECT_EQ(fcntl(writing.fd(), F_ADD_SEALS, F_SEAL_SHRINK), -1);
  }
  Bytes content(kBlock);
  EXPECT_EQ(pread(reading.fd(), content.data(), kBlock, 0), static_cast<ssize_t>(kBlock));
  EXPECT_EQ(content, Pattern(kBlock, 1));
  blocks.reset();
  EXPECT_EQ(pread(reading.fd(), content.data(), kBlock, 0), 0);
}

TEST_F(LentBlocksTest, WithoutMemoryNothingIsLentForAWhile) {
  LentBlocks blocks({.at_first_sight = true});
  const auto data = Data(1);
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit little{.rlim_cur = kBlock / 2, .rlim_max = usual.rlim_max};
  ASSERT_NE(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const Loan failed = Lend(blocks, data);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  EXPECT_EQ(failed.block, nullptr);
  EXPECT_EQ(blocks.bytes(), 0u);
  EXPECT_EQ(Lend(blocks, data).block, nullptr);
  clock_.Advance(LentBlocks::kRest);
  EXPECT_NE(Lend(blocks, data).block, nullptr);
}

TEST_F(LentBlocksTest, BlocksAreBoundedInNumberToo) {
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit few{.rlim_cur = 48, .rlim_max = usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);  // an eighth, two for each block: three
  LentBlocks blocks({.at_first_sight = true});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  std::vector<std::vector<base::Buffer>> all;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    all.push_back(Data(seed));
    Lend(blocks, all.back());
  }
  EXPECT_EQ(blocks.blocks(), 3u);
}

}  // namespace
}  // namespace forebay::fabric
