// SPDX-License-Identifier: Apache-2.0
// Cache-class buckets of the engine: what they cost, what goes when space is needed, and what is gone.
#include <chrono>
#include <optional>

#include <gtest/gtest.h>

#include "engine/cache_rows.h"
#include "engine/engine_fixture.h"
#include "engine/repair.h"
#include "engine/row_frame.h"
#include "rt/when_all.h"

namespace forebay::engine {
namespace {

using base::kKiB;
using base::kMiB;
using store::BucketClass;

/// Twins with a durable bucket, `bucket`, and a cache of each tenant that is asked for.
class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(twins_.CreateBucket().ok());
    ASSERT_TRUE(CreateCache("cache").ok());
  }
  void TearDown() override {
    twins_.Close();
    const FsckReport report = twins_.Fsck(true);
    for (const std::string& error : report.errors) ADD_FAILURE() << "fsck: " << error;
  }

  store::Context As(TenantId tenant) {
    store::Context context = twins_.context();
    context.tenant = tenant;
    return context;
  }
  Status CreateCache(const std::string& name, TenantId tenant = TenantId::kRoot, std::chrono::milliseconds ttl = {}) {
    return twins_.Run(
        engine().CreateBucket(As(tenant), {.name = name, .bucket_class = BucketClass::kCache, .ttl = ttl}));
  }
  rt::Task<Result<store::ObjectInfo>> PutTask(std::string bucket, std::string key, std::string content) {
    FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                 co_await engine().Put(twins_.context(), std::move(bucket), std::move(key), {}));
    FB_CO_TRY(co_await twins_.WriteTask(*writer, content));
    co_return co_await writer->Commit(twins_.context(), std::nullopt);
  }
  Status Put(const std::string& bucket, const std::string& key, const std::string& content) {
    return twins_.Run(PutTask(bucket, key, content)).status();
  }
  /// Some of the durable bucket, which the caches make room for.
  Status Fill(int from, int count) {
    for (int i = from; i < from + count; ++i) FB_TRY(Put("bucket", "durable-" + std::to_string(i), RandomContent(i, kMiB)));
    return {};
  }
  bool IsThere(const std::string& bucket, const std::string& key) {
    return twins_.Run(engine().Stat(twins_.context(), bucket, key)).ok();
  }
  Result<std::string> Get(const std::string& bucket, const std::string& key) {
    FB_ASSIGN(const std::unique_ptr<store::ObjectReader> reader,
              twins_.Run(engine().Open(twins_.context(), bucket, key, {})));
    return twins_.Read(*reader, 0, reader->info().size_bytes);
  }
  /// Writes other bytes where the object that was put last stands.
  void Spoil() { twins_.WriteDisk(twins_.LastExtent().first_unit * device::kUnit, Bytes(4096, std::byte{0x5a})); }
  Engine& engine() { return twins_.engine(); }

  // 63 MiB of data.
  TwinStore twins_{{.device_bytes = 64 * kMiB}};
};

TEST_F(CacheTest, NothingIsFlushedForACache) {
  // The first change reserves numbers, which no power cut may give out again.
  ASSERT_TRUE(Put("cache", "first", "1").ok());
  twins_.Turn();
  const int flushes = twins_.faults().flushes;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Put("cache", "k" + std::to_string(i), RandomContent(i, i * 10'000)).ok());
  ASSERT_TRUE(twins_.Run(engine().Delete(twins_.context(), "cache", "k3", {})).ok());
  ASSERT_TRUE(twins_.Run(engine().Rename(twins_.context(), "cache", "k4", "k5", {})).ok());
  ASSERT_TRUE(twins_.Run(engine().Truncate(twins_.context(), "cache", "k6", 5000, {})).ok());
  ASSERT_TRUE(twins_.Run(engine().SetAttributes(twins_.context(), "cache", "k7", 0, {.set = {{"a", "b"}}})).ok());
  ASSERT_TRUE(twins_.Run(engine().Pin(twins_.context(), "cache", "k7", std::chrono::hours(1))).ok());
  ASSERT_TRUE(twins_.Run(engine().Compose(twins_.context(), "cache", "k20", {{.bucket = "cache", .key = "k19"}}, {})).ok());
  EXPECT_EQ(twins_.faults().flushes, flushes);
  EXPECT_EQ(*Get("cache", "k19"), RandomContent(19, 190'000));
  ASSERT_TRUE(Put("bucket", "durable", "1").ok());
  EXPECT_GT(twins_.faults().flushes, flushes);
}

TEST_F(CacheTest, AHundredTenantsCachesMakeRoomForDurablePuts) {
  constexpr int kTenants = 100;
  for (int tenant = 0; tenant < kTenants; ++tenant) {
    const std::string bucket = "cache-" + std::to_string(tenant);
    ASSERT_TRUE(CreateCache(bucket, TenantId{1000U + static_cast<uint64_t>(tenant)}).ok());
  }
  for (int round = 0; round < 4; ++round)  // 100 MiB in all
    for (int tenant = 0; tenant < kTenants; ++tenant) {
      const std::string bucket = "cache-" + std::to_string(tenant);
      const Status put = Put(bucket, "k" + std::to_string(round), RandomContent(tenant * 4 + round, 256 * kKiB));
      ASSERT_TRUE(put.ok()) << put.ToString();
    }
  const store::StoreUsage filled = engine().usage();
  EXPECT_GT(filled.used_bytes, filled.capacity_bytes / 100 * 88);
  EXPECT_GT(filled.cache_evicted, 0U);
  const Status durable = Fill(0, 60);
  EXPECT_TRUE(durable.ok()) << durable.ToString();
  for (int i = 0; i < 60; ++i) EXPECT_EQ(*Get("bucket", "durable-" + std::to_string(i)), RandomContent(i, kMiB));
  // What is left of the caches is right.
  int left = 0;
  for (int round = 0; round < 4; ++round)
    for (int tenant = 0; tenant < kTenants; ++tenant) {
      const Result<std::string> got = Get("cache-" + std::to_string(tenant), "k" + std::to_string(round));
      EXPECT_EQ(got.ok() ? *got : RandomContent(tenant * 4 + round, 256 * kKiB), RandomContent(tenant * 4 + round, 256 * kKiB));
      left += got.ok() ? 1 : 0;
    }
  EXPECT_LE(left * 256 * kKiB, 3 * kMiB);
  EXPECT_EQ(twins_.Run(engine().GetSpace(twins_.context()))->cache_bytes, left * 256 * kKiB);
  // And when there is nothing to evict any more, a put says so.
  const Status full = Fill(60, 10);
  EXPECT_EQ(full.code(), Code::kResourceExhausted) << full.ToString();
  EXPECT_EQ(twins_.Run(engine().GetSpace(twins_.context()))->cache_bytes, 0U);
}

TEST_F(CacheTest, TheOldestGoFirstButWhatWasUsedIsSparedOnce) {
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(Put("cache", "k" + std::to_string(i), RandomContent(i, kMiB)).ok());
  ASSERT_TRUE(Get("cache", "k0").ok());
  ASSERT_TRUE(Get("cache", "k2").ok());
  ASSERT_TRUE(Fill(0, 21).ok());
  EXPECT_TRUE(IsThere("cache", "k0"));
  EXPECT_FALSE(IsThere("cache", "k1"));
  EXPECT_TRUE(IsThere("cache", "k2"));
  EXPECT_TRUE(IsThere("cache", "k39"));
  ASSERT_TRUE(Fill(21, 39).ok());
  EXPECT_FALSE(IsThere("cache", "k0"));
}

TEST_F(CacheTest, TheOrderIsKnownAfterARestart) {
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(Put("cache", "k" + std::to_string(i), RandomContent(i, kMiB)).ok());
  ASSERT_TRUE(Put("cache", "k1", RandomContent(1, kMiB)).ok());  // now the youngest
  ASSERT_TRUE(twins_.Run(engine().Rename(twins_.context(), "cache", "k3", "renamed", {})).ok());
  twins_.Reopen();
  ASSERT_TRUE(Fill(0, 24).ok());
  EXPECT_FALSE(IsThere("cache", "k0"));
  EXPECT_TRUE(IsThere("cache", "k1"));
  EXPECT_FALSE(IsThere("cache", "k2"));
  EXPECT_TRUE(IsThere("cache", "renamed"));
}

TEST_F(CacheTest, AnObjectThatIsPinnedStays) {
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(Put("cache", "k" + std::to_string(i), RandomContent(i, kMiB)).ok());
  ASSERT_TRUE(twins_.Run(engine().Pin(twins_.context(), "cache", "k0", std::chrono::hours(1))).ok());
  twins_.Reopen();
  ASSERT_TRUE(Fill(0, 61).ok());
  EXPECT_EQ(*Get("cache", "k0"), RandomContent(0, kMiB));
  EXPECT_EQ(Fill(61, 3).code(), Code::kResourceExhausted);
  EXPECT_TRUE(IsThere("cache", "k0"));
  // Seven MiB of 63 are a pin's share, not eight.
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(twins_.Delete("durable-" + std::to_string(i)).ok());
  for (int i = 1; i < 8; ++i) ASSERT_TRUE(Put("cache", "k" + std::to_string(i), RandomContent(i, kMiB)).ok());
  const auto pin = [&](int i) {
    return twins_.Run(engine().Pin(twins_.context(), "cache", "k" + std::to_string(i), std::chrono::hours(1)));
  };
  for (int i = 1; i < 7; ++i) EXPECT_TRUE(pin(i).ok());
  EXPECT_EQ(pin(7).code(), Code::kResourceExhausted);
  twins_.clock().Advance(std::chrono::hours(1));
  EXPECT_TRUE(pin(7).ok());
  ASSERT_TRUE(Fill(100, 58).ok());
  EXPECT_FALSE(IsThere("cache", "k0"));
  EXPECT_TRUE(IsThere("cache", "k7"));
}

TEST_F(CacheTest, AReaderKeepsWhatItHasOpenAndAPutWaitsForIt) {
  for (int i = 0; i < 55; ++i) ASSERT_TRUE(Put("cache", "k" + std::to_string(i), RandomContent(i, kMiB)).ok());
  std::unique_ptr<store::ObjectReader> reader = *twins_.Run(engine().Open(twins_.context(), "cache", "k0", {}));
  bool ended = false;
  bool closed_first = false;
  const auto fill = [&]() -> rt::Task<Status> {
    for (int i = 0; i < 40; ++i)
      FB_CO_TRY((co_await PutTask("bucket", "durable-" + std::to_string(i), RandomContent(i, kMiB))).status());
    ended = true;
    co_return Status();
  };
  const auto close = [&]() -> rt::Task<Status> {
    for (int i = 0; i < 3000; ++i) co_await twins_.reactor().Yield();
    FB_CO_ASSIGN(const std::string content, co_await twins_.ReadTask(*reader, 0, kMiB));
    EXPECT_EQ(content, RandomContent(0, kMiB));
    closed_first = !ended;
    reader.reset();
    co_return Status();
  };
  const auto both = [&]() -> rt::Task<Status> {
    std::vector<rt::Task<Status>> tasks;
    tasks.push_back(fill());
    tasks.push_back(close());
    for (const Status& status : co_await rt::WhenAll(std::move(tasks))) FB_CO_TRY(status);
    co_return Status();
  };
  const Status done = twins_.Run(both());
  EXPECT_TRUE(done.ok()) << done.ToString();
  EXPECT_TRUE(closed_first);
  EXPECT_FALSE(IsThere("cache", "k1"));
}

TEST_F(CacheTest, BelowTheWatermarkItIsEvictedInTheBackground) {
  for (int i = 0; i < 61; ++i) ASSERT_TRUE(Put("cache", "k" + std::to_string(i), RandomContent(i, kMiB)).ok());
  EXPECT_TRUE(twins_.TurnUntil([&] {
    const store::StoreUsage now = engine().usage();
    return now.capacity_bytes - now.used_bytes >= 5 * kMiB;
  }));
  EXPECT_TRUE(IsThere("cache", "k60"));
  const store::StoreUsage usage = engine().usage();
  // 5 and 8 percent of 63 MiB.
  EXPECT_GE(usage.capacity_bytes - usage.used_bytes, 3 * kMiB);
  EXPECT_GT(usage.cache_evicted, 0U);
  EXPECT_LT(usage.cache_evicted, 12U);
}

TEST_F(CacheTest, WhatDidNotLastIsGoneAndNoDamage) {
  ASSERT_TRUE(Put("cache", "a", RandomContent(1, 200'000)).ok());
  Spoil();
  ASSERT_TRUE(Put("cache", "b", RandomContent(2, 200'000)).ok());
  twins_.Close();
  const FsckReport report = twins_.Fsck(true);
  EXPECT_TRUE(report.clean());
  EXPECT_EQ(report.cache_objects_gone, 1U);
  ASSERT_TRUE(twins_.TryOpen().ok());
  const Result<std::string> got = Get("cache", "a");
  EXPECT_EQ(got.status().code(), Code::kNotFound);
  EXPECT_NE(got.status().message().find("object `cache/a` is gone"), std::string_view::npos) << got.status().ToString();
  EXPECT_TRUE(twins_.TurnUntil([&] { return engine().usage().cache_gone == 1; }));
  EXPECT_FALSE(IsThere("cache", "a"));
  EXPECT_EQ(engine().usage().cache_gone, 1U);
  EXPECT_EQ(engine().stats().damaged_blocks, 0U);
  EXPECT_EQ(*Get("cache", "b"), RandomContent(2, 200'000));
  EXPECT_EQ(twins_.Run(engine().GetTenantUsage(twins_.context(), TenantId::kRoot))->bytes, 200'000U);
}

TEST_F(CacheTest, ADurableCopyOfACacheObjectSharesNothingWithIt) {
  ASSERT_TRUE(Put("cache", "a", RandomContent(1, kMiB)).ok());
  EXPECT_TRUE(twins_.LastExtent().cache);
  ASSERT_TRUE(twins_.Run(engine().Compose(twins_.context(), "bucket", "a", {{.bucket = "cache", .key = "a"}}, {})).ok());
  EXPECT_FALSE(twins_.LastExtent().cache);
  EXPECT_EQ(twins_.LastExtent().references, 1U);
  ASSERT_TRUE(twins_.Run(engine().Compose(twins_.context(), "cache", "b", {{.bucket = "bucket", .key = "a"}}, {})).ok());
  EXPECT_TRUE(twins_.LastExtent().cache);
  // Within a class it does.
  ASSERT_TRUE(twins_.Run(engine().Compose(twins_.context(), "cache", "c", {{.bucket = "cache", .key = "b"}}, {})).ok());
  EXPECT_EQ(twins_.LastExtent().references, 2U);
  ASSERT_TRUE(Fill(0, 60).ok());
  EXPECT_EQ(*Get("bucket", "a"), RandomContent(1, kMiB));
}

TEST_F(CacheTest, ACopyAndAnOverwriteMakeRoomAlthoughTheyHoldTheirSource) {
  ASSERT_TRUE(Put("bucket", "source", RandomContent(1, 20 * kMiB)).ok());
  for (int i = 0; i < 45; ++i) ASSERT_TRUE(Put("cache", "k" + std::to_string(i), RandomContent(i, kMiB)).ok());
  ASSERT_TRUE(Put("cache", "source", RandomContent(2, 10 * kMiB)).ok());
  const Result<store::ObjectInfo> copy =
      twins_.Run(engine().Compose(twins_.context(), "bucket", "copy", {{.bucket = "cache", .key = "source"}}, {}));
  EXPECT_TRUE(copy.ok()) << copy.status().ToString();
  for (int i = 0; i < 45; ++i) ASSERT_TRUE(Put("cache", "k" + std::to_string(i), RandomContent(i, kMiB)).ok());
  const auto overwrite = [&]() -> rt::Task<Status> {
    FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                 co_await engine().Overwrite(twins_.context(), "bucket", "source", {.offset = 1000}));
    FB_CO_TRY(co_await twins_.WriteTask(*writer, RandomContent(3, 18 * kMiB)));
    co_return (co_await writer->Commit(twins_.context(), std::nullopt)).status();
  };
  const Status overwritten = twins_.Run(overwrite());
  EXPECT_TRUE(overwritten.ok()) << overwritten.ToString();
}

TEST_F(CacheTest, WhatHasExpiredIsTakenOutByWhatComesAfter) {
  ASSERT_TRUE(CreateCache("short", TenantId::kRoot, std::chrono::seconds(60)).ok());
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(Put("short", "k" + std::to_string(i), "12345").ok());
  ASSERT_TRUE(twins_.Run(engine().Pin(twins_.context(), "short", "k7", std::chrono::seconds(90))).ok());
  twins_.clock().Advance(std::chrono::seconds(60));
  ASSERT_TRUE(Put("short", "after", "1").ok());
  EXPECT_TRUE(twins_.TurnUntil([&] { return engine().usage().cache_expired >= 299; }));
  EXPECT_EQ(engine().usage().cache_expired, 299U);
  EXPECT_EQ(engine().usage().cache_evicted, 0U);
  EXPECT_EQ(twins_.Run(engine().GetTenantUsage(twins_.context(), TenantId::kRoot))->objects, 2U);
}

TEST_F(CacheTest, AClockThatIsSetBackBringsNothingBack) {
  ASSERT_TRUE(CreateCache("short", TenantId::kRoot, std::chrono::seconds(60)).ok());
  ASSERT_TRUE(Put("short", "old", "12345").ok());
  twins_.clock().Advance(std::chrono::seconds(60));
  ASSERT_TRUE(Put("short", "young", "12345").ok());
  twins_.clock().JumpWall(-std::chrono::hours(5));
  EXPECT_FALSE(IsThere("short", "old"));
  twins_.Reopen();
  EXPECT_FALSE(IsThere("short", "old"));
  EXPECT_TRUE(IsThere("short", "young"));
  // Nor does one that jumps ahead while the store is open let anything expire.
  twins_.clock().JumpWall(std::chrono::hours(50));
  EXPECT_TRUE(IsThere("short", "young"));
}

TEST_F(CacheTest, AStoreFromBeforeGetsAnOrder) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Put("cache", "k" + std::to_string(i), RandomContent(i, kMiB)).ok());
  const Uuid id = engine().id();
  twins_.Close();
  meta::MemoryMedia& media = *twins_.media();
  for (std::string at(kCacheOrderPrefix); const auto row = media.First(meta::Family::kSystem, at, PrefixEnd(kCacheOrderPrefix));) {
    media.Damage(meta::Family::kSystem, row->first, std::nullopt);
    at = row->first;
  }
  media.Damage(meta::Family::kSystem, kCacheTotalsKey, std::nullopt);
  for (std::string at; const auto row = media.First(meta::Family::kExtents, at, {});) {
    ExtentRecord record = *DecodeExtent(row->first, row->second);
    record.cache = false;
    media.Damage(meta::Family::kExtents, row->first, EncodeExtent(row->first, record));
    at = row->first + '\0';
  }
  std::string identity = "\x04";
  identity += AsText(ByteView(id.bytes));
  media.Damage(meta::Family::kSystem, kIdentityKey, Seal(kIdentityKey, identity));
  EXPECT_TRUE(twins_.Fsck().clean());
  ASSERT_TRUE(twins_.TryOpen().ok());
  ASSERT_TRUE(Fill(0, 60).ok());
  EXPECT_FALSE(IsThere("cache", "k0"));
  EXPECT_FALSE(IsThere("cache", "k1"));
}

/// What the metadata says of caches beside their objects is made again, and the store opens.
TEST_F(CacheTest, ARepairKnowsTheRowsOfCaches) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Put("cache", std::to_string(i), RandomContent(i, 100 * kKiB)).ok());
  ASSERT_TRUE(twins_.Run(engine().Pin(twins_.context(), "cache", "1", std::chrono::hours(1))).ok());
  twins_.Close();
  const auto order = *twins_.media()->First(meta::Family::kSystem, std::string(kCacheOrderPrefix), {});
  const auto pin = *twins_.media()->First(meta::Family::kSystem, std::string(kCachePinPrefix), {});
  ASSERT_TRUE(order.first.starts_with(kCacheOrderPrefix));
  ASSERT_TRUE(pin.first.starts_with(kCachePinPrefix));
  twins_.media()->Damage(meta::Family::kSystem, order.first, std::nullopt);
  twins_.media()->Damage(meta::Family::kSystem, pin.first, "no pin");
  twins_.media()->Damage(meta::Family::kSystem, std::string(kCacheTotalsKey), "no totals");
  EXPECT_FALSE(twins_.Fsck().clean());
  EXPECT_FALSE(twins_.TryOpen().ok()) << "which is why it has to be repaired";
  {
    std::vector<std::unique_ptr<device::Device>> lent;
    lent.push_back(twins_.Lend(0));
    Devices devices(std::move(lent));
    const auto meta = *meta::MemoryMetaStore::Open(twins_.media(), 0, nullptr);
    const Result<RepairPlan> plan = twins_.Run(PlanRepair(twins_.reactor(), devices, *meta, {}));
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_TRUE(plan->unrepaired.empty());
    ASSERT_TRUE(twins_.Run(ApplyRepair(twins_.reactor(), devices, *meta, *plan)).ok());
  }
  EXPECT_TRUE(twins_.Fsck(true).clean());
  ASSERT_TRUE(twins_.TryOpen().ok());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(*Get("cache", std::to_string(i)), RandomContent(i, 100 * kKiB));
}

}  // namespace
}  // namespace forebay::engine
