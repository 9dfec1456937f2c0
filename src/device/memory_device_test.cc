// SPDX-License-Identifier: Apache-2.0
#include "device/memory_device.h"

#include "base/random.h"
#include "device/device_suite.h"

namespace forebay::device {
namespace {

INSTANTIATE_TEST_SUITE_P(Memory, DeviceSuite, ::testing::Values(DeviceMaker{"memory", [](uint64_t size) {
                           return std::make_unique<MemoryDevice>(size);
                         }}),
                         [](const auto& info) { return info.param.name; });

class MemoryDeviceTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSize = 16 * kUnit;

  void Write(Device& device, uint64_t offset, char fill) {
    const AlignedBytes data = Filled(kUnit, fill);
    const ByteView view = data.view();
    ASSERT_TRUE(reactor_->BlockOn(device.Write(*reactor_, offset, std::span(&view, 1))).ok());
  }
  void Flush(Device& device) { ASSERT_TRUE(reactor_->BlockOn(device.Flush(*reactor_)).ok()); }
  static std::string Text(const MemoryDevice& device, uint64_t offset, uint64_t size = kUnit) {
    return std::string(AsText(ByteView(device.image()).subspan(offset, size)));
  }

  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  base::SeededRandom random_{7};
};

TEST_F(MemoryDeviceTest, APowerCutKeepsWhatWasFlushedAndMayLoseTheRest) {
  MemoryDevice device(kSize);
  Write(device, 0, 'a');
  Flush(device);
  Write(device, 0, 'b');
  Write(device, kUnit, 'c');

  const auto dropped = device.Crash(random_, CrashMode::kDropAll);
  EXPECT_EQ(Text(*dropped, 0), std::string(kUnit, 'a'));
  EXPECT_EQ(Text(*dropped, kUnit), std::string(kUnit, '\0'));
  const auto kept = device.Crash(random_, CrashMode::kKeepAll);
  EXPECT_EQ(Text(*kept, 0), std::string(kUnit, 'b'));
  EXPECT_EQ(Text(*kept, kUnit), std::string(kUnit, 'c'));
  // The crashed device itself lives on.
  EXPECT_EQ(Text(device, 0), std::string(kUnit, 'b'));
}

TEST_F(MemoryDeviceTest, ARandomCutShowsEachFateOfAWriteAndMixesOnlyWholeSectors) {
  MemoryDevice device(kSize);
  Write(device, 0, 'a');
  Flush(device);
  Write(device, 0, 'b');
  bool absent = false, present = false, torn = false;
  for (int round = 0; round < 100; ++round) {
    const std::string found = Text(*device.Crash(random_, CrashMode::kRandom), 0);
    for (size_t at = 0; at < found.size(); at += kSector) {
      const std::string sector = found.substr(at, kSector);
      ASSERT_TRUE(sector == std::string(kSector, 'a') || sector == std::string(kSector, 'b'));
    }
    const bool some_old = found.find('a') != std::string::npos, some_new = found.find('b') != std::string::npos;
    absent |= !some_new;
    present |= !some_old;
    torn |= some_old && some_new;
  }
  EXPECT_TRUE(absent);
  EXPECT_TRUE(present);
  EXPECT_TRUE(torn);
}

TEST_F(MemoryDeviceTest, AWriteThatReturnsAfterFlushWasCalledIsNotDurable) {
  MemoryDevice device(kSize);
  const AlignedBytes data = Filled(kUnit, 'n');
  const ByteView view = data.view();
  std::vector<rt::Task<Status>> both;
  both.push_back(device.Flush(*reactor_));
  both.push_back(device.Write(*reactor_, 0, std::span(&view, 1)));
  for (const Status& status : reactor_->BlockOn(rt::WhenAll(std::move(both)))) ASSERT_TRUE(status.ok());
  EXPECT_EQ(Text(*device.Crash(random_, CrashMode::kDropAll), 0), std::string(kUnit, '\0'));
}

TEST_F(MemoryDeviceTest, IsBuiltFromAnImage) {
  Bytes image(kSize);
  image[5] = std::byte{'q'};
  const auto device = MemoryDevice::FromImage(image);
  EXPECT_EQ(device->size_bytes(), kSize);
  EXPECT_EQ(device->image(), image);
  EXPECT_EQ(device->Crash(random_, CrashMode::kDropAll)->image(), image);
}

TEST_F(MemoryDeviceTest, ADeviceThatFailedItsFlushForgetsTheCache) {
  MemoryDevice device(kSize);
  Write(device, 0, 'a');
  Flush(device);
  Write(device, 0, 'b');
  device.DropUnflushed();
  EXPECT_EQ(Text(device, 0), std::string(kUnit, 'a'));
  EXPECT_EQ(device.unflushed_writes(), 0U);
  Write(device, kUnit, 'c');
  Flush(device);
  EXPECT_EQ(Text(*device.Crash(random_, CrashMode::kDropAll), kUnit), std::string(kUnit, 'c'));
}

TEST_F(MemoryDeviceTest, AFlippedBitIsThereForReadersAndOnTheMedia) {
  MemoryDevice device(kSize);
  Write(device, 0, 'a');  // 0x61
  device.FlipBit(10, 1);
  EXPECT_EQ(Text(device, 10, 1), "c");  // 0x63
  EXPECT_EQ(Text(*device.Crash(random_, CrashMode::kDropAll), 10, 1), "\x02");
}

TEST_F(MemoryDeviceTest, WithoutPowerNothingHappens) {
  PowerSwitch power(2);
  MemoryDevice device(kSize, "device", &power);
  Write(device, 0, 'a');
  Flush(device);
  const AlignedBytes data = Filled(kUnit, 'b');
  const ByteView view = data.view();
  EXPECT_EQ(reactor_->BlockOn(device.Write(*reactor_, 0, std::span(&view, 1))).code(), Code::kUnavailable);
  EXPECT_EQ(reactor_->BlockOn(device.Flush(*reactor_)).code(), Code::kUnavailable);
  AlignedBytes back(kUnit);
  const MutableByteView in = back.writable();
  EXPECT_EQ(reactor_->BlockOn(device.Read(*reactor_, 0, std::span(&in, 1))).code(), Code::kUnavailable);
  EXPECT_EQ(Text(*device.Crash(random_, CrashMode::kKeepAll), 0), std::string(kUnit, 'a'));
}

}  // namespace
}  // namespace forebay::device
