// SPDX-License-Identifier: Apache-2.0
#include "engine/superblock.h"

#include <gtest/gtest.h>

#include "device/memory_device.h"

namespace forebay::engine {
namespace {

Uuid StoreId() {
  Uuid id;
  EXPECT_TRUE(Uuid::Parse("00112233-4455-4677-8899-aabbccddeeff", &id));
  return id;
}

Superblock Example() {
  return {.store = StoreId(),
          .device_id = 1,
          .device_count = 2,
          .size_bytes = 64 * base::kMiB,
          .data_start = kDataStart};
}

// The examples of docs/formats/superblock.md; the checksums were computed with another implementation.
constexpr std::string_view kExample =
    "46425355504552310100000000112233445546778899aabbccddeeff010000000200000000000004000000000010000000001000"
    "00000000a8f36688";

TEST(SuperblockTest, HasTheDocumentedLayout) {
  EXPECT_EQ(base::ToHex(AsBytes(EncodeSuperblock(Example()))), kExample);
  EXPECT_EQ(base::ToHex(AsBytes(EncodeWitness(StoreId(), 42))),
            "46425749544e455300112233445546778899aabbccddeeff2a0000000000000021694393");
}

TEST(SuperblockTest, ComesBack) {
  const std::string bytes = EncodeSuperblock(Example());
  EXPECT_EQ(*DecodeSuperblock(AsBytes(bytes), "disk"), Example());
}

TEST(SuperblockTest, AnyFlippedBitIsSeen) {
  const std::string good = EncodeSuperblock(Example());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(DecodeSuperblock(AsBytes(bad), "disk").ok()) << "bit " << bit;
  }
}

TEST(SuperblockTest, AnEmptyDeviceIsNotADamagedOne) {
  EXPECT_EQ(DecodeSuperblock(Bytes(4096), "disk").status().code(), Code::kNotFound);
}

TEST(WitnessTest, IsOfOneStoreOnly) {
  const std::string bytes = EncodeWitness(StoreId(), 42);
  EXPECT_EQ(DecodeWitness(AsBytes(bytes), StoreId()), 42U);
  EXPECT_EQ(DecodeWitness(AsBytes(bytes), Uuid()), std::nullopt);
  EXPECT_EQ(DecodeWitness(Bytes(4096), StoreId()), std::nullopt);
}

TEST(WitnessTest, AnyFlippedBitIsSeen) {
  const std::string good = EncodeWitness(StoreId(), 42);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DecodeWitness(AsBytes(bad), StoreId()), std::nullopt) << "bit " << bit;
  }
}

class OnDevice : public testing::Test {
 protected:
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  device::MemoryDevice device_{16 * base::kMiB, "disk"};
};

TEST_F(OnDevice, TheHighestValidSlotCounts) {
  const Superblock superblock{
      .store = StoreId(), .device_id = 0, .device_count = 1, .size_bytes = device_.size_bytes()};
  ASSERT_TRUE(reactor_->BlockOn(WriteSuperblock(*reactor_, device_, superblock)).ok());
  EXPECT_EQ(reactor_->BlockOn(ReadWitness(*reactor_, device_, StoreId()))->commit, 0U);
  ASSERT_TRUE(reactor_->BlockOn(WriteWitness(*reactor_, device_, StoreId(), {.commit = 7, .slot = 0})).ok());
  ASSERT_TRUE(reactor_->BlockOn(WriteWitness(*reactor_, device_, StoreId(), {.commit = 8, .slot = 1})).ok());
  EXPECT_EQ(reactor_->BlockOn(ReadWitness(*reactor_, device_, StoreId()))->commit, 8U);
  device_.FlipBit(kWitnessOffsets[1] + 30, 0);
  EXPECT_EQ(reactor_->BlockOn(ReadWitness(*reactor_, device_, StoreId()))->commit, 7U);
  device_.FlipBit(kWitnessOffsets[0] + 30, 0);
  EXPECT_EQ(reactor_->BlockOn(ReadWitness(*reactor_, device_, StoreId())).status().code(), Code::kDataLoss);
}

TEST_F(OnDevice, TheCopyStandsInForADamagedSuperblock) {
  const Superblock superblock{
      .store = StoreId(), .device_id = 0, .device_count = 1, .size_bytes = device_.size_bytes()};
  ASSERT_TRUE(reactor_->BlockOn(WriteSuperblock(*reactor_, device_, superblock)).ok());
  device_.FlipBit(30, 0);
  EXPECT_EQ(*reactor_->BlockOn(ReadSuperblock(*reactor_, device_)), superblock);
  device_.FlipBit(kSuperblockCopyOffset + 30, 0);
  EXPECT_EQ(reactor_->BlockOn(ReadSuperblock(*reactor_, device_)).status().code(), Code::kDataLoss);
}

TEST_F(OnDevice, AWrongBitInTheFormatIsNotANewerFormat) {
  constexpr uint64_t kFormatAt = 8;
  const Superblock superblock{
      .store = StoreId(), .device_id = 0, .device_count = 1, .size_bytes = device_.size_bytes()};
  ASSERT_TRUE(reactor_->BlockOn(WriteSuperblock(*reactor_, device_, superblock)).ok());
  device_.FlipBit(kFormatAt, 3);
  EXPECT_EQ(*reactor_->BlockOn(ReadSuperblock(*reactor_, device_)), superblock);
  device_.FlipBit(kSuperblockCopyOffset + kFormatAt, 3);
  const Status status = reactor_->BlockOn(ReadSuperblock(*reactor_, device_)).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("use a newer forebay"), std::string_view::npos) << status.ToString();
}

}  // namespace
}  // namespace forebay::engine
