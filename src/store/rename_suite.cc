// SPDX-License-Identifier: Apache-2.0
// Renames, of one object and of all that begin with a prefix.
#include <algorithm>
#include <atomic>

#include "base/random.h"
#include "store/operations.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

using Keys = std::vector<std::string>;

/// Renames in the suite's bucket.
class Renaming {
 public:
  explicit Renaming(StoreSuite& suite) : suite_(suite) {}

  Status One(const std::string& from, const std::string& to, RenameOptions options = {}, OperationId id = {}) {
    const Context context = With(id);
    return suite_.Run(suite_.store().Rename(context, StoreSuite::kBucket, from, to, std::move(options)));
  }
  Result<uint64_t> Prefix(const std::string& from, const std::string& to, OperationId id = {}) {
    const Context context = With(id);
    return suite_.Run(suite_.store().RenamePrefix(context, StoreSuite::kBucket, from, to));
  }

 private:
  Context With(const OperationId& id) {
    Context context = suite_.MakeContext();
    context.operation = id;
    return context;
  }
  StoreSuite& suite_;
};

TEST_P(StoreSuite, ARenamedObjectIsTheSameUnderItsNewKey) {
  Renaming rename(*this);
  for (const size_t size : {size_t{0}, size_t{100}, size_t{5000}, size_t{300'000}}) {
    SCOPED_TRACE(size);
    const std::string content = MakeContent(900 + size, size);
    const auto put = Put("from", content, {.metadata = {{"a", "1"}}});
    ASSERT_TRUE(Is(put, Code::kOk));
    auto reader = Open("from");
    ASSERT_TRUE(Is(reader, Code::kOk));
    ASSERT_TRUE(Is(rename.One("from", "to"), Code::kOk));
    EXPECT_TRUE(Is(Stat("from"), Code::kNotFound));
    EXPECT_TRUE(Is(Open("from"), Code::kNotFound));
    for (int round = 0; round < 2; ++round) {
      const auto info = Stat("to");
      ASSERT_TRUE(Is(info, Code::kOk));
      EXPECT_EQ(info->etag, put->etag);
      EXPECT_EQ(info->modified, put->modified);
      EXPECT_EQ(info->metadata, put->metadata);
      EXPECT_EQ(info->crc32c, put->crc32c);
      EXPECT_EQ(info->size_bytes, size);
      EXPECT_GT(info->version, put->version);
      EXPECT_TRUE(Get("to").value_or("none") == content);
      EXPECT_EQ(ListAll({}), (Keys{"to"}));
      if (round == 1) break;
      EXPECT_TRUE(Run(ReadContent(**reader, MakeContext())).value_or("none") == content);
      reader->reset();
      Reopen();
    }
    // And once more, and back onto a key that is taken.
    ASSERT_TRUE(Is(Put("from", "in the way"), Code::kOk));
    ASSERT_TRUE(Is(rename.One("to", "elsewhere"), Code::kOk));
    ASSERT_TRUE(Is(rename.One("elsewhere", "from"), Code::kOk));
    EXPECT_TRUE(Get("from").value_or("none") == content);
    EXPECT_EQ(ListAll({}), (Keys{"from"}));
    ASSERT_TRUE(Is(Delete("from"), Code::kOk));
  }
}

TEST_P(StoreSuite, ARenameIsRefusedByItsConditions) {
  Renaming rename(*this);
  const auto a = Put("a", "content of a");
  const auto b = Put("b", "content of b");
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_TRUE(Is(rename.One("a", "b", {.target = Condition::IfAbsent()}), Code::kAlreadyExists));
  EXPECT_TRUE(Is(rename.One("a", "b", {.target = Condition::IfMatch("other")}), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(rename.One("a", "c", {.target = Condition::IfMatch("other")}), Code::kNotFound));
  EXPECT_TRUE(Is(rename.One("a", "c", {.source = Condition::IfMatch("other")}), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(rename.One("a", "c", {.source = Condition::IfAbsent()}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(rename.One("none", "c"), Code::kNotFound));
  EXPECT_TRUE(Is(rename.One("a", "a"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(rename.One("a", ""), Code::kInvalidArgument));
  EXPECT_TRUE(Is(rename.One("a", std::string(base::kMaxKeyBytes + 1, 'k')), Code::kInvalidArgument));
  const Context context = MakeContext();
  EXPECT_TRUE(Is(Run(store().Rename(context, "missing", "a", "b", {})), Code::kNotFound));
  const Context late = ExpiredContext();
  EXPECT_TRUE(Is(Run(store().Rename(late, kBucket, "a", "c", {})), Code::kDeadlineExceeded));
  EXPECT_TRUE(Is(Run(store().RenamePrefix(late, kBucket, "a", "c")), Code::kDeadlineExceeded));
  EXPECT_EQ(ListAll({}), (Keys{"a", "b"}));
  EXPECT_TRUE(Is(rename.One("a", "b", {.source = Condition::IfMatch(a->etag), .target = Condition::IfMatch(b->etag)}),
                 Code::kOk));
  EXPECT_EQ(Get("b").value_or(""), "content of a");
  EXPECT_EQ(ListAll({}), (Keys{"b"}));
}

TEST_P(StoreSuite, ARenameChangesTheUsageByWhatItReplaces) {
  Renaming rename(*this);
  const Context context = MakeContext();
  const auto usage = [&] { return *Run(store().GetTenantUsage(context, TenantId::kRoot)); };
  ASSERT_TRUE(Is(Put("a", MakeContent(1, 70'000)), Code::kOk));
  ASSERT_TRUE(Is(Put("b", MakeContent(2, 500)), Code::kOk));
  EXPECT_EQ(usage(), (TenantUsage{.objects = 2, .bytes = 70'500, .buckets = 1}));
  ASSERT_TRUE(Is(rename.One("a", "c"), Code::kOk));
  EXPECT_EQ(usage(), (TenantUsage{.objects = 2, .bytes = 70'500, .buckets = 1}));
  ASSERT_TRUE(Is(rename.One("b", "c"), Code::kOk));
  EXPECT_EQ(usage(), (TenantUsage{.objects = 1, .bytes = 500, .buckets = 1}));
  if (Refuses(Refusal::kRenamePrefix)) return;
  ASSERT_TRUE(Is(rename.Prefix("c", "d"), Code::kOk));
  EXPECT_EQ(usage(), (TenantUsage{.objects = 1, .bytes = 500, .buckets = 1}));
}

TEST_P(StoreSuite, APrefixIsRenamedWithAllThatIsUnderIt) {
  Renaming rename(*this);
  std::map<std::string, std::string> contents;
  uint64_t seed = 1000;
  for (const std::string key : {"run/a", "run/b/c", "run/b/d", "run/ä", "run", "runs/x", "other"}) {
    contents[key] = MakeContent(++seed, key.size() * 3000);
    ASSERT_TRUE(Is(Put(key, contents[key]), Code::kOk));
  }
  const auto renamed = rename.Prefix("run/", "done/2024/");
  ASSERT_TRUE(Is(renamed, Code::kOk));
  EXPECT_EQ(*renamed, 4U);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(ListAll({}), (Keys{"done/2024/a", "done/2024/b/c", "done/2024/b/d", "done/2024/ä", "other", "run", "runs/x"}));
    for (const std::string name : {"a", "b/c", "b/d", "ä"}) {
      EXPECT_TRUE(Get("done/2024/" + name).value_or("none") == contents["run/" + name]) << name;
      EXPECT_TRUE(Is(Get("run/" + name), Code::kNotFound)) << name;
    }
    Reopen();
  }
}

TEST_P(StoreSuite, PrefixesMayOverlap) {
  if (Refuses(Refusal::kRenamePrefix)) GTEST_SKIP() << "this backend renames whole directories only: RefusesByNameWhatItCannotDo";
  Renaming rename(*this);
  for (const std::string key : {"a", "ab", "abb", "b"}) ASSERT_TRUE(Is(Put(key, "was " + key), Code::kOk));
  // Each key gets longer, onto the key of one that moves too.
  EXPECT_EQ(rename.Prefix("a", "ab").value_or(0), 3U);
  EXPECT_EQ(ListAll({}), (Keys{"ab", "abb", "abbb", "b"}));
  EXPECT_EQ(Get("ab").value_or(""), "was a");
  EXPECT_EQ(Get("abb").value_or(""), "was ab");
  EXPECT_EQ(Get("abbb").value_or(""), "was abb");
  EXPECT_EQ(rename.Prefix("ab", "a").value_or(0), 3U);
  EXPECT_EQ(ListAll({}), (Keys{"a", "ab", "abb", "b"}));
  EXPECT_EQ(Get("ab").value_or(""), "was ab");
  // Everything, and back.
  EXPECT_EQ(rename.Prefix("", "all/").value_or(0), 4U);
  EXPECT_EQ(ListAll({}), (Keys{"all/a", "all/ab", "all/abb", "all/b"}));
  EXPECT_EQ(rename.Prefix("all/", "").value_or(0), 4U);
  EXPECT_EQ(Get("abb").value_or(""), "was abb");
}

TEST_P(StoreSuite, APrefixIsRenamedWholeOrNotAtAll) {
  if (Refuses(Refusal::kRenamePrefix)) GTEST_SKIP() << "this backend renames whole directories only: RefusesByNameWhatItCannotDo";
  Renaming rename(*this);
  const std::string long_key = "from/" + std::string(base::kMaxKeyBytes - 5, 'k');
  for (const std::string& key : {std::string("from/1"), std::string("from/2"), std::string("to/2"), long_key})
    ASSERT_TRUE(Is(Put(key, "was " + key), Code::kOk));
  const Keys before = ListAll({});
  EXPECT_TRUE(Is(rename.Prefix("from/", "to/"), Code::kAlreadyExists));
  EXPECT_TRUE(Is(rename.Prefix("from/", "longer/"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(rename.Prefix("to/2", ""), Code::kInvalidArgument));  // no key is left of it
  EXPECT_TRUE(Is(rename.Prefix("from/", "from/"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(rename.Prefix("none/", "to/"), Code::kNotFound));
  EXPECT_TRUE(Is(rename.Prefix("from/", "\xff"), Code::kInvalidArgument));
  const Context context = MakeContext();
  EXPECT_TRUE(Is(Run(store().RenamePrefix(context, "missing", "a", "b")), Code::kNotFound));
  EXPECT_EQ(ListAll({}), before);
  EXPECT_EQ(Get("from/2").value_or(""), "was from/2");
}

TEST_P(StoreSuite, RepeatedRenamesTakePlaceOnce) {
  Renaming rename(*this);
  base::SecureRandom random;
  const auto new_id = [&] { return OperationId::Generate(store().operation_time_ms(), random); };
  const OperationId one = new_id();
  const OperationId prefix = new_id();
  const OperationId refused = new_id();
  for (const std::string key : {"a", "p/1", "p/2"}) ASSERT_TRUE(Is(Put(key, key), Code::kOk));
  EXPECT_TRUE(Is(rename.One("a", "b", {}, one), Code::kOk));
  EXPECT_EQ(rename.Prefix("p/", "q/", prefix).value_or(0), 2U);
  EXPECT_TRUE(Is(rename.Prefix("none/", "r/", refused), Code::kNotFound));
  for (const std::string key : {"a", "p/3", "none/1"}) ASSERT_TRUE(Is(Put(key, "new"), Code::kOk));
  Reopen();
  EXPECT_TRUE(Is(rename.One("a", "b", {}, one), Code::kOk));
  EXPECT_EQ(rename.Prefix("p/", "q/", prefix).value_or(0), 2U);
  EXPECT_TRUE(Is(rename.Prefix("none/", "r/", refused), Code::kNotFound));
  EXPECT_TRUE(Is(rename.Prefix("p/", "other/", prefix), Code::kInvalidArgument));
  EXPECT_EQ(ListAll({}), (Keys{"a", "b", "none/1", "p/3", "q/1", "q/2"}));
  EXPECT_EQ(Get("b").value_or(""), "a");
}

TEST_P(StoreSuite, ListsSeeAPrefixUnderItsOldNameOrItsNew) {
  constexpr int kObjects = 200;
  for (int i = 0; i < kObjects; ++i) ASSERT_TRUE(Is(Put("0/" + std::to_string(i), "x"), Code::kOk));
  auto thread = rt::ReactorThread::Create({.name = "renames"});
  ASSERT_TRUE(Is(thread, Code::kOk));
  threads_.push_back(*std::move(thread));
  std::atomic<bool> done = false;
  auto renames = threads_[0]->Submit([this, &done, reactor = &threads_[0]->reactor()]() -> rt::Task<Status> {
    Status status;
    for (int i = 0; i < 50 && status.ok(); ++i) {
      const Context context{.reactor = *reactor};
      const auto renamed =
          co_await store().RenamePrefix(context, kBucket, std::to_string(i) + "/", std::to_string(i + 1) + "/");
      status = renamed.status();
    }
    done = true;
    co_return status;
  });
  while (!done) {
    const auto page = List({.limit = base::kMaxListPage});
    ASSERT_TRUE(Is(page, Code::kOk));
    ASSERT_EQ(page->objects.size(), static_cast<size_t>(kObjects));
    const std::string prefix = page->objects[0].key.substr(0, page->objects[0].key.find('/') + 1);
    EXPECT_TRUE(std::ranges::all_of(page->objects, [&](const ObjectInfo& info) { return info.key.starts_with(prefix); }));
  }
  EXPECT_TRUE(Is(renames.get(), Code::kOk));
}

}  // namespace
}  // namespace forebay::store
