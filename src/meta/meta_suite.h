// SPDX-License-Identifier: Apache-2.0
// The behaviour suite of MetaStore. A store's test instantiates MetaSuite with a name and a function that makes a place
// for a store: something that can be opened, closed and opened again.
// Thread-safe: holds no state; a test runs on the main thread, hooks and transactions on the committer's.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "meta/committer.h"
#include "meta/meta_store.h"
#include "meta/test_transactions.h"
#include "rt/reactor.h"
#include "rt/when_all.h"

namespace forebay::meta {

/// Where a store is: a directory, a MemoryMedia.
class MetaPlace {
 public:
  virtual ~MetaPlace() = default;
  virtual Result<std::unique_ptr<MetaStore>> Open(uint64_t witness, GroupHooks* hooks, CommitterOptions options) = 0;
};

struct MetaMaker {
  std::string name;
  std::function<std::unique_ptr<MetaPlace>()> make;
  friend void PrintTo(const MetaMaker& maker, std::ostream* out) { *out << maker.name; }
};

class MetaSuite : public ::testing::TestWithParam<MetaMaker> {
 protected:
  /// Long enough for no test to see the settling flush unless it waits for it.
  static constexpr std::chrono::milliseconds kNeverSettle = std::chrono::hours(1);

  void SetUp() override {
    reactor_ = *rt::Reactor::Create();
    place_ = GetParam().make();
    Open();
  }
  void TearDown() override { hooks_.Release(); }

  void Open(uint64_t witness = 0) {
    store_.reset();
    auto store = place_->Open(witness, &hooks_, options_);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = *std::move(store);
  }
  Status Commit(std::unique_ptr<Transaction> transaction) {
    return reactor_->BlockOn(store_->Commit(*reactor_, std::move(transaction)));
  }
  /// Commits all of them as one group: a transaction that goes first is held in its flush until all have queued.
  std::vector<Status> CommitTogether(std::vector<std::unique_ptr<Transaction>> transactions) {
    hooks_.Hold();
    const size_t before = hooks_.flushes().size();
    std::vector<rt::Task<Status>> tasks;
    tasks.push_back(store_->Commit(*reactor_, PutOne(Family::kBuckets, "first", "")));
    tasks.push_back(AwaitFlushes(before + 1));
    for (auto& transaction : transactions) tasks.push_back(store_->Commit(*reactor_, std::move(transaction)));
    tasks.push_back(ReleaseAfter(before + 1));
    std::vector<Status> outcomes = reactor_->BlockOn(rt::WhenAll(std::move(tasks)));
    outcomes.erase(outcomes.begin(), outcomes.begin() + 2);
    outcomes.pop_back();
    return outcomes;
  }
  /// Blocks the reactor: the committer is another thread.
  rt::Task<Status> AwaitFlushes(size_t flushes) {
    hooks_.AwaitFlushes(flushes);
    co_return Status();
  }
  rt::Task<Status> ReleaseAfter(size_t flushes) {
    hooks_.AwaitFlushes(flushes);
    hooks_.Release();
    co_return Status();
  }
  std::optional<std::string> Get(Family family, std::string_view key) {
    auto value = store_->Get(family, key);
    EXPECT_TRUE(value.ok()) << value.status().ToString();
    return value.ok() ? *std::move(value) : std::nullopt;
  }
  std::string Keys(Family family, std::string_view from, std::string_view end) {
    const auto scan = store_->NewScan(family, end);
    std::string keys;
    for (scan->Seek(from); scan->Valid(); scan->Next()) keys += std::string(scan->key()) + " ";
    EXPECT_TRUE(scan->status().ok()) << scan->status().ToString();
    return keys;
  }

  std::unique_ptr<rt::Reactor> reactor_;
  TestHooks hooks_;
  CommitterOptions options_{.settle = kNeverSettle};
  std::unique_ptr<MetaPlace> place_;
  std::unique_ptr<MetaStore> store_;
};

TEST_P(MetaSuite, ReadsBackWhatWasCommittedAlsoAfterReopening) {
  ASSERT_TRUE(Commit(PutOne(Family::kObjects, std::string("k\0\xff" "12345678", 11), "v")).ok());
  ASSERT_TRUE(Commit(PutOne(Family::kInline, "k", std::string(3, '\0'))).ok());
  EXPECT_EQ(Get(Family::kObjects, std::string_view("k\0\xff" "12345678", 11)), "v");
  EXPECT_EQ(Get(Family::kInline, "other"), std::nullopt);
  EXPECT_EQ(Get(Family::kMaps, "k"), std::nullopt);
  Open(store_->last_commit());
  EXPECT_EQ(Get(Family::kObjects, std::string_view("k\0\xff" "12345678", 11)), "v");
  EXPECT_EQ(Get(Family::kInline, "k"), std::string(3, '\0'));
  EXPECT_EQ(store_->last_commit(), 2U);
}

TEST_P(MetaSuite, SaysHowMuchRoomItHas) {
  ASSERT_TRUE(Commit(PutOne(Family::kExtents, "a", "1")).ok());
  const Result<MetaSpace> space = store_->Space();
  ASSERT_TRUE(space.ok()) << space.status().ToString();
  EXPECT_FALSE(space->path.empty());
  EXPECT_GT(space->free_bytes, space->reserve_bytes);
}

TEST_P(MetaSuite, DeletesAndOverwrites) {
  ASSERT_TRUE(Commit(PutOne(Family::kExtents, "a", "1")).ok());
  ASSERT_TRUE(Commit(PutOne(Family::kExtents, "b", "2")).ok());
  ASSERT_TRUE(Commit(PutOne(Family::kExtents, "a", "3")).ok());
  ASSERT_TRUE(Commit(DeleteOne(Family::kExtents, "b")).ok());
  EXPECT_EQ(Get(Family::kExtents, "a"), "3");
  EXPECT_EQ(Get(Family::kExtents, "b"), std::nullopt);
  EXPECT_EQ(Keys(Family::kExtents, "", ""), "a ");
}

TEST_P(MetaSuite, ScansInOrderBetweenTheirBounds) {
  for (const char* key : {"b", "a", "d", "ab", "c"}) ASSERT_TRUE(Commit(PutOne(Family::kGroups, key, "")).ok());
  EXPECT_EQ(Keys(Family::kGroups, "", ""), "a ab b c d ");
  EXPECT_EQ(Keys(Family::kGroups, "ab", "d"), "ab b c ");
  EXPECT_EQ(Keys(Family::kGroups, "aa", "b"), "ab ");
  EXPECT_EQ(Keys(Family::kGroups, "d", "b"), "");
  EXPECT_EQ(Keys(Family::kGroups, "e", ""), "");
}

TEST_P(MetaSuite, AScanOfObjectsSeesAllOfThemFromAnyKey) {
  for (const char* key : {"x/aVERSION1", "x/bVERSION1", "x/bVERSION2", "y/aVERSION1", "short"})
    ASSERT_TRUE(Commit(PutOne(Family::kObjects, key, "")).ok());
  EXPECT_EQ(Keys(Family::kObjects, "", ""), "short x/aVERSION1 x/bVERSION1 x/bVERSION2 y/aVERSION1 ");
  EXPECT_EQ(Keys(Family::kObjects, "x/", "x0"), "x/aVERSION1 x/bVERSION1 x/bVERSION2 ");
  EXPECT_EQ(Keys(Family::kObjects, "x/bVERSION2", ""), "x/bVERSION2 y/aVERSION1 ");
}

TEST_P(MetaSuite, AScanShowsOneMoment) {
  ASSERT_TRUE(Commit(PutOne(Family::kMaps, "a", "1")).ok());
  const auto scan = store_->NewScan(Family::kMaps, "");
  ASSERT_TRUE(Commit(PutOne(Family::kMaps, "a", "2")).ok());
  ASSERT_TRUE(Commit(PutOne(Family::kMaps, "b", "2")).ok());
  scan->Seek("");
  ASSERT_TRUE(scan->Valid());
  EXPECT_EQ(scan->value(), "1");
  scan->Next();
  EXPECT_FALSE(scan->Valid());
}

TEST_P(MetaSuite, OfTwoCreationsInOneGroupTheSecondSeesTheFirst) {
  std::vector<std::unique_ptr<Transaction>> group;
  group.push_back(PutIfAbsent(Family::kObjects, "objectVERSION1", "mine"));
  group.push_back(PutIfAbsent(Family::kObjects, "objectVERSION1", "yours"));
  const auto outcomes = CommitTogether(std::move(group));
  EXPECT_TRUE(outcomes[0].ok()) << outcomes[0].ToString();
  EXPECT_EQ(outcomes[1].code(), Code::kAlreadyExists);
  EXPECT_EQ(Get(Family::kObjects, "objectVERSION1"), "mine");
  EXPECT_EQ(store_->stats().groups, 2U);
  EXPECT_EQ(store_->stats().transactions, 2U);
}

TEST_P(MetaSuite, FirstLooksThroughTheGroup) {
  for (const char* key : {"p1-------", "p3-------", "p5-------"})
    ASSERT_TRUE(Commit(PutOne(Family::kObjects, key, key)).ok());
  std::vector<std::string> seen;
  std::vector<std::unique_ptr<Transaction>> group;
  group.push_back(PutOne(Family::kObjects, "p2-------", "new"));
  group.push_back(DeleteOne(Family::kObjects, "p1-------"));
  group.push_back(DeleteOne(Family::kObjects, "p3-------"));
  group.push_back(PutOne(Family::kObjects, "p5-------", "changed"));
  group.push_back(Do([&](View& view, Batch&) {
    for (const auto& [from, end] : {std::pair("p", "q"), {"p1", "p2"}, {"p3", "p9"}, {"p3", "p5-"}, {"p2-------", ""},
                                    {"p2-------\x01", "p5-------"}, {"p2-------", "p2-----.-"}}) {
      FB_ASSIGN(const auto first, view.First(Family::kObjects, from, end));
      seen.push_back(first ? first->first.substr(0, 2) + "=" + first->second : "none");
    }
    return Status();
  }));
  for (const Status& outcome : CommitTogether(std::move(group))) ASSERT_TRUE(outcome.ok()) << outcome.ToString();
  EXPECT_EQ(seen,
            (std::vector<std::string>{"p2=new", "none", "p5=changed", "none", "p2=new", "none", "p2=new"}));
}

TEST_P(MetaSuite, FirstFindsWhatIsUnderAPrefixOfAnyLength) {
  // Nine bytes: the bounds of the prefix agree but for their last eight, like those of the versions of one object.
  for (const char* key : {"a-prefix1/xVERSION3", "a-prefix3/yVERSION5"})
    ASSERT_TRUE(Commit(PutOne(Family::kObjects, key, key)).ok());
  Open(store_->last_commit());
  std::vector<std::string> seen;
  ASSERT_TRUE(Commit(Do([&](View& view, Batch&) {
                for (const auto& [from, end] : {std::pair("a-prefix1", "a-prefix2"), {"a-prefix2", "a-prefix3"}, {"a-prefix2", "a-prefix4"},
                                                {"a-prefix1/x", "a-prefix1/y"}}) {
                  FB_ASSIGN(const auto first, view.First(Family::kObjects, from, end));
                  seen.push_back(first ? first->first : "none");
                }
                return Status();
              })).ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"a-prefix1/xVERSION3", "none", "a-prefix3/yVERSION5", "a-prefix1/xVERSION3"}));
}

TEST_P(MetaSuite, FirstFindsTheVersionsOfOneObjectOnly) {
  for (const char* key : {"a/xVERSION3", "a/xVERSION5", "a/yVERSION1"})
    ASSERT_TRUE(Commit(PutOne(Family::kObjects, key, key)).ok());
  Open(store_->last_commit());
  std::vector<std::string> seen;
  ASSERT_TRUE(Commit(Do([&](View& view, Batch&) {
                for (const auto& [from, end] : {std::pair("a/xVERSION0", "a/xVERSION9"), {"a/xVERSION4", "a/xVERSION9"},
                                                {"a/xVERSION6", "a/xVERSION9"}, {"a/zVERSION0", "a/zVERSION9"}}) {
                  FB_ASSIGN(const auto first, view.First(Family::kObjects, from, end));
                  seen.push_back(first ? first->first : "none");
                }
                return Status();
              })).ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"a/xVERSION3", "a/xVERSION5", "none", "none"}));
}

TEST_P(MetaSuite, AMemberThatFailsLeavesNoTraceAndTheOthersGoOn) {
  ASSERT_TRUE(Commit(PutOne(Family::kBuckets, "old", "1")).ok());
  std::vector<std::unique_ptr<Transaction>> group;
  group.push_back(PutOne(Family::kBuckets, "a", "1"));
  group.push_back(Do([](View& view, Batch& batch) {
    batch.Put(Family::kBuckets, "a", "2");
    batch.Put(Family::kBuckets, "b", "2");
    batch.Delete(Family::kBuckets, "b");
    batch.Delete(Family::kBuckets, "old");
    FB_ASSIGN(const auto gone, view.Get(Family::kBuckets, "old"));
    EXPECT_EQ(gone, std::nullopt);
    return Status::Aborted("changed my mind");
  }));
  group.push_back(Do([](View& view, Batch& batch) {
    FB_ASSIGN(const auto a, view.Get(Family::kBuckets, "a"));
    FB_ASSIGN(const auto old, view.Get(Family::kBuckets, "old"));
    batch.Put(Family::kBuckets, "c", *a + *old);
    return Status();
  }));
  const auto outcomes = CommitTogether(std::move(group));
  EXPECT_TRUE(outcomes[0].ok());
  EXPECT_EQ(outcomes[1].code(), Code::kAborted);
  EXPECT_TRUE(outcomes[2].ok());
  EXPECT_EQ(Keys(Family::kBuckets, "", ""), "a c first old ");
  EXPECT_EQ(Get(Family::kBuckets, "a"), "1");
  EXPECT_EQ(Get(Family::kBuckets, "c"), "11");
}

TEST_P(MetaSuite, AGroupInWhichAllFailWritesAndFlushesNothing) {
  bool finished = false;
  hooks_.on_finish = [&](View&, Batch&) { finished = true; return Status(); };
  const Status outcome = Commit(Do([](View&, Batch& batch) {
    batch.Put(Family::kBuckets, "x", "y");
    return Status::FailedPrecondition("no");
  }));
  EXPECT_EQ(outcome.code(), Code::kFailedPrecondition);
  EXPECT_FALSE(finished);
  EXPECT_TRUE(hooks_.flushes().empty());
  EXPECT_EQ(store_->last_commit(), 0U);
  EXPECT_EQ(Get(Family::kBuckets, "x"), std::nullopt);
  EXPECT_TRUE(store_->health().ok());
}

TEST_P(MetaSuite, WhatTheHooksAddBelongsToTheGroup) {
  hooks_.on_finish = [](View& view, Batch& batch) {
    FB_ASSIGN(const auto member, view.Get(Family::kExtents, "e"));
    batch.Put(Family::kGroups, "bitmap", member.value_or("?"));
    return Status();
  };
  ASSERT_TRUE(Commit(PutOne(Family::kExtents, "e", "7")).ok());
  EXPECT_EQ(Get(Family::kGroups, "bitmap"), "7");
  Open(1);
  EXPECT_EQ(Get(Family::kGroups, "bitmap"), "7");
}

TEST_P(MetaSuite, AFailureToFinishTheGroupFailsItAndNothingElse) {
  bool fail = true;
  hooks_.on_finish = [&](View&, Batch&) { return fail ? Status::Internal("bitmap") : Status(); };
  EXPECT_EQ(Commit(PutOne(Family::kExtents, "e", "7")).code(), Code::kInternal);
  EXPECT_EQ(Get(Family::kExtents, "e"), std::nullopt);
  fail = false;
  EXPECT_TRUE(Commit(PutOne(Family::kExtents, "f", "8")).ok());
  EXPECT_EQ(Keys(Family::kExtents, "", ""), "f ");
}

TEST_P(MetaSuite, EachGroupFlushesBeforeItIsWrittenAndCarriesTheWitnessOfTheOneBefore) {
  const auto with_data = [] {
    return Do([](View&, Batch& batch) { batch.Put(Family::kMaps, "k", "v"); return Status(); },
              {.needs_data_flush = true});
  };
  ASSERT_TRUE(Commit(with_data()).ok());
  ASSERT_TRUE(Commit(PutOne(Family::kMaps, "l", "v")).ok());
  ASSERT_TRUE(Commit(with_data()).ok());
  EXPECT_EQ(hooks_.flushes(), (std::vector<TestHooks::Flush>{{0, true}, {1, false}, {2, true}}));
  EXPECT_EQ(store_->stats().data_flushes, 2U);
  EXPECT_EQ(store_->last_commit(), 3U);
}

TEST_P(MetaSuite, NothingIsVisibleBeforeTheDataIsFlushed) {
  hooks_.Hold();
  std::vector<rt::Task<Status>> tasks;
  tasks.push_back(store_->Commit(*reactor_, PutOne(Family::kMaps, "k", "v")));
  const auto look = [this]() -> rt::Task<Status> {
    hooks_.AwaitFlushes(1);
    EXPECT_EQ(Get(Family::kMaps, "k"), std::nullopt);
    EXPECT_EQ(store_->last_commit(), 0U);
    hooks_.Release();
    co_return Status();
  };
  tasks.push_back(look());
  for (const Status& status : reactor_->BlockOn(rt::WhenAll(std::move(tasks)))) EXPECT_TRUE(status.ok());
  EXPECT_EQ(Get(Family::kMaps, "k"), "v");
}

TEST_P(MetaSuite, DoneComesOnceWithTheOutcomeInGroupOrder) {
  std::vector<std::string> calls;
  const auto noted = [&](std::string name, Status outcome) {
    return Do([outcome](View&, Batch& batch) { batch.Put(Family::kMaps, "k", "v"); return outcome; },
              {.done = [&calls, name](const Status& status) { calls.push_back(name + ":" + std::string(CodeName(status.code()))); }});
  };
  std::vector<std::unique_ptr<Transaction>> group;
  group.push_back(noted("a", Status()));
  group.push_back(noted("b", Status::NotFound("no")));
  group.push_back(noted("c", Status()));
  (void)CommitTogether(std::move(group));
  EXPECT_EQ(calls, (std::vector<std::string>{"a:OK", "b:NOT_FOUND", "c:OK"}));
}

TEST_P(MetaSuite, AfterAFailedFlushNothingIsAcknowledgedAndTheStoreIsReadOnly) {
  ASSERT_TRUE(Commit(PutOne(Family::kBuckets, "a", "1")).ok());
  hooks_.FailFlushes(Status::DataLoss("/dev/x: flush failed"));
  Status noted;
  EXPECT_EQ(Commit(Do([](View&, Batch& batch) { batch.Put(Family::kBuckets, "b", "1"); return Status(); },
                      {.done = [&](const Status& status) { noted = status; }})).code(),
            Code::kDataLoss);
  EXPECT_EQ(noted.code(), Code::kDataLoss);
  EXPECT_EQ(Get(Family::kBuckets, "b"), std::nullopt);
  hooks_.FailFlushes(Status());  // even when flushes would work again

  const Status later = Commit(PutOne(Family::kBuckets, "c", "1"));
  EXPECT_EQ(later.code(), Code::kFailedPrecondition);
  EXPECT_NE(later.message().find("/dev/x: flush failed"), std::string_view::npos) << later.ToString();
  EXPECT_EQ(store_->health(), later);
  EXPECT_EQ(Get(Family::kBuckets, "a"), "1");
  EXPECT_EQ(hooks_.flushes().size(), 2U);
  EXPECT_EQ(store_->last_commit(), 1U);

  Open(1);
  EXPECT_TRUE(store_->health().ok());
  EXPECT_TRUE(Commit(PutOne(Family::kBuckets, "d", "1")).ok());
  EXPECT_EQ(Keys(Family::kBuckets, "", ""), "a d ");
}

TEST_P(MetaSuite, AllMembersOfAFailedGroupGetItsErrorAlsoThoseThatFailedByThemselves) {
  std::vector<std::unique_ptr<Transaction>> group;
  group.push_back(PutIfAbsent(Family::kBuckets, "a", "1"));
  group.push_back(PutIfAbsent(Family::kBuckets, "a", "2"));
  hooks_.on_finish = [this, calls = 0](View&, Batch&) mutable {
    if (++calls == 2) hooks_.FailFlushes(Status::DataLoss("flush"));
    return Status();
  };
  const auto outcomes = CommitTogether(std::move(group));
  EXPECT_EQ(outcomes[0].code(), Code::kDataLoss);
  EXPECT_EQ(outcomes[1].code(), Code::kDataLoss);  // not AlreadyExists: nothing is there
}

TEST_P(MetaSuite, RefusesToOpenBelowTheWitness) {
  ASSERT_TRUE(Commit(PutOne(Family::kBuckets, "a", "1")).ok());
  ASSERT_TRUE(Commit(PutOne(Family::kBuckets, "b", "1")).ok());
  store_.reset();
  const Status refused = place_->Open(3, &hooks_, options_).status();
  EXPECT_EQ(refused.code(), Code::kDataLoss);
  EXPECT_NE(refused.message().find("ends at commit 2"), std::string_view::npos) << refused.ToString();
  EXPECT_NE(refused.message().find("witnesses commit 3"), std::string_view::npos) << refused.ToString();
  Open(2);
  EXPECT_EQ(Keys(Family::kBuckets, "", ""), "a b ");
  Open(1);  // a witness is one group behind while the store is busy
  EXPECT_EQ(Keys(Family::kBuckets, "", ""), "a b ");
}

TEST_P(MetaSuite, WhatAPowerCutMayTakeBackFlushesNothingAndIsNotWitnessed) {
  const auto fleeting = [](std::string key) {
    return Do([key = std::move(key)](View&, Batch& batch) { batch.Put(Family::kMaps, key, "v"); return Status(); },
              {.needs_data_flush = true, .durable = false});
  };
  ASSERT_TRUE(Commit(fleeting("a")).ok());
  ASSERT_TRUE(Commit(fleeting("b")).ok());
  EXPECT_EQ(Keys(Family::kMaps, "", ""), "a b ");
  EXPECT_TRUE(hooks_.flushes().empty());
  EXPECT_EQ(store_->stats().unsynced_groups, 2U);
  ASSERT_TRUE(Commit(PutOne(Family::kMaps, "c", "v")).ok());
  ASSERT_TRUE(Commit(fleeting("d")).ok());
  hooks_.make_durable = true;
  ASSERT_TRUE(Commit(fleeting("e")).ok());
  // Of commits 1 to 5 the third made the first three durable, which the fifth could witness.
  EXPECT_EQ(hooks_.flushes(), (std::vector<TestHooks::Flush>{{0, false}, {3, true}}));
  EXPECT_EQ(store_->stats().unsynced_groups, 3U);
  EXPECT_EQ(store_->last_commit(), 5U);
}

TEST_P(MetaSuite, AStoreThatClosesWitnessesNoCommitThatAPowerCutMayTakeBack) {
  ASSERT_TRUE(Commit(PutOne(Family::kMaps, "a", "v")).ok());
  ASSERT_TRUE(Commit(Do([](View&, Batch& batch) { batch.Put(Family::kMaps, "b", "v"); return Status(); },
                        {.durable = false})).ok());
  store_.reset();
  EXPECT_EQ(hooks_.flushes(), (std::vector<TestHooks::Flush>{{0, false}, {1, false}}));
}

TEST_P(MetaSuite, AClosedStoreHasWitnessedItsLastCommit) {
  ASSERT_TRUE(Commit(PutOne(Family::kBuckets, "a", "1")).ok());
  store_.reset();
  EXPECT_EQ(hooks_.flushes(), (std::vector<TestHooks::Flush>{{0, false}, {1, false}}));
}

TEST_P(MetaSuite, AnIdleStoreWitnessesItsLastCommitOnce) {
  options_.settle = std::chrono::milliseconds(1);
  Open();
  ASSERT_TRUE(Commit(PutOne(Family::kBuckets, "a", "1")).ok());
  hooks_.AwaitFlushes(2);
  store_.reset();  // has nothing to add
  EXPECT_EQ(hooks_.flushes(), (std::vector<TestHooks::Flush>{{0, false}, {1, false}}));
}

TEST_P(MetaSuite, AFullQueueRefusesAndTellsTheTransaction) {
  options_.queue_limit = 2;
  Open();
  hooks_.Hold();
  std::vector<Status> noted;
  std::vector<rt::Task<Status>> tasks;
  tasks.push_back(store_->Commit(*reactor_, PutOne(Family::kBuckets, "a", "1")));
  tasks.push_back(AwaitFlushes(1));  // then the first one has left the queue
  for (const char* key : {"b", "c", "d"})
    tasks.push_back(store_->Commit(*reactor_, Do([key](View&, Batch& batch) {
      batch.Put(Family::kBuckets, key, "1");
      return Status();
    }, {.done = [&](const Status& status) { noted.push_back(status); }})));
  tasks.push_back(ReleaseAfter(1));
  const auto outcomes = reactor_->BlockOn(rt::WhenAll(std::move(tasks)));
  EXPECT_TRUE(outcomes[0].ok() && outcomes[2].ok() && outcomes[3].ok());
  EXPECT_EQ(outcomes[4].code(), Code::kResourceExhausted) << outcomes[4].ToString();
  EXPECT_EQ(noted.size(), 3U);
  EXPECT_EQ(Keys(Family::kBuckets, "", ""), "a b c ");
}

TEST_P(MetaSuite, AGroupHasLimits) {
  options_.group_limit = 3;
  options_.group_bytes = 1000;
  Open();
  std::vector<std::unique_ptr<Transaction>> many;
  for (int i = 0; i < 4; ++i) many.push_back(PutOne(Family::kMaps, "few" + std::to_string(i), ""));
  for (const Status& status : CommitTogether(std::move(many))) EXPECT_TRUE(status.ok());
  EXPECT_EQ(store_->stats().groups, 1U + 2U);
  many.clear();
  for (int i = 0; i < 3; ++i) many.push_back(PutOne(Family::kMaps, "big" + std::to_string(i), std::string(600, 'x')));
  for (const Status& status : CommitTogether(std::move(many))) EXPECT_TRUE(status.ok());
  EXPECT_EQ(store_->stats().groups, 3U + 1U + 2U);
  EXPECT_EQ(store_->stats().transactions, 5U + 4U);
}

TEST_P(MetaSuite, ManyCommitsFromOneReactorShareGroups) {
  hooks_.Hold();
  std::vector<rt::Task<Status>> tasks;
  for (int i = 0; i < 500; ++i)
    tasks.push_back(store_->Commit(*reactor_, PutOne(Family::kMaps, "k" + std::to_string(i), std::to_string(i))));
  tasks.push_back(ReleaseAfter(1));
  for (const Status& status : reactor_->BlockOn(rt::WhenAll(std::move(tasks)))) ASSERT_TRUE(status.ok());
  EXPECT_EQ(store_->stats().transactions, 500U);
  EXPECT_LE(store_->stats().groups, 2U);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(Get(Family::kMaps, "k" + std::to_string(i)), std::to_string(i));
}

}  // namespace forebay::meta
