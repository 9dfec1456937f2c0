// SPDX-License-Identifier: Apache-2.0
// That each limit is really measured: bytes and operations add up. How fast is never a test.
#include "bench/limits.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace forebay::bench {
namespace {

using std::chrono::milliseconds;

TEST(Limits, StreamCountsWholeBytes) {
  const auto limit = MeasureStream(65536, milliseconds(20));
  ASSERT_TRUE(limit.ok()) << limit.status().ToString();
  EXPECT_GT(limit->bytes, 65536U);
  EXPECT_GT(limit->bytes_per_second(), 0);
  EXPECT_GT(limit->cpu_seconds, 0);
}

TEST(Limits, CopyCountsWholeBlocks) {
  const auto limit = MeasureCopy(65536, milliseconds(20));
  ASSERT_TRUE(limit.ok()) << limit.status().ToString();
  EXPECT_GT(limit->operations, 0U);
  EXPECT_EQ(limit->bytes, limit->operations * 65536);
}

TEST(Limits, EchoCountsRoundsOfAllConnections) {
  const auto limit = MeasureEcho(160, 4352, 8, milliseconds(20));
  ASSERT_TRUE(limit.ok()) << limit.status().ToString();
  EXPECT_GE(limit->operations, 8U);
  EXPECT_EQ(limit->bytes, limit->operations * (160 + 4352));
}

TEST(Limits, DeviceReadsAndWritesLeaveNoScratchFileBehind) {
  const std::string directory = testing::TempDir() + "limits";
  std::filesystem::create_directories(directory);
  const auto reads = MeasureDeviceRead(directory, 4096, 4, 1 << 20, milliseconds(20));
  ASSERT_TRUE(reads.ok()) << reads.status().ToString();
  EXPECT_GE(reads->operations, 4U);
  const auto writes = MeasureFlushedWrite(directory, 4096, 4, 1 << 20, milliseconds(20));
  ASSERT_TRUE(writes.ok()) << writes.status().ToString();
  EXPECT_EQ(writes->operations % 4, 0U);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::filesystem::remove_all(directory);
}

TEST(Limits, AMissingDirectoryIsNamed) {
  const auto limit = MeasureDeviceRead("/nonexistent-forebay", 4096, 1, 4096, milliseconds(1));
  ASSERT_FALSE(limit.ok());
  EXPECT_NE(limit.status().message().find("/nonexistent-forebay"), std::string_view::npos);
}

}  // namespace
}  // namespace forebay::bench
