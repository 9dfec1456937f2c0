// SPDX-License-Identifier: Apache-2.0
// SystemRecords over the store under test.
#include <algorithm>

#include "store/store_suite.h"
#include "store/system_records.h"

namespace forebay::store {
namespace {

Bytes BytesOf(std::string_view text) {
  const ByteView view = AsBytes(text);
  return {view.begin(), view.end()};
}
std::string TextOf(const Bytes& bytes) { return std::string(AsText(bytes)); }

/// Opened records of the store under test.
class Records {
 public:
  explicit Records(StoreSuite& suite) : suite_(suite), records_(suite.store()) {
    EXPECT_TRUE(Is(suite_.Run(records_.Open(suite_.reactor())), Code::kOk));
  }
  Result<std::string> Put(std::string key, std::string_view value, Condition condition = {}) {
    return suite_.Run(records_.Put(suite_.reactor(), std::move(key), BytesOf(value), std::move(condition)));
  }
  std::string Get(std::string key) {
    const auto record = suite_.Run(records_.Get(suite_.reactor(), std::move(key)));
    EXPECT_TRUE(Is(record, Code::kOk));
    return record.ok() && record->has_value() ? TextOf((*record)->value) : "(none)";
  }
  std::string ETagOf(std::string key) {
    return (*suite_.Run(records_.Get(suite_.reactor(), std::move(key))))->etag;
  }
  Status Delete(std::string key, Condition condition = {}) {
    return suite_.Run(records_.Delete(suite_.reactor(), std::move(key), std::move(condition)));
  }
  Result<std::vector<SystemRecords::Record>> List(std::string prefix) {
    return suite_.Run(records_.List(suite_.reactor(), std::move(prefix)));
  }

 private:
  StoreSuite& suite_;
  SystemRecords records_;
};

TEST_P(StoreSuite, ARecordIsThereUntilItIsDeleted) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  {
    Records records(*this);
    EXPECT_EQ(records.Get("tenant/3"), "(none)");
    ASSERT_TRUE(Is(records.Put("tenant/3", "first"), Code::kOk));
    ASSERT_TRUE(Is(records.Put("tenant/3", "second"), Code::kOk));
    ASSERT_TRUE(Is(records.Put("empty", ""), Code::kOk));
  }
  Reopen();
  Records records(*this);
  EXPECT_EQ(records.Get("tenant/3"), "second");
  EXPECT_EQ(records.Get("empty"), "");
  EXPECT_TRUE(Is(records.Delete("tenant/3"), Code::kOk));
  EXPECT_TRUE(Is(records.Delete("tenant/3"), Code::kNotFound));
  EXPECT_EQ(records.Get("tenant/3"), "(none)");
}

TEST_P(StoreSuite, RecordConditionsGuardReadModifyWrite) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Records records(*this);
  const Result<std::string> first = records.Put("r", "1", Condition::IfAbsent());
  ASSERT_TRUE(Is(first, Code::kOk));
  EXPECT_TRUE(Is(records.Put("r", "x", Condition::IfAbsent()), Code::kAlreadyExists));
  const Result<std::string> second = records.Put("r", "2", Condition::IfMatch(*first));
  ASSERT_TRUE(Is(second, Code::kOk));
  EXPECT_EQ(records.ETagOf("r"), *second);
  EXPECT_TRUE(Is(records.Put("r", "x", Condition::IfMatch(*first)), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(records.Delete("r", Condition::IfMatch(*first)), Code::kFailedPrecondition));
  EXPECT_EQ(records.Get("r"), "2");
  EXPECT_TRUE(Is(records.Delete("r", Condition::IfMatch(*second)), Code::kOk));
}

TEST_P(StoreSuite, ListsRecordsByPrefixOverAllPages) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Records records(*this);
  constexpr size_t kRecords = base::kMaxListPage + 5;
  for (size_t i = 0; i < kRecords; ++i)
    ASSERT_TRUE(Is(records.Put(fmt::format("cap/{:05}", i), std::to_string(i)), Code::kOk));
  ASSERT_TRUE(Is(records.Put("key/1", "other"), Code::kOk));
  const Result<std::vector<SystemRecords::Record>> all = records.List("cap/");
  ASSERT_TRUE(Is(all, Code::kOk));
  ASSERT_EQ(all->size(), kRecords);
  for (size_t i = 0; i < kRecords; ++i) EXPECT_EQ(TextOf((*all)[i].value), std::to_string(i));
  EXPECT_TRUE(std::ranges::is_sorted(*all, {}, &SystemRecords::Record::key));
  EXPECT_EQ((*all)[7].etag, records.ETagOf("cap/00007"));
  EXPECT_TRUE(records.List("none/")->empty());
}

TEST_P(StoreSuite, TakesRecordValuesUpToItsLimit) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Records records(*this);
  const std::string largest = MakeContent(1, SystemRecords::kMaxValueBytes);
  ASSERT_TRUE(Is(records.Put("large", largest), Code::kOk));
  EXPECT_EQ(records.Get("large"), largest);
  EXPECT_TRUE(Is(records.Put("large", largest + "x"), Code::kInvalidArgument));
  EXPECT_EQ(records.Get("large"), largest);
}

}  // namespace
}  // namespace forebay::store
