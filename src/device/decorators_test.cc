// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <set>

#include "base/clock.h"
#include "device/device_suite.h"
#include "device/faulty_device.h"
#include "device/memory_device.h"
#include "device/recording_device.h"

namespace forebay::device {
namespace {

/// Decorators borrow: this keeps what they borrow alive.
template <typename Decorator, typename Borrowed>
class Owning final : public Device {
 public:
  explicit Owning(std::unique_ptr<Device> base) : device_(std::move(base), borrowed_) {}
  const std::string& name() const override { return device_.name(); }
  uint64_t size_bytes() const override { return device_.size_bytes(); }
  rt::Task<Status> Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) override {
    return device_.Read(reactor, offset, buffers);
  }
  rt::Task<Status> Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) override {
    return device_.Write(reactor, offset, buffers);
  }
  rt::Task<Status> Flush(rt::Reactor& reactor) override { return device_.Flush(reactor); }
  rt::Task<Status> ZeroAhead(rt::Reactor& reactor, uint64_t begin, uint64_t end) override {
    return device_.ZeroAhead(reactor, begin, end);
  }

 private:
  Borrowed borrowed_;
  Decorator device_;
};

INSTANTIATE_TEST_SUITE_P(
    Decorated, DeviceSuite,
    ::testing::Values(DeviceMaker{"faulty",
                                  [](uint64_t size) {
                                    return std::make_unique<Owning<FaultyDevice, FaultPlan>>(
                                        std::make_unique<MemoryDevice>(size));
                                  }},
                      DeviceMaker{"recording",
                                  [](uint64_t size) {
                                    return std::make_unique<Owning<RecordingDevice, OperationLog>>(
                                        std::make_unique<MemoryDevice>(size));
                                  }}),
    [](const auto& info) { return info.param.name; });

class DecoratorTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSize = 16 * kUnit;

  Status Write(Device& device, uint64_t offset, char fill, size_t units = 1) {
    const AlignedBytes data = Filled(units * kUnit, fill);
    const ByteView view = data.view();
    return reactor_->BlockOn(device.Write(*reactor_, offset, std::span(&view, 1)));
  }
  Status Flush(Device& device) { return reactor_->BlockOn(device.Flush(*reactor_)); }
  Result<std::string> Read(Device& device, uint64_t offset, size_t units = 1) {
    AlignedBytes data(units * kUnit);
    const MutableByteView view = data.writable();
    FB_TRY(reactor_->BlockOn(device.Read(*reactor_, offset, std::span(&view, 1))));
    return std::string(AsText(data.view()));
  }
  static std::string Unit(char fill) { return std::string(kUnit, fill); }

  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  FaultPlan plan_;
  OperationLog log_;
  base::SeededRandom random_{11};
};

TEST_F(DecoratorTest, TheNthOperationOfAKindFails) {
  FaultyDevice device(std::make_unique<MemoryDevice>(kSize, "disk7"), plan_);
  plan_.Add({.on = FaultOn::kWrite, .nth = 1, .count = 2, .kind = FaultKind::kIoError});
  plan_.Add({.on = FaultOn::kRead, .nth = 0, .kind = FaultKind::kIoError});
  EXPECT_TRUE(Write(device, 0, 'a').ok());
  const Status failed = Write(device, kUnit, 'b');
  EXPECT_EQ(failed.code(), Code::kDataLoss);
  EXPECT_NE(failed.message().find("disk7"), std::string_view::npos);
  EXPECT_NE(failed.message().find("4096"), std::string_view::npos);
  EXPECT_FALSE(Write(device, kUnit, 'c').ok());
  EXPECT_TRUE(Write(device, 2 * kUnit, 'd').ok());
  EXPECT_EQ(Read(device, 0).status().code(), Code::kDataLoss);
  EXPECT_EQ(Read(device, 0, 3).value(), Unit('a') + Unit('\0') + Unit('d'));
  EXPECT_EQ(plan_.operations(FaultOn::kWrite), 4U);
  EXPECT_EQ(plan_.hits(), 3U);
}

TEST_F(DecoratorTest, AFullDiskSaysSo) {
  FaultyDevice device(std::make_unique<MemoryDevice>(kSize), plan_);
  plan_.Add({.on = FaultOn::kWrite, .count = Fault::kForever, .kind = FaultKind::kNoSpace});
  EXPECT_EQ(Write(device, 0, 'a').code(), Code::kResourceExhausted);
  EXPECT_EQ(Write(device, 0, 'a').code(), Code::kResourceExhausted);
  plan_.Clear();
  EXPECT_TRUE(Write(device, 0, 'a').ok());
}

TEST_F(DecoratorTest, AFailedFlushLosesTheCache) {
  FaultyDevice device(std::make_unique<MemoryDevice>(kSize), plan_);
  ASSERT_TRUE(Write(device, 0, 'a').ok());
  ASSERT_TRUE(Flush(device).ok());
  ASSERT_TRUE(Write(device, 0, 'b').ok());
  plan_.Add({.on = FaultOn::kFlush, .nth = 1, .kind = FaultKind::kDropCache});
  EXPECT_EQ(Flush(device).code(), Code::kDataLoss);
  EXPECT_TRUE(Flush(device).ok());  // which proves nothing about 'b'
  EXPECT_EQ(Read(device, 0).value(), Unit('a'));
}

TEST_F(DecoratorTest, WritesAreTornLostMisdirectedAndFlippedWithoutAWord) {
  FaultyDevice device(std::make_unique<MemoryDevice>(kSize), plan_);
  plan_.Add({.on = FaultOn::kWrite, .nth = 0, .kind = FaultKind::kLost});
  plan_.Add({.on = FaultOn::kWrite, .nth = 1, .kind = FaultKind::kMisdirected, .amount = 2 * kUnit});
  plan_.Add({.on = FaultOn::kWrite, .nth = 2, .kind = FaultKind::kFlipped, .amount = 8 * 5 + 1});
  plan_.Add({.on = FaultOn::kWrite, .nth = 3, .kind = FaultKind::kTorn, .amount = kUnit});
  EXPECT_TRUE(Write(device, 0, 'a').ok());
  EXPECT_EQ(Read(device, 0).value(), Unit('\0'));
  EXPECT_TRUE(Write(device, 0, 'b').ok());
  EXPECT_EQ(Read(device, 0, 3).value(), Unit('\0') + Unit('\0') + Unit('b'));
  EXPECT_TRUE(Write(device, 0, 'a').ok());
  std::string flipped = Unit('a');
  flipped[5] = 'c';
  EXPECT_EQ(Read(device, 0).value(), flipped);
  EXPECT_FALSE(Write(device, 4 * kUnit, 't', 2).ok());
  EXPECT_EQ(Read(device, 4 * kUnit, 2).value(), Unit('t') + Unit('\0'));
}

TEST_F(DecoratorTest, AReadIsFlippedInMemoryOnly) {
  FaultyDevice device(std::make_unique<MemoryDevice>(kSize), plan_);
  ASSERT_TRUE(Write(device, 0, 'a', 2).ok());
  plan_.Add({.on = FaultOn::kRead, .kind = FaultKind::kFlipped, .amount = 8 * kUnit});
  std::string flipped = Unit('a') + Unit('a');
  flipped[kUnit] = '`';
  EXPECT_EQ(Read(device, 0, 2).value(), flipped);
  EXPECT_EQ(Read(device, 0, 2).value(), Unit('a') + Unit('a'));
}

TEST_F(DecoratorTest, ADelayedOperationIsOvertaken) {
  base::FakeClock clock;
  reactor_ = *rt::Reactor::Create({.clock = &clock});
  FaultyDevice device(std::make_unique<MemoryDevice>(kSize), plan_);
  plan_.Add({.on = FaultOn::kWrite, .kind = FaultKind::kDelayed, .delay = std::chrono::hours(1)});
  std::vector<std::string> order;
  const auto write = [&](char fill) -> rt::Task<void> {
    const AlignedBytes data = Filled(kUnit, fill);
    const ByteView view = data.view();
    EXPECT_TRUE((co_await device.Write(*reactor_, 0, std::span(&view, 1))).ok());
    order.push_back(std::string(1, fill));
    if (fill == 'b') clock.Advance(std::chrono::hours(2));
  };
  std::vector<rt::Task<void>> both;
  both.push_back(write('a'));
  both.push_back(write('b'));
  reactor_->BlockOn(rt::WhenAll(std::move(both)));
  EXPECT_EQ(order, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(Read(device, 0).value(), Unit('a'));
}

TEST_F(DecoratorTest, TheLogHasBeginningsEndsAndMarksInOneOrder) {
  RecordingDevice device(std::make_unique<MemoryDevice>(kSize, "d"), log_);
  ASSERT_TRUE(Write(device, kUnit, 'a').ok());
  ASSERT_TRUE(Flush(device).ok());
  EXPECT_EQ(log_.Mark("put 1"), 5U);
  EXPECT_FALSE(Write(device, kSize, 'x').ok());
  const auto entries = log_.entries();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].kind, OperationLog::Kind::kWrite);
  EXPECT_EQ(entries[0].store, "d");
  EXPECT_EQ(entries[0].offset, kUnit);
  EXPECT_EQ(AsText(entries[0].data), Unit('a'));
  EXPECT_EQ(entries[0].begin, 1U);
  EXPECT_EQ(entries[0].end, 2U);
  EXPECT_EQ(entries[1].kind, OperationLog::Kind::kFlush);
  EXPECT_EQ(entries[1].end, 4U);
  EXPECT_EQ(entries[2].store, "put 1");
}

TEST_F(DecoratorTest, ImagesOfACrashFollowTheLog) {
  RecordingDevice device(std::make_unique<MemoryDevice>(kSize, "d"), log_);
  const Bytes before(kSize);
  ASSERT_TRUE(Write(device, 0, 'a').ok());      // 1, 2
  ASSERT_TRUE(Flush(device).ok());              // 3, 4
  ASSERT_TRUE(Write(device, 0, 'b').ok());      // 5, 6
  ASSERT_TRUE(Write(device, kUnit, 'c').ok());  // 7, 8
  ASSERT_TRUE(Flush(device).ok());              // 9, 10
  const auto found = [&](uint64_t point, CrashMode mode) {
    const Bytes image = log_.CrashedDevice("d", point, before, random_, mode)->image();
    return std::string(AsText(ByteView(image).first(2 * kUnit)));
  };
  EXPECT_EQ(found(0, CrashMode::kKeepAll), Unit('\0') + Unit('\0'));
  EXPECT_EQ(found(3, CrashMode::kDropAll), Unit('\0') + Unit('\0'));
  EXPECT_EQ(found(4, CrashMode::kDropAll), Unit('a') + Unit('\0'));
  EXPECT_EQ(found(7, CrashMode::kKeepAll), Unit('b') + Unit('c'));
  EXPECT_EQ(found(9, CrashMode::kDropAll), Unit('a') + Unit('\0'));
  EXPECT_EQ(found(10, CrashMode::kDropAll), Unit('b') + Unit('c'));
  // Between 8 and 10 the two writes are independent of each other.
  std::set<std::string> states;
  for (int round = 0; round < 200; ++round) {
    const std::string image = found(9, CrashMode::kRandom);
    states.insert(image.substr(0, 1) + (image[kUnit] == '\0' ? "0" : "c"));
  }
  EXPECT_EQ(states, (std::set<std::string>{"a0", "ac", "b0", "bc"}));
}

}  // namespace
}  // namespace forebay::device
