// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_regions.h"

#include <chrono>

#include <gtest/gtest.h>

namespace forebay::fabric {
namespace {

constexpr base::TimePoint kStart{std::chrono::seconds(100)};

PeerRegions::Region Writable(uint64_t length) {
  return {.base = 0x1000, .length = length, .direction = Direction::kPeerWrites, .until = base::kNever};
}

TEST(UcxPeerRegionsTest, OnlyWhatTheOwnerOfferedIsUsable) {
  PeerRegions regions(10);
  ASSERT_TRUE(regions.Add(7, Writable(100)).ok());
  const auto usable = [&](uint64_t key, uint64_t offset, uint64_t length, Direction wanted) {
    return regions.Usable(key, offset, length, wanted, kStart) != nullptr;
  };
  EXPECT_TRUE(usable(7, 0, 100, Direction::kPeerWrites));
  EXPECT_TRUE(usable(7, 99, 1, Direction::kPeerWrites));
  EXPECT_FALSE(usable(7, 0, 100, Direction::kPeerReads));
  EXPECT_FALSE(usable(8, 0, 100, Direction::kPeerWrites));
  EXPECT_FALSE(usable(7, 0, 101, Direction::kPeerWrites));
  EXPECT_FALSE(usable(7, 99, 2, Direction::kPeerWrites));
  EXPECT_FALSE(usable(7, UINT64_MAX, 2, Direction::kPeerWrites));
}

TEST(UcxPeerRegionsTest, OfferEndsWithItsLifetime) {
  PeerRegions regions(10);
  PeerRegions::Region region = Writable(100);
  region.until = kStart + std::chrono::seconds(1);
  ASSERT_TRUE(regions.Add(7, region).ok());
  EXPECT_NE(regions.Usable(7, 0, 1, Direction::kPeerWrites, kStart), nullptr);
  EXPECT_EQ(regions.Usable(7, 0, 1, Direction::kPeerWrites, region.until), nullptr);
}

TEST(UcxPeerRegionsTest, RevokedRegionIsGivenUpWhenTheLastTransferHasEnded) {
  PeerRegions regions(10);
  ASSERT_TRUE(regions.Add(7, Writable(100)).ok());
  regions.Find(7)->flights = 2;
  EXPECT_FALSE(regions.Land(7));    // not revoked
  EXPECT_FALSE(regions.Revoke(7));  // one is under way
  EXPECT_EQ(regions.Usable(7, 0, 1, Direction::kPeerWrites, kStart), nullptr);
  EXPECT_TRUE(regions.Land(7));
  regions.Erase(7);
  EXPECT_EQ(regions.Find(7), nullptr);
  ASSERT_TRUE(regions.Add(8, Writable(100)).ok());
  EXPECT_TRUE(regions.Revoke(8));   // at once
  EXPECT_FALSE(regions.Revoke(8));  // twice is a lie
  EXPECT_FALSE(regions.Revoke(9));
}

TEST(UcxPeerRegionsTest, RegionsThatCannotBeAreRefused) {
  PeerRegions regions(10);
  EXPECT_FALSE(regions.Add(0, Writable(100)).ok());
  PeerRegions::Region beyond = Writable(UINT64_MAX);
  EXPECT_FALSE(regions.Add(7, beyond).ok());
  ASSERT_TRUE(regions.Add(7, Writable(100)).ok());
  EXPECT_FALSE(regions.Add(7, Writable(200)).ok());
  EXPECT_EQ(regions.Find(7)->length, 100u);
}

TEST(UcxPeerRegionsTest, NotMoreThanAnnounced) {
  PeerRegions regions(2);
  ASSERT_TRUE(regions.Add(1, Writable(100)).ok());
  ASSERT_TRUE(regions.Add(2, Writable(100)).ok());
  EXPECT_FALSE(regions.Add(3, Writable(100)).ok());
  EXPECT_TRUE(regions.Revoke(1));  // no longer offered, though not yet forgotten
  EXPECT_TRUE(regions.Add(3, Writable(100)).ok());
  regions.Erase(1);
  EXPECT_FALSE(regions.Add(4, Writable(100)).ok());
}

}  // namespace
}  // namespace forebay::fabric
