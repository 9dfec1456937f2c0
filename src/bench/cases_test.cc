// SPDX-License-Identifier: Apache-2.0
#include "bench/cases.h"

#include <gtest/gtest.h>

namespace forebay::bench {
namespace {

TEST(Cases, ALoadIsComparedWithWhatLimitsIt) {
  EXPECT_EQ(ChooseLimit({.operation = Operation::kGet, .object_bytes = 1 << 20}), LimitKind::kStream);
  EXPECT_EQ(ChooseLimit({.operation = Operation::kGet, .object_bytes = 4096}), LimitKind::kEcho);
  EXPECT_EQ(ChooseLimit({.operation = Operation::kGet, .object_bytes = 4096, .batch = 32}),
            LimitKind::kStream);
  EXPECT_EQ(ChooseLimit({.operation = Operation::kGet, .object_bytes = 1 << 20, .heat = Heat::kCold}),
            LimitKind::kDeviceOrStream);
  EXPECT_EQ(ChooseLimit({.operation = Operation::kPut, .object_bytes = 4 << 20}), LimitKind::kFlushedWrite);
  EXPECT_EQ(ChooseLimit({.operation = Operation::kPut, .object_bytes = 4096}),
            LimitKind::kSingleFlushedWrite);
}

TEST(Cases, TheFractionComparesBytesOrOperations) {
  CaseReport report;
  report.load.seconds = 2;
  report.load.operations = 100;  // 50 a second
  report.load.bytes = 800;       // 400 a second
  report.limit_bytes_per_second = 1000;
  report.limit_operations_per_second = 25;
  report.limit = LimitKind::kStream;
  EXPECT_DOUBLE_EQ(report.fraction(), 0.4);
  report.limit = LimitKind::kSingleFlushedWrite;
  EXPECT_DOUBLE_EQ(report.fraction(), 2.0);
}

TEST(Cases, ASpecOutOfBoundsIsRefusedBeforeAnythingIsDone) {
  bool connected = false;
  const Connector connect = [&]() -> std::expected<std::unique_ptr<Client>, Error> {
    connected = true;
    return std::unexpected(Error{Code::kUnavailable, "no server"});
  };
  for (const LoadSpec& bad : {LoadSpec{.object_bytes = 0}, LoadSpec{.depth = 0}, LoadSpec{.threads = 65},
                              LoadSpec{.batch = 257}, LoadSpec{.operation = Operation::kPut, .batch = 2},
                              LoadSpec{.object_bytes = 1 << 30, .depth = 256}}) {
    const auto report = RunLoad(bad, connect);
    ASSERT_FALSE(report.has_value());
    EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  }
  EXPECT_FALSE(connected);
}

}  // namespace
}  // namespace forebay::bench
