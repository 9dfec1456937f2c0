// SPDX-License-Identifier: Apache-2.0
// The scrub: finds what is damaged and says whose it is, goes on where it was, and is in nobody's way.
#include "engine/scrub.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "device/faulty_device.h"
#include "engine/engine_fixture.h"
#include "engine/rows.h"

namespace forebay::engine {
namespace {

using meta::Family;

constexpr uint64_t kBlock = 64 * base::kKiB;
const store::PutOptions kOneExtent{.size_bytes = 300'000};

class ScrubTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(twins_.CreateBucket().ok());
    ASSERT_TRUE(twins_.Put("inline", "no block of any device").ok());
  }
  void TearDown() override { EXPECT_EQ(twins_.engine().stats().waiting_for_readers, 0U) << "it holds nothing back"; }

  /// Runs a pass to its end or until `watch` says otherwise.
  void Run(ScrubState& state, Scrubber::Watch watch = [](const ScrubState&) { return ScrubOrder::kGoOn; }) {
    Scrubber scrubber(twins_.reactor(), twins_.engine().OpenForScrub(), std::move(watch));
    twins_.reactor().BlockOn(scrubber.Run(state));
  }
  ScrubState Pass() {
    ScrubState state = New();
    Run(state);
    return state;
  }
  ScrubState New(uint64_t rate = 0) { return Scrubber::NewPass(rate, twins_.clock()); }
  ScrubState Saved() {
    const Result<ScrubState> state = Scrubber::Load(twins_.engine().OpenForScrub().meta);
    EXPECT_TRUE(state.ok()) << state.status().ToString();
    return state.value_or(ScrubState{});
  }
  void Copy(const std::string& from, const std::string& to) {
    std::vector<store::Source> sources{{.bucket = "bucket", .key = from}};
    ASSERT_TRUE(twins_.Run(twins_.engine().Compose(twins_.context(), "bucket", to, std::move(sources), {})).ok());
  }
  void Damage(const ExtentRecord& extent, uint64_t at) {
    twins_.disk().FlipBit(extent.first_unit * device::kUnit + at, 5);
  }

  TwinStore twins_;
};

TEST_F(ScrubTest, AStoreWithoutDamageIsReadAsAWhole) {
  EXPECT_EQ(Saved().phase, ScrubPhase::kNever);
  ASSERT_TRUE(twins_.Put("medium", RandomContent(1, 300'000), kOneExtent).ok());
  ASSERT_TRUE(twins_.Put("large", RandomContent(2, 20 << 20)).ok());
  const ScrubState state = Pass();
  EXPECT_EQ(state.phase, ScrubPhase::kFinished);
  EXPECT_EQ(state.verified_bytes, 300'000 + (20U << 20));
  EXPECT_EQ(state.passed_bytes, state.total_bytes);
  EXPECT_EQ(state.damaged_blocks, 0U);
  EXPECT_GE(state.ended_ns, state.started_ns);
  EXPECT_EQ(Saved(), state);
  twins_.Reopen();
  EXPECT_EQ(Saved(), state);
}

TEST_F(ScrubTest, AnEmptyStoreIsScrubbedToo) {
  const ScrubState state = Pass();
  EXPECT_EQ(state.phase, ScrubPhase::kFinished);
  EXPECT_EQ(state.verified_bytes, 0U);
}

TEST_F(ScrubTest, ADamagedBlockIsNamedWithAllObjectsThatHaveIt) {
  ASSERT_TRUE(twins_.Put("medium", RandomContent(1, 300'000), kOneExtent).ok());
  const ExtentRecord extent = twins_.LastExtent();
  ASSERT_TRUE(twins_.Put("other", RandomContent(2, 300'000), kOneExtent).ok());
  Copy("medium", "copy");
  Damage(extent, kBlock + 100);
  const ScrubState state = Pass();
  EXPECT_EQ(state.phase, ScrubPhase::kFinished);
  EXPECT_EQ(state.damaged_blocks, 1U);
  EXPECT_EQ(state.repaired_blocks, 0U);
  EXPECT_EQ(state.verified_bytes, 600'000 - kBlock);
  ASSERT_EQ(state.damage.size(), 1U);
  const DamagedBlock& block = state.damage[0];
  EXPECT_EQ(block.begin, kBlock);
  EXPECT_EQ(block.length, kBlock);
  EXPECT_EQ(block.unit, extent.first_unit + 16);
  EXPECT_FALSE(block.unreadable);
  ASSERT_EQ(block.owners.size(), 2U);
  EXPECT_TRUE(block.owners[0].name.starts_with("object `bucket/copy` (version ")) << block.owners[0].name;
  EXPECT_TRUE(block.owners[1].name.starts_with("object `bucket/medium` (version ")) << block.owners[1].name;
  EXPECT_EQ(block.owners[0].offset, kBlock);
  EXPECT_EQ(DescribeBlock(block, twins_.engine().OpenForScrub().devices),
            fmt::format("unit {} of disk0 (extent {}) does not match its checksum", block.unit, block.extent));
  EXPECT_EQ(Saved(), state);
  EXPECT_EQ(twins_.engine().stats().damaged_blocks, 1U);
}

TEST_F(ScrubTest, DamageInAMapOfManySegmentsIsNamedByItsOffset) {
  ASSERT_TRUE(twins_.Put("large", RandomContent(2, 65 << 20)).ok());
  Damage(twins_.LastExtent(), 0);  // of the second segment
  const ScrubState state = Pass();
  ASSERT_EQ(state.damage.size(), 1U);
  ASSERT_EQ(state.damage[0].owners.size(), 1U);
  EXPECT_EQ(state.damage[0].owners[0].offset, 64U << 20);
}

TEST_F(ScrubTest, DamageIsFoundThoughTheMemoryTierHasTheBlock) {
  const std::string content = RandomContent(1, 300'000);
  ASSERT_TRUE(twins_.Put("medium", content).ok());
  ASSERT_EQ(*twins_.Get("medium"), content);
  Damage(twins_.LastExtent(), 0);
  EXPECT_EQ(*twins_.Get("medium"), content) << "it is in memory";
  EXPECT_EQ(Pass().damaged_blocks, 1U);
}

TEST_F(ScrubTest, AStoppedPassGoesOnWhereItWasAfterARestart) {
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(twins_.Put("key" + std::to_string(i), RandomContent(i, 12 << 20)).ok());
  ScrubState state = New();
  Run(state, [](const ScrubState& now) { return now.passed_bytes == 0 ? ScrubOrder::kGoOn : ScrubOrder::kStop; });
  EXPECT_EQ(state.phase, ScrubPhase::kStopped);
  EXPECT_GT(state.verified_bytes, 0U);
  EXPECT_LT(state.verified_bytes, 72U << 20);
  twins_.Reopen();
  ScrubState resumed = Saved();
  EXPECT_EQ(resumed, state);
  const uint64_t read_before = twins_.engine().stats().device_bytes_read;
  Run(resumed);
  EXPECT_EQ(resumed.phase, ScrubPhase::kFinished);
  EXPECT_EQ(resumed.verified_bytes, 72U << 20);
  EXPECT_EQ(twins_.engine().stats().device_bytes_read - read_before, (72U << 20) - state.verified_bytes);
}

TEST_F(ScrubTest, AStoreThatClosesLeavesThePassRunning) {
  ASSERT_TRUE(twins_.Put("medium", RandomContent(1, 300'000), kOneExtent).ok());
  Damage(twins_.LastExtent(), 0);
  ScrubState state = New();
  Run(state, [](const ScrubState& now) { return now.passed_bytes == 0 ? ScrubOrder::kGoOn : ScrubOrder::kLeave; });
  EXPECT_EQ(Saved().phase, ScrubPhase::kRunning);
  EXPECT_EQ(Saved().damaged_blocks, 1U);
  EXPECT_EQ(Saved().ended_ns, 0);
  ScrubState resumed = Saved();
  Run(resumed);
  EXPECT_EQ(resumed.phase, ScrubPhase::kFinished);
  EXPECT_EQ(resumed.damaged_blocks, 1U);
  EXPECT_EQ(resumed.damage[0].owners.size(), 1U) << "it is named though it was found before";
}

TEST_F(ScrubTest, ARunningPassWritesDownHowFarItIs) {
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(twins_.Put("key" + std::to_string(i), RandomContent(i, 12 << 20)).ok());
  ScrubState state = New();
  uint64_t most_saved = 0;
  Run(state, [&](const ScrubState&) {
    most_saved = std::max(most_saved, Saved().next_extent);
    twins_.clock().Advance(kScrubSavesEvery);
    return ScrubOrder::kGoOn;
  });
  EXPECT_GT(most_saved, 1U) << "before its end";
}

TEST_F(ScrubTest, WhatIsWrittenMeanwhileIsForTheNextPass) {
  ASSERT_TRUE(twins_.Put("medium", RandomContent(1, 300'000), kOneExtent).ok());
  ScrubState state = New();
  bool put = false;
  Run(state, [&](const ScrubState& now) {
    put = put || now.end_extent != 0;
    return ScrubOrder::kGoOn;
  });
  const uint64_t end = state.end_extent;
  ASSERT_TRUE(twins_.Put("later", RandomContent(2, 300'000), kOneExtent).ok());
  EXPECT_GT(Pass().end_extent, end);
  EXPECT_EQ(state.verified_bytes, 300'000U);
}

TEST_F(ScrubTest, SpaceThatIsFreedWhileItIsReadComesBackAfterwards) {
  ASSERT_TRUE(twins_.Put("medium", RandomContent(1, 300'000), kOneExtent).ok());
  ScrubState state = New();
  Scrubber scrubber(twins_.reactor(), twins_.engine().OpenForScrub(),
                    [](const ScrubState&) { return ScrubOrder::kGoOn; });
  const int reads = twins_.faults().reads;
  twins_.faults().hold_reads = true;
  bool done = false;
  rt::Gate gate(twins_.reactor());
  twins_.reactor().BlockOn([&]() -> rt::Task<void> {
    EXPECT_TRUE(twins_.reactor().Spawn(gate, [&]() -> rt::Task<void> {
      co_await scrubber.Run(state);
      done = true;
    }));
    while (twins_.faults().reads == reads) co_await twins_.reactor().Yield();
  });
  ASSERT_TRUE(twins_.Delete("medium").ok());
  ASSERT_TRUE(twins_.Put("new", RandomContent(3, 300'000), kOneExtent).ok());
  EXPECT_EQ(twins_.engine().stats().waiting_for_readers, 1U) << "the deleted object's extent";
  EXPECT_FALSE(done);
  twins_.faults().hold_reads = false;
  twins_.reactor().BlockOn([&]() -> rt::Task<void> { co_await gate.Close(); });
  EXPECT_TRUE(done);
  EXPECT_EQ(state.damaged_blocks, 0U) << "what it read was not written over";
}

TEST_F(ScrubTest, NothingIsHeldBackWhileItWaitsForItsRate) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(twins_.Put("key" + std::to_string(i), RandomContent(i, 4 << 20)).ok());
  ScrubState state = New(base::kMiB);
  Scrubber scrubber(twins_.reactor(), twins_.engine().OpenForScrub(),
                    [](const ScrubState&) { return ScrubOrder::kGoOn; });
  const base::TimePoint begun = twins_.clock().Now();
  bool done = false;
  rt::Gate gate(twins_.reactor());
  twins_.reactor().BlockOn([&]() -> rt::Task<void> {
    EXPECT_TRUE(twins_.reactor().Spawn(gate, [&]() -> rt::Task<void> {
      co_await scrubber.Run(state);
      done = true;
    }));
    while (state.passed_bytes == 0) co_await twins_.reactor().Yield();
  });
  ASSERT_TRUE(twins_.Delete("key0").ok());
  EXPECT_EQ(twins_.engine().stats().waiting_for_readers, 0U);
  twins_.reactor().BlockOn([&]() -> rt::Task<void> {
    while (!done) {
      twins_.clock().Advance(std::chrono::milliseconds(10));
      co_await twins_.reactor().Yield();
    }
    co_await gate.Close();
  });
  EXPECT_EQ(state.verified_bytes, (12 << 20) + (5 << 18)) << "what was deleted after its first batch is passed over";
  EXPECT_GE(twins_.clock().Now() - begun, std::chrono::seconds(13)) << "at 1 MiB a second";
}

TEST_F(ScrubTest, WhatIsDeletedBeforeItsTurnIsPassedOver) {
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(twins_.Put("key" + std::to_string(i), RandomContent(i, 12 << 20)).ok());
  Damage(twins_.LastExtent(), 0);
  ScrubState state = New();
  Run(state, [](const ScrubState& now) { return now.passed_bytes == 0 ? ScrubOrder::kGoOn : ScrubOrder::kStop; });
  ASSERT_EQ(state.damaged_blocks, 0U);
  ASSERT_TRUE(twins_.Delete("key5").ok());
  Run(state);
  EXPECT_EQ(state.phase, ScrubPhase::kFinished);
  EXPECT_EQ(state.verified_bytes, 60U << 20);
  EXPECT_EQ(state.damaged_blocks, 0U);
}

TEST_F(ScrubTest, ADamagedRowOfAnExtentIsCountedAndPassedOver) {
  ASSERT_TRUE(twins_.Put("medium", RandomContent(1, 300'000), kOneExtent).ok());
  ASSERT_TRUE(twins_.Put("other", RandomContent(2, 300'000), kOneExtent).ok());
  const auto [key, value] = *twins_.media()->First(Family::kExtents, {}, {});
  twins_.media()->Damage(Family::kExtents, key, "nonsense");
  const ScrubState state = Pass();
  EXPECT_EQ(state.phase, ScrubPhase::kFinished);
  EXPECT_EQ(state.damaged_rows, 1U);
  EXPECT_EQ(state.verified_bytes, 300'000U);
}

/// One run of three blocks, the last of them short, on a drive that errs.
class BlockCheckTest : public testing::Test {
 protected:
  BlockCheckTest() {
    auto memory = std::make_unique<device::MemoryDevice>(16 * base::kMiB, "drive");
    media_ = memory.get();
    std::vector<std::unique_ptr<device::Device>> list;
    list.push_back(std::make_unique<device::FaultyDevice>(std::move(memory), plan_));
    devices_ = std::make_unique<Devices>(std::move(list));
    const std::string content = RandomContent(5, 2 * kBlock + 5000);
    device::AlignedBytes bytes(content.size());
    std::memcpy(bytes.data(), content.data(), content.size());
    const ByteView view = bytes.view();
    EXPECT_TRUE(reactor_->BlockOn(devices_->Write(*reactor_, 0, base::kMiB, {&view, 1})).ok());
    ExtentRecord record{.first_unit = base::kMiB / device::kUnit, .length_bytes = content.size()};
    for (const uint64_t begin : {uint64_t{0}, kBlock, 2 * kBlock})
      record.checksums.push_back(base::Crc32c(AsBytes(std::string_view(content).substr(begin, kBlock))));
    AddRuns(7, record, base::kMiB, runs_);
  }
  RunCheck Check() {
    device::AlignedBytes memory(runs_[0].device_bytes());
    return reactor_->BlockOn(CheckRun(*reactor_, *devices_, runs_[0], memory.writable()));
  }

  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  device::FaultPlan plan_;
  device::MemoryDevice* media_ = nullptr;
  std::unique_ptr<Devices> devices_;
  std::vector<BlockRun> runs_;
};

TEST_F(BlockCheckTest, WhatMatchesIsReadOnce) {
  ASSERT_EQ(runs_.size(), 1U);
  EXPECT_TRUE(Check().damaged.empty());
  EXPECT_EQ(plan_.operations(device::FaultOn::kRead), 1U);
}

TEST_F(BlockCheckTest, AFlipOnTheWayIsNoDamage) {
  plan_.Add({.on = device::FaultOn::kRead, .kind = device::FaultKind::kFlipped, .amount = 8 * (kBlock + 17)});
  EXPECT_TRUE(Check().damaged.empty());
  EXPECT_EQ(plan_.operations(device::FaultOn::kRead), 2U);
}

TEST_F(BlockCheckTest, AReadThatFailsOnceIsNoDamage) {
  plan_.Add({.on = device::FaultOn::kRead, .kind = device::FaultKind::kIoError});
  EXPECT_TRUE(Check().damaged.empty());
}

TEST_F(BlockCheckTest, DamageIsOfItsBlockOnly) {
  media_->FlipBit(base::kMiB + 2 * kBlock + 4999, 0);
  EXPECT_EQ(Check().damaged, (std::vector<BadBlock>{{.block = 2}}));
  media_->FlipBit(base::kMiB + 2 * kBlock + 4999, 0);
  media_->FlipBit(base::kMiB + 2 * kBlock + 5000, 0);
  EXPECT_TRUE(Check().damaged.empty()) << "behind the content";
}

TEST_F(BlockCheckTest, ADriveThatGivesErrorsOnlyIsUnreadable) {
  plan_.Add({.on = device::FaultOn::kRead, .count = device::Fault::kForever});
  EXPECT_EQ(Check().damaged, (std::vector<BadBlock>{{.block = 0, .unreadable = true},
                                                    {.block = 1, .unreadable = true},
                                                    {.block = 2, .unreadable = true}}));
}

// The example of docs/formats/metadata.md; its checksum was made by another program.
constexpr std::string_view kExample =
    "010200002a36fe9c97170000000000000000e8070908804080c004808004010000000107808004f0220190020001186f626a6563742060622f6b602028"
    "76657273696f6e203129808004f07e8fa6";

ScrubState Example() {
  return {.phase = ScrubPhase::kStopped,
          .started_ns = 1'700'000'000'000'000'000,
          .bytes_per_second = 1000,
          .end_extent = 9,
          .next_extent = 8,
          .total_bytes = 8192,
          .passed_bytes = 73'728,
          .verified_bytes = 65'536,
          .damaged_blocks = 1,
          .damage = {{.extent = 7,
                      .begin = 65'536,
                      .length = 4464,
                      .device = 1,
                      .unit = 272,
                      .owners = {{.name = "object `b/k` (version 1)", .offset = 65'536}}}}};
}

TEST(ScrubRowTest, IsAsTheFormatSays) {
  EXPECT_EQ(base::ToHex(AsBytes(EncodeScrub(Example()))), kExample);
  EXPECT_EQ(*DecodeScrub(EncodeScrub(Example())), Example());
}

TEST(ScrubRowTest, WhatIsDamagedIsRefused) {
  const std::string row = EncodeScrub(Example());
  for (size_t length = 0; length < row.size(); ++length)
    EXPECT_EQ(DecodeScrub(row.substr(0, length)).status().code(), Code::kDataLoss) << length;
  for (size_t bit = 0; bit < 8 * row.size(); ++bit) {
    std::string flipped = row;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(DecodeScrub(flipped).ok()) << bit;
  }
}

TEST(ScrubRowTest, KeepsTheFirstThousandBlocks) {
  ScrubState state = Example();
  state.damage.resize(kMaxDamageKept + 5, state.damage[0]);
  EXPECT_EQ(DecodeScrub(EncodeScrub(state))->damage.size(), kMaxDamageKept);
}

}  // namespace
}  // namespace forebay::engine
