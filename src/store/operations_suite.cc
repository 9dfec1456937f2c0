// SPDX-License-Identifier: Apache-2.0
// Operations: a change with an id takes place once, and everybody who comes with that id gets its result.
#include <algorithm>

#include "base/checksum.h"
#include "base/random.h"
#include "rt/when_all.h"
#include "store/operations.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

/// Changes with ids, of one tenant.
class Changes {
 public:
  explicit Changes(StoreSuite& suite, TenantId tenant = TenantId::kRoot) : suite_(suite), tenant_(tenant) {}

  /// An id of `age` ago; of the future when that is negative.
  OperationId NewId(std::chrono::milliseconds age = std::chrono::milliseconds(0)) {
    const auto now = static_cast<int64_t>(suite_.store().operation_time_ms());
    return OperationId::Generate(static_cast<uint64_t>(now - age.count()), random_);
  }
  Context With(const OperationId& id) {
    Context context = suite_.MakeContext();
    context.tenant = tenant_;
    context.operation = id;
    return context;
  }
  Result<ObjectInfo> Put(const OperationId& id, const std::string& key, std::string content,
                         PutOptions options = {}, std::optional<uint32_t> crc32c = std::nullopt) {
    return suite_.Run(PutContent(suite_.store(), With(id), StoreSuite::kBucket, key, std::move(content),
                                 std::move(options), 65536, crc32c));
  }
  Result<std::unique_ptr<ObjectWriter>> BeginPut(const OperationId& id, const std::string& key,
                                                 PutOptions options) {
    return suite_.Run(suite_.store().Put(With(id), StoreSuite::kBucket, key, std::move(options)));
  }
  Status Delete(const OperationId& id, const std::string& key, Condition condition = {}) {
    return suite_.Run(suite_.store().Delete(With(id), StoreSuite::kBucket, key, std::move(condition)));
  }
  Status CreateBucket(const OperationId& id, const std::string& name) {
    return suite_.Run(suite_.store().CreateBucket(With(id), {.name = name, .owner = tenant_}));
  }
  Status DeleteBucket(const OperationId& id, const std::string& name) {
    return suite_.Run(suite_.store().DeleteBucket(With(id), name));
  }

 private:
  StoreSuite& suite_;
  const TenantId tenant_;
  base::SecureRandom random_;
};

void ExpectSame(const ObjectInfo& a, const ObjectInfo& b) {
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.size_bytes, b.size_bytes);
  EXPECT_EQ(a.etag, b.etag);
  EXPECT_EQ(a.crc32c, b.crc32c);
  EXPECT_EQ(a.modified, b.modified);
  EXPECT_EQ(a.metadata, b.metadata);
}

TEST_P(StoreSuite, ARepeatedPutStoresOnceAndGivesTheFirstResult) {
  Changes changes(*this);
  for (const size_t size : {size_t{0}, size_t{9}, size_t{5000}, size_t{300'000}}) {
    SCOPED_TRACE(size);
    const OperationId id = changes.NewId();
    const std::string content = MakeContent(size, size);
    const auto first = changes.Put(id, "o", content, {.metadata = {{"a", "b"}}});
    ASSERT_TRUE(Is(first, Code::kOk));
    const auto theirs = Put("o", "of somebody else");
    ASSERT_TRUE(Is(theirs, Code::kOk));
    const auto again = changes.Put(id, "o", content, {.metadata = {{"a", "b"}}});
    ASSERT_TRUE(Is(again, Code::kOk));
    ExpectSame(*again, *first);
    EXPECT_EQ(Get("o").value_or(""), "of somebody else");
    const auto now = Stat("o");
    ASSERT_TRUE(Is(now, Code::kOk));
    EXPECT_EQ(now->version, theirs->version);
  }
}

TEST_P(StoreSuite, ARepeatedDeleteLeavesWhatCameAfterIt) {
  Changes changes(*this);
  ASSERT_TRUE(Is(Put("o", "first"), Code::kOk));
  const OperationId id = changes.NewId();
  EXPECT_TRUE(Is(changes.Delete(id, "o"), Code::kOk));
  ASSERT_TRUE(Is(Put("o", "second"), Code::kOk));
  EXPECT_TRUE(Is(changes.Delete(id, "o"), Code::kOk));
  EXPECT_EQ(Get("o").value_or(""), "second");
}

TEST_P(StoreSuite, RepeatedChangesOfBucketsTakePlaceOnce) {
  Changes changes(*this);
  const OperationId create = changes.NewId();
  const OperationId remove = changes.NewId();
  EXPECT_TRUE(Is(changes.CreateBucket(create, "once"), Code::kOk));
  EXPECT_TRUE(Is(changes.CreateBucket(create, "once"), Code::kOk));
  EXPECT_TRUE(Is(changes.DeleteBucket(remove, "once"), Code::kOk));
  EXPECT_TRUE(Is(changes.CreateBucket(create, "once"), Code::kOk));
  EXPECT_TRUE(Is(Run(store().GetBucket(MakeContext(), "once")), Code::kNotFound));
  ASSERT_TRUE(Is(changes.CreateBucket(changes.NewId(), "once"), Code::kOk));
  EXPECT_TRUE(Is(changes.DeleteBucket(remove, "once"), Code::kOk));
  EXPECT_TRUE(Is(Run(store().GetBucket(MakeContext(), "once")), Code::kOk));
}

TEST_P(StoreSuite, ARefusalByTheStateComesBackThoughTheStateHasChanged) {
  Changes changes(*this);
  const auto first = Put("o", "first");
  ASSERT_TRUE(Is(first, Code::kOk));
  const OperationId absent = changes.NewId();
  const OperationId missing = changes.NewId();
  const OperationId other = changes.NewId();
  const OperationId full = changes.NewId();
  const OperationId exists = changes.NewId();
  const auto refuse_all = [&] {
    EXPECT_TRUE(
        Is(changes.Put(absent, "o", "x", {.condition = Condition::IfAbsent()}), Code::kAlreadyExists));
    EXPECT_TRUE(Is(changes.Delete(missing, "p"), Code::kNotFound));
    EXPECT_TRUE(Is(changes.Delete(other, "o", Condition::IfMatch("another")), Code::kFailedPrecondition));
    EXPECT_TRUE(Is(changes.DeleteBucket(full, kBucket), Code::kFailedPrecondition));
    EXPECT_TRUE(Is(changes.CreateBucket(exists, kBucket), Code::kAlreadyExists));
  };
  refuse_all();
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  ASSERT_TRUE(Is(Run(store().DeleteBucket(MakeContext(), kBucket)), Code::kOk));
  refuse_all();
  EXPECT_TRUE(Is(Run(store().GetBucket(MakeContext(), kBucket)), Code::kNotFound));
  ASSERT_TRUE(Is(Run(store().CreateBucket(MakeContext(), {.name = kBucket})), Code::kOk));
  ASSERT_TRUE(Is(Put("p", "there now"), Code::kOk));
  refuse_all();
  EXPECT_TRUE(Is(Stat("o"), Code::kNotFound));
  EXPECT_TRUE(Is(Stat("p"), Code::kOk));
}

TEST_P(StoreSuite, ARefusalAtCommitComesBackToo) {
  Changes changes(*this);
  const OperationId id = changes.NewId();
  auto writer = changes.BeginPut(id, "o", {.condition = Condition::IfAbsent()});
  ASSERT_TRUE(Is(writer, Code::kOk));
  ASSERT_TRUE(Is(Put("o", "theirs"), Code::kOk));
  ASSERT_TRUE(Is(Write(**writer, "mine"), Code::kOk));
  EXPECT_TRUE(Is(Commit(**writer), Code::kAlreadyExists));
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  EXPECT_TRUE(Is(changes.Put(id, "o", "mine", {.condition = Condition::IfAbsent()}), Code::kAlreadyExists));
  EXPECT_TRUE(Is(Stat("o"), Code::kNotFound));
}

TEST_P(StoreSuite, APutWhoseBucketIsGoneStillGivesItsResult) {
  Changes changes(*this);
  const OperationId id = changes.NewId();
  const auto first = changes.Put(id, "o", "content");
  ASSERT_TRUE(Is(first, Code::kOk));
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  ASSERT_TRUE(Is(Run(store().DeleteBucket(MakeContext(), kBucket)), Code::kOk));
  const auto again = changes.Put(id, "o", "content");
  ASSERT_TRUE(Is(again, Code::kOk));
  ExpectSame(*again, *first);
}

TEST_P(StoreSuite, AnIdIsOfOneRequestOnly) {
  Changes changes(*this);
  const OperationId id = changes.NewId();
  ASSERT_TRUE(Is(changes.Put(id, "o", "content", {.metadata = {{"a", "b"}}}), Code::kOk));
  const PutOptions same{.metadata = {{"a", "b"}}};
  EXPECT_TRUE(Is(changes.Put(id, "p", "content", same), Code::kInvalidArgument));
  EXPECT_TRUE(Is(changes.Put(id, "o", "CONTENT", same), Code::kInvalidArgument));
  EXPECT_TRUE(Is(changes.Put(id, "o", "content2", same), Code::kInvalidArgument));
  EXPECT_TRUE(Is(changes.Put(id, "o", "content", {.metadata = {{"a", "c"}}}), Code::kInvalidArgument));
  EXPECT_TRUE(
      Is(changes.Put(id, "o", "content", {.condition = Condition::IfAbsent(), .metadata = {{"a", "b"}}}),
         Code::kInvalidArgument));
  EXPECT_TRUE(Is(changes.Delete(id, "o"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(changes.CreateBucket(id, "other"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(changes.DeleteBucket(id, kBucket), Code::kInvalidArgument));
  const auto elsewhere = Run(PutContent(store(), changes.With(id), "nowhere", "o", "content", same));
  EXPECT_TRUE(Is(elsewhere, Code::kInvalidArgument));
  EXPECT_EQ(Get("o").value_or(""), "content");
  EXPECT_TRUE(Is(Stat("p"), Code::kNotFound));
  EXPECT_TRUE(Is(changes.Put(id, "o", "content", same), Code::kOk));
}

TEST_P(StoreSuite, AForeignTenantsIdIsAnotherId) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Changes mine(*this, TenantId{7});
  Changes theirs(*this, TenantId{8});
  const OperationId id = mine.NewId();
  EXPECT_TRUE(Is(mine.CreateBucket(id, "mine"), Code::kOk));
  EXPECT_TRUE(Is(theirs.CreateBucket(id, "theirs"), Code::kOk));
  EXPECT_TRUE(Is(Run(store().GetBucket(MakeContext(), "mine")), Code::kOk));
  EXPECT_TRUE(Is(Run(store().GetBucket(MakeContext(), "theirs")), Code::kOk));
}

TEST_P(StoreSuite, AnIdThatIsTooOldOrTooEarlyOrNoneOfOursIsRefused) {
  Changes changes(*this);
  using std::chrono::seconds;
  for (const auto age : {kOperationRetention + seconds(60), -kOperationLead - seconds(60)}) {
    EXPECT_TRUE(Is(changes.Put(changes.NewId(age), "o", "x"), Code::kFailedPrecondition));
    EXPECT_TRUE(Is(changes.Delete(changes.NewId(age), "o"), Code::kFailedPrecondition));
    EXPECT_TRUE(Is(changes.CreateBucket(changes.NewId(age), "late"), Code::kFailedPrecondition));
    EXPECT_TRUE(Is(changes.DeleteBucket(changes.NewId(age), kBucket), Code::kFailedPrecondition));
  }
  for (const auto age : {kOperationRetention - seconds(60), -kOperationLead + seconds(60)})
    EXPECT_TRUE(Is(changes.Put(changes.NewId(age), "in-time", "x"), Code::kOk));
  OperationId version4 = changes.NewId();
  version4.bytes[6] = std::byte{0x40};
  EXPECT_TRUE(Is(changes.Put(version4, "o", "x"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(changes.Delete(version4, "o"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(changes.CreateBucket(version4, "late"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(changes.DeleteBucket(version4, kBucket), Code::kInvalidArgument));
  EXPECT_TRUE(Is(Stat("o"), Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().GetBucket(MakeContext(), "late")), Code::kNotFound));
}

TEST_P(StoreSuite, ContentThatArrivedWrongLeavesNoResult) {
  Changes changes(*this);
  const OperationId id = changes.NewId();
  EXPECT_TRUE(Is(changes.Put(id, "o", "content", {}, base::Crc32c(AsBytes("sent"))), Code::kDataLoss));
  EXPECT_TRUE(Is(changes.Put(id, "o", "content", {}, base::Crc32c(AsBytes("content"))), Code::kOk));
  EXPECT_EQ(Get("o").value_or(""), "content");
}

TEST_P(StoreSuite, OfPutsWithOneIdAtOnceOneTakesPlaceAndAllGetItsResult) {
  Changes changes(*this);
  const OperationId id = changes.NewId();
  const Context context = changes.With(id);
  const std::string content = MakeContent(3, 20'000);
  std::vector<std::unique_ptr<ObjectWriter>> writers;
  for (int i = 0; i < 8; ++i) {
    auto writer = changes.BeginPut(id, "o", {});
    ASSERT_TRUE(Is(writer, Code::kOk));
    ASSERT_TRUE(Is(Write(**writer, content), Code::kOk));
    writers.push_back(*std::move(writer));
  }
  std::vector<rt::Task<Result<ObjectInfo>>> commits;
  for (const auto& writer : writers) commits.push_back(writer->Commit(context, std::nullopt));
  const std::vector<Result<ObjectInfo>> results = Run(rt::WhenAll(std::move(commits)));
  const auto stored = Stat("o");
  ASSERT_TRUE(Is(stored, Code::kOk));
  for (const auto& result : results) {
    ASSERT_TRUE(Is(result, Code::kOk));
    ExpectSame(*result, *stored);
  }
  writers.clear();
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  const uint64_t before = store().usage().used_bytes;
  ASSERT_TRUE(Is(changes.Put(id, "o", content), Code::kOk));
  EXPECT_EQ(store().usage().used_bytes, before);
}

TEST_P(StoreSuite, ALargePutThatTookPlaceIsKnownBeforeItsContentComes) {
  Changes changes(*this);
  const std::string content = MakeContent(4, 1'000'000);
  const uint32_t crc32c = base::Crc32c(AsBytes(content));
  const PutOptions announced{.size_bytes = content.size()};
  const OperationId id = changes.NewId();
  auto begun = changes.BeginPut(id, "o", announced);
  ASSERT_TRUE(Is(begun, Code::kOk));
  EXPECT_FALSE((*begun)->replays());
  ASSERT_TRUE(Is(Write(**begun, content), Code::kOk));
  const auto first = Run((*begun)->Commit(changes.With(id), crc32c));
  ASSERT_TRUE(Is(first, Code::kOk));

  auto again = changes.BeginPut(id, "o", announced);
  ASSERT_TRUE(Is(again, Code::kOk));
  EXPECT_TRUE((*again)->replays());
  const auto result = Run((*again)->Commit(changes.With(id), crc32c));
  ASSERT_TRUE(Is(result, Code::kOk));
  ExpectSame(*result, *first);
  auto other = changes.BeginPut(id, "o", announced);
  ASSERT_TRUE(Is(other, Code::kOk));
  EXPECT_TRUE(Is(Run((*other)->Commit(changes.With(id), crc32c + 1)), Code::kInvalidArgument));
}

TEST_P(StoreSuite, APutWithoutAnIdMayGetOneAtItsCommit) {
  Changes changes(*this);
  const OperationId id = changes.NewId();
  auto writer = BeginPut("o");
  ASSERT_TRUE(Is(writer, Code::kOk));
  ASSERT_TRUE(Is(Write(**writer, "content"), Code::kOk));
  const auto first = Run((*writer)->Commit(changes.With(id), std::nullopt));
  ASSERT_TRUE(Is(first, Code::kOk));
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  const auto again = changes.Put(id, "o", "content");
  ASSERT_TRUE(Is(again, Code::kOk));
  ExpectSame(*again, *first);
  EXPECT_TRUE(Is(Stat("o"), Code::kNotFound));
}

TEST_P(StoreSuite, ResultsAreKeptOverReopening) {
  Changes changes(*this);
  const OperationId put = changes.NewId();
  const OperationId refused = changes.NewId();
  const OperationId create = changes.NewId();
  const auto first = changes.Put(put, "o", "content");
  ASSERT_TRUE(Is(first, Code::kOk));
  ASSERT_TRUE(Is(changes.Put(refused, "o", "x", {.condition = Condition::IfAbsent()}), Code::kAlreadyExists));
  ASSERT_TRUE(Is(changes.CreateBucket(create, "once"), Code::kOk));
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  const uint64_t time_ms = store().operation_time_ms();
  if (!Reopen()) GTEST_SKIP() << "this backend keeps nothing";
  EXPECT_GE(store().operation_time_ms(), time_ms);
  const auto again = changes.Put(put, "o", "content");
  ASSERT_TRUE(Is(again, Code::kOk));
  ExpectSame(*again, *first);
  EXPECT_TRUE(Is(changes.Put(refused, "o", "x", {.condition = Condition::IfAbsent()}), Code::kAlreadyExists));
  EXPECT_TRUE(Is(changes.CreateBucket(create, "once"), Code::kOk));
  EXPECT_TRUE(Is(Stat("o"), Code::kNotFound));
}

TEST_P(StoreSuite, WithoutAnIdEveryChangeActs) {
  const auto first = Put("o", "content");
  const auto second = Put("o", "content");
  ASSERT_TRUE(Is(first, Code::kOk));
  ASSERT_TRUE(Is(second, Code::kOk));
  EXPECT_LT(first->version, second->version);
}

}  // namespace
}  // namespace forebay::store
