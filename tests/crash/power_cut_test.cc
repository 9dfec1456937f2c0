// SPDX-License-Identifier: Apache-2.0
// The power goes at a random operation, below an engine on memory devices and RocksDB: everything acknowledged is there and
// right, nothing is there by half. And the mutants: with a flush or the witness taken out, the same test must fail.
// FOREBAY_SEED takes one seed, or with FOREBAY_ROUNDS the first of so many.
#include "power_cut.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "scale.h"

namespace forebay::crash {
namespace {

PowerCutSeeds RunSeeds(const PowerCutOptions& options, uint64_t first, uint64_t count) {
  if (std::getenv("FOREBAY_SEED") != nullptr) {
    first = FromEnvironment("FOREBAY_SEED", first);
    count = FromEnvironment("FOREBAY_ROUNDS", 1);
  } else {
    count = FromEnvironment("FOREBAY_ROUNDS", count);
  }
  const PowerCutSeeds seeds = RunPowerCuts(options, first, count);
  std::printf("%llu seeds from %llu: %llu power cuts (%llu inside of recovery), %llu states with %llu objects compared, "
              "%llu acknowledged operations, %llu refusals, %llu seeds failed\n",
              static_cast<unsigned long long>(seeds.seeds), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(seeds.total.cuts),
              static_cast<unsigned long long>(seeds.total.recovery_cuts),
              static_cast<unsigned long long>(seeds.total.states), static_cast<unsigned long long>(seeds.total.objects),
              static_cast<unsigned long long>(seeds.total.acknowledged),
              static_cast<unsigned long long>(seeds.total.refusals),
              static_cast<unsigned long long>(seeds.failed_seeds));
  return seeds;
}

/// A mutant is noticed; the first words of what the oracle says about it.
void ExpectSome(const PowerCutSeeds& seeds) {
  EXPECT_GT(seeds.failed_seeds, 0U) << "the stream does not notice what was taken out: it proves nothing";
  for (size_t i = 0; i < seeds.total.violations.size() && i < 3; ++i)
    std::printf("  %.150s\n", seeds.total.violations[i].c_str());
}

/// Whatever is wrong, with the way to see it again. The threads of a run take turns as they like: it may take some repeats.
void ExpectNone(const PowerCutSeeds& seeds) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  for (const std::string& violation : seeds.total.violations) ADD_FAILURE() << violation;
  if (seeds.failed_seeds != 0)
    ADD_FAILURE() << "to see a seed again: FOREBAY_SEED=<seed> build/release/bin/crash_power_cut_test --gtest_filter="
                  << test.test_suite_name() << "." << test.name() << " --gtest_repeat=20";
}

TEST(PowerCutTest, OneDevice) { ExpectNone(RunSeeds({.devices = 1}, 1, Scaled(100))); }

TEST(PowerCutTest, TwoDevices) { ExpectNone(RunSeeds({.devices = 2}, 1001, Scaled(100))); }

TEST(PowerCutTest, WhileDevicesAreEmptied) { ExpectNone(RunSeeds({.devices = 2, .moves = true}, 5001, Scaled(60))); }

// Never scaled down: some seeds leave too little of a log to damage.
constexpr uint64_t kDamageSeeds = 20;

TEST(PowerCutTest, ABitInTheLogIsRefusedAndLosesNothing) {
  const PowerCutSeeds seeds = RunSeeds({.log_damage = LogDamage::kBit}, 2001, kDamageSeeds);
  ExpectNone(seeds);
  EXPECT_GT(seeds.total.refusals, 0U) << "no log was damaged: the test shows nothing";
}

TEST(PowerCutTest, ALogWithoutItsEndIsRefusedAndLosesNothing) {
  const PowerCutSeeds seeds = RunSeeds({.log_damage = LogDamage::kCut}, 2001, kDamageSeeds);
  ExpectNone(seeds);
  EXPECT_GT(seeds.total.refusals, 0U) << "no log was damaged: the test shows nothing";
}

// Each of these takes one thing out of the order of truth. A stream that did not notice would prove nothing above.

// Never scaled down: one seed may be lucky.
constexpr uint64_t kMutantSeeds = 20;

TEST(PowerCutMutantTest, WithoutTheDeviceFlushItFails) {
  ExpectSome(RunSeeds({.mutant = Mutant::kNoDeviceFlush}, 1, kMutantSeeds));
}

TEST(PowerCutMutantTest, WithoutTheFlushOfTheSecondDeviceItFails) {
  ExpectSome(RunSeeds({.devices = 2, .mutant = Mutant::kNoSecondFlush}, 1001, kMutantSeeds));
}

TEST(PowerCutMutantTest, WithoutTheLogSyncItFails) {
  ExpectSome(RunSeeds({.mutant = Mutant::kNoLogSync}, 1, kMutantSeeds));
}

TEST(PowerCutMutantTest, WithoutTheWitnessALogWithoutItsEndLosesObjectsSilently) {
  ExpectSome(RunSeeds({.mutant = Mutant::kNoWitness, .log_damage = LogDamage::kCut}, 2001, kMutantSeeds));
}

}  // namespace
}  // namespace forebay::crash
