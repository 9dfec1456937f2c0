// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace forebay::base {
namespace {

std::string Written(LogLevel level) {
  testing::internal::CaptureStderr();
  const std::unique_ptr<Log> log = Log::ToStderr(level);
  log->Debug("debug {}", 1);
  log->Info("info {}", 2);
  log->Warning("warning {}", "{} of a key");  // what comes from outside is no format
  log->Error("error {}", 4);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, WritesItsLevelAndAbove) {
  const std::string lines = Written(LogLevel::kWarning);
  EXPECT_EQ(lines.find("debug 1"), std::string::npos);
  EXPECT_EQ(lines.find("info 2"), std::string::npos);
  EXPECT_NE(lines.find("warning {} of a key\n"), std::string::npos);
  EXPECT_NE(lines.find("error 4\n"), std::string::npos);
  EXPECT_NE(Written(LogLevel::kDebug).find("debug 1\n"), std::string::npos);
  EXPECT_EQ(Written(LogLevel::kOff), "");
}

TEST(Log, DiscardWritesNothing) {
  testing::internal::CaptureStderr();
  Log::Discard()->Error("lost {}", 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(CheckDeathTest, SaysWhereAndWhatBeforeItAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  FB_CHECK(1 + 1 == 2);
  EXPECT_DEATH(FB_CHECK(1 + 1 == 3), "log_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace forebay::base
