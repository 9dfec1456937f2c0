// SPDX-License-Identifier: Apache-2.0
#include "store/memory_store.h"

#include <algorithm>
#include <future>

#include <gtest/gtest.h>

#include "rt/reactor_thread.h"
#include "rt/when_all.h"
#include "store/memory_wait.h"
#include "store/store_suite.h"
#include "store/system_records.h"

namespace forebay::store {
namespace {

using namespace std::chrono_literals;

class MemoryFixture final : public StoreFixture {
 public:
  ObjectStore& store() override { return store_; }
  rt::Reactor& reactor() override { return *reactor_; }
  bool PassTime(base::Duration time) override {
    clock_.Advance(time);
    return true;
  }

 private:
  base::FakeClock clock_;
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(128 * base::kMiB);
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  MemoryStore store_{*arena_, clock_};
};

INSTANTIATE_TEST_SUITE_P(Memory, StoreSuite,
                         testing::Values(StoreBackend{"memory",
                                                      [] { return std::make_unique<MemoryFixture>(); }}),
                         BackendName);

/// A store on a fake clock and the smallest arena.
class MemoryStoreTest : public testing::Test {
 protected:
  static constexpr size_t kArenaBytes = base::Arena::kMaxAllocation;

  void SetUp() override {
    ASSERT_TRUE(reactor_->BlockOn(store_.CreateBucket(context_, {.name = "bucket"})).ok());
  }

  Result<ObjectInfo> Put(const std::string& key, std::string content) {
    return reactor_->BlockOn(PutContent(store_, context_, "bucket", key, std::move(content)));
  }
  std::unique_ptr<ObjectReader> Open(const std::string& key) {
    return *reactor_->BlockOn(store_.Open(context_, "bucket", key, {}));
  }
  /// Lets whatever can run without the clock run.
  rt::Task<void> Settle() {
    for (int i = 0; i < 20; ++i) co_await reactor_->Yield();
  }

  base::FakeClock clock_;
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(kArenaBytes);
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create({.name = "test", .clock = &clock_});
  MemoryStore store_{*arena_, clock_};
  Context context_{.reactor = *reactor_};
};

TEST_F(MemoryStoreTest, MakesETagsOfVersionAndChecksum) {
  const Result<ObjectInfo> put = Put("o", "123456789");
  ASSERT_TRUE(put.ok());
  EXPECT_EQ(put->version, 1U);
  EXPECT_EQ(put->etag, "0000000000000001-e3069283");
  EXPECT_EQ(put->modified, clock_.WallNow());
}

TEST_F(MemoryStoreTest, FreesMemoryWithTheLastUserOfAVersion) {
  ASSERT_TRUE(Put("o", std::string(100'000, 'x')).ok());
  const size_t used = store_.usage().used_bytes;
  EXPECT_GE(used, 100'000U);
  std::unique_ptr<ObjectReader> reader = Open("o");
  ASSERT_TRUE(reactor_->BlockOn(store_.Delete(context_, "bucket", "o", {})).ok());
  EXPECT_EQ(store_.usage().used_bytes, used);
  reader.reset();
  EXPECT_EQ(store_.usage().used_bytes, 0U);
  EXPECT_EQ(store_.usage().capacity_bytes, kArenaBytes);
}

TEST_F(MemoryStoreTest, NoticesContentThatWasChangedBehindItsBack) {
  base::Buffer shared = *arena_->Allocate(8192);
  std::ranges::fill(shared.writable(), std::byte{1});
  auto writer = *reactor_->BlockOn(store_.Put(context_, "bucket", "o", {}));
  ASSERT_TRUE(reactor_->BlockOn(writer->Write(context_, shared)).ok());
  ASSERT_TRUE(reactor_->BlockOn(writer->Commit(context_, std::nullopt)).ok());
  shared.writable()[5000] ^= std::byte{0x10};
  const auto reader = Open("o");
  const Result<ReadData> data = reactor_->BlockOn(reader->Read(context_, 0, 1));
  ASSERT_TRUE(Is(data, Code::kDataLoss));
  EXPECT_NE(data.status().message().find("`bucket/o` is damaged at offset 0"), std::string_view::npos);
}

TEST_F(MemoryStoreTest, APutEndsOnce) {
  auto writer = *reactor_->BlockOn(store_.Put(context_, "bucket", "o", {}));
  ASSERT_TRUE(reactor_->BlockOn(writer->Commit(context_, std::nullopt)).ok());
  EXPECT_TRUE(Is(reactor_->BlockOn(writer->Commit(context_, std::nullopt)), Code::kFailedPrecondition));
  EXPECT_TRUE(
      Is(reactor_->BlockOn(WriteContent(*writer, context_, "more", 4096)), Code::kFailedPrecondition));
}

TEST_F(MemoryStoreTest, RefusesMoreBucketsThanTheLimit) {
  const auto create = [&](size_t i) {
    return reactor_->BlockOn(store_.CreateBucket(context_, {.name = "b" + std::to_string(100'000 + i)}));
  };
  for (size_t i = 1; i < base::kMaxBuckets; ++i) ASSERT_TRUE(create(i).ok());
  EXPECT_TRUE(Is(create(0), Code::kResourceExhausted));
  SystemRecords records(store_);
  EXPECT_TRUE(Is(reactor_->BlockOn(records.Open(*reactor_)), Code::kOk)) << "the system's bucket counts";
  EXPECT_TRUE(Is(create(0), Code::kResourceExhausted));
}

TEST_F(MemoryStoreTest, AWriterWaitsUntilMemoryIsFreed) {
  ASSERT_TRUE(Put("large", std::string(kArenaBytes, 'x')).ok());
  bool arrived = false;
  const auto wait = [&]() -> rt::Task<void> {
    const auto writer = *co_await store_.Put(context_, "bucket", "o", {});
    const Result<base::Buffer> buffer = co_await writer->Allocate(context_, 100);
    EXPECT_TRUE(Is(buffer, Code::kOk));
    arrived = true;
  };
  const auto free = [&]() -> rt::Task<void> {
    co_await Settle();
    EXPECT_FALSE(arrived);
    EXPECT_TRUE(Is(co_await store_.Delete(context_, "bucket", "large", {}), Code::kOk));
    co_await Settle();
    EXPECT_TRUE(arrived);
  };
  std::vector<rt::Task<void>> both;
  both.push_back(wait());
  both.push_back(free());
  reactor_->BlockOn(rt::WhenAll(std::move(both)));
}

TEST_F(MemoryStoreTest, AWriterGivesUpWaitingAtItsDeadline) {
  const base::Buffer everything = *arena_->Allocate(kArenaBytes);
  Context context = context_;
  context.deadline = clock_.Now() + 10s;
  std::optional<Status> status;
  const auto wait = [&]() -> rt::Task<void> {
    const Result<base::Buffer> buffer = co_await AllocateOrWait(*arena_, context, 4096);
    status = buffer.status();
  };
  const auto pass_time = [&]() -> rt::Task<void> {
    clock_.Advance(9s);
    co_await Settle();
    EXPECT_FALSE(status.has_value());
    clock_.Advance(1s);
    co_await Settle();
    EXPECT_TRUE(status.has_value());
  };
  std::vector<rt::Task<void>> both;
  both.push_back(wait());
  both.push_back(pass_time());
  reactor_->BlockOn(rt::WhenAll(std::move(both)));
  EXPECT_TRUE(Is(*status, Code::kResourceExhausted));
}

TEST(AllocateOrWait, IsWokenFromAnyThread) {
  constexpr size_t kSize =
      base::Arena::kMaxAllocation / 2;  // two of three tasks hold memory, the third waits
  const auto arena = *base::Arena::Create(base::Arena::kMaxAllocation);
  const auto take_turns = [&](rt::Reactor& reactor) -> rt::Task<int> {
    const Context context{.reactor = reactor};
    int granted = 0;
    for (int i = 0; i < 200; ++i) {
      Result<base::Buffer> buffer = co_await AllocateOrWait(*arena, context, kSize);
      if (!buffer.ok()) break;
      std::ranges::fill(buffer->writable().first(64), static_cast<std::byte>(i));
      ++granted;
      co_await reactor.Yield();
    }
    co_return granted;
  };
  std::vector<std::unique_ptr<rt::ReactorThread>> threads;
  std::vector<std::future<int>> ends;
  for (int i = 0; i < 3; ++i) threads.push_back(*rt::ReactorThread::Create({.name = "taker"}));
  for (const auto& thread : threads)
    ends.push_back(thread->Submit([&, reactor = &thread->reactor()] { return take_turns(*reactor); }));
  for (std::future<int>& end : ends) EXPECT_EQ(end.get(), 200);
  EXPECT_EQ(arena->free_bytes(), arena->size_bytes());
}

}  // namespace
}  // namespace forebay::store
