// SPDX-License-Identifier: Apache-2.0
// A test program that ends in each way a test program can: runner_test.py runs it in a guest, by case, to see
// that run_programs.py counts what happened. Nothing else runs it.
#include <unistd.h>

#include <csignal>

#include <gtest/gtest.h>

namespace forebay::guest {
namespace {

TEST(SampleTest, Passes) { SUCCEED(); }
TEST(SampleTest, PassesToo) { SUCCEED(); }
TEST(SampleTest, Fails) { FAIL() << "as it should"; }
TEST(SampleTest, IsSkipped) { GTEST_SKIP() << "for a reason"; }
TEST(SampleTest, Crashes) { std::raise(SIGKILL); }
TEST(SampleTest, Hangs) {
  for (;;) ::pause();
}

}  // namespace
}  // namespace forebay::guest
