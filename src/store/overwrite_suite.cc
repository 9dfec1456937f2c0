// SPDX-License-Identifier: Apache-2.0
// Overwrites, appends and truncations: objects that change by a part.
#include <atomic>
#include <map>
#include <memory>

#include "base/checksum.h"
#include "base/random.h"
#include "rt/when_all.h"
#include "store/operations.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

constexpr uint64_t kMiB = base::kMiB;

/// What an overwrite makes of `content`.
std::string Overwritten(std::string content, std::optional<uint64_t> offset, const std::string& bytes) {
  if (bytes.empty()) return content;
  const uint64_t at = offset.value_or(content.size());
  if (content.size() < at + bytes.size()) content.resize(at + bytes.size(), '\0');
  return content.replace(at, bytes.size(), bytes);
}

/// Changes objects of the suite's bucket.
class Changing {
 public:
  explicit Changing(StoreSuite& suite) : suite_(suite) {}

  Result<ObjectInfo> Overwrite(const std::string& key, std::optional<uint64_t> offset, std::string bytes,
                               Condition condition = {}, OperationId id = {},
                               std::optional<uint32_t> crc32c = std::nullopt) {
    return suite_.Run(OverwriteTask(With(id), key, offset, std::move(bytes), std::move(condition), crc32c));
  }
  Result<ObjectInfo> Truncate(const std::string& key, uint64_t size, Condition condition = {}, OperationId id = {}) {
    const Context context = With(id);
    return suite_.Run(suite_.store().Truncate(context, StoreSuite::kBucket, key, size, std::move(condition)));
  }
  rt::Task<Result<ObjectInfo>> OverwriteTask(Context context, std::string key, std::optional<uint64_t> offset,
                                             std::string bytes, Condition condition = {},
                                             std::optional<uint32_t> crc32c = std::nullopt) {
    FB_CO_ASSIGN(const std::unique_ptr<ObjectWriter> writer,
                 co_await suite_.store().Overwrite(
                     context, StoreSuite::kBucket, std::move(key),
                     {.condition = std::move(condition), .offset = offset, .size_bytes = bytes.size()}));
    if (!writer->replays()) FB_CO_TRY(co_await WriteContent(*writer, context, bytes, 65'536));
    co_return co_await writer->Commit(context, crc32c);
  }
  TenantUsage Usage() {
    const Context context = suite_.MakeContext();
    return *suite_.Run(suite_.store().GetTenantUsage(context, TenantId::kRoot));
  }
  Status SetQuota(Quota quota) {
    const Context context = suite_.MakeContext();
    return suite_.Run(suite_.store().SetQuota(context, TenantId::kRoot, quota));
  }
  OperationId NewId() { return OperationId::Generate(suite_.store().operation_time_ms(), random_); }

 private:
  Context With(const OperationId& id) {
    Context context = suite_.MakeContext();
    context.operation = id;
    return context;
  }

  StoreSuite& suite_;
  base::SecureRandom random_;
};

TEST_P(StoreSuite, AnOverwriteReplacesJustItsBytes) {
  Changing change(*this);
  uint64_t seed = 500;
  for (const size_t size : {0UL, 1UL, 100UL, 1024UL, 1025UL, 4096UL, 65'536UL, 150'001UL, 3 * kMiB + 1}) {
    for (const size_t offset : {0UL, 1UL, 99UL, 1024UL, 4095UL, 4096UL, 65'537UL, 140'000UL, 3 * kMiB}) {
      for (const size_t length : {1UL, 10UL, 4096UL, 5000UL, 65'536UL, 65'537UL}) {
        SCOPED_TRACE(testing::Message() << length << " bytes at " << offset << " of " << size);
        const std::string before = MakeContent(++seed, size);
        const auto put = Put("o", before, {.metadata = {{"kept", "yes"}}});
        ASSERT_TRUE(Is(put, Code::kOk));
        const std::string bytes = MakeContent(++seed, length);
        const auto changed = change.Overwrite("o", offset, bytes);
        ASSERT_TRUE(Is(changed, Code::kOk));
        const std::string after = Overwritten(before, offset, bytes);
        EXPECT_EQ(changed->key, "o");
        EXPECT_EQ(changed->size_bytes, after.size());
        EXPECT_EQ(changed->crc32c, base::Crc32c(AsBytes(after)));
        EXPECT_GT(changed->version, put->version);
        EXPECT_NE(changed->etag, put->etag);
        EXPECT_EQ(changed->metadata, (UserMetadata{{"kept", "yes"}}));
        ASSERT_TRUE(Holds("o", after));
        EXPECT_EQ(Stat("o")->etag, changed->etag);
      }
    }
  }
  Reopen();
  EXPECT_EQ(ListAll({}), (std::vector<std::string>{"o"}));
}

TEST_P(StoreSuite, AppendsGoBehindTheEnd) {
  Changing change(*this);
  std::string content;
  ASSERT_TRUE(Is(Put("log", ""), Code::kOk));
  for (const size_t length : {0UL, 1UL, 100UL, 900UL, 23UL, 1UL, 5000UL, 4096UL, 65'536UL, 7UL, 70'000UL, 1UL, kMiB}) {
    SCOPED_TRACE(testing::Message() << length << " bytes behind " << content.size());
    const std::string bytes = MakeContent(900 + length, length);
    const auto appended = change.Overwrite("log", std::nullopt, bytes);
    ASSERT_TRUE(Is(appended, Code::kOk));
    content += bytes;
    EXPECT_EQ(appended->size_bytes, content.size());
    ASSERT_TRUE(Holds("log", content));
  }
  Reopen();
  EXPECT_TRUE(Holds("log", content));
}

TEST_P(StoreSuite, TruncateCutsOffOrAddsZeros) {
  Changing change(*this);
  uint64_t seed = 700;
  for (const size_t size : {0UL, 1UL, 1024UL, 1025UL, 65'537UL, 2 * kMiB}) {
    for (const size_t to : {0UL, 1UL, 1000UL, 1024UL, 1025UL, 4097UL, 65'537UL, 1'000'000UL, 5 * kMiB}) {
      SCOPED_TRACE(testing::Message() << size << " to " << to);
      std::string content = MakeContent(++seed, size);
      const auto put = Put("o", content, {.metadata = {{"kept", "yes"}}});
      ASSERT_TRUE(Is(put, Code::kOk));
      const auto cut = change.Truncate("o", to);
      ASSERT_TRUE(Is(cut, Code::kOk));
      EXPECT_GT(cut->version, put->version);
      EXPECT_NE(cut->etag, put->etag);
      EXPECT_EQ(cut->metadata, (UserMetadata{{"kept", "yes"}}));
      content.resize(to, '\0');
      ASSERT_TRUE(Holds("o", content));
      const std::string more = MakeContent(++seed, 3000);
      ASSERT_TRUE(Is(change.Overwrite("o", std::nullopt, more), Code::kOk));
      ASSERT_TRUE(Holds("o", content + more));
    }
  }
}

TEST_P(StoreSuite, WhatIsCutOffIsZeroWhenTheObjectGrowsAgain) {
  Changing change(*this);
  for (const size_t size : {500UL, 200'000UL}) {
    ASSERT_TRUE(Is(Put("o", MakeContent(1, size)), Code::kOk));
    ASSERT_TRUE(Is(change.Truncate("o", 100), Code::kOk));
    ASSERT_TRUE(Is(change.Truncate("o", size), Code::kOk));
    EXPECT_TRUE(Holds("o", MakeContent(1, size).substr(0, 100) + std::string(size - 100, '\0')));
  }
}

TEST_P(StoreSuite, ChangesGoOnlyWhereTheirConditionHolds) {
  Changing change(*this);
  EXPECT_TRUE(Is(change.Overwrite("missing", 0, "x"), Code::kNotFound));
  EXPECT_TRUE(Is(change.Truncate("missing", 0), Code::kNotFound));
  const auto put = Put("o", "content");
  ASSERT_TRUE(Is(put, Code::kOk));
  EXPECT_TRUE(Is(change.Overwrite("o", 0, "x", Condition::IfAbsent()), Code::kInvalidArgument));
  EXPECT_TRUE(Is(change.Truncate("o", 0, Condition::IfAbsent()), Code::kInvalidArgument));
  EXPECT_TRUE(Is(change.Overwrite("o", 0, "x", Condition::IfMatch("other")), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(change.Truncate("o", 0, Condition::IfMatch("other")), Code::kFailedPrecondition));
  EXPECT_TRUE(Holds("o", "content"));
  const auto first = change.Overwrite("o", 0, "C", Condition::IfMatch(put->etag));
  ASSERT_TRUE(Is(first, Code::kOk));
  EXPECT_TRUE(Is(change.Overwrite("o", 0, "x", Condition::IfMatch(put->etag)), Code::kFailedPrecondition));
  ASSERT_TRUE(Is(change.Truncate("o", 4, Condition::IfMatch(first->etag)), Code::kOk));
  EXPECT_TRUE(Holds("o", "Cont"));
}

TEST_P(StoreSuite, TheConditionOfAnOverwriteIsDecidedAtCommit) {
  Changing change(*this);
  const auto put = Put("o", "content");
  ASSERT_TRUE(Is(put, Code::kOk));
  const Context context = MakeContext();
  auto writer = Run(store().Overwrite(context, kBucket, "o", {.condition = Condition::IfMatch(put->etag), .offset = 0}));
  ASSERT_TRUE(Is(writer, Code::kOk));
  ASSERT_TRUE(Is(Write(**writer, "late"), Code::kOk));
  ASSERT_TRUE(Is(change.Overwrite("o", 6, "T"), Code::kOk));
  EXPECT_TRUE(Is(Commit(**writer), Code::kFailedPrecondition));
  EXPECT_TRUE(Holds("o", "contenT"));
  auto gone = Run(store().Overwrite(context, kBucket, "o", {.offset = 0}));
  ASSERT_TRUE(Is(gone, Code::kOk));
  ASSERT_TRUE(Is(Write(**gone, "late"), Code::kOk));
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  EXPECT_TRUE(Is(Commit(**gone), Code::kNotFound));
}

TEST_P(StoreSuite, ChangesThatMakeNoSenseAreRefused) {
  Changing change(*this);
  ASSERT_TRUE(Is(Put("o", "content"), Code::kOk));
  EXPECT_TRUE(Is(change.Overwrite("o", base::kMaxObjectBytes, "x"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(change.Overwrite("o", UINT64_MAX, "x"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(change.Truncate("o", base::kMaxObjectBytes + 1), Code::kInvalidArgument));
  EXPECT_TRUE(Is(change.Truncate("o", UINT64_MAX), Code::kInvalidArgument));
  EXPECT_TRUE(Is(change.Overwrite("", 0, "x"), Code::kInvalidArgument));
  const Context context = MakeContext();
  EXPECT_TRUE(Is(Run(store().Overwrite(context, "no-such-bucket", "o", {.offset = 0})), Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().Truncate(context, "no-such-bucket", "o", 0, {})), Code::kNotFound));
  // Behind an object that is as large as can be there is no room.
  ASSERT_TRUE(Is(change.Truncate("o", base::kMaxObjectBytes), Code::kOk));
  EXPECT_TRUE(Is(change.Overwrite("o", std::nullopt, "x"), Code::kInvalidArgument));
  ASSERT_TRUE(Is(change.Truncate("o", 7), Code::kOk));
  EXPECT_TRUE(Holds("o", "content"));
}

TEST_P(StoreSuite, AnOverwriteWithAWrongChecksumOrSizeChangesNothing) {
  Changing change(*this);
  const std::string content = MakeContent(1, 100'000);
  ASSERT_TRUE(Is(Put("o", content), Code::kOk));
  const std::string bytes = MakeContent(2, 80'000);
  EXPECT_TRUE(Is(change.Overwrite("o", 10, bytes, {}, {}, ~base::Crc32c(AsBytes(bytes))), Code::kDataLoss));
  EXPECT_TRUE(Is(change.Overwrite("o", 10, "short", {}, {}, 1), Code::kDataLoss));
  const Context context = MakeContext();
  for (const size_t size : {4UL, 6UL, 100'000UL}) {
    auto writer = Run(store().Overwrite(context, kBucket, "o", {.offset = 0, .size_bytes = size}));
    ASSERT_TRUE(Is(writer, Code::kOk));
    const Status written = Write(**writer, "12345");
    EXPECT_TRUE(Is(written.ok() ? Commit(**writer).status() : written, Code::kFailedPrecondition)) << size;
  }
  {
    auto writer = Run(store().Overwrite(context, kBucket, "o", {.offset = 0}));
    ASSERT_TRUE(Is(writer, Code::kOk));
    ASSERT_TRUE(Is(Write(**writer, bytes), Code::kOk));
  }  // given up
  EXPECT_TRUE(Holds("o", content));
  ASSERT_TRUE(Is(change.Overwrite("o", 10, bytes, {}, {}, base::Crc32c(AsBytes(bytes))), Code::kOk));
  EXPECT_TRUE(Holds("o", Overwritten(content, 10, bytes)));
}

TEST_P(StoreSuite, ReadersAndCopiesKeepWhatIsOverwritten) {
  Changing change(*this);
  for (const size_t size : {800UL, 300'000UL}) {
    const std::string content = MakeContent(size, size);
    ASSERT_TRUE(Is(Put("o", content), Code::kOk));
    const Context context = MakeContext();
    ASSERT_TRUE(Is(Run(store().Compose(context, kBucket, "copy", {{.bucket = kBucket, .key = "o"}}, {})), Code::kOk));
    auto reader = Open("o");
    ASSERT_TRUE(Is(reader, Code::kOk));
    std::string now = content;
    for (uint64_t i = 0; i < 20; ++i) {
      const std::string bytes = MakeContent(i, 50);
      const uint64_t offset = i * size / 21;
      ASSERT_TRUE(Is(change.Overwrite("o", offset, bytes), Code::kOk));
      now = Overwritten(now, offset, bytes);
    }
    EXPECT_TRUE(Run(ReadContent(**reader, MakeContext())).value_or("") == content);
    EXPECT_TRUE(Holds("copy", content));
    ASSERT_TRUE(Is(change.Overwrite("copy", 1, "x"), Code::kOk));
    EXPECT_TRUE(Holds("o", now));
    ASSERT_TRUE(Is(Delete("o"), Code::kOk));
    EXPECT_TRUE(Holds("copy", Overwritten(content, 1, "x")));
    ASSERT_TRUE(Is(Delete("copy"), Code::kOk));
  }
  EXPECT_EQ(change.Usage().bytes, 0U);
}

TEST_P(StoreSuite, QuotasCountWhatAChangeAddsOrTakes) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Changing change(*this);
  ASSERT_TRUE(Is(Put("o", MakeContent(1, 100'000)), Code::kOk));
  ASSERT_TRUE(Is(change.SetQuota({.max_bytes = 150'000}), Code::kOk));
  ASSERT_TRUE(Is(change.Overwrite("o", 99'999, MakeContent(2, 50'001)), Code::kOk));
  EXPECT_EQ(change.Usage().bytes, 150'000U);
  EXPECT_EQ(change.Usage().objects, 1U);
  EXPECT_TRUE(Is(change.Overwrite("o", std::nullopt, "x"), Code::kResourceExhausted));
  EXPECT_TRUE(Is(change.Truncate("o", 150'001), Code::kResourceExhausted));
  ASSERT_TRUE(Is(change.Overwrite("o", 0, MakeContent(3, 150'000)), Code::kOk));
  ASSERT_TRUE(Is(change.Truncate("o", 1000), Code::kOk));
  EXPECT_EQ(change.Usage().bytes, 1000U);
  ASSERT_TRUE(Is(change.Truncate("o", 150'000), Code::kOk));  // zeros count
  EXPECT_EQ(change.Usage().bytes, 150'000U);
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  EXPECT_EQ(change.Usage().bytes, 0U);
}

TEST_P(StoreSuite, AnOverwriteTakesPlaceOnce) {
  Changing change(*this);
  for (const size_t length : {5UL, 80'000UL}) {
    ASSERT_TRUE(Is(Put("o", "0123456789"), Code::kOk));
    const std::string bytes = MakeContent(length, length);
    const OperationId id = change.NewId();
    const auto first = change.Overwrite("o", std::nullopt, bytes, {}, id);
    ASSERT_TRUE(Is(first, Code::kOk));
    ASSERT_TRUE(Is(change.Overwrite("o", 0, "X"), Code::kOk));
    Reopen();
    const auto again = change.Overwrite("o", std::nullopt, bytes, {}, id);
    ASSERT_TRUE(Is(again, Code::kOk));
    EXPECT_EQ(again->etag, first->etag);
    EXPECT_EQ(again->version, first->version);
    EXPECT_EQ(again->size_bytes, first->size_bytes);
    EXPECT_EQ(again->crc32c, first->crc32c);
    EXPECT_EQ(again->modified, first->modified);
    EXPECT_TRUE(Holds("o", "X123456789" + bytes));
    EXPECT_TRUE(Is(change.Overwrite("o", 3, bytes, {}, id), Code::kInvalidArgument));
    EXPECT_TRUE(Is(change.Truncate("o", 3, {}, id), Code::kInvalidArgument));
  }
  const OperationId id = change.NewId();
  const auto cut = change.Truncate("o", 3, {}, id);
  ASSERT_TRUE(Is(cut, Code::kOk));
  ASSERT_TRUE(Is(change.Overwrite("o", std::nullopt, "more"), Code::kOk));
  const auto again = change.Truncate("o", 3, {}, id);
  ASSERT_TRUE(Is(again, Code::kOk));
  EXPECT_EQ(again->etag, cut->etag);
  EXPECT_EQ(again->size_bytes, 3U);
  EXPECT_TRUE(Holds("o", "X12more"));
  // A refusal by the state is a result too.
  const OperationId refused = change.NewId();
  EXPECT_TRUE(Is(change.Overwrite("late", 0, "x", {}, refused), Code::kNotFound));
  ASSERT_TRUE(Is(Put("late", "0"), Code::kOk));
  EXPECT_TRUE(Is(change.Overwrite("late", 0, "x", {}, refused), Code::kNotFound));
}

TEST_P(StoreSuite, NoConcurrentOverwriteIsLost) {
  Changing change(*this);
  constexpr size_t kWriters = 16;
  constexpr size_t kRounds = 5;
  constexpr size_t kBytes = 3000;  // so that they are neighbours within a unit of a device
  ASSERT_TRUE(Is(Put("o", std::string(kWriters * kBytes, '-')), Code::kOk));
  ASSERT_TRUE(Is(Put("log", ""), Code::kOk));
  std::string expected;
  for (size_t round = 0; round < kRounds; ++round) {
    std::vector<rt::Task<Result<ObjectInfo>>> tasks;
    expected.clear();
    for (size_t i = 0; i < kWriters; ++i) {
      const std::string bytes = MakeContent(round * 100 + i, kBytes);
      expected += bytes;
      tasks.push_back(change.OverwriteTask(MakeContext(), "o", i * kBytes, bytes));
      tasks.push_back(change.OverwriteTask(MakeContext(), "log", std::nullopt,
                                           std::string(100, static_cast<char>('a' + i))));
    }
    for (const Result<ObjectInfo>& result : Run(rt::WhenAll(std::move(tasks)))) ASSERT_TRUE(Is(result, Code::kOk));
    ASSERT_TRUE(Holds("o", expected));
  }
  const std::string log = Get("log").value_or("");
  ASSERT_EQ(log.size(), kRounds * kWriters * 100);
  std::map<char, size_t> counts;
  for (size_t at = 0; at < log.size(); at += 100) {
    EXPECT_EQ(log.substr(at, 100), std::string(100, log[at])) << "an append is in one piece";
    ++counts[log[at]];
  }
  for (const auto& [byte, count] : counts) EXPECT_EQ(count, kRounds) << byte;
  EXPECT_TRUE(Holds("log", log));
}

TEST_P(StoreSuite, ChangesOfEveryKindAtOnceLeaveAWholeObject) {
  Changing change(*this);
  const uint64_t seed = TestSeed(8);
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  base::SeededRandom random(seed);
  ASSERT_TRUE(Is(Put("o", MakeContent(1, 100'000)), Code::kOk));
  const auto truncate = [&](uint64_t size) -> rt::Task<Result<ObjectInfo>> {
    const Context context = MakeContext();
    co_return co_await store().Truncate(context, kBucket, "o", size, {});
  };
  const auto copy = [&]() -> rt::Task<Result<ObjectInfo>> {
    const Context context = MakeContext();
    std::vector<Source> source{{.bucket = kBucket, .key = "o"}};
    co_return co_await store().Compose(context, kBucket, "copy", std::move(source), {});
  };
  for (int round = 0; round < 20; ++round) {
    std::vector<rt::Task<Result<ObjectInfo>>> tasks;
    for (uint64_t i = 0; i < 12; ++i) {
      const uint64_t dice = random.Below(10);
      std::string bytes = MakeContent(random.Next64(), 1 + random.Below(dice == 0 ? 200'000 : 6000));
      if (dice < 2) {
        tasks.push_back(truncate(random.Below(150'000)));
      } else if (dice == 2) {
        tasks.push_back(copy());
      } else if (dice < 6) {
        tasks.push_back(change.OverwriteTask(MakeContext(), "o", std::nullopt, std::move(bytes)));
      } else {
        tasks.push_back(change.OverwriteTask(MakeContext(), "o", random.Below(150'000), std::move(bytes)));
      }
    }
    for (const Result<ObjectInfo>& result : Run(rt::WhenAll(std::move(tasks))))
      ASSERT_TRUE(result.ok() || result.status().code() == Code::kAborted) << result.status().ToString();
    for (const char* const key : {"o", "copy"}) {
      const auto info = Stat(key);
      if (!info.ok()) continue;
      const Result<std::string> got = Get(key);
      ASSERT_TRUE(Is(got, Code::kOk)) << key;
      EXPECT_EQ(got->size(), info->size_bytes) << key;
      ASSERT_EQ(base::Crc32c(AsBytes(*got)), info->crc32c) << key << " in round " << round;
    }
  }
}

TEST_P(StoreSuite, ASparseObjectMayBeLargerThanTheStore) {
  Changing change(*this);
  constexpr uint64_t kSize = 64 * base::kGiB + 1;
  ASSERT_TRUE(Is(Put("sparse", "begins"), Code::kOk));
  ASSERT_TRUE(Is(change.Truncate("sparse", kSize), Code::kOk));
  const uint64_t seed = TestSeed(64);
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  base::SeededRandom random(seed);
  std::map<uint64_t, std::string> written;  // by a place of 1 MiB
  for (int i = 0; i < 40; ++i) {
    const uint64_t offset = (1 + random.Below(kSize / kMiB - 2)) * kMiB + random.Below(kMiB / 2);
    const std::string bytes = MakeContent(i, 1 + random.Below(100'000));
    if (!written.emplace(offset, bytes).second) continue;
    ASSERT_TRUE(Is(change.Overwrite("sparse", offset, bytes), Code::kOk)) << offset;
  }
  Reopen();
  auto reader = Open("sparse");
  ASSERT_TRUE(Is(reader, Code::kOk));
  EXPECT_EQ((*reader)->info().size_bytes, kSize);
  EXPECT_EQ(Read(**reader, 0, 8).value_or(""), std::string("begins\0\0", 8));
  EXPECT_EQ(Read(**reader, kSize - kMiB, kMiB).value_or(""), std::string(kMiB, '\0'));
  uint32_t crc32c = base::Crc32c(AsBytes("begins"));
  uint64_t end = 6;
  for (const auto& [offset, bytes] : written) {
    EXPECT_TRUE(Read(**reader, offset - 10, bytes.size() + 20).value_or("") ==
                std::string(10, '\0') + bytes + std::string(10, '\0'))
        << offset;
    crc32c = base::Crc32cCombine(crc32c, base::Crc32cZeros(offset - end), offset - end);
    crc32c = base::Crc32cCombine(crc32c, base::Crc32c(AsBytes(bytes)), bytes.size());
    end = offset + bytes.size();
  }
  EXPECT_EQ((*reader)->info().crc32c, base::Crc32cCombine(crc32c, base::Crc32cZeros(kSize - end), kSize - end));
  EXPECT_EQ(change.Usage().bytes, kSize);
  // A copy and a part of it have the same holes.
  const Context context = MakeContext();
  const auto copy = Run(store().Compose(
      context, kBucket, "part", {{.bucket = kBucket, .key = "sparse", .offset = 3, .length = 8 * base::kGiB}}, {}));
  ASSERT_TRUE(Is(copy, Code::kOk));
  EXPECT_EQ(copy->size_bytes, 8 * base::kGiB);
  auto part = Open("part");
  ASSERT_TRUE(Is(part, Code::kOk));
  EXPECT_EQ(Read(**part, 0, 8).value_or(""), std::string("ins\0\0\0\0\0", 8));
  part->reset();
  reader->reset();
  ASSERT_TRUE(Is(change.Truncate("sparse", 6), Code::kOk));
  EXPECT_TRUE(Holds("sparse", "begins"));
  ASSERT_TRUE(Is(Delete("sparse"), Code::kOk));
  ASSERT_TRUE(Is(Delete("part"), Code::kOk));
  EXPECT_EQ(change.Usage().bytes, 0U);
}

TEST_P(StoreSuite, AReaderOpensALargeObjectWhileItIsOverwritten) {
  Changing change(*this);
  constexpr uint64_t kSize = 200 * kMiB;  // of several rows
  ASSERT_TRUE(Is(Put("o", ""), Code::kOk));
  ASSERT_TRUE(Is(change.Truncate("o", kSize), Code::kOk));
  auto thread = rt::ReactorThread::Create({.name = "writes"});
  ASSERT_TRUE(Is(thread, Code::kOk));
  threads_.push_back(*std::move(thread));
  std::atomic<bool> done{false};
  // Each round writes the same byte at the beginning, in the middle and at the end, one after the other.
  auto writes = threads_[0]->Submit([&, reactor = &threads_[0]->reactor()]() -> rt::Task<Status> {
    Status status;
    for (char byte = 'a'; byte <= 'z' && status.ok(); ++byte)
      for (const uint64_t offset : {uint64_t{0}, kSize / 2, kSize - 1}) {
        status = (co_await change.OverwriteTask({.reactor = *reactor}, "o", offset, std::string(1, byte))).status();
        if (!status.ok()) break;
      }
    done = true;
    co_return status;
  });
  size_t opened = 0;
  while (!done) {
    auto reader = Open("o");
    ASSERT_TRUE(Is(reader, Code::kOk));
    const std::string begin = Read(**reader, 0, 1).value_or("");
    const std::string middle = Read(**reader, kSize / 2, 1).value_or("");
    const std::string end = Read(**reader, kSize - 1, 1).value_or("");
    // What is written later is never ahead of what is written earlier, nor more than a round behind.
    const auto turn = [](const std::string& byte) { return byte.at(0) < 'a' ? 'a' - 1 : byte.at(0); };
    SCOPED_TRACE(begin + middle + end);
    EXPECT_GE(turn(begin), turn(middle));
    EXPECT_GE(turn(middle), turn(end));
    EXPECT_LE(turn(begin) - turn(end), 1);
    ++opened;
  }
  EXPECT_TRUE(Is(writes.get(), Code::kOk));
  EXPECT_GT(opened, 0U);
  EXPECT_EQ(Stat("o")->size_bytes, kSize);
}

}  // namespace
}  // namespace forebay::store
