// SPDX-License-Identifier: Apache-2.0
// What overwrites cost on the devices and in the metadata, and what is free again after them. What they do is in the
// behaviour suite of ObjectStore, what a power cut leaves of them in tests/crash.
#include "engine/overwrite.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/engine_fixture.h"
#include "engine/replace_transaction.h"
#include "engine/rows.h"
#include "rt/when_all.h"

namespace forebay::engine {
namespace {

using meta::Family;

class OverwriteTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(twins_.CreateBucket().ok()); }
  void TearDown() override {
    twins_.Close();
    for (const std::string& error : twins_.Fsck(true).errors) ADD_FAILURE() << error;
  }

  rt::Task<Result<store::ObjectInfo>> OverwriteTask(std::string key, std::optional<uint64_t> offset, std::string bytes) {
    const store::Context context = twins_.context();
    FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                 co_await twins_.engine().Overwrite(context, "bucket", std::move(key), {.offset = offset}));
    FB_CO_TRY(co_await twins_.WriteTask(*writer, bytes));
    co_return co_await writer->Commit(context, std::nullopt);
  }
  Result<store::ObjectInfo> Overwrite(const std::string& key, std::optional<uint64_t> offset, std::string bytes) {
    return twins_.Run(OverwriteTask(key, offset, std::move(bytes)));
  }
  Result<store::ObjectInfo> Truncate(const std::string& key, uint64_t size) {
    const store::Context context = twins_.context();
    return twins_.Run(twins_.engine().Truncate(context, "bucket", key, size, {}));
  }
  uint64_t Used() { return twins_.engine().usage().used_bytes; }
  uint64_t Written() { return twins_.engine().usage().device_bytes_written; }
  uint64_t ReadFromDevice() { return twins_.engine().usage().device_bytes_read; }
  std::map<std::string, std::string> Rows(Family family) {
    std::map<std::string, std::string> rows;
    std::string from;
    while (const auto row = twins_.media()->First(family, from, {})) {
      rows.insert(*row);
      from = row->first + '\0';
    }
    return rows;
  }
  /// Of the one object, which has a map in its own row.
  std::vector<Piece> Pieces() {
    const auto row = twins_.media()->First(Family::kObjects, {}, {});
    return DecodeObject(row->first, row->second)->pieces;
  }

  TwinStore twins_{{.device_bytes = 256 * base::kMiB, .arena_bytes = 32 * base::kMiB}};
};

constexpr uint64_t kTwoWitnesses = 2 * device::kUnit;  // one with the commit, one when it is idle

TEST_F(OverwriteTest, FourKibOfASparseObjectOf64GibAreFewDeviceWritesAndOneRow) {
  ASSERT_TRUE(twins_.Put("o", "").ok());
  ASSERT_TRUE(Truncate("o", 64 * base::kGiB).ok());
  EXPECT_EQ(Used(), 0U);
  const auto before = Rows(Family::kMaps);
  EXPECT_EQ(before.size(), 1024U);
  const uint64_t written = Written();
  const std::string bytes = RandomContent(1, 4096);
  ASSERT_TRUE(Overwrite("o", 40 * base::kGiB + 12'345, bytes).ok());
  EXPECT_LT(Written() - written, 64 * base::kKiB);
  EXPECT_LE(Written() - written, 2 * device::kUnit + kTwoWitnesses);  // it reaches into two units
  EXPECT_EQ(ReadFromDevice(), 0U);
  EXPECT_EQ(Used(), 2 * device::kUnit);
  const auto after = Rows(Family::kMaps);
  size_t changed = 0;
  for (const auto& [key, row] : after) changed += row != before.at(key) ? 1 : 0;
  EXPECT_EQ(changed, 1U);
  EXPECT_EQ(after.size(), 1024U);
  const auto reader = twins_.Open("o");
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(twins_.Read(**reader, 40 * base::kGiB + 12'345, 4096).value_or("") == bytes);
}

TEST_F(OverwriteTest, WhatIsReplacedIsFree) {
  ASSERT_TRUE(twins_.Put("o", RandomContent(1, 8 << 20)).ok());
  EXPECT_EQ(Used(), 8U << 20);
  for (uint64_t round = 0; round < 3; ++round) {
    ASSERT_TRUE(Overwrite("o", 0, RandomContent(round, 4 << 20)).ok());
    ASSERT_TRUE(Overwrite("o", 4 << 20, RandomContent(round + 9, 4 << 20)).ok());
    EXPECT_EQ(Used(), 8U << 20);
  }
  ASSERT_TRUE(Truncate("o", 4 << 20).ok());
  EXPECT_EQ(Used(), 4U << 20);
  ASSERT_TRUE(Truncate("o", 0).ok());
  EXPECT_EQ(Used(), 0U);
  EXPECT_TRUE(Rows(Family::kExtents).empty());
}

TEST_F(OverwriteTest, ManyInOneGroupShareAFlushAndNoneReadsWhatItReplacesWhole) {
  constexpr size_t kWrites = 64;
  ASSERT_TRUE(twins_.Put("o", "").ok());
  ASSERT_TRUE(Truncate("o", kWrites * 4096).ok());
  for (uint64_t round = 0; round < 2; ++round) {
    const uint64_t flushes = twins_.engine().stats().device_flushes;
    const uint64_t all_written = Written() + kWrites * 4096;
    twins_.faults().hold_flushes = true;  // until all the others wait for the next group
    std::vector<rt::Task<Result<store::ObjectInfo>>> tasks;
    tasks.reserve(kWrites + 1);
    for (size_t i = 0; i < kWrites; ++i)
      tasks.push_back(OverwriteTask("o", i * 4096, RandomContent(round * kWrites + i, 4096)));
    auto release = [](TwinStore& twins, uint64_t until_written) -> rt::Task<Result<store::ObjectInfo>> {
      while (twins.engine().usage().device_bytes_written < until_written) co_await twins.reactor().Yield();
      for (int i = 0; i < 100; ++i) co_await twins.reactor().Yield();  // what is written goes to the committer at once
      twins.faults().hold_flushes = false;
      co_return store::ObjectInfo{};
    };
    tasks.push_back(release(twins_, all_written));
    for (const auto& result : twins_.Run(rt::WhenAll(std::move(tasks)))) ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_LE(twins_.engine().stats().device_flushes - flushes, kWrites / 4);
  }
  EXPECT_EQ(ReadFromDevice(), 0U);
  EXPECT_EQ(Used(), kWrites * 4096);
  const std::string got = twins_.Get("o").value_or("");
  for (size_t i = 0; i < kWrites; ++i) EXPECT_TRUE(got.substr(i * 4096, 4096) == RandomContent(kWrites + i, 4096)) << i;
}

TEST_F(OverwriteTest, SmallAppendsDoNotBecomeAPieceEach) {
  ASSERT_TRUE(twins_.Put("log", "").ok());
  std::string expected;
  for (uint64_t i = 0; i < 1000; ++i) {
    const std::string line = RandomContent(i, 50 + i % 200);
    ASSERT_TRUE(Overwrite("log", std::nullopt, line).ok());
    expected += line;
  }
  EXPECT_TRUE(twins_.Get("log").value_or("") == expected);
  EXPECT_LE(Pieces().size(), expected.size() / kTailBytes + 1 + kTailBytes / kFineGrain);
  EXPECT_LE(Used(), expected.size() + 2 * kTailBytes);
}

TEST_F(OverwriteTest, LittleOfAnExtentDoesNotHoldAllOfIt) {
  constexpr uint64_t kExtent = 4 << 20;
  std::string expected = RandomContent(1, kExtent);
  ASSERT_TRUE(twins_.Put("o", expected, {.size_bytes = kExtent}).ok());
  // Each leaves a grain of the one before at its beginning, or at its end.
  for (uint64_t round = 1; round <= 50; ++round) {
    const uint64_t offset = round % 2 == 0 ? round * kFineGrain : 0;
    const uint64_t length = round % 2 == 0 ? kExtent - offset : kExtent - round * kFineGrain;
    const std::string bytes = RandomContent(round, length);
    ASSERT_TRUE(Overwrite("o", offset, bytes).ok());
    expected.replace(offset, length, bytes);
    ASSERT_LE(Used(), 2 * kExtent) << round;
  }
  EXPECT_TRUE(twins_.Get("o").value_or("") == expected);
  // Small ones all over it, until there is little left of the large ones.
  base::SeededRandom random(5);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t offset = random.Below(kExtent / kFineGrain) * kFineGrain;
    const std::string bytes = RandomContent(offset + i, kFineGrain);
    ASSERT_TRUE(Overwrite("o", offset, bytes).ok());
    expected.replace(offset, bytes.size(), bytes);
    ASSERT_LE(Used(), 2 * kExtent) << i;
  }
  EXPECT_TRUE(twins_.Get("o").value_or("") == expected);
  // What others share stays.
  const store::Context context = twins_.context();
  ASSERT_TRUE(twins_.Run(twins_.engine().Compose(context, "bucket", "copy", {{.bucket = "bucket", .key = "o"}}, {})).ok());
  ASSERT_TRUE(Overwrite("o", 0, RandomContent(7, kExtent - kFineGrain)).ok());
  EXPECT_TRUE(twins_.Get("copy").value_or("") == expected);
}

TEST_F(OverwriteTest, HoweverManyOverwritesTheMapStaysSmall) {
  constexpr uint64_t kSize = 16 * base::kMiB;
  constexpr size_t kMost = 300;  // of this test; a map of 16 MiB in grains of 4 KiB may have 4096
  base::SeededRandom random(77);
  std::string expected = RandomContent(1, kSize);
  ASSERT_TRUE(twins_.Put("o", expected).ok());
  // Whole grains, everywhere: as many pieces as there are grains.
  for (uint64_t at = 0; at < kSize; at += 2 * kFineGrain) {
    const std::string bytes = RandomContent(at, 100);
    ASSERT_TRUE(Overwrite("o", at + 5, bytes).ok());
    expected.replace(at + 5, bytes.size(), bytes);
  }
  const size_t fine = Pieces().size();
  EXPECT_GT(fine, kMost);
  EXPECT_LE(fine, kMostFinePieces + 2 * kSize / (64 * base::kKiB));
  // From there on it becomes coarser where it is written.
  for (int i = 0; i < 3000; ++i) {
    const uint64_t at = random.Below(kSize - 5000);
    const std::string bytes = RandomContent(at, 1 + random.Below(5000));
    ASSERT_TRUE(Overwrite("o", at, bytes).ok());
    expected.replace(at, bytes.size(), bytes);
    ASSERT_LE(Pieces().size(), kMostFinePieces + 2 * kSize / (64 * base::kKiB));
  }
  EXPECT_TRUE(twins_.Get("o").value_or("") == expected);
  twins_.Reopen();
  EXPECT_TRUE(twins_.Get("o").value_or("") == expected);
}

TEST_F(OverwriteTest, LongOnesLeaveNoTinyPieces) {
  std::string expected = RandomContent(1, 2 << 20);
  ASSERT_TRUE(twins_.Put("o", expected).ok());
  for (uint64_t i = 0; i < 1000; ++i) {
    const std::string bytes = RandomContent(i, kHeldBytes + 1);
    ASSERT_TRUE(Overwrite("o", i, bytes).ok());
    expected.replace(i, bytes.size(), bytes);
  }
  for (uint64_t i = 0; i < 100; ++i) {  // and what is cut off leaves none
    ASSERT_TRUE(Truncate("o", (2 << 20) - 3 * i).ok());
    expected.resize((2 << 20) - 3 * i);
    ASSERT_TRUE(Overwrite("o", std::nullopt, "xyz").ok());
    expected += "xyz";
  }
  EXPECT_LE(Pieces().size(), 20U);
  EXPECT_TRUE(twins_.Get("o").value_or("") == expected);
}

TEST_F(OverwriteTest, ABlockOfManyPiecesIsReadOnce) {
  std::string expected = RandomContent(1, 65'536);
  ASSERT_TRUE(twins_.Put("o", expected).ok());
  for (uint64_t at = 0; at < 65'536; at += 8192) {
    ASSERT_TRUE(Overwrite("o", at, RandomContent(at, 4096)).ok());
    expected.replace(at, 4096, RandomContent(at, 4096));
  }
  twins_.Reopen();
  const uint64_t read = ReadFromDevice();
  EXPECT_TRUE(twins_.Get("o").value_or("") == expected);
  EXPECT_LE(ReadFromDevice() - read, 65'536U + 8 * 4096);
}

TEST_F(OverwriteTest, WritersThatFillTheMemoryDoNotWaitForEachOther) {
  TwinStore twins({.arena_bytes = 5 * base::kMiB});
  ASSERT_TRUE(twins.CreateBucket().ok());
  ASSERT_TRUE(twins.Put("o", RandomContent(1, 8 << 20)).ok());
  std::vector<rt::Task<Status>> tasks;
  const auto overwrite = [&](uint64_t i) -> rt::Task<Status> {
    const store::Context context = twins.ContextFor(std::chrono::hours(1));
    FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                 co_await twins.engine().Overwrite(context, "bucket", "o", {.offset = i * 65'536 + 7}));
    FB_CO_TRY(co_await twins.WriteTask(*writer, RandomContent(i, 60'000)));
    co_return (co_await writer->Commit(context, std::nullopt)).status();
  };
  tasks.reserve(100);
  for (uint64_t i = 0; i < 100; ++i) tasks.push_back(overwrite(i));
  for (const Status& status : twins.Run(rt::WhenAll(std::move(tasks)))) EXPECT_TRUE(status.ok()) << status.ToString();
  const std::string got = twins.Get("o").value_or("");
  for (uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(got.substr(i * 65'536 + 7, 60'000) == RandomContent(i, 60'000)) << i;
}

TEST_F(OverwriteTest, GrainsByHand) {
  EXPECT_EQ(GrainOf(0, 1), 4096U);
  EXPECT_EQ(GrainOf(2047, 1), 4096U);
  EXPECT_EQ(GrainOf(2048, 1), 65'536U);
  EXPECT_EQ(GrainOf(2047, 256), 4096U);  // 16 GiB: half a million pieces are 2048 in each segment
  EXPECT_EQ(GrainOf(2048, 256), 65'536U);
  EXPECT_EQ(GrainOf(1023, 257), 4096U);  // above, half of that
  EXPECT_EQ(GrainOf(1024, 257), 65'536U);
  EXPECT_EQ(GrainOf(31, 16'384), 4096U);  // 1 TiB
  EXPECT_EQ(GrainOf(32, 16'384), 2 * base::kMiB);
  EXPECT_EQ(GrainOf(31, 81'920), 4096U);       // 5 TiB
  EXPECT_EQ(GrainOf(32, 81'920), 2 * base::kMiB);
}

TEST_F(OverwriteTest, PiecesByHand) {
  const std::vector<Piece> map = {{.extent = 7, .offset = 100, .length = 50},
                                  {.extent = kHole, .offset = 0, .length = 30},
                                  {.extent = kHole, .offset = 0, .length = 20},
                                  {.extent = 8, .offset = 0, .length = 10},
                                  {.extent = 8, .offset = 10, .length = 90}};
  EXPECT_EQ(PiecesOf(map, 1000, 1000, 1200),
            (std::vector<Piece>{{7, 100, 50}, {kHole, 0, 50}, {8, 0, 100}}));
  EXPECT_EQ(PiecesOf(map, 1000, 1049, 1051), (std::vector<Piece>{{7, 149, 1}, {kHole, 0, 1}}));
  EXPECT_EQ(PiecesOf(map, 1000, 1105, 1115), (std::vector<Piece>{{8, 5, 10}}));
  EXPECT_EQ(PiecesOf(map, 1000, 1090, 1090), std::vector<Piece>{});
  EXPECT_EQ(PiecesOf(map, 1000, 0, 1000), std::vector<Piece>{});
  EXPECT_EQ(PiecesOf(map, 1000, 1200, 5000), std::vector<Piece>{});
}

TEST_F(OverwriteTest, AMapGoesToRowsOfItsOwnAndBack) {
  const std::string begin = RandomContent(1, 1 << 20);
  ASSERT_TRUE(twins_.Put("o", begin).ok());
  EXPECT_TRUE(Rows(Family::kMaps).empty());
  ASSERT_TRUE(Overwrite("o", 63 << 20, RandomContent(2, 3 << 20)).ok());  // to 66 MiB, over the border
  EXPECT_EQ(Rows(Family::kMaps).size(), 2U);
  ASSERT_TRUE(Overwrite("o", std::nullopt, RandomContent(3, 62 << 20)).ok());  // to 128 MiB just
  EXPECT_EQ(Rows(Family::kMaps).size(), 2U);
  ASSERT_TRUE(Overwrite("o", std::nullopt, "x").ok());
  EXPECT_EQ(Rows(Family::kMaps).size(), 3U);
  twins_.Reopen();
  ASSERT_TRUE(Truncate("o", 128 << 20).ok());
  EXPECT_EQ(Rows(Family::kMaps).size(), 2U);
  ASSERT_TRUE(Truncate("o", 64 << 20).ok());
  EXPECT_TRUE(Rows(Family::kMaps).empty());
  const std::string expected = begin + std::string(62 << 20, '\0') + RandomContent(2, 3 << 20).substr(0, 1 << 20);
  EXPECT_TRUE(twins_.Get("o").value_or("") == expected);
  ASSERT_TRUE(Truncate("o", (64 << 20) + 1).ok());
  EXPECT_EQ(Rows(Family::kMaps).size(), 2U);
  EXPECT_TRUE(twins_.Get("o").value_or("") == expected + '\0');
  ASSERT_TRUE(Truncate("o", 0).ok());
  EXPECT_TRUE(Rows(Family::kMaps).empty());
  EXPECT_EQ(Rows(Family::kInline).size(), 1U);
}

TEST_F(OverwriteTest, DamageAroundIsSaidAndNothingChanges) {
  ASSERT_TRUE(twins_.Put("o", RandomContent(1, 100'000)).ok());
  const ExtentRecord extent = twins_.LastExtent();
  const uint64_t at = extent.first_unit * device::kUnit;
  const Bytes good = twins_.ReadDisk(at, 4096);
  Bytes bad = good;
  bad[10] ^= std::byte{1};
  twins_.Reopen();  // nothing is hot
  twins_.WriteDisk(at, bad);
  const auto refused = Overwrite("o", 5000, "needs the bytes around");
  EXPECT_EQ(refused.status().code(), Code::kDataLoss);
  EXPECT_NE(refused.status().message().find("bucket/o"), std::string::npos);
  // What replaces whole blocks needs nothing of them, and mends the object.
  ASSERT_TRUE(Overwrite("o", 0, RandomContent(2, 65'536)).ok());
  EXPECT_TRUE(twins_.Get("o").value_or("") == RandomContent(2, 65'536) + RandomContent(1, 100'000).substr(65'536));
  twins_.WriteDisk(at, good);
}

TEST_F(OverwriteTest, DamageOfWhatIsLeftOfAnExtentIsInNobodysWay) {
  constexpr uint64_t kExtent = 4 << 20;
  ASSERT_TRUE(twins_.Put("o", RandomContent(1, kExtent), {.size_bytes = kExtent}).ok());
  const uint64_t at = twins_.LastExtent().first_unit * device::kUnit;
  const Bytes good = twins_.ReadDisk(at, 4096);
  Bytes bad = good;
  bad[0] ^= std::byte{1};
  twins_.Reopen();
  twins_.WriteDisk(at, bad);
  ASSERT_TRUE(Overwrite("o", 65'536, RandomContent(2, kExtent - 65'536)).ok());
  EXPECT_EQ(twins_.Get("o").status().code(), Code::kDataLoss);
  const auto reader = twins_.Open("o");
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(twins_.Read(**reader, 65'536, 1 << 20).value_or("") == RandomContent(2, kExtent - 65'536).substr(0, 1 << 20));
  twins_.WriteDisk(at, good);
}

TEST_F(OverwriteTest, WithoutSpaceNothingChangesAndNothingLeaks) {
  ASSERT_TRUE(twins_.Put("o", RandomContent(1, 100'000)).ok());
  const uint64_t used = Used();
  const uint64_t capacity = twins_.engine().usage().capacity_bytes;
  std::string filler(capacity - used - (1 << 20), 'f');
  ASSERT_TRUE(twins_.Put("filler", filler).ok());
  EXPECT_EQ(Overwrite("o", 0, RandomContent(2, 2 << 20)).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(twins_.Get("o").value_or("") == RandomContent(1, 100'000));
  ASSERT_TRUE(twins_.Delete("filler").ok());
  twins_.Turn(100);
  EXPECT_EQ(Used(), used);
  ASSERT_TRUE(Overwrite("o", 0, RandomContent(2, 2 << 20)).ok());
  EXPECT_TRUE(twins_.Get("o").value_or("") == RandomContent(2, 2 << 20));
}

TEST_F(OverwriteTest, WhatIsCutOffNeedsNoSpace) {
  const std::string content = RandomContent(1, 100'000);
  ASSERT_TRUE(twins_.Put("o", content).ok());
  const uint64_t free = twins_.engine().usage().capacity_bytes - Used();
  ASSERT_TRUE(twins_.Put("filler", std::string(free, 'f'), {.size_bytes = free}).ok());
  ASSERT_EQ(Overwrite("o", 0, "x").status().code(), Code::kResourceExhausted);
  for (const size_t size : {90'001UL, 70'000UL, 5UL, 0UL}) {
    ASSERT_TRUE(Truncate("o", size).ok()) << size;
    EXPECT_TRUE(twins_.Get("o").value_or("failed") == content.substr(0, size));
  }
}

TEST_F(OverwriteTest, AnOverwriteWhoseWritesFailChangesNothing) {
  ASSERT_TRUE(twins_.Put("o", RandomContent(1, 100'000)).ok());
  const uint64_t used = Used();
  twins_.faults().fail_data_writes = true;
  EXPECT_EQ(Overwrite("o", 5, "small").status().code(), Code::kDataLoss);
  EXPECT_EQ(Overwrite("o", 5, RandomContent(2, 80'000)).status().code(), Code::kDataLoss);
  twins_.faults().fail_data_writes = false;
  twins_.Turn(100);
  EXPECT_EQ(Used(), used);
  EXPECT_TRUE(twins_.Get("o").value_or("") == RandomContent(1, 100'000));
}

}  // namespace
}  // namespace forebay::engine
