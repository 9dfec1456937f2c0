// SPDX-License-Identifier: Apache-2.0
// What the RDMA movers stand on, asked of verbs directly: bytes arrive exactly, and a key is good for its
// range, its direction, its protection domain and its lifetime. A refusal leaves memory unchanged and costs
// the queue pair. Runs where there is an RDMA device, which on most machines is the guest.
#include <cerrno>
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "verbs_pair.h"

namespace forebay::guest {
namespace {

constexpr int kPeerWrites = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr int kPeerReads = IBV_ACCESS_REMOTE_READ;

std::vector<std::byte> Pattern(size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + (i >> 8) * 13 + seed);
  return bytes;
}

uint64_t AddressOf(const std::vector<std::byte>& memory, size_t offset = 0) {
  return reinterpret_cast<uintptr_t>(memory.data()) + offset;
}

class VerbsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    pair_ = VerbsPair::Open(&why_not);
    if (pair_) return;
    // In the guest there is a device, and not to find it is a failure.
    if (std::getenv("GUEST_DEVICE") != nullptr) FAIL() << why_not;
    GTEST_SKIP() << why_not;
  }

  // A refused transfer, of either kind, breaks the connection and nothing else.
  void ExpectRefused(ibv_wc_status status) {
    EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(status);
    EXPECT_EQ(pair_->InitiatorState(), IBV_QPS_ERR);
    ASSERT_TRUE(pair_->Connect()) << std::strerror(errno);
  }

  std::unique_ptr<VerbsPair> pair_;
};

TEST_F(VerbsTest, AWriteArrivesExactly) {
  constexpr size_t kAround = 64;
  for (const size_t size :
       {size_t{1}, size_t{1023}, size_t{1024}, size_t{4097}, size_t{65'536}, size_t{1'048'577}}) {
    const std::vector<std::byte> source = Pattern(size, 1);
    std::vector<std::byte> memory(size + 2 * kAround, std::byte{0xee});
    std::vector<std::byte> expected = memory;
    std::copy(source.begin(), source.end(), expected.begin() + kAround);
    const Region region = pair_->Register(memory, kPeerWrites);
    ASSERT_TRUE(region) << std::strerror(errno);
    EXPECT_EQ(pair_->Write(source, AddressOf(memory, kAround), region->rkey), IBV_WC_SUCCESS) << size;
    EXPECT_TRUE(memory == expected) << size;
  }
}

TEST_F(VerbsTest, AReadFetchesExactly) {
  for (const size_t size : {size_t{1}, size_t{4097}, size_t{1'048'577}}) {
    std::vector<std::byte> memory = Pattern(size, 2);
    std::vector<std::byte> target(size);
    const Region region = pair_->Register(memory, kPeerReads);
    ASSERT_TRUE(region) << std::strerror(errno);
    EXPECT_EQ(pair_->Read(target, AddressOf(memory), region->rkey), IBV_WC_SUCCESS) << size;
    EXPECT_TRUE(target == memory) << size;
  }
}

TEST_F(VerbsTest, AWrongKeyIsRefusedAndMemoryUnchanged) {
  std::vector<std::byte> memory(4096);
  const Region region = pair_->Register(memory, kPeerWrites);
  ASSERT_TRUE(region);
  for (const uint32_t flip : {0x1u, 0x80u, 0x100u, 0x8000'0000u, 0xffff'ffffu}) {
    SCOPED_TRACE(flip);
    ExpectRefused(pair_->Write(Pattern(4096, 3), AddressOf(memory), region->rkey ^ flip));
    EXPECT_EQ(memory, std::vector<std::byte>(4096));
  }
  EXPECT_EQ(pair_->Write(Pattern(4096, 3), AddressOf(memory), region->rkey), IBV_WC_SUCCESS);
}

TEST_F(VerbsTest, AKeyIsGoodForItsRangeOnly) {
  // Registered in the middle of its pages, so that the refusal is of a byte and not of a page.
  std::vector<std::byte> memory(3 * 4096);
  const std::span<std::byte> window = std::span(memory).subspan(1000, 5000);
  const Region region = pair_->Register(window, kPeerWrites);
  ASSERT_TRUE(region);
  const std::vector<std::byte> untouched = memory;
  struct Edge {
    size_t offset;
    size_t length;
  };
  for (const Edge edge :
       {Edge{999, 1}, Edge{999, 2}, Edge{5999, 2}, Edge{6000, 1}, Edge{1000, 5001}, Edge{999, 5001}}) {
    SCOPED_TRACE(edge.offset);
    ExpectRefused(pair_->Write(Pattern(edge.length, 4), AddressOf(memory, edge.offset), region->rkey));
    EXPECT_EQ(memory, untouched);
  }
  EXPECT_EQ(pair_->Write(Pattern(5000, 4), AddressOf(memory, 1000), region->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(pair_->Write(Pattern(1, 5), AddressOf(memory, 5999), region->rkey), IBV_WC_SUCCESS);
}

TEST_F(VerbsTest, AKeyIsGoodForItsDirectionOnly) {
  std::vector<std::byte> memory = Pattern(4096, 5);
  const std::vector<std::byte> untouched = memory;
  std::vector<std::byte> target(4096);
  const Region readable = pair_->Register(memory, kPeerReads);
  ASSERT_TRUE(readable);
  ExpectRefused(pair_->Write(Pattern(4096, 6), AddressOf(memory), readable->rkey));
  EXPECT_EQ(memory, untouched);
  const Region writable = pair_->Register(memory, kPeerWrites);
  ASSERT_TRUE(writable);
  ExpectRefused(pair_->Read(target, AddressOf(memory), writable->rkey));
  EXPECT_EQ(target, std::vector<std::byte>(4096));
}

TEST_F(VerbsTest, AKeyIsGoodInItsProtectionDomainOnly) {
  std::vector<std::byte> memory(4096);
  const Region region = pair_->RegisterElsewhere(memory, kPeerWrites);
  ASSERT_TRUE(region);
  ExpectRefused(pair_->Write(Pattern(4096, 7), AddressOf(memory), region->rkey));
  EXPECT_EQ(memory, std::vector<std::byte>(4096));
}

TEST_F(VerbsTest, ADeregisteredKeyIsRefused) {
  std::vector<std::byte> memory(4096);
  Region region = pair_->Register(memory, kPeerWrites);
  ASSERT_TRUE(region);
  const uint32_t key = region->rkey;
  EXPECT_EQ(pair_->Write(Pattern(4096, 8), AddressOf(memory), key), IBV_WC_SUCCESS);
  const std::vector<std::byte> written = memory;
  region.reset();
  ExpectRefused(pair_->Write(Pattern(4096, 9), AddressOf(memory), key));
  EXPECT_EQ(memory, written);
}

TEST_F(VerbsTest, ANewRegistrationDoesNotReviveAnOldKey) {
  std::vector<std::byte> memory(4096);
  Region region = pair_->Register(memory, kPeerWrites);
  ASSERT_TRUE(region);
  const uint32_t old_key = region->rkey;
  region.reset();
  region = pair_->Register(memory, kPeerWrites);
  ASSERT_TRUE(region);
  ASSERT_NE(region->rkey, old_key);
  ExpectRefused(pair_->Write(Pattern(4096, 10), AddressOf(memory), old_key));
  EXPECT_EQ(memory, std::vector<std::byte>(4096));
}

TEST_F(VerbsTest, WhatIsPostedToABrokenQueuePairIsFlushed) {
  std::vector<std::byte> memory(4096);
  const Region region = pair_->Register(memory, kPeerWrites);
  ASSERT_TRUE(region);
  EXPECT_EQ(pair_->Write(Pattern(1, 11), AddressOf(memory), region->rkey ^ 1), IBV_WC_REM_ACCESS_ERR);
  // The right key does not help any more.
  EXPECT_EQ(pair_->Write(Pattern(1, 11), AddressOf(memory), region->rkey), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(memory, std::vector<std::byte>(4096));
}

}  // namespace
}  // namespace forebay::guest
