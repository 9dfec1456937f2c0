// SPDX-License-Identifier: Apache-2.0
#include "meta/rocks_meta_store.h"

#include <stdlib.h>

#include <filesystem>

#include "base/check.h"
#include "meta/meta_suite.h"
#include "meta/temporary_directory.h"

namespace forebay::meta {
namespace {

class RocksPlace final : public MetaPlace {
 public:
  Result<std::unique_ptr<MetaStore>> Open(uint64_t witness, GroupHooks* hooks, CommitterOptions options) override {
    FB_ASSIGN(std::unique_ptr<MetaStore> store,
              RocksMetaStore::Open({.path = directory_.path() + "/meta",
                                    .create = !std::exchange(created_, true),
                                    .witness = witness,
                                    .committer = options},
                                   hooks));
    return store;
  }

 private:
  const TemporaryDirectory directory_;
  bool created_ = false;
};

INSTANTIATE_TEST_SUITE_P(Rocks, MetaSuite,
                         ::testing::Values(MetaMaker{"rocksdb", [] { return std::make_unique<RocksPlace>(); }}),
                         [](const auto& info) { return info.param.name; });

class RocksMetaStoreTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<RocksMetaStore>> Open(bool create = false, uint64_t witness = 0) {
    return RocksMetaStore::Open({.path = path_, .create = create, .witness = witness}, nullptr);
  }
  void Put(RocksMetaStore& store, const std::string& key, const std::string& value) {
    const Status status = reactor_->BlockOn(store.Commit(*reactor_, PutOne(Family::kBuckets, key, value)));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/meta";
  const std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
};

TEST_F(RocksMetaStoreTest, IsNeverMadeUnasked) {
  const Status status = Open().status();
  EXPECT_EQ(status.code(), Code::kNotFound) << status.ToString();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(RocksMetaStoreTest, MakingItAgainIsFineUntilItHasCommits) {
  { ASSERT_TRUE(Open(true).ok()); }
  {
    auto store = Open(true);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    Put(**store, "a", "1");
  }
  EXPECT_EQ(Open(true).status().code(), Code::kAlreadyExists);
  EXPECT_TRUE(Open(false, 1).ok());
}

TEST_F(RocksMetaStoreTest, AWitnessWithoutMetadataIsDataLoss) {
  EXPECT_EQ(Open(true, 5).status().code(), Code::kDataLoss);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(RocksMetaStoreTest, OnlyOneUserAtATime) {
  const auto first = Open(true);
  ASSERT_TRUE(first.ok());
  const Status second = Open().status();
  EXPECT_EQ(second.code(), Code::kFailedPrecondition) << second.ToString();
}

TEST_F(RocksMetaStoreTest, FilesWithoutCurrentAreDamageAlsoWhenMaking) {
  {
    auto store = Open(true);
    ASSERT_TRUE(store.ok());
    Put(**store, "a", "1");
  }
  std::filesystem::remove(path_ + "/CURRENT");
  EXPECT_EQ(Open().status().code(), Code::kDataLoss);
  EXPECT_EQ(Open(true).status().code(), Code::kDataLoss);
}

TEST_F(RocksMetaStoreTest, KeepsItsCommitsOverManyLives) {
  uint64_t commits = 0;
  for (int life = 0; life < 5; ++life) {
    auto store = Open(life == 0, commits);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    EXPECT_EQ((*store)->last_commit(), commits);
    for (int i = 0; i < 10; ++i, ++commits) Put(**store, fmt::format("{}-{}", life, i), std::to_string(commits));
  }
  auto store = Open(false, commits);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  size_t count = 0;
  const auto scan = (*store)->NewScan(Family::kBuckets, "");
  for (scan->Seek(""); scan->Valid(); scan->Next()) ++count;
  EXPECT_EQ(count, 50U);
}

TEST_F(RocksMetaStoreTest, NearlyFullItTakesOnlyWhatFreesSpace) {
  auto opened = RocksMetaStore::Open({.path = path_, .create = true, .reserve_bytes = uint64_t{1} << 62}, nullptr);
  ASSERT_TRUE(opened.ok());
  RocksMetaStore& store = **opened;
  bool prepared = false, done = false;
  const Status refused = reactor_->BlockOn(store.Commit(
      *reactor_, Do([&](View&, Batch&) { prepared = true; return Status(); },
                    {.done = [&](const Status& status) { done = status.code() == Code::kResourceExhausted; }})));
  EXPECT_EQ(refused.code(), Code::kResourceExhausted) << refused.ToString();
  EXPECT_FALSE(prepared);
  EXPECT_TRUE(done);
  const Status taken = reactor_->BlockOn(store.Commit(
      *reactor_, Do([&](View&, Batch& batch) { batch.Delete(Family::kBuckets, "x"); return Status(); },
                    {.frees_space = true})));
  EXPECT_TRUE(taken.ok()) << taken.ToString();
  EXPECT_TRUE(store.health().ok());
}

TEST_F(RocksMetaStoreTest, ItsSpaceIsThatOfItsFiles) {
  auto opened = RocksMetaStore::Open({.path = path_, .create = true, .reserve_bytes = 12345}, nullptr);
  ASSERT_TRUE(opened.ok());
  RocksMetaStore& store = **opened;
  const Result<MetaSpace> before = store.Space();
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  Put(store, "large", std::string(1'000'000, 'x'));
  const Result<MetaSpace> after = store.Space();
  ASSERT_TRUE(after.ok()) << after.status().ToString();
  EXPECT_GE(after->used_bytes, before->used_bytes + 1'000'000) << "it is in the log";
  uint64_t in_files = 0;
  for (const auto& file : std::filesystem::directory_iterator(path_)) in_files += file.file_size();
  EXPECT_EQ(after->used_bytes, in_files);
  EXPECT_EQ(after->path, path_);
  EXPECT_EQ(after->reserve_bytes, 12345U);
  EXPECT_LE(after->free_bytes, std::filesystem::space(path_).capacity);
}

TEST_F(RocksMetaStoreTest, ALargeChangeAsksForRoomBeforeItWrites) {
  auto opened = Open(true, 0);
  ASSERT_TRUE(opened.ok());
  RocksMetaStore& store = **opened;
  const auto ask = [&](uint64_t bytes) {
    return reactor_->BlockOn(store.Commit(*reactor_, Do([bytes](View& view, Batch&) { return view.CheckRoom(bytes); })));
  };
  EXPECT_TRUE(ask(1000).ok());
  EXPECT_TRUE(ask(2 * base::kMiB).ok());
  const Status refused = ask(uint64_t{1} << 60);
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_NE(refused.message().find("change less at once"), std::string_view::npos) << refused.ToString();
  EXPECT_TRUE(store.health().ok());
}

}  // namespace
}  // namespace forebay::meta
