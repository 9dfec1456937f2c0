// SPDX-License-Identifier: Apache-2.0
// What objects that share extents cost on the devices, and when that is free again. What they are is in the behaviour
// suite of ObjectStore.
#include "engine/compose.h"

#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "engine/rows.h"
#include "rt/when_all.h"

namespace forebay::engine {
namespace {

class ComposeTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(twins_.CreateBucket().ok()); }
  void TearDown() override {
    twins_.Close();
    for (const std::string& error : twins_.Fsck(true).errors) ADD_FAILURE() << error;
  }

  Result<store::ObjectInfo> Compose(const std::string& key, std::vector<store::Source> sources) {
    const store::Context context = twins_.context();
    return twins_.Run(twins_.engine().Compose(context, "bucket", key, std::move(sources), {}));
  }
  Status Rename(const std::string& from, const std::string& to) {
    const store::Context context = twins_.context();
    return twins_.Run(twins_.engine().Rename(context, "bucket", from, to, {}));
  }
  uint64_t Used() { return twins_.engine().usage().used_bytes; }
  uint64_t Written() { return twins_.engine().usage().device_bytes_written; }
  /// Extents, as their rows stand in the metadata.
  std::vector<ExtentRecord> Extents() {
    std::vector<ExtentRecord> records;
    std::string from;
    while (const auto row = twins_.media()->First(meta::Family::kExtents, from, {})) {
      records.push_back(*DecodeExtent(row->first, row->second));
      from = row->first + '\0';
    }
    return records;
  }

  TwinStore twins_;
};

store::Source All(const std::string& key) { return {.bucket = "bucket", .key = key}; }

TEST_F(ComposeTest, ACopyTakesNoSpaceAndWritesNoContent) {
  const std::string content = RandomContent(1, 20 << 20);
  ASSERT_TRUE(twins_.Put("source", content).ok());
  const uint64_t used = Used();
  const uint64_t written = Written();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Compose("copy" + std::to_string(i), {All("source")}).ok());
  EXPECT_EQ(Used(), used);
  EXPECT_LE(Written() - written, 10 * 2 * device::kUnit);  // a witness for each commit, and one when it is idle
  for (const ExtentRecord& extent : Extents()) EXPECT_EQ(extent.references, 11U);
  ASSERT_TRUE(twins_.Delete("source").ok());
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(twins_.Delete("copy" + std::to_string(i)).ok());
  EXPECT_EQ(Used(), used);
  EXPECT_TRUE(twins_.Get("copy9").value_or("") == content);
  ASSERT_TRUE(twins_.Delete("copy9").ok());
  EXPECT_EQ(Used(), 0U);
  EXPECT_TRUE(Extents().empty());
}

TEST_F(ComposeTest, AHotObjectsCopyIsHotToo) {
  ASSERT_TRUE(twins_.Put("source", RandomContent(2, 4 << 20)).ok());
  ASSERT_TRUE(twins_.Get("source").ok());
  ASSERT_TRUE(Compose("copy", {All("source")}).ok());
  const uint64_t read = twins_.engine().usage().device_bytes_read;
  ASSERT_TRUE(twins_.Get("copy").ok());
  EXPECT_EQ(twins_.engine().usage().device_bytes_read, read);
}

TEST_F(ComposeTest, OnlyTheEdgesOfARangeAreRead) {
  ASSERT_TRUE(twins_.Put("source", RandomContent(3, 20 << 20)).ok());
  twins_.Reopen();
  const uint64_t read = twins_.engine().usage().device_bytes_read;
  ASSERT_TRUE(Compose("range", {{.bucket = "bucket", .key = "source", .offset = 1000, .length = 19 << 20}}).ok());
  EXPECT_LE(twins_.engine().usage().device_bytes_read - read, 2 * 65'536U);
  ASSERT_TRUE(Compose("whole", {All("range")}).ok());
  EXPECT_LE(twins_.engine().usage().device_bytes_read - read, 2 * 65'536U);
}

TEST_F(ComposeTest, WhatIsSmallPinsNoExtent) {
  ASSERT_TRUE(twins_.Put("source", RandomContent(4, 4 << 20)).ok());
  ASSERT_TRUE(Compose("some", {{.bucket = "bucket", .key = "source", .offset = 70'000, .length = 1024}}).ok());
  ASSERT_TRUE(twins_.Delete("source").ok());
  EXPECT_EQ(Used(), 0U);
  EXPECT_TRUE(twins_.Get("some").value_or("") == RandomContent(4, 4 << 20).substr(70'000, 1024));
}

TEST_F(ComposeTest, SmallSourcesShareTheExtentsThatTheirContentGoesTo) {
  std::vector<store::Source> sources;
  std::string content;
  for (uint64_t i = 0; i < 100; ++i) {
    const std::string key = "small/" + std::to_string(i);
    const std::string part = RandomContent(10 + i, 1000);
    ASSERT_TRUE(twins_.Put(key, part).ok());
    sources.push_back(All(key));
    content += part;
  }
  ASSERT_TRUE(Compose("joined", sources).ok());
  EXPECT_EQ(Used(), base::RoundUp(uint64_t{100'000}, device::kUnit));
  EXPECT_TRUE(twins_.Get("joined").value_or("") == content);
}

TEST_F(ComposeTest, ShortRunsAreCopiedTogetherAndHoldNoSpaceOfTheirSources) {
  const std::string source = RandomContent(50, 20 << 20);
  ASSERT_TRUE(twins_.Put("source", source).ok());
  std::vector<store::Source> slices;
  std::string content;
  for (uint64_t i = 0; i < 1000; ++i) {
    slices.push_back({.bucket = "bucket", .key = "source", .offset = i * 20'000 + 7, .length = 100});
    content += source.substr(i * 20'000 + 7, 100);
  }
  ASSERT_TRUE(Compose("slices", slices).ok());
  ASSERT_TRUE(twins_.Delete("source").ok());
  EXPECT_EQ(Used(), base::RoundUp(uint64_t{100'000}, device::kUnit));
  twins_.Reopen();
  EXPECT_TRUE(twins_.Get("slices").value_or("") == content);
  // And again what was made so: the pieces do not multiply.
  ASSERT_TRUE(Compose("many", std::vector<store::Source>(100, {.bucket = "bucket", .key = "slices", .offset = 1, .length = 99})).ok());
  ASSERT_TRUE(Compose("more", std::vector<store::Source>(100, All("many"))).ok());
  EXPECT_EQ(twins_.Get("more").value_or("").size(), 990'000U);
  EXPECT_LE(Extents().size(), 6U);
}

TEST_F(ComposeTest, ARunThatIsASmallPartOfItsExtentIsCopied) {
  const std::string source = RandomContent(51, 4 << 20);
  ASSERT_TRUE(twins_.Put("source", source, {.size_bytes = source.size()}).ok());
  ASSERT_TRUE(Compose("part", {{.bucket = "bucket", .key = "source", .offset = 5, .length = 200'000}}).ok());
  ASSERT_TRUE(Compose("half", {{.bucket = "bucket", .key = "source", .offset = 5, .length = 2 << 20}}).ok());
  ASSERT_TRUE(twins_.Delete("source").ok());
  EXPECT_EQ(Used(), (4 << 20) + base::RoundUp(uint64_t{200'000}, device::kUnit));
  ASSERT_TRUE(twins_.Delete("half").ok());
  EXPECT_EQ(Used(), base::RoundUp(uint64_t{200'000}, device::kUnit));
  EXPECT_TRUE(twins_.Get("part").value_or("") == source.substr(5, 200'000));
}

TEST_F(ComposeTest, ACallWhoseTimePassedPublishesNothing) {
  ASSERT_TRUE(twins_.Put("source", RandomContent(52, 4 << 20)).ok());
  twins_.Reopen();
  twins_.faults().hold_reads = true;  // an edge of the range is read
  const store::Context context = twins_.ContextFor(std::chrono::seconds(1));
  auto composing = [&]() -> rt::Task<Result<store::ObjectInfo>> {
    std::vector<store::Source> sources;
    sources.push_back({.bucket = "bucket", .key = "source", .offset = 1});
    co_return co_await twins_.engine().Compose(context, "bucket", "late", std::move(sources), {});
  };
  auto passing = [&]() -> rt::Task<Result<store::ObjectInfo>> {
    for (int i = 0; i < 10; ++i) co_await twins_.reactor().Yield();
    twins_.clock().Advance(std::chrono::seconds(2));
    twins_.faults().hold_reads = false;
    co_return Status::Cancelled("not asked");
  };
  std::vector<rt::Task<Result<store::ObjectInfo>>> tasks;
  tasks.push_back(composing());
  tasks.push_back(passing());
  const auto results = twins_.Run(rt::WhenAll(std::move(tasks)));
  EXPECT_EQ(results[0].status().code(), Code::kDeadlineExceeded) << results[0].status().ToString();
  twins_.Turn();
  EXPECT_EQ(twins_.Get("late").status().code(), Code::kNotFound);
}

TEST_F(ComposeTest, AnExtentThatCrossesABorderOfSegmentsIsReferredToFromBoth) {
  // 4 MiB + 20 KiB of two extents, 17 times: 68 MiB in two segments, with the border inside of the 16th copy.
  constexpr size_t kBytes = (4 << 20) + 20'480;
  ASSERT_TRUE(twins_.Put("source", RandomContent(5, kBytes), {.size_bytes = kBytes}).ok());
  ASSERT_TRUE(Compose("large", std::vector<store::Source>(17, All("source"))).ok());
  ASSERT_EQ(Extents().size(), 2U);
  EXPECT_EQ(Extents()[0].references, 1 + 17 + 1U);
  EXPECT_EQ(Extents()[1].references, 1 + 17U);
  ASSERT_TRUE(twins_.Delete("source").ok());
  ASSERT_TRUE(Rename("large", "renamed").ok());
  twins_.Reopen();
  EXPECT_TRUE(twins_.Get("renamed").value_or("").size() == 17 * kBytes);
  ASSERT_TRUE(twins_.Delete("renamed").ok());
  EXPECT_EQ(Used(), 0U);
}

TEST_F(ComposeTest, ARenameLeavesTheRowsOfTheContentWhereTheyAre) {
  ASSERT_TRUE(twins_.Put("small", "inline").ok());
  ASSERT_TRUE(twins_.Put("large", RandomContent(6, 65 << 20)).ok());
  const auto rows = [&](meta::Family family) { return twins_.media()->First(family, {}, {})->first; };
  const std::string content = rows(meta::Family::kInline);
  const std::string map = rows(meta::Family::kMaps);
  ASSERT_TRUE(Rename("small", "small2").ok());
  ASSERT_TRUE(Rename("large", "large2").ok());
  ASSERT_TRUE(Rename("small2", "small3").ok());
  EXPECT_EQ(rows(meta::Family::kInline), content);
  EXPECT_EQ(rows(meta::Family::kMaps), map);
  twins_.Reopen();
  EXPECT_EQ(twins_.Get("small3").value_or(""), "inline");
  EXPECT_TRUE(twins_.Get("large2").value_or("") == RandomContent(6, 65 << 20));
}

TEST_F(ComposeTest, ADamagedSourceIsNotComposed) {
  ASSERT_TRUE(twins_.Put("source", RandomContent(7, 4 << 20)).ok());
  const auto row = twins_.media()->First(meta::Family::kExtents, {}, {});
  const ExtentRecord extent = *DecodeExtent(row->first, row->second);
  twins_.Close();
  Bytes block = twins_.ReadDisk(extent.first_unit * device::kUnit, device::kUnit);
  const Bytes good = block;
  block[0] ^= std::byte{1};
  twins_.WriteDisk(extent.first_unit * device::kUnit, block);
  twins_.Reopen();
  const auto range = Compose("range", {{.bucket = "bucket", .key = "source", .offset = 1, .length = 100'000}});
  EXPECT_EQ(range.status().code(), Code::kDataLoss) << range.status().ToString();
  EXPECT_EQ(twins_.Get("range").status().code(), Code::kNotFound);
  twins_.WriteDisk(extent.first_unit * device::kUnit, good);
}

TEST_F(ComposeTest, AStoreThatWasFullIsNotFullOfCopies) {
  // More than half of the devices: a copy by content would not fit.
  ASSERT_TRUE(twins_.Put("source", RandomContent(8, 70 << 20)).ok());
  ASSERT_TRUE(Compose("copy", {All("source"), All("source")}).ok());
  EXPECT_EQ(twins_.engine().usage().used_bytes, 70U << 20);
}

}  // namespace
}  // namespace forebay::engine
