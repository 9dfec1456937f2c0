// SPDX-License-Identifier: Apache-2.0
// Conditions, deadlines, and what several callers see of each other.
#include <algorithm>
#include <atomic>
#include <future>

#include "base/random.h"
#include "rt/reactor_thread.h"
#include "rt/when_all.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

TEST_P(StoreSuite, IfAbsentPutsOnlyWhereThereIsNothing) {
  ASSERT_TRUE(Is(Put("o", "first", {.condition = Condition::IfAbsent()}), Code::kOk));
  EXPECT_TRUE(Is(Put("o", "second", {.condition = Condition::IfAbsent()}), Code::kAlreadyExists));
  EXPECT_EQ(Get("o").value_or(""), "first");
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  EXPECT_TRUE(Is(Put("o", "third", {.condition = Condition::IfAbsent()}), Code::kOk));
}

TEST_P(StoreSuite, IfMatchPutsOnlyOverThatVersion) {
  const Result<ObjectInfo> first = Put("o", "first");
  ASSERT_TRUE(Is(first, Code::kOk));
  EXPECT_TRUE(Is(Put("o", "x", {.condition = Condition::IfMatch("other")}), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(Put("o", "second", {.condition = Condition::IfMatch(first->etag)}), Code::kOk));
  EXPECT_TRUE(Is(Put("o", "x", {.condition = Condition::IfMatch(first->etag)}), Code::kFailedPrecondition));
  EXPECT_EQ(Get("o").value_or(""), "second");
  EXPECT_TRUE(Is(Put("missing", "x", {.condition = Condition::IfMatch(first->etag)}), Code::kNotFound));
  EXPECT_TRUE(Is(Stat("missing"), Code::kNotFound));
}

TEST_P(StoreSuite, TheConditionIsDecidedAtCommit) {
  auto absent = BeginPut("o", {.condition = Condition::IfAbsent()});
  ASSERT_TRUE(Is(absent, Code::kOk));
  ASSERT_TRUE(Is(Write(**absent, "mine"), Code::kOk));
  const Result<ObjectInfo> theirs = Put("o", "theirs");
  ASSERT_TRUE(Is(theirs, Code::kOk));
  EXPECT_TRUE(Is(Commit(**absent), Code::kAlreadyExists));

  auto match = BeginPut("o", {.condition = Condition::IfMatch(theirs->etag)});
  auto second_match = BeginPut("o", {.condition = Condition::IfMatch(theirs->etag)});
  ASSERT_TRUE(Is(match, Code::kOk));
  ASSERT_TRUE(Is(second_match, Code::kOk));
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  EXPECT_TRUE(Is(Commit(**match), Code::kNotFound));
  ASSERT_TRUE(Is(Put("o", "theirs"), Code::kOk));  // equal content, another version
  EXPECT_TRUE(Is(Commit(**second_match), Code::kFailedPrecondition));
  EXPECT_EQ(Get("o").value_or(""), "theirs");
}

TEST_P(StoreSuite, IfMatchDeletesAndOpensOnlyThatVersion) {
  const Result<ObjectInfo> first = Put("o", "first");
  const Result<ObjectInfo> second = Put("o", "second");
  ASSERT_TRUE(Is(first, Code::kOk));
  ASSERT_TRUE(Is(second, Code::kOk));
  EXPECT_TRUE(Is(Open("o", Condition::IfMatch(first->etag)), Code::kFailedPrecondition));
  EXPECT_EQ(Get("o", Condition::IfMatch(second->etag)).value_or(""), "second");
  EXPECT_TRUE(Is(Delete("o", Condition::IfMatch(first->etag)), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(Stat("o"), Code::kOk));
  EXPECT_TRUE(Is(Delete("o", Condition::IfMatch(second->etag)), Code::kOk));
  EXPECT_TRUE(Is(Delete("o", Condition::IfMatch(second->etag)), Code::kNotFound));
  EXPECT_TRUE(Is(Open("o", Condition::IfMatch(second->etag)), Code::kNotFound));
}

TEST_P(StoreSuite, OfConcurrentIfAbsentPutsExactlyOneWins) {
  std::vector<std::unique_ptr<ObjectWriter>> writers;
  for (int i = 0; i < 8; ++i) {
    auto writer = BeginPut("o", {.condition = Condition::IfAbsent()});
    ASSERT_TRUE(Is(writer, Code::kOk));
    ASSERT_TRUE(Is(Write(**writer, "writer " + std::to_string(i)), Code::kOk));
    writers.push_back(*std::move(writer));
  }
  const Context context = MakeContext();
  std::vector<rt::Task<Result<ObjectInfo>>> commits;
  for (const auto& writer : writers) commits.push_back(writer->Commit(context, std::nullopt));
  const std::vector<Result<ObjectInfo>> results = Run(rt::WhenAll(std::move(commits)));
  std::vector<size_t> winners;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) {
      winners.push_back(i);
    } else {
      EXPECT_TRUE(Is(results[i], Code::kAlreadyExists));
    }
  }
  ASSERT_EQ(winners.size(), 1U);
  EXPECT_EQ(Get("o").value_or(""), "writer " + std::to_string(winners[0]));
}

TEST_P(StoreSuite, ADeadlineThatHasPassedEndsEveryCallAndStoresNothing) {
  ASSERT_TRUE(Is(Put("o", "old"), Code::kOk));
  auto reader = Open("o");
  auto writer = BeginPut("o");
  ASSERT_TRUE(Is(reader, Code::kOk));
  ASSERT_TRUE(Is(writer, Code::kOk));
  ASSERT_TRUE(Is(Write(**writer, "new"), Code::kOk));
  const Context late = ExpiredContext();
  constexpr Code kExpected = Code::kDeadlineExceeded;
  EXPECT_TRUE(Is(Run((*writer)->Allocate(late, 4096)), kExpected));
  EXPECT_TRUE(Is(Run((*writer)->Write(late, {})), kExpected));
  EXPECT_TRUE(Is(Run((*writer)->Commit(late, std::nullopt)), kExpected));
  EXPECT_TRUE(Is(Run((*reader)->Read(late, 0, 1)), kExpected));
  EXPECT_TRUE(Is(Run(store().Put(late, kBucket, "p", {})), kExpected));
  EXPECT_TRUE(Is(Run(store().Open(late, kBucket, "o", {})), kExpected));
  EXPECT_TRUE(Is(Run(store().Stat(late, kBucket, "o")), kExpected));
  EXPECT_TRUE(Is(Run(store().List(late, kBucket, {})), kExpected));
  EXPECT_TRUE(Is(Run(store().Delete(late, kBucket, "o", {})), kExpected));
  EXPECT_TRUE(Is(Run(store().CreateBucket(late, {.name = "late"})), kExpected));
  EXPECT_TRUE(Is(Run(store().DeleteBucket(late, kBucket)), kExpected));
  EXPECT_TRUE(Is(Run(store().GetBucket(late, kBucket)), kExpected));
  EXPECT_TRUE(Is(Run(store().ListBuckets(late)), kExpected));
  writer->reset();
  EXPECT_EQ(Get("o").value_or(""), "old");
  const Context context = MakeContext();
  EXPECT_TRUE(Is(Run(store().GetBucket(context, "late")), Code::kNotFound));
}

/// Content that proves itself: the seed it is made of comes first.
std::string SelfProving(uint64_t seed, size_t size) {
  std::string content(reinterpret_cast<const char*>(&seed), sizeof(seed));
  return content + MakeContent(seed, size);
}
bool ProvesItself(const std::string& content) {
  uint64_t seed = 0;
  if (content.size() < sizeof(seed)) return false;
  std::copy_n(content.data(), sizeof(seed), reinterpret_cast<char*>(&seed));
  return content == SelfProving(seed, content.size() - sizeof(seed));
}

struct Tally {
  std::atomic<int> won{0};
  std::atomic<int> unexpected{0};
  void Expect(const Status& status, std::initializer_list<Code> allowed) {
    for (const Code code : allowed)
      if (status.code() == code) return;
    ++unexpected;
    ADD_FAILURE() << status.ToString();
  }
};

/// What one reactor does while another one does the same: keys of its own, one key that all overwrite, and
/// races for names.
rt::Task<void> Compete(ObjectStore& store, rt::Reactor& reactor, std::string bucket, uint64_t number,
                       int rounds, Tally& tally) {
  const Context context{.reactor = reactor};
  base::SeededRandom random(number);
  for (int round = 0; round < rounds; ++round) {
    const std::string own = "own/" + std::to_string(number) + "/" + std::to_string(round);
    const std::string content = SelfProving(random.Next64(), random.Below(100'000));
    tally.Expect((co_await PutContent(store, context, bucket, own, content)).status(), {Code::kOk});
    const Result<std::string> back = co_await GetContent(store, context, bucket, own);
    if (!back.ok() || *back != content) ++tally.unexpected;

    const std::string raced = "raced/" + std::to_string(round);
    const Result<ObjectInfo> race =
        co_await PutContent(store, context, bucket, raced, own, {.condition = Condition::IfAbsent()});
    tally.Expect(race.status(), {Code::kOk, Code::kAlreadyExists});
    if (race.ok()) ++tally.won;

    tally.Expect((co_await PutContent(store, context, bucket, "shared", content)).status(), {Code::kOk});
    const Result<std::string> shared = co_await GetContent(store, context, bucket, "shared");
    tally.Expect(shared.status(), {Code::kOk, Code::kNotFound});
    if (shared.ok() && !ProvesItself(*shared)) ++tally.unexpected;
    if (round % 5 == 4)
      tally.Expect(co_await store.Delete(context, bucket, "shared", {}), {Code::kOk, Code::kNotFound});
    const Result<ListPage> page =
        co_await store.List(context, bucket, {.prefix = "own/" + std::to_string(number) + "/"});
    if (!page.ok() || page->objects.size() != static_cast<size_t>(round) + 1) ++tally.unexpected;
  }
}

TEST_P(StoreSuite, TwoReactorsWorkOnOneStore) {
  constexpr int kRounds = 25;
  Tally tally;
  std::vector<std::future<void>> ends;
  for (uint64_t i = 0; i < 2; ++i) {
    auto thread = rt::ReactorThread::Create({.name = "suite" + std::to_string(i)});
    ASSERT_TRUE(thread.ok()) << thread.status().ToString();
    threads_.push_back(*std::move(thread));
  }
  for (uint64_t i = 0; i < 2; ++i) {
    ends.push_back(threads_[i]->Submit([this, &tally, i, reactor = &threads_[i]->reactor()] {
      return Compete(store(), *reactor, kBucket, i, kRounds, tally);
    }));
  }
  for (std::future<void>& end : ends) end.wait();
  EXPECT_EQ(tally.unexpected, 0);
  EXPECT_EQ(tally.won, kRounds);  // one winner for each name
  EXPECT_EQ(ListAll({.prefix = "own/"}).size(), 2U * kRounds);
}

}  // namespace
}  // namespace forebay::store
