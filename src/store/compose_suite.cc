// SPDX-License-Identifier: Apache-2.0
// Compose: objects that are made of others, without their content being copied.
#include "base/checksum.h"
#include "base/random.h"
#include "rt/when_all.h"
#include "store/operations.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

constexpr size_t kMiB = base::kMiB;

/// Composes in the suite's bucket.
class Composing {
 public:
  explicit Composing(StoreSuite& suite) : suite_(suite) {}

  static Source All(const std::string& key) { return {.bucket = StoreSuite::kBucket, .key = key}; }
  static Source Part(const std::string& key, uint64_t offset, uint64_t length) {
    return {.bucket = StoreSuite::kBucket, .key = key, .offset = offset, .length = length};
  }
  Result<ObjectInfo> operator()(const std::string& key, std::vector<Source> sources, PutOptions options = {},
                                OperationId id = {}) {
    Context context = suite_.MakeContext();
    context.operation = id;
    return suite_.Run(
        suite_.store().Compose(context, StoreSuite::kBucket, key, std::move(sources), std::move(options)));
  }

 private:
  StoreSuite& suite_;
};

TEST_P(StoreSuite, ACopyIsEqualAndStaysWhenItsSourceGoes) {
  Composing compose(*this);
  uint64_t seed = 100;
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{1024}, size_t{1025}, size_t{4096}, size_t{65'536}, size_t{65'537}, 3 * kMiB + 1}) {
    SCOPED_TRACE(size);
    const std::string content = MakeContent(++seed, size);
    const auto source = Put("source", content, {.metadata = {{"of", "source"}}});
    ASSERT_TRUE(Is(source, Code::kOk));
    const auto copy = compose("copy", {Composing::All("source")}, {.metadata = {{"of", "copy"}}});
    ASSERT_TRUE(Is(copy, Code::kOk));
    EXPECT_EQ(copy->key, "copy");
    EXPECT_GT(copy->version, source->version);
    EXPECT_NE(copy->etag, source->etag);
    EXPECT_EQ(copy->metadata, (UserMetadata{{"of", "copy"}}));
    EXPECT_TRUE(Holds("copy", content));
    ASSERT_TRUE(Is(Delete("source"), Code::kOk));
    EXPECT_TRUE(Holds("copy", content));
    Reopen();
    EXPECT_TRUE(Holds("copy", content));
    EXPECT_EQ(Stat("copy")->etag, copy->etag);
    EXPECT_EQ(ListAll({}), (std::vector<std::string>{"copy"}));
    ASSERT_TRUE(Is(Delete("copy"), Code::kOk));
  }
}

TEST_P(StoreSuite, SourcesFollowOneAnotherWhateverTheirSizes) {
  Composing compose(*this);
  std::vector<Source> sources;
  std::string content;
  uint64_t seed = 200;
  for (const size_t size : {10UL, 70'000UL, 0UL, 1024UL, 1000UL, 200'001UL, 5UL, 1UL}) {
    const std::string key = "source/" + std::to_string(sources.size());
    const std::string part = MakeContent(++seed, size);
    ASSERT_TRUE(Is(Put(key, part), Code::kOk));
    sources.push_back(Composing::All(key));
    content += part;
  }
  ASSERT_TRUE(Is(compose("joined", sources, {.size_bytes = content.size()}), Code::kOk));
  EXPECT_TRUE(Holds("joined", content));
  std::vector<Source> twice = sources;
  twice.insert(twice.end(), sources.begin(), sources.end());
  ASSERT_TRUE(Is(compose("twice", twice), Code::kOk));
  EXPECT_TRUE(Holds("twice", content + content));
  for (const Source& source : sources) ASSERT_TRUE(Is(Delete(source.key), Code::kOk));
  Reopen();
  EXPECT_TRUE(Holds("joined", content));
  ASSERT_TRUE(Is(Delete("joined"), Code::kOk));
  EXPECT_TRUE(Holds("twice", content + content));
}

TEST_P(StoreSuite, ASourceMayBeAnyRange) {
  Composing compose(*this);
  const std::string large = MakeContent(300, 3 * 65'536 + 777);
  const std::string small = MakeContent(301, 500);
  ASSERT_TRUE(Is(Put("large", large), Code::kOk));
  ASSERT_TRUE(Is(Put("small", small), Code::kOk));
  const uint64_t kRanges[][2] = {{0, 1},         {1, 65'535},        {65'536, 65'536}, {65'535, 2},
                                 {4097, 100'000}, {196'000, 1385},    {0, 197'385},     {100, 0}};
  for (const auto& [offset, length] : kRanges) {
    SCOPED_TRACE(testing::Message() << offset << " + " << length);
    ASSERT_TRUE(Is(compose("range", {Composing::Part("large", offset, length)}), Code::kOk));
    EXPECT_TRUE(Holds("range", large.substr(offset, length)));
    ASSERT_TRUE(Is(compose("mixed", {Composing::Part("small", 100, 300), Composing::Part("large", offset, length),
                                     Composing::Part("small", 0, 100)}),
                   Code::kOk));
    EXPECT_TRUE(Holds("mixed", small.substr(100, 300) + large.substr(offset, length) + small.substr(0, 100)));
    // Ranges of what was composed from ranges.
    const uint64_t half = (length + 400) / 2;
    ASSERT_TRUE(Is(compose("again", {Composing::Part("mixed", half, half), Composing::Part("mixed", 0, half)}), Code::kOk));
    const std::string mixed = small.substr(100, 300) + large.substr(offset, length) + small.substr(0, 100);
    EXPECT_TRUE(Holds("again", mixed.substr(half, half) + mixed.substr(0, half)));
  }
  ASSERT_TRUE(Is(compose("rest", {{.bucket = kBucket, .key = "large", .offset = 190'000}}), Code::kOk));
  EXPECT_TRUE(Holds("rest", large.substr(190'000)));
}

TEST_P(StoreSuite, AnObjectMayBeAmongItsOwnSources) {
  Composing compose(*this);
  std::string content = MakeContent(400, 100'000);
  ASSERT_TRUE(Is(Put("log", content), Code::kOk));
  auto before = Open("log");
  ASSERT_TRUE(Is(before, Code::kOk));
  const std::string first = content;
  for (uint64_t i = 0; i < 5; ++i) {
    const std::string more = MakeContent(401 + i, i % 2 == 0 ? 300 : 30'000);
    ASSERT_TRUE(Is(Put("more", more), Code::kOk));
    ASSERT_TRUE(Is(compose("log", {Composing::All("log"), Composing::All("more")}), Code::kOk));
    content += more;
    EXPECT_TRUE(Holds("log", content));
  }
  ASSERT_TRUE(Is(compose("log", {Composing::Part("log", 50'000, 60'000)}), Code::kOk));
  content = content.substr(50'000, 60'000);
  EXPECT_TRUE(Holds("log", content));
  EXPECT_TRUE(Run(ReadContent(**before, MakeContext())).value_or("") == first);
  before->reset();
  Reopen();
  EXPECT_TRUE(Holds("log", content));
}

TEST_P(StoreSuite, AComposedObjectMayBeFarLargerThanWhatIsStored) {
  Composing compose(*this);
  const std::string unit = MakeContent(500, kMiB + 1);
  ASSERT_TRUE(Is(Put("unit", unit), Code::kOk));
  constexpr size_t kTimes = 150;  // beyond two segments of an engine's map
  const auto composed = compose("large", std::vector<Source>(kTimes, Composing::All("unit")));
  ASSERT_TRUE(Is(composed, Code::kOk));
  EXPECT_EQ(composed->size_bytes, kTimes * unit.size());
  uint32_t crc32c = base::kCrc32cEmpty;
  for (size_t i = 0; i < kTimes; ++i) crc32c = base::Crc32cExtend(crc32c, AsBytes(unit));
  EXPECT_EQ(composed->crc32c, crc32c);
  // What lies across each border of the units.
  const uint64_t offset = 3 * kMiB + 500'000;
  ASSERT_TRUE(Is(compose("part", {Composing::Part("large", offset, 130 * kMiB)}), Code::kOk));
  ASSERT_TRUE(Is(Delete("unit"), Code::kOk));
  Reopen();
  const auto expect_like_units = [&](const std::string& key, uint64_t skip, uint64_t size) {
    const auto reader = Open(key);
    ASSERT_TRUE(Is(reader, Code::kOk));
    for (uint64_t at = 0; at + 1000 < size; at += 7 * kMiB - 333) {
      const auto got = Read(**reader, at, 1000);
      ASSERT_TRUE(Is(got, Code::kOk)) << at;
      std::string expected;
      for (uint64_t i = 0; i < 1000; ++i) expected += unit[(skip + at + i) % unit.size()];
      EXPECT_TRUE(*got == expected) << key << " at " << at;
    }
  };
  expect_like_units("large", 0, kTimes * unit.size());
  expect_like_units("part", offset, 130 * kMiB);
  ASSERT_TRUE(Is(Delete("large"), Code::kOk));
  expect_like_units("part", offset, 130 * kMiB);
  ASSERT_TRUE(Is(compose("whole-again", {Composing::All("part")}), Code::kOk));
  expect_like_units("whole-again", offset, 130 * kMiB);
}

TEST_P(StoreSuite, AComposeIsRefusedLikeAPut) {
  Composing compose(*this);
  const auto object = Put("o", "content");
  ASSERT_TRUE(Is(object, Code::kOk));
  const std::vector<Source> all = {Composing::All("o")};
  EXPECT_TRUE(Is(compose("o", all, {.condition = Condition::IfAbsent()}), Code::kAlreadyExists));
  EXPECT_TRUE(Is(compose("o", all, {.condition = Condition::IfMatch("other")}), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(compose("new", all, {.condition = Condition::IfMatch("other")}), Code::kNotFound));
  EXPECT_TRUE(Is(compose("new", all, {.size_bytes = 8}), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(compose("new", {}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(compose("", all), Code::kInvalidArgument));
  EXPECT_TRUE(Is(compose("new", std::vector<Source>(base::kMaxSources + 1, all[0])), Code::kInvalidArgument));
  EXPECT_TRUE(Is(compose("new", {Composing::All("missing")}), Code::kNotFound));
  EXPECT_TRUE(Is(compose("new", {{.bucket = "missing", .key = "o"}}), Code::kNotFound));
  EXPECT_TRUE(Is(compose("new", {Composing::Part("o", 0, 8)}), Code::kOutOfRange));
  EXPECT_TRUE(Is(compose("new", {Composing::Part("o", 8, 0)}), Code::kOutOfRange));
  EXPECT_TRUE(Is(compose("new", {Composing::Part("o", UINT64_MAX, 2)}), Code::kOutOfRange));
  EXPECT_TRUE(Is(compose("new", {Composing::Part("o", 2, UINT64_MAX)}), Code::kOutOfRange));
  EXPECT_TRUE(Is(compose("new", {{.bucket = kBucket, .key = "o", .condition = Condition::IfMatch("other")}}),
                 Code::kFailedPrecondition));
  EXPECT_TRUE(Is(compose("new", {{.bucket = kBucket, .key = "o", .condition = Condition::IfAbsent()}}),
                 Code::kInvalidArgument));
  EXPECT_EQ(ListAll({}), (std::vector<std::string>{"o"}));
  EXPECT_EQ(Get("o").value_or(""), "content");
  EXPECT_TRUE(Is(compose("new", {{.bucket = kBucket, .key = "o", .condition = Condition::IfMatch(object->etag)}},
                         {.condition = Condition::IfAbsent(), .etag = "mine"}),
                 Code::kOk));
  EXPECT_EQ(Stat("new")->etag, "mine");
}

TEST_P(StoreSuite, AComposeBeyondTheLargestObjectIsRefused) {
  Composing compose(*this);
  ASSERT_TRUE(Is(Put("o", MakeContent(600, kMiB)), Code::kOk));
  ASSERT_TRUE(Is(compose("o", std::vector<Source>(1024, Composing::All("o"))), Code::kOk));  // 1 GiB
  EXPECT_TRUE(Is(compose("p", std::vector<Source>(5121, Composing::All("o"))), Code::kInvalidArgument));
  EXPECT_EQ(ListAll({}), (std::vector<std::string>{"o"}));
}

TEST_P(StoreSuite, ACopyCountsInFullForTheOwnerOfItsBucket) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  constexpr TenantId kAlice{3};
  Context alice = MakeContext();
  alice.tenant = kAlice;
  const Context root = MakeContext();
  ASSERT_TRUE(Is(Run(store().CreateBucket(alice, {.name = "alice"})), Code::kOk));
  ASSERT_TRUE(Is(Put("roots", MakeContent(700, 100'000)), Code::kOk));
  ASSERT_TRUE(Is(Run(PutContent(store(), alice, "alice", "hers", MakeContent(701, 40'000))), Code::kOk));
  // She does not see root's bucket; root sees hers.
  const std::vector<Source> roots = {Composing::All("roots")};
  const std::vector<Source> hers = {{.bucket = "alice", .key = "hers"}};
  EXPECT_TRUE(Is(Run(store().Compose(alice, "alice", "copy", roots, {})), Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().Compose(root, "alice", "copy", roots, {})), Code::kOk));
  EXPECT_TRUE(Is(Run(store().Compose(alice, "alice", "hers-too", hers, {})), Code::kOk));
  EXPECT_EQ(*Run(store().GetTenantUsage(root, kAlice)), (TenantUsage{.objects = 3, .bytes = 180'000, .buckets = 1}));
  ASSERT_TRUE(Is(Run(store().SetQuota(root, kAlice, {.max_bytes = 200'000})), Code::kOk));
  EXPECT_TRUE(Is(Run(store().Compose(alice, "alice", "too-much", hers, {})), Code::kResourceExhausted));
  EXPECT_TRUE(Is(Run(store().Compose(alice, "alice", "hers-too", hers, {})), Code::kOk));
  const Context late = ExpiredContext();
  EXPECT_TRUE(Is(Run(store().Compose(late, kBucket, "late", roots, {})), Code::kDeadlineExceeded));
}

TEST_P(StoreSuite, ARepeatedComposeTakesPlaceOnce) {
  Composing compose(*this);
  base::SecureRandom random;
  const auto new_id = [&] { return OperationId::Generate(store().operation_time_ms(), random); };
  ASSERT_TRUE(Is(Put("source", MakeContent(800, 70'000)), Code::kOk));
  const OperationId id = new_id();
  const OperationId refused = new_id();
  const auto first = compose("o", {Composing::All("source")}, {.metadata = {{"a", "b"}}}, id);
  ASSERT_TRUE(Is(first, Code::kOk));
  EXPECT_TRUE(Is(compose("o", {Composing::All("missing")}, {}, refused), Code::kNotFound));
  ASSERT_TRUE(Is(Put("o", "of somebody else"), Code::kOk));
  ASSERT_TRUE(Is(Put("missing", "no more"), Code::kOk));
  ASSERT_TRUE(Is(Delete("source"), Code::kOk));
  Reopen();
  const auto again = compose("o", {Composing::All("source")}, {.metadata = {{"a", "b"}}}, id);
  ASSERT_TRUE(Is(again, Code::kOk));
  EXPECT_EQ(again->version, first->version);
  EXPECT_EQ(again->etag, first->etag);
  EXPECT_EQ(again->size_bytes, first->size_bytes);
  EXPECT_EQ(again->crc32c, first->crc32c);
  EXPECT_EQ(again->metadata, first->metadata);
  EXPECT_EQ(again->modified, first->modified);
  EXPECT_TRUE(Is(compose("o", {Composing::All("missing")}, {}, refused), Code::kNotFound));
  EXPECT_TRUE(Is(compose("o", {Composing::All("other")}, {.metadata = {{"a", "b"}}}, id), Code::kInvalidArgument));
  EXPECT_EQ(Get("o").value_or(""), "of somebody else");
}

TEST_P(StoreSuite, ComposesOfASourceThatIsReplacedSeeOneVersionOrTheOther) {
  Composing compose(*this);
  const std::string a(70'000, 'a');
  const std::string b(80'000, 'b');
  ASSERT_TRUE(Is(Put("source", a), Code::kOk));
  for (int round = 0; round < 20; ++round) {
    std::vector<rt::Task<Result<ObjectInfo>>> tasks;
    const Context context = MakeContext();
    const std::vector<Source> twice(2, Composing::All("source"));
    tasks.push_back(store().Compose(context, kBucket, "copy", twice, {}));
    tasks.push_back(PutContent(store(), MakeContext(), kBucket, "source", round % 2 == 0 ? b : a));
    for (const Result<ObjectInfo>& result : Run(rt::WhenAll(std::move(tasks)))) ASSERT_TRUE(Is(result, Code::kOk));
    const Result<std::string> copy = Get("copy");
    ASSERT_TRUE(Is(copy, Code::kOk));
    EXPECT_TRUE(*copy == a + a || *copy == b + b) << "round " << round;
  }
}

}  // namespace
}  // namespace forebay::store
