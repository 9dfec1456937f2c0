// SPDX-License-Identifier: Apache-2.0
// Stores on several devices: mirrors that are damaged, lost and brought up to date; devices that come and go.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "engine/engine.h"
#include "engine/engine_fixture.h"
#include "engine/scrub.h"

namespace forebay::engine {
namespace {

constexpr uint64_t kUnlimited = UINT64_MAX;

/// Every extent of the store.
std::vector<ExtentRecord> Extents(TwinStore& twins) {
  std::vector<ExtentRecord> extents;
  std::optional<std::pair<std::string, std::string>> row;
  std::string from;
  while ((row = twins.media()->First(meta::Family::kExtents, from, {}))) {
    extents.push_back(*DecodeExtent(row->first, row->second));
    from = row->first + '\0';
  }
  return extents;
}

class MirrorEngineTest : public testing::Test {
 protected:
  MirrorEngineTest() { EXPECT_TRUE(twins_.CreateBucket().ok()); }

  void ExpectAll() {
    for (const auto& [key, content] : contents_) {
      const Result<std::string> back = twins_.Get(key);
      ASSERT_TRUE(back.ok()) << back.status().ToString();
      ASSERT_TRUE(*back == content) << key;
    }
  }
  void Put(const std::string& key, size_t size) {
    contents_[key] = RandomContent(contents_.size(), size);
    const auto put = twins_.Put(key, contents_[key]);
    ASSERT_TRUE(put.ok()) << put.status().ToString();
  }
  /// Wherever an extent is, both disks have the same.
  void ExpectSidesEqual() {
    const Bytes left = twins_.disk(0).image(), right = twins_.disk(1).image();
    for (const ExtentRecord& extent : Extents(twins_)) {
      const auto begin = static_cast<ptrdiff_t>(extent.first_unit * device::kUnit);
      const auto length = static_cast<ptrdiff_t>(extent.length_bytes);
      ASSERT_TRUE(std::equal(left.begin() + begin, left.begin() + begin + length, right.begin() + begin));
    }
  }
  store::DeviceSpace Space() { return twins_.Run(twins_.engine().GetSpace(twins_.context()))->devices.at(0); }
  Status Resync() {
    return twins_.Run(twins_.engine().Resync(twins_.reactor(), [] { return false; }, kUnlimited));
  }

  TwinStore twins_{
      {.mirrors = true, .device_bytes = 64 * base::kMiB, .arena_bytes = 8 * base::kMiB, .engine = {.tier_bytes = 0}}};
  std::map<std::string, std::string> contents_;
};

TEST_F(MirrorEngineTest, FiveThousandDamagedBlocksOfOneSideAreReadRightAndPutRight) {
  for (int i = 0; i < 5000; ++i) Put(std::to_string(i), 2000 + i % 7 * 400);
  const std::vector<ExtentRecord> extents = Extents(twins_);
  ASSERT_EQ(extents.size(), 5000U);
  const auto at = [](const ExtentRecord& extent) { return extent.first_unit * device::kUnit; };
  for (size_t i = 0; i < extents.size(); ++i) {
    const uint64_t offset = at(extents[i]);
    const uint64_t length = extents[i].units() * device::kUnit;
    Bytes content = twins_.ReadDisk(offset, length, 1);
    switch (i % 4) {
      case 0:
        content[i % extents[i].length_bytes] ^= std::byte{1};
        break;
      case 1:
        std::ranges::fill(content, std::byte{0});
        break;
      case 2:  // what its neighbour has
        content = twins_.ReadDisk(at(extents[(i + 1) % extents.size()]), length, 0);
        break;
      default:  // what was there before: nothing of ours
        std::ranges::fill(content, std::byte{0x5a});
    }
    twins_.WriteDisk(offset, content, 1);
  }
  ExpectAll();
  EXPECT_EQ(twins_.engine().stats().damaged_blocks, 0U);
  // Half of the reads went to the side that is wrong, and put it right; a scrub does the rest, and names each.
  const uint64_t by_reads = twins_.engine().stats().repaired_blocks;
  EXPECT_GT(by_reads, 1000U);
  ScrubState state = Scrubber::NewPass(0, twins_.clock());
  Scrubber scrubber(twins_.reactor(), twins_.engine().OpenForScrub(),
                    [](const ScrubState&) { return ScrubOrder::kGoOn; });
  twins_.reactor().BlockOn(scrubber.Run(state));
  EXPECT_EQ(state.damaged_blocks, 0U);
  EXPECT_EQ(by_reads + state.repaired_blocks, 5000U);
  ASSERT_EQ(state.damage.size(), state.repaired_blocks);
  for (const DamagedBlock& block : state.damage) {
    EXPECT_TRUE(block.repaired);
    EXPECT_EQ(block.owners.size(), 1U);
  }
  ExpectSidesEqual();
}

TEST_F(MirrorEngineTest, WhatOneSideHasWrongIsPutRightByAReadOfIt) {
  Put("victim", 200'000);
  const ExtentRecord extent = twins_.LastExtent();
  const uint64_t offset = extent.first_unit * device::kUnit;
  // One of the two sides is read; so that one is wrong in one block, and the other one in another.
  twins_.WriteDisk(offset, Bytes(device::kUnit), 0);
  twins_.WriteDisk(offset + 65536, Bytes(device::kUnit), 1);
  ExpectAll();
  twins_.WriteDisk(offset + 65536, Bytes(device::kUnit), 0);
  ExpectAll();
  EXPECT_EQ(twins_.engine().stats().damaged_blocks, 0U);
  EXPECT_GE(twins_.engine().stats().repaired_blocks, 1U);
}

TEST_F(MirrorEngineTest, WhatBothSidesHaveWrongIsNamed) {
  Put("victim", 200'000);
  const uint64_t offset = twins_.LastExtent().first_unit * device::kUnit;
  for (const size_t side : {0, 1}) twins_.WriteDisk(offset, Bytes(device::kUnit), side);
  const Result<std::string> back = twins_.Get("victim");
  EXPECT_EQ(back.status().code(), Code::kDataLoss);
  EXPECT_NE(back.status().message().find("bucket/victim` is damaged at offset 0"), std::string::npos)
      << back.status().ToString();
  EXPECT_EQ(twins_.engine().stats().damaged_blocks, 1U);
}

TEST_F(MirrorEngineTest, ASideThatFailsIsLeftOutAndBroughtUpToDateLater) {
  Put("before", 300'000);
  EXPECT_EQ(Space().state, store::DeviceState::kOk);
  twins_.faults(0).fail_flushes = true;
  Put("without", 500'000);
  Put("small", 10);
  EXPECT_EQ(Space().state, store::DeviceState::kDegraded);
  EXPECT_NE(Space().detail.find("left is lost (disk0: flush failed"), std::string::npos) << Space().detail;
  twins_.faults(0).fail_flushes = false;
  ExpectAll();

  twins_.Reopen();
  EXPECT_TRUE(twins_.engine().NeedsResync());
  EXPECT_EQ(Space().state, store::DeviceState::kRebuilding);
  Put("meanwhile", 700'000);
  ExpectAll();
  ASSERT_TRUE(Resync().ok());
  EXPECT_FALSE(twins_.engine().NeedsResync());
  EXPECT_EQ(Space().state, store::DeviceState::kOk);
  EXPECT_EQ(Space().detail, "");
  ExpectSidesEqual();

  twins_.Close();
  twins_.TakeDisk(1);
  ASSERT_TRUE(twins_.TryOpen().ok());
  ExpectAll();
  Put("alone", 3000);
  ExpectAll();
}

TEST_F(MirrorEngineTest, WhenBothSidesFailTheStoreIsReadOnly) {
  Put("before", 300'000);
  for (const size_t side : {0, 1}) twins_.faults(side).fail_flushes = true;
  EXPECT_FALSE(twins_.Put("refused", RandomContent(1, 5000)).ok());
  for (const size_t side : {0, 1}) twins_.faults(side).fail_flushes = false;
  EXPECT_FALSE(twins_.Put("refused", RandomContent(1, 5000)).ok());
  EXPECT_FALSE(twins_.engine().health().ok());
  ExpectAll();
}

/// Two devices and one that comes later.
class DevicesTest : public testing::Test {
 protected:
  DevicesTest() { EXPECT_TRUE(twins_.CreateBucket().ok()); }

  void Put(const std::string& key, size_t size) {
    contents_[key] = RandomContent(std::hash<std::string>()(key), size);
    const auto put = twins_.Put(key, contents_[key]);
    ASSERT_TRUE(put.ok()) << put.status().ToString();
  }
  void ExpectAll() {
    for (const auto& [key, content] : contents_) {
      const Result<std::string> back = twins_.Get(key);
      ASSERT_TRUE(back.ok()) << back.status().ToString();
      ASSERT_TRUE(*back == content) << key;
    }
  }
  uint64_t Used(size_t device) {
    return twins_.Run(twins_.engine().GetSpace(twins_.context()))->devices.at(device).used_bytes;
  }
  void ExpectClean() {
    twins_.Close();
    const FsckReport report = twins_.Fsck(true);
    EXPECT_TRUE(report.clean()) << (report.errors.empty() ? "" : report.errors.front());
    ASSERT_TRUE(twins_.TryOpen().ok());
  }
  uint32_t AddDevice() {
    const size_t i = twins_.AddDisk();
    const Superblock superblock{.store = twins_.store(),
                                .device_id = static_cast<uint32_t>(i),
                                .device_count = static_cast<uint32_t>(i + 1),
                                .size_bytes = twins_.disk(i).size_bytes()};
    EXPECT_TRUE(twins_.Run(WriteSuperblock(twins_.reactor(), twins_.disk(i), superblock)).ok());
    return twins_.engine().AddDevice(twins_.Lend(i), superblock);
  }
  /// As Upkeep does: on a thread of its own.
  void Drain(const std::function<void()>& meanwhile = [] {}) {
    std::atomic<bool> stopped{false};
    std::atomic<bool> done{false};
    std::thread thread([&] {
      const auto reactor = *rt::Reactor::Create();
      reactor->BlockOn(twins_.engine().EmptyDevices(*reactor, [&] { return stopped.load(); }, kUnlimited));
      done = true;
    });
    meanwhile();
    while (!done) twins_.Turn();
    thread.join();
  }

  TwinStore twins_{{.devices = 2, .device_bytes = 64 * base::kMiB, .engine = {.tier_bytes = 0}}};
  std::map<std::string, std::string> contents_;
};

TEST_F(DevicesTest, ADeviceThatIsAddedIsUsedAtOnceAndAfterwards) {
  Put("before", 100'000);
  EXPECT_EQ(AddDevice(), 2U);
  for (int i = 0; i < 6; ++i) Put(std::to_string(i), 100'000);
  EXPECT_GT(Used(2), 0U);
  EXPECT_EQ(twins_.engine().usage().capacity_bytes, 3 * 63 * base::kMiB);
  ExpectAll();
  ExpectClean();
  EXPECT_GT(Used(2), 0U);
  ExpectAll();
}

TEST_F(DevicesTest, ADeviceIsEmptiedAndTakenOutTheFirstToo) {
  for (int i = 0; i < 40; ++i) Put(std::to_string(i), 1 + i * 7000 % 300'000);
  Put("large", 9 * base::kMiB + 5);
  const store::Context context = twins_.context();
  ASSERT_TRUE(twins_.Run(twins_.engine().Compose(context, "bucket", "copy", {{.bucket = "bucket", .key = "large"}}, {})).ok());
  contents_["copy"] = contents_["large"];
  EXPECT_EQ(twins_.Run(twins_.engine().ForgetDevice(twins_.reactor(), 0)).code(), Code::kFailedPrecondition);
  ASSERT_TRUE(twins_.engine().SetLeaving(0, true).ok());
  EXPECT_EQ(twins_.engine().SetLeaving(1, true).code(), Code::kFailedPrecondition) << "the last one stays";
  EXPECT_TRUE(twins_.engine().HasDevicesToEmpty());
  EXPECT_EQ(twins_.Run(twins_.engine().GetSpace(context))->devices[0].state, store::DeviceState::kDraining);
  Drain();
  EXPECT_FALSE(twins_.engine().HasDevicesToEmpty());
  EXPECT_EQ(Used(0), 0U);
  ExpectAll();
  Put("later", 500'000);
  EXPECT_EQ(Used(0), 0U);
  for (const ExtentRecord& extent : Extents(twins_)) EXPECT_EQ(extent.device, 1U);

  ASSERT_TRUE(twins_.Run(twins_.engine().ForgetDevice(twins_.reactor(), 0)).ok());
  // Between the two halves the store opens with it and without it.
  twins_.Close();
  ASSERT_TRUE(twins_.TryOpen().ok());
  ASSERT_TRUE(twins_.engine().SetLeaving(0, true).ok());
  ASSERT_TRUE(twins_.Run(twins_.engine().ForgetDevice(twins_.reactor(), 0)).ok());
  twins_.engine().MarkDeviceAbsent(0);
  Put("last", 100'000);
  EXPECT_EQ(twins_.engine().usage().capacity_bytes, 63 * base::kMiB);
  twins_.Close();
  twins_.TakeDisk(0);
  ASSERT_TRUE(twins_.TryOpen().ok());
  ExpectAll();
  ExpectClean();
  EXPECT_EQ(twins_.Run(twins_.engine().GetSpace(twins_.context()))->devices.size(), 1U);
}

TEST_F(DevicesTest, AReaderThatWasInStaysAndHoldsTheDevice) {
  Put("object", 2 * base::kMiB);
  const ExtentRecord before = twins_.LastExtent();
  const uint32_t device = before.device;
  auto reader = *twins_.Open("object");
  ASSERT_TRUE(twins_.engine().SetLeaving(device, true).ok());
  Drain([&] {
    while (twins_.LastExtent().device == device) twins_.Turn();
    for (int i = 0; i < 30; ++i) twins_.Turn();
    EXPECT_GT(Used(device), 0U);
    EXPECT_EQ(*twins_.Read(*reader, 0, 1000), contents_["object"].substr(0, 1000));
    // What is opened from now on is read where it is now.
    twins_.WriteDisk(before.first_unit * device::kUnit, Bytes(before.units() * device::kUnit), device);
    EXPECT_EQ(*twins_.Get("object"), contents_["object"]);
    reader.reset();
  });
  EXPECT_EQ(Used(device), 0U);
}

TEST_F(DevicesTest, WhatCannotBeReadStaysAndIsSaid) {
  Put("object", 2 * base::kMiB);
  const ExtentRecord extent = twins_.LastExtent();
  Put("other", 300'000);
  twins_.WriteDisk(extent.first_unit * device::kUnit, Bytes(device::kUnit), extent.device);
  ASSERT_TRUE(twins_.engine().SetLeaving(extent.device, true).ok());
  Drain();
  const store::DeviceSpace space = twins_.Run(twins_.engine().GetSpace(twins_.context()))->devices[extent.device];
  EXPECT_NE(space.detail.find("1 extents on disk"), std::string::npos) << space.detail;
  EXPECT_EQ(space.used_bytes, extent.units() * device::kUnit);
  ASSERT_TRUE(twins_.Delete("object").ok());
  ASSERT_TRUE(twins_.engine().SetLeaving(extent.device, true).ok());
  Drain();
  EXPECT_EQ(Used(extent.device), 0U);
}

TEST_F(DevicesTest, WithoutRoomElsewhereItStopsAndTheDeviceMayStay) {
  for (int i = 0; i < 20; ++i) Put(std::to_string(i), 4 * base::kMiB);
  ASSERT_TRUE(twins_.engine().SetLeaving(0, true).ok());
  Drain();
  EXPECT_NE(twins_.Run(twins_.engine().GetSpace(twins_.context()))->devices[0].detail.find("cannot be emptied"),
            std::string::npos);
  EXPECT_EQ(twins_.Put("more", RandomContent(1, 50 * base::kMiB)).status().code(), Code::kResourceExhausted);
  ASSERT_TRUE(twins_.engine().SetLeaving(0, false).ok());
  Put("more", base::kMiB);
  ExpectAll();
  ExpectClean();
}

/// Puts, deletes, copies and reads go on while a device is emptied, and again and again.
TEST_F(DevicesTest, EverythingGoesOnMeanwhile) {
  AddDevice();
  std::mt19937_64 random(11);
  for (int i = 0; i < 60; ++i) Put(std::to_string(i), random() % 400'000);
  for (uint32_t round = 0; round < 6; ++round) {
    const uint32_t device = round % 3;
    ASSERT_TRUE(twins_.engine().SetLeaving(device, true).ok());
    Drain([&] {
      for (int i = 0; i < 60; ++i) {
        const std::string key = std::to_string(random() % 60);
        if (random() % 4 == 0 && contents_.erase(key) != 0) {
          EXPECT_TRUE(twins_.Delete(key).ok());
        } else if (random() % 2 == 0) {
          Put(key, random() % 400'000);
        } else if (const auto found = contents_.find(key); found != contents_.end()) {
          const Result<std::string> back = twins_.Get(key);
          ASSERT_TRUE(back.ok()) << back.status().ToString();
          ASSERT_TRUE(*back == found->second);
        }
      }
    });
    EXPECT_EQ(Used(device), 0U);
    ASSERT_TRUE(twins_.engine().SetLeaving(device, false).ok());
    ExpectAll();
  }
  ExpectClean();
  ExpectAll();
}

}  // namespace
}  // namespace forebay::engine
