// SPDX-License-Identifier: Apache-2.0
#include "native/admission.h"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rt/cancel.h"
#include "rt/gate.h"
#include "base/limits.h"

namespace forebay::native {
namespace {

using std::chrono::milliseconds;

constexpr auto kGreedy = static_cast<TenantId>(2);
constexpr auto kModest = static_cast<TenantId>(3);

/// A reactor whose clock stands still, and requests that hold their places until they are told to end.
class AdmissionTest : public testing::Test {
 protected:
  explicit AdmissionTest(AdmissionOptions options = {.window_bytes = 64 * base::kMiB,
                                                     .contended_window_bytes = 4 * base::kMiB,
                                                     .contended_chunk_bytes = 256 * base::kKiB,
                                                     .turn_bytes = 512 * base::kKiB,
                                                     .operation_bytes = 16 * base::kKiB})
      : options_(options) {}
  ~AdmissionTest() override {
    token_.Cancel();
    reactor_->BlockOn(gate_.Close());
    held_.clear();
    greedy_.reset();
    modest_.reset();
  }

  /// A request that asks now; it is in `begun` once it was admitted.
  void Ask(const std::shared_ptr<Admission::Flow>& flow, const std::string& name, uint64_t operations, size_t bytes) {
    reactor_->Spawn(gate_, [this, flow, name, operations, bytes]() -> rt::Task<void> {
      Admission::Place place = co_await admission_.Enter(*flow, operations, bytes, {.token = &token_});
      if (!place) {
        gave_up_.push_back(name);
        co_return;
      }
      begun_.push_back(name);
      held_.emplace_back(name, std::move(place));
    });
  }
  /// Ends the requests that began first.
  void End(size_t count = 1) {
    for (; count != 0; --count) held_.pop_front();
  }
  /// What was asked for before asks now, and some turns of the loop pass.
  void Turn(int turns = 4) {
    reactor_->BlockOn([](rt::Reactor& reactor, int left) -> rt::Task<void> {
      for (; left != 0; --left) co_await reactor.Yield();
    }(*reactor_, turns));
  }
  std::string TakeBegun() {
    std::string all;
    for (const std::string& name : begun_) all += name;
    begun_.clear();
    return all;
  }
  /// Makes the two tenants compete.
  void Compete() {
    (void)admission_.TryEnter(*greedy_, 0, 0);
    (void)admission_.TryEnter(*modest_, 0, 0);
    ASSERT_TRUE(admission_.contended());
  }

  const AdmissionOptions options_;
  base::FakeClock clock_;
  const std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create({.name = "test", .clock = &clock_});
  rt::Gate gate_{*reactor_};
  rt::CancelToken token_;
  Admission admission_{*reactor_, options_};
  std::shared_ptr<Admission::Flow> greedy_ = admission_.Join(kGreedy);
  std::shared_ptr<Admission::Flow> modest_ = admission_.Join(kModest);
  std::vector<std::shared_ptr<Admission::Flow>> others_;
  std::vector<std::string> begun_;
  std::vector<std::string> gave_up_;
  std::deque<std::pair<std::string, Admission::Place>> held_;
};

TEST_F(AdmissionTest, ATenantAloneIsBoundedByTheWindowOnly) {
  for (int i = 0; i < 17; ++i) Ask(greedy_, std::string(1, static_cast<char>('a' + i)), 1, 4 * base::kMiB);
  Turn();
  EXPECT_EQ(TakeBegun(), "abcdefghijklmn") << "14 of 4 MiB: an eighth of the window is left for others";
  End();
  Turn();
  EXPECT_EQ(TakeBegun(), "o");
  End(14);
  Turn();
  End(2);
  EXPECT_EQ(admission_.available_bytes(), 64 * base::kMiB);
}

TEST_F(AdmissionTest, OneTenantsConnectionsShareOneQueue) {
  EXPECT_EQ(admission_.Join(kGreedy), greedy_);
  EXPECT_NE(admission_.Join(kModest), greedy_);
}

TEST_F(AdmissionTest, AloneChunksAreLargeAndInCompetitionSmall) {
  EXPECT_EQ(admission_.chunk_bytes(), base::kMaxChunkBytes);
  Compete();
  EXPECT_EQ(admission_.chunk_bytes(), options_.contended_chunk_bytes);
  clock_.Advance(options_.wants_for + milliseconds(1));
  reactor_->Poke();
  Turn();
  EXPECT_FALSE(admission_.contended()) << "neither wanted anything of late";
}

TEST_F(AdmissionTest, TheModestTenantIsNextThoughTheGreedyOneAskedFirst) {
  Compete();
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) Ask(greedy_, name, 1, base::kMiB);
  Turn();
  EXPECT_EQ(TakeBegun(), "ab") << "half of the 4 MiB in flight";
  Ask(modest_, "1", 1, base::kMiB);
  Turn();
  EXPECT_EQ(TakeBegun(), "1");
}

TEST_F(AdmissionTest, InCompetitionATurnOfTheLoopBeginsALittle) {
  Compete();
  reactor_->BlockOn([&test = *this]() -> rt::Task<void> {
    co_await test.reactor_->Yield();
    for (int turn = 0; turn < 3; ++turn) {
      int begun = 0;
      while (test.admission_.TryEnter(*test.greedy_, 1, 4 * base::kKiB)) ++begun;
      // 512 KiB in pieces of 20.
      EXPECT_EQ(begun, 26);
      co_await test.reactor_->Yield();
    }
  });
}

TEST_F(AdmissionTest, TenantsTakeTurnsByBytesAndNotByRequests) {
  Compete();
  // A hundred requests of 4 KiB against chunks of 1 MiB, each with the price of an operation.
  for (int i = 0; i < 400; ++i) Ask(greedy_, "s", 1, 4 * base::kKiB);
  for (int i = 0; i < 8; ++i) Ask(modest_, "L", 1, base::kMiB);
  size_t small = 0;
  size_t large = 0;
  Turn(1);
  while (large < 4) {
    Turn(0);
    for (const char c : TakeBegun()) ++(c == 's' ? small : large);
    End(held_.size());
    ASSERT_LT(small, 400U);
  }
  // 4 x (1 MiB + 16 KiB) against n x 20 KiB: 208, give or take a turn's work, and the turn in which only they had asked.
  EXPECT_GE(small, 208U - 26U);
  EXPECT_LE(small, 208U + 2 * 26U);
}

TEST_F(AdmissionTest, InCompetitionATenantHasItsShareInFlightWhileItMoves) {
  Compete();
  for (int i = 0; i < 5; ++i) Ask(greedy_, "g", 0, base::kMiB);
  Turn();
  EXPECT_EQ(TakeBegun(), "gg") << "half of 4 MiB";
  clock_.Advance(2 * options_.moves_for);  // these two wait for a disk, or for their client
  reactor_->Poke();
  Turn();
  EXPECT_EQ(TakeBegun(), "gg");
  End(4);
  Turn();
  EXPECT_EQ(TakeBegun(), "g");
}

TEST_F(AdmissionTest, ASmallRequestDoesNotStarveALargeOne) {
  Compete();
  Ask(greedy_, "a", 0, 62 * base::kMiB);
  Turn();
  EXPECT_EQ(TakeBegun(), "a");
  Ask(modest_, "L", 0, 4 * base::kMiB);
  Turn();
  others_.push_back(admission_.Join(static_cast<TenantId>(100)));
  for (int i = 0; i < 40; ++i) {
    Ask(others_.back(), "s", 0, base::kKiB);
    Turn();
  }
  // Its price is 32 quanta. From then on its turn is kept until there is room.
  EXPECT_EQ(TakeBegun(), std::string(31, 's'));
  End();
  Turn();
  EXPECT_EQ(TakeBegun(), "Lsssssssss");
}

TEST_F(AdmissionTest, WhatHoldsNoPayloadWaitsForNoMemory) {
  Compete();
  Ask(greedy_, "a", 0, 62 * base::kMiB);
  Ask(modest_, "b", 0, 2 * base::kMiB);
  Turn();
  Ask(modest_, "m", 0, base::kMiB);
  Turn();
  Ask(modest_, "1", 1, 0);
  Ask(greedy_, "2", 1, 0);
  Turn();
  EXPECT_EQ(TakeBegun(), "ab12");
}

TEST_F(AdmissionTest, InCompetitionNobodyHoldsMoreThanItsPartHoweverLongItTakes) {
  Compete();
  for (int i = 0; i < 40; ++i) {
    Ask(greedy_, "g", 0, base::kMiB);
    clock_.Advance(2 * options_.moves_for);  // its clients take nothing
    reactor_->Poke();
    (void)admission_.TryEnter(*modest_, 0, 0);
    Turn();
  }
  EXPECT_EQ(TakeBegun().size(), 32U) << "half of the window";
}

TEST_F(AdmissionTest, WhoWaitsCompetesHoweverLong) {
  Ask(greedy_, "a", 0, 62 * base::kMiB);
  Turn();
  Ask(modest_, "b", 0, 8 * base::kMiB);
  Turn();
  clock_.Advance(10 * options_.wants_for);
  reactor_->Poke();
  (void)admission_.TryEnter(*greedy_, 0, 0);
  EXPECT_TRUE(admission_.contended());
}

TEST_F(AdmissionTest, PlacesOfTwoAgesBecomeOneThatCountsNoMore) {
  Compete();
  Admission::Place older = admission_.TryEnter(*greedy_, 0, base::kMiB);
  clock_.Advance(options_.moves_for);
  reactor_->Poke();
  Turn();
  Admission::Place younger = admission_.TryEnter(*greedy_, 0, base::kMiB);
  ASSERT_TRUE(older && younger);
  EXPECT_FALSE(admission_.TryEnter(*greedy_, 0, base::kMiB)) << "2 MiB are its share";
  older.Merge(std::move(younger));
  older.Shrink(0);
  Turn();
  Admission::Place place = admission_.TryEnter(*greedy_, 0, base::kMiB);
  EXPECT_TRUE(place);
  Turn();
  EXPECT_TRUE(admission_.TryEnter(*greedy_, 0, base::kMiB)) << "all of its share is free again";
}

TEST_F(AdmissionTest, WhoGivesUpLetsTheNextOneIn) {
  Ask(greedy_, "a", 0, 52 * base::kMiB);
  Turn();
  {
    rt::CancelToken impatient;
    bool ended = false;
    reactor_->Spawn(gate_, [this, &impatient, &ended]() -> rt::Task<void> {
      const Admission::Place place = co_await admission_.Enter(*greedy_, 0, 32 * base::kMiB, {.token = &impatient});
      EXPECT_FALSE(place);
      ended = true;
    });
    Turn();
    Ask(greedy_, "b", 0, 2 * base::kMiB);
    Turn();
    EXPECT_EQ(TakeBegun(), "a") << "in order";
    impatient.Cancel();
    Turn();
    EXPECT_TRUE(ended);
  }
  EXPECT_EQ(TakeBegun(), "b");
  EXPECT_EQ(admission_.available_bytes(), 10 * base::kMiB);
}

TEST_F(AdmissionTest, APlaceIsGivenBackInPartsAndMerged) {
  Admission::Place place = admission_.TryEnter(*greedy_, 1, 8 * base::kMiB);
  ASSERT_TRUE(place);
  Admission::Place part = place.Split(3 * base::kMiB);
  EXPECT_EQ(place.bytes(), 5 * base::kMiB);
  place.Shrink(base::kMiB);
  EXPECT_EQ(admission_.available_bytes(), 60 * base::kMiB);
  part.Merge(std::move(place));
  EXPECT_EQ(part.bytes(), 4 * base::kMiB);
  part.Shrink(0);
  EXPECT_FALSE(part);
  EXPECT_EQ(admission_.available_bytes(), 64 * base::kMiB);
}

TEST_F(AdmissionTest, ManyTenantsEachGetTheirPart) {
  std::map<char, size_t> begun;
  for (int tenant = 0; tenant < 10; ++tenant) {
    others_.push_back(admission_.Join(static_cast<TenantId>(100 + tenant)));
    (void)admission_.TryEnter(*others_.back(), 0, 0);
  }
  for (int tenant = 0; tenant < 10; ++tenant) {
    const int requests = tenant == 0 ? 600 : 100;
    for (int i = 0; i < requests; ++i) Ask(others_[tenant], std::string(1, static_cast<char>('a' + tenant)), 1, 64 * base::kKiB);
  }
  for (int turn = 0; turn < 60; ++turn) {
    Turn(1);
    for (const char c : TakeBegun()) ++begun[c];
    End(held_.size());
  }
  const size_t most = begun.rbegin()->second;
  for (const auto& [name, count] : begun) {
    // A quantum is two of them, and the first turn, of seven, went to who asked first.
    EXPECT_NEAR(static_cast<double>(count), static_cast<double>(most), 9.0) << name;
  }
  EXPECT_EQ(begun.size(), 10U);
}

}  // namespace
}  // namespace forebay::native
