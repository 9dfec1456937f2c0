// SPDX-License-Identifier: Apache-2.0
// Attributes: what changes beside an object while its version stays.
#include "base/random.h"
#include "store/operations.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

class Attributes {
 public:
  explicit Attributes(StoreSuite& suite) : suite_(suite) {}

  Status Set(const std::string& key, AttributeChange change, OperationId id = {}, uint64_t version = 0) {
    Context context = suite_.MakeContext();
    context.operation = id;
    return suite_.Run(suite_.store().SetAttributes(context, StoreSuite::kBucket, key, version, std::move(change)));
  }
  UserMetadata Of(const std::string& key) {
    const Result<ObjectInfo> info = suite_.Stat(key);
    EXPECT_TRUE(Is(info, Code::kOk)) << key;
    const auto reader = suite_.Open(key);
    EXPECT_TRUE(Is(reader, Code::kOk)) << key;
    if (!info.ok() || !reader.ok()) return {};
    EXPECT_EQ((*reader)->info().attributes, info->attributes);
    return info->attributes;
  }
  OperationId NewId() { return OperationId::Generate(suite_.store().operation_time_ms(), random_); }

 private:
  StoreSuite& suite_;
  base::SecureRandom random_;
};

TEST_P(StoreSuite, AttributesChangeWhileTheVersionStays) {
  Attributes attributes(*this);
  for (const size_t size : {0UL, 500UL, 100'000UL}) {
    const std::string content = MakeContent(size, size);
    const auto put = Put("o", content, {.metadata = {{"m", "1"}}, .attributes = {{"a", "1"}, {"b", "2"}}});
    ASSERT_TRUE(Is(put, Code::kOk));
    EXPECT_EQ(put->attributes, (UserMetadata{{"a", "1"}, {"b", "2"}}));
    EXPECT_EQ(attributes.Of("o"), (UserMetadata{{"a", "1"}, {"b", "2"}}));
    auto reader = Open("o");
    ASSERT_TRUE(Is(attributes.Set("o", {.set = {{"b", "3"}, {"c", ""}}, .remove = {"a", "never"}}), Code::kOk));
    EXPECT_EQ(attributes.Of("o"), (UserMetadata{{"b", "3"}, {"c", ""}}));
    const auto now = Stat("o");
    ASSERT_TRUE(Is(now, Code::kOk));
    EXPECT_EQ(now->version, put->version);
    EXPECT_EQ(now->etag, put->etag);
    EXPECT_EQ(now->modified, put->modified);
    EXPECT_EQ(now->metadata, (UserMetadata{{"m", "1"}}));
    EXPECT_TRUE(Run(ReadContent(**reader, MakeContext())).value_or("failed") == content);
    reader->reset();
    const auto page = List({});
    ASSERT_TRUE(Is(page, Code::kOk));
    EXPECT_EQ(page->objects.at(0).attributes, (UserMetadata{{"b", "3"}, {"c", ""}}));
    Reopen();
    EXPECT_EQ(attributes.Of("o"), (UserMetadata{{"b", "3"}, {"c", ""}}));
    EXPECT_TRUE(Holds("o", content));
    ASSERT_TRUE(Is(attributes.Set("o", {.remove = {"b", "c"}}), Code::kOk));
    EXPECT_EQ(attributes.Of("o"), UserMetadata{});
  }
}

TEST_P(StoreSuite, AttributesGoWhereTheObjectGoes) {
  Attributes attributes(*this);
  const UserMetadata some{{"posix.mode", "0644"}};
  ASSERT_TRUE(Is(Put("o", MakeContent(1, 50'000), {.attributes = some}), Code::kOk));
  const Context context = MakeContext();
  ASSERT_TRUE(Is(Run(store().Rename(context, kBucket, "o", "renamed", {})), Code::kOk));
  EXPECT_EQ(attributes.Of("renamed"), some);
  ASSERT_TRUE(Is(Run(store().Truncate(context, kBucket, "renamed", 100, {})), Code::kOk));
  EXPECT_EQ(attributes.Of("renamed"), some);
  const std::vector<Source> source{{.bucket = kBucket, .key = "renamed"}};
  ASSERT_TRUE(Is(Run(store().Compose(context, kBucket, "copy", source, {})), Code::kOk));
  EXPECT_EQ(attributes.Of("copy"), UserMetadata{});
  const auto composed = Run(store().Compose(context, kBucket, "copy", source, {.attributes = {{"t", "x"}}}));
  ASSERT_TRUE(Is(composed, Code::kOk));
  EXPECT_EQ(composed->attributes, (UserMetadata{{"t", "x"}}));
  EXPECT_EQ(attributes.Of("copy"), (UserMetadata{{"t", "x"}}));
  ASSERT_TRUE(Is(Put("copy", "new"), Code::kOk));
  EXPECT_EQ(attributes.Of("copy"), UserMetadata{});
}

TEST_P(StoreSuite, AttributesAreRefusedAsTheConditionAndTheirSizeSay) {
  Attributes attributes(*this);
  EXPECT_TRUE(Is(attributes.Set("missing", {.set = {{"a", "1"}}}), Code::kNotFound));
  const auto put = Put("o", "content");
  ASSERT_TRUE(Is(put, Code::kOk));
  EXPECT_TRUE(Is(attributes.Set("o", {.condition = Condition::IfMatch("other"), .set = {{"a", "1"}}}),
                 Code::kFailedPrecondition));
  EXPECT_TRUE(Is(attributes.Set("o", {.condition = Condition::IfAbsent()}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(attributes.Set("o", {.set = {{"", "1"}}}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(attributes.Set("o", {.set = {{"a", "\xff"}}}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(Put("p", "", {.attributes = {{"a", std::string(base::kMaxUserMetadataBytes, 'x')}}}),
                 Code::kInvalidArgument));
  EXPECT_EQ(attributes.Of("o"), UserMetadata{});
  const std::string half(base::kMaxUserMetadataBytes / 2 - 1, 'x');
  ASSERT_TRUE(Is(attributes.Set("o", {.condition = Condition::IfMatch(put->etag), .set = {{"a", half}, {"b", half}}}),
                 Code::kOk));
  EXPECT_TRUE(Is(attributes.Set("o", {.set = {{"c", ""}}}), Code::kInvalidArgument));
  ASSERT_TRUE(Is(attributes.Set("o", {.set = {{"c", half}}, .remove = {"a"}}), Code::kOk));
  EXPECT_EQ(attributes.Of("o"), (UserMetadata{{"b", half}, {"c", half}}));
}

TEST_P(StoreSuite, AttributesAreSetOnceAndOfAnyVersion) {
  if (Refuses(Refusal::kVersioning)) GTEST_SKIP() << "this backend refuses to keep versions, by name: RefusesByNameWhatItCannotDo";
  Attributes attributes(*this);
  ASSERT_TRUE(Is(Run(store().UpdateBucket(MakeContext(), kBucket, {.versioning = Versioning::kOn})), Code::kOk));
  const auto first = Put("o", "one");
  const auto second = Put("o", "two");
  ASSERT_TRUE(Is(second, Code::kOk));
  const OperationId id = attributes.NewId();
  ASSERT_TRUE(Is(attributes.Set("o", {.set = {{"n", "1"}}}, id, first->version), Code::kOk));
  ASSERT_TRUE(Is(attributes.Set("o", {.set = {{"n", "2"}}}, {}, first->version), Code::kOk));
  Reopen();
  ASSERT_TRUE(Is(attributes.Set("o", {.set = {{"n", "1"}}}, id, first->version), Code::kOk));
  EXPECT_TRUE(Is(attributes.Set("o", {.set = {{"n", "3"}}}, id, first->version), Code::kInvalidArgument));
  EXPECT_EQ(attributes.Of("o"), UserMetadata{});
  const auto stat = Run(store().StatVersion(MakeContext(), kBucket, "o", first->version));
  ASSERT_TRUE(Is(stat, Code::kOk));
  EXPECT_EQ(stat->object.attributes, (UserMetadata{{"n", "2"}}));
  EXPECT_TRUE(Is(attributes.Set("o", {}, {}, 12'345), Code::kNotFound));
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  EXPECT_TRUE(Is(attributes.Set("o", {}), Code::kNotFound));
}

}  // namespace
}  // namespace forebay::store
