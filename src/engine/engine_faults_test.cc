// SPDX-License-Identifier: Apache-2.0
// What the engine does when devices lie, stall, or many want the same.
#include <cstdlib>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/engine_fixture.h"

namespace forebay::engine {
namespace {

using std::chrono::seconds;

class EngineFaultsTest : public testing::Test {
 protected:
  EngineFaultsTest() { EXPECT_TRUE(twins_.CreateBucket().ok()); }

  /// Runs beside the test's own steps; ended by Finish.
  void Start(rt::Task<void> task) { twins_.reactor().Spawn(gate_, std::move(task)); }
  void Finish() { twins_.reactor().BlockOn(gate_.Close()); }

  // Without a tier each read goes to the device.
  TwinStore twins_{{.device_bytes = 64 * base::kMiB, .engine = {.tier_bytes = 0}}};
  rt::Gate gate_{twins_.reactor()};
};

class BlockDamageTest : public EngineFaultsTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(twins_.Put("victim", content_).ok());
    offset_ = twins_.LastExtent().first_unit * device::kUnit;
  }
  void ExpectDamage() {
    const Result<std::string> back = twins_.Get("victim");
    ASSERT_EQ(back.status().code(), Code::kDataLoss) << back.status().ToString();
    EXPECT_NE(back.status().message().find("bucket/victim"), std::string::npos) << back.status().ToString();
    EXPECT_EQ(twins_.engine().stats().damaged_blocks, 1U);
  }

  const std::string content_ = RandomContent(1, 4 * 65536);
  uint64_t offset_ = 0;
};

TEST_F(BlockDamageTest, AZeroedUnit) {
  twins_.WriteDisk(offset_ + 65536, Bytes(device::kUnit));
  ExpectDamage();
}

TEST_F(BlockDamageTest, TwoBlocksInEachOthersPlace) {
  const Bytes first = twins_.ReadDisk(offset_, 65536);
  const Bytes second = twins_.ReadDisk(offset_ + 65536, 65536);
  twins_.WriteDisk(offset_, second);
  twins_.WriteDisk(offset_ + 65536, first);
  const Result<std::string> back = twins_.Get("victim");
  EXPECT_EQ(back.status().code(), Code::kDataLoss);
}

TEST_F(BlockDamageTest, ALostWriteThatLeftWhatWasThereBefore) {
  const Bytes stale = twins_.ReadDisk(offset_, device::kUnit);
  ASSERT_TRUE(twins_.Delete("victim").ok());
  ASSERT_TRUE(twins_.Put("victim", RandomContent(2, 4 * 65536)).ok());
  ASSERT_EQ(twins_.LastExtent().first_unit * device::kUnit, offset_) << "the units were not used again";
  twins_.WriteDisk(offset_, stale);
  ExpectDamage();
}

TEST_F(BlockDamageTest, WhatIsBehindTheContentDoesNotMatter) {
  ASSERT_TRUE(twins_.Put("short", RandomContent(3, 65536 + 10)).ok());
  const uint64_t tail = twins_.LastExtent().first_unit * device::kUnit + 65536;
  Bytes unit = twins_.ReadDisk(tail, device::kUnit);
  for (size_t i = 10; i < unit.size(); ++i) EXPECT_EQ(unit[i], std::byte{0}) << "padding is zeros";
  unit.back() = std::byte{1};
  twins_.WriteDisk(tail, unit);
  EXPECT_TRUE(*twins_.Get("short") == RandomContent(3, 65536 + 10));
}

TEST_F(EngineFaultsTest, RandomDamageNeverGivesWrongBytes) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 42;
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  base::SeededRandom random(seed);
  constexpr size_t kObjects = 20;
  uint64_t begin = UINT64_MAX, end = 0;  // of all objects on the device
  for (size_t i = 0; i < kObjects; ++i) {
    ASSERT_TRUE(twins_.Put("key" + std::to_string(i), RandomContent(i, 2000 + i * 7000)).ok());
    const ExtentRecord extent = twins_.LastExtent();
    begin = std::min(begin, extent.first_unit * device::kUnit);
    end = std::max(end, (extent.first_unit + extent.units()) * device::kUnit);
  }
  int damaged = 0;
  for (int round = 0; round < 60; ++round) {
    twins_.disk().FlipBit(begin + random.Below(end - begin), static_cast<unsigned>(random.Below(8)));
    const size_t i = random.Below(kObjects);
    const Result<std::string> back = twins_.Get("key" + std::to_string(i));
    if (back.ok()) {
      EXPECT_TRUE(*back == RandomContent(i, 2000 + i * 7000)) << "round " << round;
    } else {
      EXPECT_EQ(back.status().code(), Code::kDataLoss);
      ++damaged;
    }
  }
  EXPECT_GT(damaged, 0);
}

TEST_F(EngineFaultsTest, AReadThatStallsEndsAtItsDeadlineAndLeavesNothing) {
  const std::string content = RandomContent(1, 100'000);
  ASSERT_TRUE(twins_.Put("key", content).ok());
  twins_.faults().hold_reads = true;
  Status status;
  Start([](TwinStore& twins, Status& result) -> rt::Task<void> {
    const store::Context context = twins.ContextFor(seconds(1));
    const auto reader = co_await twins.engine().Open(context, "bucket", "key", {});
    result = (co_await (*reader)->Read(context, 0, 1000)).status();
  }(twins_, status));
  twins_.Turn();
  EXPECT_TRUE(status.ok()) << "it waits";
  twins_.clock().Advance(seconds(2));
  twins_.Turn();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.ToString();
  twins_.faults().hold_reads = false;
  Finish();
  EXPECT_TRUE(*twins_.Get("key") == content);
}

TEST_F(EngineFaultsTest, AReaderThatIsGoneWhileItsReadStallsKeepsItsUnits) {
  ASSERT_TRUE(twins_.Put("key", RandomContent(1, 100'000)).ok());
  twins_.faults().hold_reads = true;
  Status status;
  Start([](TwinStore& twins, Status& result) -> rt::Task<void> {
    const store::Context context = twins.ContextFor(seconds(1));
    const auto reader = co_await twins.engine().Open(context, "bucket", "key", {});
    result = (co_await (*reader)->Read(context, 0, 1000)).status();
  }(twins_, status));
  twins_.Turn();
  twins_.clock().Advance(seconds(2));
  Finish();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  ASSERT_TRUE(twins_.Delete("key").ok());
  EXPECT_EQ(twins_.engine().stats().waiting_for_readers, 1U);
  twins_.faults().hold_reads = false;
  twins_.reactor().BlockOn(twins_.engine().Drain(twins_.reactor()));
  EXPECT_EQ(twins_.engine().stats().waiting_for_readers, 0U);
  EXPECT_EQ(twins_.engine().usage().used_bytes, 0U);
}

TEST_F(EngineFaultsTest, ACommitThatStallsEndsAtItsDeadlineAndMayStillTakePlace) {
  twins_.faults().hold_flushes = true;
  const std::string content = RandomContent(1, 100'000);
  Status status;
  Start([](TwinStore& twins, std::string bytes, Status& result) -> rt::Task<void> {
    const store::Context context = twins.ContextFor(seconds(1));
    const auto writer = co_await twins.engine().Put(context, "bucket", "key", {});
    EXPECT_TRUE((co_await twins.WriteTask(**writer, bytes)).ok());
    result = (co_await (*writer)->Commit(context, std::nullopt)).status();
  }(twins_, content, status));
  twins_.Turn(1000);
  twins_.clock().Advance(seconds(2));
  Finish();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.ToString();
  EXPECT_NE(status.message().find("not known"), std::string::npos) << status.ToString();
  twins_.faults().hold_flushes = false;
  twins_.Reopen();
  const Result<std::string> back = twins_.Get("key");
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_TRUE(*back == content);
}

TEST_F(EngineFaultsTest, ManyReadersOfOneColdBlockCostOneRead) {
  TwinStore twins({.device_bytes = 64 * base::kMiB});
  ASSERT_TRUE(twins.CreateBucket().ok());
  const std::string content = RandomContent(1, 65536);
  ASSERT_TRUE(twins.Put("key", content).ok());
  const int before = twins.faults().reads;
  twins.faults().hold_reads = true;
  rt::Gate gate(twins.reactor());
  int right = 0;
  for (int i = 0; i < 20; ++i) {
    twins.reactor().Spawn(gate, [&]() -> rt::Task<void> {
      const Result<std::string> back = co_await twins.GetTask("key");
      right += back.ok() && *back == content ? 1 : 0;
    });
  }
  twins.Turn(100);
  twins.faults().hold_reads = false;
  twins.reactor().BlockOn(gate.Close());
  EXPECT_EQ(right, 20);
  EXPECT_EQ(twins.faults().reads - before, 1);
}

TEST_F(EngineFaultsTest, WhoJoinedAFailedReadReadsForItself) {
  const std::string content = RandomContent(1, 65536);
  ASSERT_TRUE(twins_.Put("key", content).ok());
  twins_.disk().FlipBit(twins_.LastExtent().first_unit * device::kUnit, 0);
  int damaged = 0;
  for (int i = 0; i < 5; ++i) {
    Start([](TwinStore& twins, int& count) -> rt::Task<void> {
      const Result<std::string> back = co_await twins.GetTask("key");
      count += back.status().code() == Code::kDataLoss ? 1 : 0;
    }(twins_, damaged));
  }
  Finish();
  EXPECT_EQ(damaged, 5);
}

TEST_F(EngineFaultsTest, WhoFindsNoMemoryIsToldAtTheDeadline) {
  TwinStore twins({.device_bytes = 64 * base::kMiB, .arena_bytes = 3 * base::kMiB});
  ASSERT_TRUE(twins.CreateBucket().ok());
  const auto writer = twins.Run(twins.engine().Put(twins.context(), "bucket", "key", {}));
  std::vector<base::Buffer> pinned;
  while (twins.arena().free_bytes() != 0)
    pinned.push_back(*twins.Run((*writer)->Allocate(twins.context(), 1 << 20)));
  std::vector<Status> outcomes(3);
  rt::Gate gate(twins.reactor());
  for (Status& outcome : outcomes) {
    twins.reactor().Spawn(gate, [&]() -> rt::Task<void> {
      outcome = (co_await (*writer)->Allocate(twins.ContextFor(seconds(1)), 4096)).status();
    });
  }
  twins.Turn();
  EXPECT_EQ(twins.engine().stats().waiting_for_memory, 3U);
  twins.clock().Advance(seconds(2));
  twins.reactor().BlockOn(gate.Close());
  for (const Status& outcome : outcomes)
    EXPECT_EQ(outcome.code(), Code::kResourceExhausted) << outcome.ToString();
  EXPECT_EQ(twins.engine().stats().waiting_for_memory, 0U);
  pinned.clear();
  EXPECT_TRUE(twins.Run((*writer)->Allocate(twins.context(), 4096)).ok());
}

TEST_F(EngineFaultsTest, WritersThatFillTheMemoryDoNotWaitForEachOther) {
  TwinStore twins({.device_bytes = 64 * base::kMiB, .arena_bytes = 2 * base::kMiB});
  ASSERT_TRUE(twins.CreateBucket().ok());
  rt::Gate gate(twins.reactor());
  int stored = 0;
  for (int i = 0; i < 16; ++i) {
    twins.reactor().Spawn(gate, [&, i]() -> rt::Task<void> {
      const std::string content = RandomContent(i, 1 << 20);
      const auto writer = co_await twins.engine().Put(twins.context(), "bucket", "key" + std::to_string(i),
                                                      {.size_bytes = content.size()});
      // Small steps, so that all of them hold something while they want more.
      for (size_t at = 0; at < content.size(); at += 65536) {
        Result<base::Buffer> buffer = co_await (*writer)->Allocate(twins.context(), 65536);
        if (!buffer.ok()) co_return;
        for (size_t done = 0; done < 65536;) {
          std::memcpy(buffer->writable().data(), content.data() + at + done, buffer->size());
          done += buffer->size();
          if (!(co_await (*writer)->Write(twins.context(), *std::move(buffer))).ok()) co_return;
          if (done == 65536) break;
          buffer = co_await (*writer)->Allocate(twins.context(), 65536 - done);
          if (!buffer.ok()) co_return;
        }
      }
      stored += (co_await (*writer)->Commit(twins.context(), std::nullopt)).ok() ? 1 : 0;
    });
  }
  twins.reactor().BlockOn(gate.Close());
  EXPECT_EQ(stored, 16);
  for (int i = 0; i < 16; ++i)
    EXPECT_TRUE(*twins.Get("key" + std::to_string(i)) == RandomContent(i, 1 << 20)) << i;
}

}  // namespace
}  // namespace forebay::engine
