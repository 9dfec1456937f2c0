// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/limits.h"
#include "engine/engine_fixture.h"

namespace forebay::engine {
namespace {

class EngineTest : public testing::Test {
 protected:
  TwinStore& Make(TwinOptions options = {}) {
    twins_ = std::make_unique<TwinStore>(options);
    EXPECT_TRUE(twins_->CreateBucket().ok());
    return *twins_;
  }

 private:
  std::unique_ptr<TwinStore> twins_;
};

TEST_F(EngineTest, GivesBackWhatWasPutAtEverySizeEdge) {
  TwinStore& twins = Make({.device_bytes = 256 * base::kMiB});
  for (const size_t size :
       {0UL, 1UL, 1023UL, 1024UL, 1025UL, 4095UL, 4096UL, 4097UL, 65535UL, 65536UL, 65537UL, (1UL << 20) + 1,
        (4UL << 20) - 1, (4UL << 20) + 1, (64UL << 20) + 4097}) {
    for (const bool announced : {false, true}) {
      const std::string key = "object-" + std::to_string(size);
      const std::string content = RandomContent(size, size);
      store::PutOptions options;
      if (announced) options.size_bytes = size;
      const Result<store::ObjectInfo> info = twins.Put(key, content, options);
      ASSERT_TRUE(info.ok()) << size << ": " << info.status().ToString();
      EXPECT_EQ(info->size_bytes, size);
      EXPECT_EQ(info->crc32c, base::Crc32c(AsBytes(content))) << size;
      const Result<std::string> back = twins.Get(key);
      ASSERT_TRUE(back.ok()) << size << ": " << back.status().ToString();
      EXPECT_TRUE(*back == content) << size;
    }
    ASSERT_TRUE(twins.Delete("object-" + std::to_string(size)).ok());
  }
  EXPECT_EQ(twins.engine().usage().used_bytes, 0U);
}

TEST_F(EngineTest, EverythingIsThereAfterReopening) {
  TwinStore& twins = Make({.devices = 3});
  const std::string large = RandomContent(1, 70 << 20);
  ASSERT_TRUE(twins.Put("small", "inline").ok());
  ASSERT_TRUE(twins.Put("large", large).ok());
  const uint64_t used = twins.engine().usage().used_bytes;
  twins.Reopen();
  EXPECT_EQ(*twins.Get("small"), "inline");
  EXPECT_TRUE(*twins.Get("large") == large);
  EXPECT_EQ(twins.engine().usage().used_bytes, used);
}

TEST_F(EngineTest, TheSpaceOfEachDeviceIsThatOfTheExtentsOnIt) {
  TwinStore& twins = Make({.devices = 2});
  const auto space = [&] { return *twins.Run(twins.engine().GetSpace(twins.context())); };
  store::StoreSpace now = space();
  ASSERT_EQ(now.devices.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(now.devices[i].name, "disk" + std::to_string(i));
    EXPECT_EQ(now.devices[i].capacity_bytes, 127 * base::kMiB);  // without the head
    EXPECT_EQ(now.devices[i].used_bytes, 0U);
  }
  EXPECT_EQ(now.object_bytes, 0U);
  ASSERT_TRUE(twins.Put("one", RandomContent(1, 100'000)).ok());
  const uint32_t first = twins.LastExtent().device;
  ASSERT_TRUE(twins.Put("two", RandomContent(2, 50'000)).ok());
  const uint32_t second = twins.LastExtent().device;
  ASSERT_NE(first, second) << "they take turns";
  now = space();
  EXPECT_EQ(now.devices[first].used_bytes, 25 * device::kUnit);
  EXPECT_EQ(now.devices[second].used_bytes, 13 * device::kUnit);
  EXPECT_EQ(now.devices[0].used_bytes + now.devices[1].used_bytes, twins.engine().usage().used_bytes);
  EXPECT_EQ(now.objects, 2U);
  EXPECT_EQ(now.object_bytes, 150'000U);
  ASSERT_TRUE(twins.Delete("one").ok());
  now = space();
  EXPECT_EQ(now.devices[first].used_bytes, 0U);
  EXPECT_EQ(now.devices[second].used_bytes, 13 * device::kUnit);
  EXPECT_EQ(now.object_bytes, 50'000U);
}

TEST_F(EngineTest, VersionsAreNeverUsedAgain) {
  TwinStore& twins = Make();
  const uint64_t first = twins.Put("a", "1")->version;
  ASSERT_TRUE(twins.Delete("a").ok());
  twins.Reopen();
  EXPECT_GT(twins.Put("a", "2")->version, first);
}

TEST_F(EngineTest, AHotReadTouchesNoDevice) {
  TwinStore& twins = Make();
  const std::string content = RandomContent(2, 1 << 20);
  ASSERT_TRUE(twins.Put("hot", content).ok());
  EXPECT_TRUE(*twins.Get("hot") == content);
  const EngineStats before = twins.engine().stats();
  EXPECT_TRUE(*twins.Get("hot") == content);
  const EngineStats after = twins.engine().stats();
  EXPECT_EQ(after.device_bytes_read, before.device_bytes_read);
  EXPECT_EQ(after.tier_hits, before.tier_hits + 16);
}

TEST_F(EngineTest, AScanLeavesHotObjectsInMemory) {
  for (const uint64_t step : {base::kMiB, 4 * base::kKiB}) {
    TwinStore& twins = Make();  // 16 MiB of memory
    for (int i = 0; i < 64; ++i)
      ASSERT_TRUE(twins.Put("object" + std::to_string(i), RandomContent(i, base::kMiB)).ok());
    const auto read = [&](int begin, int end) {
      for (int i = begin; i < end; ++i) {
        const auto reader = twins.Open("object" + std::to_string(i));
        for (uint64_t at = 0; at < base::kMiB; at += step) EXPECT_TRUE(twins.Read(**reader, at, step).ok());
      }
    };
    for (int round = 0; round < 12; ++round) {
      read(0, 4);  // the hot ones
      read(4 + 3 * round, 7 + 3 * round);
    }
    read(4, 64);
    const EngineStats before = twins.engine().stats();
    read(0, 4);
    const EngineStats after = twins.engine().stats();
    EXPECT_LE(after.device_bytes_read - before.device_bytes_read, 4 * base::kMiB / 10) << "in steps of " << step;
    EXPECT_EQ(after.tier_inserted - after.tier_evicted_small - after.tier_evicted_main,
              after.tier_bytes / (64 * base::kKiB));
    EXPECT_GE(after.tier_promoted + after.tier_ghost_hits, 64U) << "the hot blocks";
  }
}

TEST_F(EngineTest, ABlockThatWasDamagedOnTheDeviceIsAnErrorThatNamesIt) {
  TwinStore& twins = Make();
  const std::string content = RandomContent(3, 200'000);
  ASSERT_TRUE(twins.Put("victim", content).ok());
  const std::string on_disk(AsText(twins.disk().image()));
  const size_t at = on_disk.find(content.substr(70'000, 64));
  ASSERT_NE(at, std::string::npos);
  twins.disk().FlipBit(at, 3);
  const Result<std::string> back = twins.Get("victim");
  ASSERT_EQ(back.status().code(), Code::kDataLoss);
  EXPECT_NE(back.status().message().find("bucket/victim"), std::string::npos) << back.status().ToString();
  EXPECT_NE(back.status().message().find("disk0"), std::string::npos) << back.status().ToString();
  EXPECT_NE(back.status().message().find("65536"), std::string::npos) << back.status().ToString();
  // What lies in other blocks is still to be had.
  const auto reader = twins.Open("victim");
  EXPECT_EQ(*twins.Read(**reader, 0, 1000), content.substr(0, 1000));
}

TEST_F(EngineTest, AReaderKeepsItsVersionWhileNewOnesComeAndGo) {
  TwinStore& twins = Make({.device_bytes = 16 * base::kMiB, .engine = {.tier_bytes = 0}});
  const std::string first = RandomContent(10, 3 << 20);
  ASSERT_TRUE(twins.Put("key", first).ok());
  const auto reader = twins.Open("key");
  int stored = 0;
  for (int i = 0; i < 20; ++i)
    if (twins.Put("key", RandomContent(11 + i, 3 << 20)).ok()) ++stored;
  EXPECT_LT(stored, 20) << "units of freed versions were used again while a reader was there";
  std::string back;
  for (size_t at = 0; at < first.size(); at += 1 << 20) back += *twins.Read(**reader, at, 1 << 20);
  EXPECT_TRUE(back == first);
}

TEST_F(EngineTest, OnceTheReaderIsGoneItsUnitsAreUsedAgain) {
  TwinStore& twins = Make({.device_bytes = 16 * base::kMiB});
  ASSERT_TRUE(twins.Put("key", RandomContent(10, 3 << 20)).ok());
  {
    const auto reader = twins.Open("key");
  }
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(twins.Put("key", RandomContent(11 + i, 3 << 20)).ok()) << i;
}

TEST_F(EngineTest, AFullStoreRefusesPutsAndTakesDeletesAndThenPutsAgain) {
  TwinStore& twins = Make({.device_bytes = 8 * base::kMiB});
  int stored = 0;
  Result<store::ObjectInfo> last = Status();
  for (; stored < 100; ++stored) {
    last = twins.Put("key" + std::to_string(stored), RandomContent(stored, 300'000));
    if (!last.ok()) break;
  }
  // 7 MiB of data area, 74 units for each object.
  EXPECT_EQ(stored, 7 * 1024 / 4 / 74);
  EXPECT_EQ(last.status().code(), Code::kResourceExhausted) << last.status().ToString();
  EXPECT_NE(last.status().message().find("delete objects, or add a device"), std::string::npos);
  EXPECT_TRUE(twins.engine().health().ok());
  for (int i = 0; i < stored; i += 2) ASSERT_TRUE(twins.Delete("key" + std::to_string(i)).ok());
  EXPECT_TRUE(twins.Put("again", RandomContent(1000, 600'000)).ok());
  for (int i = 1; i < stored; i += 2)
    EXPECT_TRUE(*twins.Get("key" + std::to_string(i)) == RandomContent(i, 300'000)) << i;
}

TEST_F(EngineTest, APutThatIsGivenUpLeavesNothing) {
  TwinStore& twins = Make();
  {
    auto writer = twins.Run(twins.engine().Put(twins.context(), "bucket", "gone", {}));
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(twins.Run(twins.WriteTask(**writer, RandomContent(4, 3 << 20))).ok());
    EXPECT_GT(twins.engine().usage().used_bytes, 0U);
  }
  EXPECT_EQ(twins.Get("gone").status().code(), Code::kNotFound);
  twins.Reopen();
  EXPECT_EQ(twins.engine().usage().used_bytes, 0U);
}

TEST_F(EngineTest, UnitsOfAPutThatIsGivenUpAreFreeOnceItsWritesEnded) {
  TwinStore& twins = Make();
  {
    auto writer = twins.Run(twins.engine().Put(twins.context(), "bucket", "gone", {}));
    ASSERT_TRUE(twins.Run(twins.WriteTask(**writer, RandomContent(4, 3 << 20))).ok());
  }
  twins.reactor().BlockOn(twins.engine().Drain(twins.reactor()));
  EXPECT_EQ(twins.engine().usage().used_bytes, 0U);
}

TEST_F(EngineTest, AfterAFailedFlushNothingIsAcknowledgedAndTheStoreIsReadOnly) {
  TwinStore& twins = Make({.devices = 2});
  ASSERT_TRUE(twins.Put("before", RandomContent(5, 100'000)).ok());
  twins.faults(0).fail_flushes = twins.faults(1).fail_flushes = true;
  EXPECT_EQ(twins.Put("during", RandomContent(6, 100'000)).status().code(), Code::kFailedPrecondition);
  twins.faults(0).fail_flushes = twins.faults(1).fail_flushes = false;
  EXPECT_EQ(twins.engine().health().code(), Code::kFailedPrecondition);
  EXPECT_NE(twins.engine().health().message().find("disk"), std::string::npos)
      << twins.engine().health().ToString();
  EXPECT_EQ(twins.Put("after", "x").status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(twins.Delete("before").code(), Code::kFailedPrecondition);
  EXPECT_TRUE(*twins.Get("before") == RandomContent(5, 100'000));
  twins.Reopen();
  EXPECT_TRUE(twins.engine().health().ok());
  EXPECT_TRUE(*twins.Get("before") == RandomContent(5, 100'000));
  EXPECT_EQ(twins.Get("during").status().code(), Code::kNotFound);
}

TEST_F(EngineTest, AFailedWriteFailsThePutAndNothingElse) {
  TwinStore& twins = Make();
  twins.faults().fail_data_writes = true;
  const Result<store::ObjectInfo> put = twins.Put("key", RandomContent(6, 100'000));
  EXPECT_EQ(put.status().code(), Code::kDataLoss) << put.status().ToString();
  twins.faults().fail_data_writes = false;
  EXPECT_TRUE(twins.engine().health().ok());
  EXPECT_EQ(twins.engine().usage().used_bytes, 0U);
  EXPECT_TRUE(twins.Put("key", RandomContent(6, 100'000)).ok());
}

TEST_F(EngineTest, AWrongChecksumStoresNothing) {
  TwinStore& twins = Make();
  auto writer = twins.Run(twins.engine().Put(twins.context(), "bucket", "key", {}));
  ASSERT_TRUE(twins.Run(twins.WriteTask(**writer, "123456789")).ok());
  EXPECT_EQ(twins.Run((*writer)->Commit(twins.context(), 0xe3069284)).status().code(), Code::kDataLoss);
  writer->reset();
  EXPECT_EQ(twins.Get("key").status().code(), Code::kNotFound);
}

TEST_F(EngineTest, ReadsGoOnWhenTheArenaIsSmallerThanTheData) {
  TwinStore& twins = Make({.arena_bytes = 4 * base::kMiB});
  const std::string content = RandomContent(8, 20 << 20);
  ASSERT_TRUE(twins.Put("large", content).ok());
  for (int round = 0; round < 2; ++round) EXPECT_TRUE(*twins.Get("large") == content);
  EXPECT_LE(twins.engine().stats().tier_bytes, 4 * base::kMiB);
}

TEST_F(EngineTest, PinnedBuffersKeepTheirBytesWhileTheTierIsEvicted) {
  TwinStore& twins = Make({.arena_bytes = 4 * base::kMiB});
  const std::string content = RandomContent(9, 20 << 20);
  ASSERT_TRUE(twins.Put("large", content).ok());
  const auto reader = twins.Open("large");
  const auto pinned = twins.Run((*reader)->Read(twins.context(), 0, 1 << 20));
  ASSERT_TRUE(pinned.ok());
  EXPECT_TRUE(*twins.Get("large") == content);
  std::string back;
  for (const base::Buffer& buffer : pinned->buffers) back += AsText(buffer.view());
  EXPECT_TRUE(back == content.substr(0, 1 << 20));
}

TEST_F(EngineTest, WhenAllMemoryIsPinnedAReadWaitsForSome) {
  TwinStore& twins = Make({.arena_bytes = 4 * base::kMiB});  // one block of it is the store's own
  ASSERT_TRUE(twins.Put("large", RandomContent(9, 4 << 20)).ok());
  const auto reader = twins.Open("large");
  std::vector<Result<store::ReadData>> pins;
  for (uint64_t at = 0; at < 3; ++at)
    pins.push_back(twins.Run((*reader)->Read(twins.context(), at << 20, 1 << 20)));
  for (const auto& pin : pins) ASSERT_TRUE(pin.ok());
  bool done = false;
  const auto wait = [&]() -> rt::Task<Status> {
    const Result<store::ReadData> data = co_await (*reader)->Read(twins.context(), 3 << 20, 1 << 20);
    done = true;
    co_return data.status();
  };
  rt::Gate gate(twins.reactor());
  Status status;
  twins.reactor().Spawn(gate, [&]() -> rt::Task<void> { status = co_await wait(); });
  twins.Turn();
  EXPECT_FALSE(done);
  EXPECT_EQ(twins.engine().stats().waiting_for_memory, 1U);
  pins.pop_back();
  twins.reactor().BlockOn(gate.Close());
  EXPECT_TRUE(done);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_F(EngineTest, GroupsShareFlushes) {
  TwinStore& twins = Make();
  const int before = twins.faults().flushes;
  rt::Gate gate(twins.reactor());
  int stored = 0;
  for (int i = 0; i < 64; ++i) {
    twins.reactor().Spawn(gate, [&, i]() -> rt::Task<void> {
      stored += (co_await twins.PutTask("key" + std::to_string(i), RandomContent(i, 4096))).ok() ? 1 : 0;
    });
  }
  twins.reactor().BlockOn(gate.Close());
  EXPECT_EQ(stored, 64);
  EXPECT_LT(twins.faults().flushes - before, 64);
}

TEST_F(EngineTest, WhatTheMetadataNamesSurvivesAPowerCutOfTheDevices) {
  for (const device::CrashMode mode : {device::CrashMode::kDropAll, device::CrashMode::kRandom}) {
    TwinStore& twins = Make({.devices = 2, .device_bytes = 32 * base::kMiB});
    base::SeededRandom random(99);
    for (int i = 0; i < 10; ++i)
      ASSERT_TRUE(twins.Put("key" + std::to_string(i % 7), RandomContent(i, 1000 + i * 20'000)).ok());
    auto first = twins.disk(0).Crash(random, mode);
    auto second = twins.disk(1).Crash(random, mode);
    twins.Close();
    twins.SetDisk(0, std::move(first));
    twins.SetDisk(1, std::move(second));
    ASSERT_TRUE(twins.TryOpen().ok());
    for (int i = 3; i < 10; ++i) {
      const Result<std::string> back = twins.Get("key" + std::to_string(i % 7));
      ASSERT_TRUE(back.ok()) << back.status().ToString();
      EXPECT_TRUE(*back == RandomContent(i, 1000 + i * 20'000)) << i;
    }
  }
}

TEST_F(EngineTest, RefusesAFormatThatIsNewer) {
  TwinStore& twins = Make();
  twins.Close();
  Bytes image = twins.disk().image();
  for (const uint64_t at : {kSuperblockOffset, kSuperblockCopyOffset}) image[at + 8] = std::byte{2};
  twins.SetDisk(0, device::MemoryDevice::FromImage(image, "disk0"));
  const Status status = twins.TryOpen();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("use a newer forebay"), std::string::npos) << status.ToString();
}

TEST_F(EngineTest, OpensWithTheCopyWhenTheSuperblockIsDamaged) {
  TwinStore& twins = Make();
  ASSERT_TRUE(twins.Put("key", "value").ok());
  twins.Close();
  twins.disk().FlipBit(20, 1);
  ASSERT_TRUE(twins.TryOpen().ok());
  EXPECT_EQ(*twins.Get("key"), "value");
}

TEST_F(EngineTest, RefusesMetadataThatIsOlderThanTheWitness) {
  TwinStore& twins = Make();
  twins.media() = std::make_shared<meta::MemoryMedia>();
  twins.Close();
  EXPECT_EQ(twins.TryOpen().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace forebay::engine
