// SPDX-License-Identifier: Apache-2.0
#include "device/mirror_device.h"

#include <atomic>
#include <random>
#include <thread>

#include "device/device_suite.h"
#include "device/faulty_device.h"
#include "device/memory_device.h"

namespace forebay::device {
namespace {

constexpr uint64_t kSize = 8 * base::kMiB;

MirrorIdentity Identity() {
  MirrorIdentity identity;
  identity.store.bytes.fill(std::byte{7});
  identity.device = 3;
  return identity;
}

/// Hands a device that outlives the mirror to it.
class Lent final : public Device {
 public:
  explicit Lent(Device& device) : device_(device) {}
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
  Device& device_;
};

std::unique_ptr<Device> MakeMirror(uint64_t size) {
  const auto reactor = *rt::Reactor::Create();
  static const std::unique_ptr<base::Log> kLog = base::Log::Discard();  // outlives the mirrors of the suite
  MirrorDevice::Sides sides = {std::make_unique<MemoryDevice>(size, "left"),
                               std::make_unique<MemoryDevice>(size, "right")};
  EXPECT_TRUE(reactor->BlockOn(MirrorDevice::Format(*reactor, {sides[0].get(), sides[1].get()}, Identity())).ok());
  auto mirror =
      reactor->BlockOn(MirrorDevice::Open(*reactor, std::move(sides), {"left", "right"}, Identity(), {.keep = [](uint64_t) { return Status(); }}, *kLog));
  EXPECT_TRUE(mirror.ok()) << mirror.status().ToString();
  // The suite begins with zeros: the records lie where it writes too, and it does not open twice.
  const AlignedBytes zeros(2 * kUnit);
  const ByteView view = zeros.view();
  EXPECT_TRUE(reactor->BlockOn((*mirror)->Write(*reactor, kMirrorSlots[0], {&view, 1})).ok());
  return *std::move(mirror);
}

INSTANTIATE_TEST_SUITE_P(Mirror, DeviceSuite, ::testing::Values(DeviceMaker{"mirror", MakeMirror}),
                         [](const auto& info) { return info.param.name; });

/// Two disks that survive the mirror on them.
class MirrorTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kAt = base::kMiB;  // where data begins

  void SetUp() override {
    reactor_ = *rt::Reactor::Create();
    ASSERT_TRUE(reactor_->BlockOn(MirrorDevice::Format(*reactor_, {disks_[0].get(), disks_[1].get()}, Identity())).ok());
  }

  Status TryOpen(bool left = true, bool right = true) {
    MirrorDevice::Sides sides;
    const bool there[] = {left, right};
    for (uint32_t side = 0; side < 2; ++side)
      if (there[side])
        sides[side] = std::make_unique<FaultyDevice>(std::make_unique<Lent>(*disks_[side]), plans_[side]);
    mirror_.reset();
    auto mirror =
        reactor_->BlockOn(MirrorDevice::Open(*reactor_, std::move(sides), {"left", "right"}, Identity(), Memory(), *log_));
    if (!mirror.ok()) return mirror.error();
    mirror_ = *std::move(mirror);
    return {};
  }
  void Open(bool left = true, bool right = true) {
    const Status status = TryOpen(left, right);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  MirrorMemory Memory() {
    return {.generation = kept_, .keep = [this](uint64_t generation) {
              kept_ = generation;
              return Status();
            }};
  }

  Status Write(uint64_t offset, char fill, size_t units = 1) {
    const AlignedBytes data = Filled(units * kUnit, fill);
    const ByteView view = data.view();
    return reactor_->BlockOn(mirror_->Write(*reactor_, offset, {&view, 1}));
  }
  Status Flush() { return reactor_->BlockOn(mirror_->Flush(*reactor_)); }
  /// The first byte of a unit, '!' after an error.
  char Read(uint64_t offset) {
    AlignedBytes data(kUnit);
    const MutableByteView view = data.writable();
    const Status status = reactor_->BlockOn(mirror_->Read(*reactor_, offset, {&view, 1}));
    return status.ok() ? AsText(data.view()).front() : '!';
  }
  char ReadCopy(uint32_t copy, uint64_t offset) {
    AlignedBytes data(kUnit);
    const MutableByteView view = data.writable();
    const Status status = reactor_->BlockOn(mirror_->ReadCopy(*reactor_, copy, offset, {&view, 1}));
    return status.ok() ? AsText(data.view()).front() : '!';
  }
  char OnDisk(uint32_t side, uint64_t offset) { return static_cast<char>(disks_[side]->image()[offset]); }
  SideState state(uint32_t side) { return mirror_->sides()[side].state; }
  Status Resync(ResyncOptions options = {.in_use = [](uint64_t, uint64_t) { return true; }}) {
    return reactor_->BlockOn(mirror_->Resync(*reactor_, options));
  }
  void CutPower(CrashMode mode) {
    mirror_.reset();
    for (auto& disk : disks_) disk = disk->Crash(random_, mode);
  }

  std::unique_ptr<rt::Reactor> reactor_;
  base::SeededRandom random_{1};
  const std::unique_ptr<base::Log> log_ = base::Log::Discard();
  std::array<std::unique_ptr<MemoryDevice>, 2> disks_ = {std::make_unique<MemoryDevice>(kSize, "left"),
                                                         std::make_unique<MemoryDevice>(kSize, "right")};
  std::array<FaultPlan, 2> plans_;
  uint64_t kept_ = 0;
  std::unique_ptr<MirrorDevice> mirror_;
};

TEST_F(MirrorTest, EachByteIsOnBothSides) {
  Open();
  ASSERT_TRUE(Write(kAt, 'a').ok());
  ASSERT_TRUE(Flush().ok());
  CutPower(CrashMode::kDropAll);
  EXPECT_EQ(OnDisk(0, kAt), 'a');
  EXPECT_EQ(OnDisk(1, kAt), 'a');
}

TEST_F(MirrorTest, ReadsUseBothSidesAndEachAnswersForTheOther) {
  Open();
  ASSERT_TRUE(Write(0 + kAt, 'a').ok());
  ASSERT_TRUE(Write(base::kMiB + kAt, 'b').ok());
  const uint64_t before[] = {plans_[0].operations(FaultOn::kRead), plans_[1].operations(FaultOn::kRead)};
  EXPECT_EQ(Read(kAt), 'a');
  EXPECT_EQ(Read(base::kMiB + kAt), 'b');
  EXPECT_EQ(plans_[0].operations(FaultOn::kRead) - before[0], 1U);
  EXPECT_EQ(plans_[1].operations(FaultOn::kRead) - before[1], 1U);

  plans_[1].Add({.on = FaultOn::kRead, .nth = plans_[1].operations(FaultOn::kRead), .count = Fault::kForever});
  EXPECT_EQ(Read(kAt), 'a');
  EXPECT_EQ(Read(base::kMiB + kAt), 'b');
  EXPECT_EQ(mirror_->sides()[1].failed_reads, 1U);
  EXPECT_EQ(state(1), SideState::kCurrent) << "one bad sector is no lost drive";
}

TEST_F(MirrorTest, ASideThatFailsAWriteIsLostAndNobodySeesIt) {
  Open();
  plans_[0].Add({.on = FaultOn::kWrite, .nth = plans_[0].operations(FaultOn::kWrite), .count = Fault::kForever});
  EXPECT_TRUE(Write(kAt, 'a').ok());
  EXPECT_EQ(state(0), SideState::kLost);
  EXPECT_EQ(Read(kAt), 'a');
  EXPECT_TRUE(Flush().ok());
  EXPECT_EQ(ReadCopy(0, kAt), '!');
}

TEST_F(MirrorTest, ASideThatFailedAFlushIsNotTakenForCurrentAfterwards) {
  Open();
  ASSERT_TRUE(Write(kAt, 'a').ok());
  plans_[1].Add({.on = FaultOn::kFlush, .nth = plans_[1].operations(FaultOn::kFlush), .kind = FaultKind::kDropCache});
  ASSERT_TRUE(Flush().ok());
  EXPECT_EQ(state(1), SideState::kLost);
  CutPower(CrashMode::kDropAll);
  Open();
  EXPECT_EQ(state(0), SideState::kCurrent);
  EXPECT_EQ(state(1), SideState::kRebuilding);
  EXPECT_EQ(Read(kAt), 'a');
  // Alone the other one has not everything, and says so.
  EXPECT_EQ(TryOpen(false, true).code(), Code::kUnavailable);
}

TEST_F(MirrorTest, WhenBothFailNothingIsAcknowledgedAndNoneIsGivenUp) {
  Open();
  for (FaultPlan& plan : plans_) plan.Add({.on = FaultOn::kFlush, .nth = plan.operations(FaultOn::kFlush)});
  ASSERT_TRUE(Write(kAt, 'a').ok());
  EXPECT_EQ(Flush().code(), Code::kDataLoss);
  EXPECT_EQ(Flush().code(), Code::kDataLoss) << "the drive would say ok now, and have forgotten what it could not write";
  EXPECT_EQ(state(0), SideState::kCurrent);
  EXPECT_EQ(state(1), SideState::kCurrent);
}

TEST_F(MirrorTest, AFlushFailsWhenItCannotBeSaidThatASideIsLost) {
  Open();
  ASSERT_TRUE(Write(kAt, 'a').ok());
  plans_[0].Add({.on = FaultOn::kFlush, .nth = plans_[0].operations(FaultOn::kFlush)});
  plans_[1].Add({.on = FaultOn::kWrite, .nth = plans_[1].operations(FaultOn::kWrite)});
  EXPECT_FALSE(Flush().ok());
}

TEST_F(MirrorTest, WithOneSideAbsentTheOtherGoesOn) {
  Open(true, false);
  EXPECT_EQ(state(1), SideState::kLost);
  ASSERT_TRUE(Write(kAt, 'b').ok());
  ASSERT_TRUE(Flush().ok());
  Open();
  EXPECT_EQ(state(1), SideState::kRebuilding);
  EXPECT_EQ(Read(kAt), 'b');
  ASSERT_TRUE(Resync().ok());
  EXPECT_EQ(state(1), SideState::kCurrent);
  CutPower(CrashMode::kDropAll);
  Open(false, true);
  EXPECT_EQ(Read(kAt), 'b');
}

TEST_F(MirrorTest, SidesThatWereWrittenWithoutEachOtherAreNotMixed) {
  Open(true, false);
  // The left one is away, and so is the memory of it: the right one believes that it is whole.
  EXPECT_EQ(TryOpen(false, true).code(), Code::kUnavailable);
  kept_ = 0;
  Open(false, true);
  ASSERT_TRUE(Write(kAt, 'r').ok());
  ASSERT_TRUE(Flush().ok());
  const Status status = TryOpen();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("without each other"), std::string_view::npos) << status.message();
  Open(false, true);
  EXPECT_EQ(Read(kAt), 'r');
}

TEST_F(MirrorTest, SwappedSidesAreRefused) {
  std::swap(disks_[0], disks_[1]);
  EXPECT_EQ(TryOpen().code(), Code::kFailedPrecondition);
}

TEST_F(MirrorTest, DamagedRecordsOfOneSideMakeItOneThatLacksEverything) {
  for (const uint64_t slot : kMirrorSlots) disks_[0]->FlipBit(slot + 30, 1);
  Open();
  EXPECT_EQ(state(0), SideState::kRebuilding);
  for (const uint64_t slot : kMirrorSlots) disks_[1]->FlipBit(slot + 30, 1);
  disks_[0] = std::make_unique<MemoryDevice>(kSize, "left");
  EXPECT_EQ(TryOpen().code(), Code::kDataLoss);
}

TEST_F(MirrorTest, AReplacedSideGetsWhatIsThereAndWhatComes) {
  Open();
  ASSERT_TRUE(Write(kAt, 'a', 3).ok());
  ASSERT_TRUE(Write(5 * base::kMiB, 'b').ok());
  EXPECT_EQ(mirror_->Replace(1, std::make_unique<MemoryDevice>(kSize, "new")).code(), Code::kFailedPrecondition);
  plans_[1].Add({.on = FaultOn::kWrite, .nth = plans_[1].operations(FaultOn::kWrite), .count = Fault::kForever});
  ASSERT_TRUE(Write(kAt + kUnit, 'c').ok());

  EXPECT_EQ(mirror_->Replace(1, std::make_unique<MemoryDevice>(kSize / 2, "small")).code(), Code::kInvalidArgument);
  MemoryDevice fresh(kSize, "fresh");
  ASSERT_TRUE(mirror_->Replace(1, std::make_unique<Lent>(fresh)).ok());
  EXPECT_EQ(mirror_->name(), "left + fresh");
  EXPECT_EQ(mirror_->rebuilding(), 1U);
  ASSERT_TRUE(Write(6 * base::kMiB, 'd').ok());
  uint64_t done = 0;
  ASSERT_TRUE(Resync({.in_use = [](uint64_t offset, uint64_t) { return offset != 6 * base::kMiB; },
                      .progress = [&](uint64_t at, uint64_t total) {
                        done = at;
                        EXPECT_EQ(total, kSize);
                      }})
                  .ok());
  EXPECT_EQ(done, kSize);
  EXPECT_FALSE(mirror_->rebuilding());
  const Bytes image = fresh.image();
  EXPECT_EQ(static_cast<char>(image[kAt]), 'a');
  EXPECT_EQ(static_cast<char>(image[kAt + kUnit]), 'c');
  EXPECT_EQ(static_cast<char>(image[5 * base::kMiB]), 'b');
  EXPECT_EQ(static_cast<char>(image[6 * base::kMiB]), 'd') << "not said to be in use, but written since";
  const std::optional<MirrorRecord> record = *reactor_->BlockOn(ReadMirrorRecord(*reactor_, fresh, Identity().store, Identity().device));
  ASSERT_TRUE(record);
  EXPECT_EQ(record->current, 0b11U);
  EXPECT_EQ(record->side, 1U);
}

TEST_F(MirrorTest, AResyncThatIsStoppedOrCutBeginsAnew) {
  Open(true, false);
  ASSERT_TRUE(Write(kAt, 'a').ok());
  ASSERT_TRUE(Flush().ok());
  Open();
  int pieces = 0;
  EXPECT_EQ(Resync({.in_use = [](uint64_t, uint64_t) { return true; }, .stopped = [&] { return ++pieces == 3; }}).code(),
            Code::kCancelled);
  EXPECT_EQ(state(1), SideState::kRebuilding);
  CutPower(CrashMode::kRandom);
  Open();
  EXPECT_EQ(state(1), SideState::kRebuilding);
  ASSERT_TRUE(Resync().ok());
  EXPECT_EQ(OnDisk(1, kAt), 'a');
}

TEST_F(MirrorTest, WhatCannotBeReadOfOneSideStaysOnTheOther) {
  Open();
  ASSERT_TRUE(Write(kAt, 'a', 2).ok());
  ASSERT_TRUE(Flush().ok());
  Open(true, false);
  Open();
  // The first two reads of that piece fail: as a whole, and its first unit.
  uint64_t piece = 0;
  const Status status = Resync({.in_use = [](uint64_t offset, uint64_t) { return offset == kAt; },
                                .progress = [&](uint64_t at, uint64_t) {
                                  if (at == kAt) piece = plans_[0].operations(FaultOn::kRead);
                                  if (at == kAt + base::kMiB)
                                    plans_[0].Add({.on = FaultOn::kRead,
                                                   .nth = plans_[0].operations(FaultOn::kRead),
                                                   .count = 2});
                                }});
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_GT(piece, 0U);
  EXPECT_EQ(plans_[0].hits(), 2U);
  EXPECT_EQ(OnDisk(1, kAt), 'a') << "what it had is the best there is";
  EXPECT_EQ(OnDisk(1, kAt + kUnit), 'a');
  EXPECT_EQ(state(1), SideState::kCurrent);
}

TEST_F(MirrorTest, ACopyIsReadAndPutRightAlone) {
  Open();
  ASSERT_TRUE(Write(kAt, 'a').ok());
  disks_[1]->FlipBit(kAt, 1);  // a becomes c
  EXPECT_EQ(mirror_->copies(), 2U);
  EXPECT_EQ(ReadCopy(0, kAt), 'a');
  EXPECT_EQ(ReadCopy(1, kAt), 'c');
  const AlignedBytes right = Filled(kUnit, 'a');
  const ByteView view = right.view();
  ASSERT_TRUE(reactor_->BlockOn(mirror_->WriteCopy(*reactor_, 1, kAt, {&view, 1})).ok());
  EXPECT_EQ(ReadCopy(1, kAt), 'a');
}

/// Writers from two other threads while a side is rebuilt: at its end both sides are equal wherever something was written.
TEST_F(MirrorTest, WritesDuringAResyncReachBothSides) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(seed);
    Open(true, false);
    for (uint64_t unit = 256; unit < kSize / kUnit; unit += 3) ASSERT_TRUE(Write(unit * kUnit, 'o').ok());
    Open();
    std::atomic<bool> over{false};
    std::vector<std::thread> writers;
    for (uint64_t writer = 0; writer < 2; ++writer)
      writers.emplace_back([&, writer] {
        const auto reactor = *rt::Reactor::Create();
        std::mt19937_64 random(seed * 2 + writer);
        while (!over) {
          const uint64_t unit = 256 + random() % (kSize / kUnit - 256) / 2 * 2 + writer;
          const AlignedBytes data = Filled(kUnit, static_cast<char>('a' + random() % 26));
          const ByteView view = data.view();
          if (unit < kSize / kUnit)
            EXPECT_TRUE(reactor->BlockOn(mirror_->Write(*reactor, unit * kUnit, {&view, 1})).ok());
        }
      });
    EXPECT_TRUE(Resync().ok());
    over = true;
    for (std::thread& writer : writers) writer.join();
    const Bytes left = disks_[0]->image(), right = disks_[1]->image();
    EXPECT_TRUE(std::equal(left.begin() + base::kMiB, left.end(), right.begin() + base::kMiB));
    EXPECT_EQ(state(1), SideState::kCurrent);
  }
}

TEST(MirrorRecordTest, TheExampleOfTheFormatPage) {
  MirrorRecord record{.store = {}, .device = 1, .side = 0, .generation = 5, .current = 0b01};
  ASSERT_TRUE(Uuid::Parse("00112233-4455-4677-8899-aabbccddeeff", &record.store));
  const std::string encoded = EncodeMirrorRecord(record);
  // The checksum was computed with another implementation (a bitwise CRC32C).
  EXPECT_EQ(base::ToHex(AsBytes(encoded)),
            "46424d4952524f5200112233445546778899aabbccddeeff"
            "01000000000000000500000000000000"
            "010000007a0e3b0c");
  EXPECT_EQ(DecodeMirrorRecord(AsBytes(encoded)), record);
  for (size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    std::string damaged = encoded;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(DecodeMirrorRecord(AsBytes(damaged))) << bit;
  }
  EXPECT_FALSE(DecodeMirrorRecord(AsBytes(encoded).first(47)));
}

}  // namespace
}  // namespace forebay::device
