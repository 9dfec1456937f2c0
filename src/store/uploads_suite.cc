// SPDX-License-Identifier: Apache-2.0
// Uploads: objects that are put in parts, in any order.
#include <algorithm>

#include "base/checksum.h"
#include "base/random.h"
#include "rt/when_all.h"
#include "store/operations.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

constexpr size_t kMiB = base::kMiB;

/// Uploads to the suite's bucket.
class Uploading {
 public:
  explicit Uploading(StoreSuite& suite) : suite_(suite) {}

  Context With(const OperationId& id) {
    Context context = suite_.MakeContext();
    context.operation = id;
    return context;
  }
  Result<UploadInfo> Begin(const std::string& key, UserMetadata metadata = {}, OperationId id = {}) {
    const Context context = With(id);
    return suite_.Run(suite_.store().CreateUpload(context, StoreSuite::kBucket, key, std::move(metadata)));
  }
  static UploadName Name(const UploadInfo& upload) {
    return {.bucket = StoreSuite::kBucket, .key = upload.key, .id = upload.id};
  }
  Result<ObjectInfo> Part(const UploadInfo& upload, uint32_t number, std::string content, PutOptions options = {},
                          OperationId id = {}, std::optional<uint32_t> crc32c = std::nullopt) {
    return suite_.Run(PutPart(With(id), Name(upload), number, std::move(content), std::move(options), crc32c));
  }
  Result<ObjectInfo> Complete(const UploadInfo& upload, const std::vector<PartRef>& parts,
                              CompleteOptions options = {}, OperationId id = {}) {
    const Context context = With(id);
    return suite_.Run(suite_.store().CompleteUpload(context, Name(upload), parts, std::move(options)));
  }
  Status Abort(const UploadInfo& upload, OperationId id = {}) {
    const Context context = With(id);
    return suite_.Run(suite_.store().AbortUpload(context, Name(upload)));
  }
  Result<PartPage> Parts(const UploadInfo& upload, uint32_t start_after = 0, uint32_t limit = base::kMaxListPage) {
    const Context context = suite_.MakeContext();
    return suite_.Run(suite_.store().ListParts(context, Name(upload), start_after, limit));
  }
  Result<UploadPage> List(UploadListOptions options = {}) {
    const Context context = suite_.MakeContext();
    return suite_.Run(suite_.store().ListUploads(context, StoreSuite::kBucket, std::move(options)));
  }
  TenantUsage Usage() {
    const Context context = suite_.MakeContext();
    return *suite_.Run(suite_.store().GetTenantUsage(context, TenantId::kRoot));
  }
  OperationId NewId() { return OperationId::Generate(suite_.store().operation_time_ms(), random_); }

  rt::Task<Result<ObjectInfo>> PutPart(Context context, UploadName upload, uint32_t number, std::string content,
                                       PutOptions options = {}, std::optional<uint32_t> crc32c = std::nullopt) {
    FB_CO_ASSIGN(const std::unique_ptr<ObjectWriter> writer,
                 co_await suite_.store().PutPart(context, std::move(upload), number, std::move(options)));
    FB_CO_TRY(co_await WriteContent(*writer, context, content, 65'536));
    co_return co_await writer->Commit(context, crc32c);
  }

 private:
  StoreSuite& suite_;
  base::SecureRandom random_;
};

TEST_P(StoreSuite, PartsInAnyOrderBecomeOneObject) {
  Uploading uploading(*this);
  const auto upload = uploading.Begin("big", {{"made", "in parts"}});
  ASSERT_TRUE(Is(upload, Code::kOk));
  EXPECT_EQ(upload->key, "big");
  EXPECT_NE(upload->id, 0U);
  std::map<uint32_t, std::string> contents;
  std::map<uint32_t, std::string> etags;
  // Sizes around what a store treats differently; one of them is sent again with other content.
  const std::pair<uint32_t, size_t> kParts[] = {{7, 5 * kMiB + 1}, {1, 100'000}, {10'000, 5}, {3, 1024}, {2, kMiB}, {7, 3 * kMiB + 7}, {4, 0}};
  for (const auto& [number, size] : kParts) {
    contents[number] = MakeContent(1100 + size, size);
    const auto part = uploading.Part(*upload, number, contents[number], {.size_bytes = size});
    ASSERT_TRUE(Is(part, Code::kOk)) << number;
    EXPECT_EQ(part->size_bytes, size);
    EXPECT_EQ(part->crc32c, base::Crc32c(AsBytes(contents[number])));
    EXPECT_FALSE(part->etag.empty());
    etags[number] = part->etag;
    EXPECT_TRUE(Is(Stat("big"), Code::kNotFound));
  }
  Reopen();
  std::string whole;
  std::vector<PartRef> parts;
  for (const auto& [number, content] : contents) {
    whole += content;
    parts.push_back({.number = number, .etag = etags[number]});
  }
  const auto done = uploading.Complete(*upload, parts, {.crc32c = base::Crc32c(AsBytes(whole))});
  ASSERT_TRUE(Is(done, Code::kOk));
  EXPECT_EQ(done->size_bytes, whole.size());
  EXPECT_EQ(done->crc32c, base::Crc32c(AsBytes(whole)));
  EXPECT_EQ(done->metadata, (UserMetadata{{"made", "in parts"}}));
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(Get("big").value_or("") == whole);
    EXPECT_EQ(Stat("big")->crc32c, base::Crc32c(AsBytes(whole)));
    EXPECT_TRUE(Is(uploading.Parts(*upload), Code::kNotFound));
    EXPECT_TRUE(uploading.List()->uploads.empty());
    EXPECT_EQ(ListAll({}), (std::vector<std::string>{"big"}));
    Reopen();
  }
  EXPECT_EQ(uploading.Usage(), (TenantUsage{.objects = 1, .bytes = whole.size(), .buckets = 1}));
}

TEST_P(StoreSuite, PartsThatAreNotNamedGo) {
  Uploading uploading(*this);
  const auto upload = uploading.Begin("o");
  ASSERT_TRUE(Is(upload, Code::kOk));
  const std::string content = MakeContent(1200, 200'000);
  for (const uint32_t number : {1U, 2U, 3U}) ASSERT_TRUE(Is(uploading.Part(*upload, number, content), Code::kOk));
  EXPECT_EQ(uploading.Usage(), (TenantUsage{.objects = 0, .bytes = 600'000, .buckets = 1}));
  ASSERT_TRUE(Is(uploading.Complete(*upload, {{.number = 2}}), Code::kOk));
  EXPECT_TRUE(Get("o").value_or("") == content);
  EXPECT_EQ(uploading.Usage(), (TenantUsage{.objects = 1, .bytes = 200'000, .buckets = 1}));
}

TEST_P(StoreSuite, AnUploadThatIsGivenUpLeavesNothing) {
  Uploading uploading(*this);
  const auto upload = uploading.Begin("o");
  ASSERT_TRUE(Is(upload, Code::kOk));
  ASSERT_TRUE(Is(Put("o", "old"), Code::kOk));
  for (const uint32_t number : {1U, 2U})
    ASSERT_TRUE(Is(uploading.Part(*upload, number, MakeContent(number, 300'000)), Code::kOk));
  EXPECT_TRUE(Is(Run(store().DeleteBucket(uploading.With({}), kBucket)), Code::kFailedPrecondition));
  ASSERT_TRUE(Is(uploading.Abort(*upload), Code::kOk));
  EXPECT_TRUE(Is(uploading.Abort(*upload), Code::kNotFound));
  EXPECT_TRUE(Is(uploading.Part(*upload, 1, "x"), Code::kNotFound));
  EXPECT_TRUE(Is(uploading.Complete(*upload, {{.number = 1}}), Code::kNotFound));
  EXPECT_EQ(Get("o").value_or(""), "old");
  EXPECT_EQ(uploading.Usage(), (TenantUsage{.objects = 1, .bytes = 3, .buckets = 1}));
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  const auto empty = uploading.Begin("o");
  ASSERT_TRUE(Is(empty, Code::kOk));
  EXPECT_GT(empty->id, upload->id);
  EXPECT_TRUE(Is(Run(store().DeleteBucket(uploading.With({}), kBucket)), Code::kFailedPrecondition))
      << "an upload without a part holds it too";
  ASSERT_TRUE(Is(uploading.Abort(*empty), Code::kOk));
  EXPECT_TRUE(Is(Run(store().DeleteBucket(uploading.With({}), kBucket)), Code::kOk));
}

TEST_P(StoreSuite, AnUploadIsRefusedForWhatIsWrongWithIt) {
  Uploading uploading(*this);
  const auto upload = uploading.Begin("o");
  ASSERT_TRUE(Is(upload, Code::kOk));
  const auto part = uploading.Part(*upload, 1, MakeContent(1, 5000));
  ASSERT_TRUE(Is(part, Code::kOk));
  // Parts.
  EXPECT_TRUE(Is(uploading.Part(*upload, 0, "x"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(uploading.Part(*upload, base::kMaxParts + 1, "x"), Code::kInvalidArgument));
  EXPECT_TRUE(Is(uploading.Part(*upload, 2, "x", {.size_bytes = base::kMaxPartBytes + 1}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(uploading.Part(*upload, 2, "xy", {.size_bytes = 3}), Code::kFailedPrecondition));
  EXPECT_TRUE(Is(uploading.Part(*upload, 2, "xy", {}, {}, 1), Code::kDataLoss));
  UploadInfo other = *upload;
  other.key = "p";
  EXPECT_TRUE(Is(uploading.Part(other, 2, "x"), Code::kNotFound)) << "an upload belongs to its key";
  other = *upload;
  ++other.id;
  EXPECT_TRUE(Is(uploading.Part(other, 2, "x"), Code::kNotFound));
  EXPECT_TRUE(Is(uploading.Begin(""), Code::kInvalidArgument));
  EXPECT_TRUE(Is(uploading.Begin("o", {{"", "nameless"}}), Code::kInvalidArgument));
  // Completions.
  EXPECT_TRUE(Is(uploading.Complete(*upload, {}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(uploading.Complete(*upload, {{.number = 2}}), Code::kInvalidArgument)) << "no such part";
  EXPECT_TRUE(Is(uploading.Complete(*upload, {{.number = 1}, {.number = 1}}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(uploading.Complete(*upload, {{.number = 1, .etag = "other"}}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(uploading.Complete(*upload, {{.number = 1}}, {.crc32c = part->crc32c ^ 1}), Code::kDataLoss));
  ASSERT_TRUE(Is(Put("o", "in the way"), Code::kOk));
  EXPECT_TRUE(Is(uploading.Complete(*upload, {{.number = 1}}, {.condition = Condition::IfAbsent()}), Code::kAlreadyExists));
  EXPECT_TRUE(Is(uploading.Complete(*upload, {{.number = 1}}, {.condition = Condition::IfMatch("x")}),
                 Code::kFailedPrecondition));
  EXPECT_EQ(Get("o").value_or(""), "in the way");
  // None of it did any harm.
  EXPECT_EQ(uploading.Parts(*upload)->parts.size(), 1U);
  EXPECT_TRUE(Is(uploading.Complete(*upload, {{.number = 1, .etag = part->etag}}, {.etag = "mine"}), Code::kOk));
  EXPECT_TRUE(Get("o").value_or("") == MakeContent(1, 5000));
  EXPECT_EQ(Stat("o")->etag, "mine");
}

TEST_P(StoreSuite, UploadsAndPartsAreListedInOrder) {
  Uploading uploading(*this);
  std::vector<UploadInfo> begun;
  for (const std::string key : {"b", "a", "b", "dir/c", "b\x01"}) begun.push_back(*uploading.Begin(key, {{"k", key}}));
  const auto all = uploading.List();
  ASSERT_TRUE(Is(all, Code::kOk));
  std::vector<std::pair<std::string, uint64_t>> listed;
  for (const UploadInfo& upload : all->uploads) {
    listed.emplace_back(upload.key, upload.id);
    EXPECT_EQ(upload.metadata, (UserMetadata{{"k", upload.key}}));
  }
  EXPECT_EQ(listed, (std::vector<std::pair<std::string, uint64_t>>{{"a", begun[1].id}, {"b", begun[0].id}, {"b", begun[2].id}, {"b\x01", begun[4].id}, {"dir/c", begun[3].id}}));
  // Page by page.
  std::vector<std::pair<std::string, uint64_t>> paged;
  UploadListOptions options{.limit = 2};
  while (true) {
    const auto page = uploading.List(options);
    ASSERT_TRUE(Is(page, Code::kOk));
    ASSERT_LE(page->uploads.size(), 2U);
    for (const UploadInfo& upload : page->uploads) paged.emplace_back(upload.key, upload.id);
    if (!page->truncated) break;
    options.after_key = page->uploads.back().key;
    options.after_id = page->uploads.back().id;
  }
  EXPECT_EQ(paged, listed);
  EXPECT_EQ(uploading.List({.prefix = "b"})->uploads.size(), 3U);
  EXPECT_EQ(uploading.List({.prefix = "dir/"})->uploads.size(), 1U);
  EXPECT_TRUE(Is(uploading.List({.limit = 0}), Code::kInvalidArgument));

  for (const uint32_t number : {9U, 2U, 5U})
    ASSERT_TRUE(Is(uploading.Part(begun[0], number, MakeContent(number, 1000 * number)), Code::kOk));
  const auto first = uploading.Parts(begun[0], 0, 2);
  ASSERT_TRUE(Is(first, Code::kOk));
  ASSERT_EQ(first->parts.size(), 2U);
  EXPECT_TRUE(first->truncated);
  EXPECT_EQ(first->parts[0].number, 2U);
  EXPECT_EQ(first->parts[1].number, 5U);
  EXPECT_EQ(first->parts[1].size_bytes, 5000U);
  EXPECT_EQ(first->parts[1].crc32c, base::Crc32c(AsBytes(MakeContent(5, 5000))));
  const auto rest = uploading.Parts(begun[0], 5, 2);
  ASSERT_EQ(rest->parts.size(), 1U);
  EXPECT_FALSE(rest->truncated);
  EXPECT_EQ(rest->parts[0].number, 9U);
  EXPECT_TRUE(uploading.Parts(begun[2])->parts.empty());
}

TEST_P(StoreSuite, AnUploadBelongsToWhoOwnsItsBucketAndCountsForThem) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  constexpr TenantId kAlice{3};
  Uploading uploading(*this);
  Context alice = MakeContext();
  alice.tenant = kAlice;
  const Context root = MakeContext();
  ASSERT_TRUE(Is(Run(store().CreateBucket(alice, {.name = "alice"})), Code::kOk));
  ASSERT_TRUE(Is(Run(store().SetQuota(root, kAlice, {.max_bytes = 100'000})), Code::kOk));
  const auto upload = Run(store().CreateUpload(alice, "alice", "o", {}));
  ASSERT_TRUE(Is(upload, Code::kOk));
  const UploadName name{.bucket = "alice", .key = "o", .id = upload->id};
  EXPECT_TRUE(Is(Run(uploading.PutPart(alice, name, 1, std::string(60'000, 'x'))), Code::kOk));
  EXPECT_TRUE(Is(Run(uploading.PutPart(alice, name, 2, std::string(60'000, 'x'))), Code::kResourceExhausted));
  EXPECT_TRUE(Is(Run(uploading.PutPart(alice, name, 1, std::string(70'000, 'y'))), Code::kOk)) << "it replaces the first";
  const auto usage = [&] { return *Run(store().GetTenantUsage(root, kAlice)); };
  EXPECT_EQ(usage(), (TenantUsage{.bytes = 70'000, .buckets = 1, .quota = {.max_bytes = 100'000}}));
  Context bob = MakeContext();
  bob.tenant = TenantId{4};
  EXPECT_TRUE(Is(Run(uploading.PutPart(bob, name, 3, "x")), Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().AbortUpload(bob, name)), Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().ListParts(bob, name, 0, 10)), Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().ListUploads(bob, "alice", {})), Code::kNotFound));
  Reopen();
  EXPECT_EQ(usage().bytes, 70'000U);
  const std::vector<PartRef> parts = {{.number = 1}};
  EXPECT_TRUE(Is(Run(store().CompleteUpload(alice, name, parts, {})), Code::kOk));
  EXPECT_EQ(usage(), (TenantUsage{.objects = 1, .bytes = 70'000, .buckets = 1, .quota = {.max_bytes = 100'000}}));
}

TEST_P(StoreSuite, APartMayBeARunOfAnotherObject) {
  Uploading uploading(*this);
  const std::string content = MakeContent(1300, 500'000);
  ASSERT_TRUE(Is(Put("source", content), Code::kOk));
  ASSERT_TRUE(Is(Put("small", "of a few bytes"), Code::kOk));
  const auto upload = uploading.Begin("o");
  ASSERT_TRUE(Is(upload, Code::kOk));
  const auto copy = [&](uint32_t number, Source source) {
    const Context context = MakeContext();
    return Run(store().CopyPart(context, Uploading::Name(*upload), number, std::move(source)));
  };
  const auto part = copy(1, {.bucket = kBucket, .key = "source", .offset = 1000, .length = 400'000});
  ASSERT_TRUE(Is(part, Code::kOk));
  EXPECT_EQ(part->size_bytes, 400'000U);
  EXPECT_EQ(part->crc32c, base::Crc32c(AsBytes(content).subspan(1000, 400'000)));
  ASSERT_TRUE(Is(copy(2, {.bucket = kBucket, .key = "small"}), Code::kOk));
  EXPECT_TRUE(Is(copy(3, {.bucket = kBucket, .key = "none"}), Code::kNotFound));
  EXPECT_TRUE(Is(copy(3, {.bucket = kBucket, .key = "source", .offset = 500'001}), Code::kOutOfRange));
  EXPECT_TRUE(Is(copy(0, {.bucket = kBucket, .key = "source"}), Code::kInvalidArgument));
  ASSERT_TRUE(Is(Delete("source"), Code::kOk));
  ASSERT_TRUE(Is(Delete("small"), Code::kOk));
  Reopen();
  ASSERT_TRUE(Is(uploading.Complete(*upload, {{.number = 1}, {.number = 2}}), Code::kOk));
  EXPECT_TRUE(Get("o").value_or("") == content.substr(1000, 400'000) + "of a few bytes");
}

TEST_P(StoreSuite, EachStepOfAnUploadTakesPlaceOnce) {
  Uploading uploading(*this);
  const OperationId begin = uploading.NewId();
  const OperationId part = uploading.NewId();
  const OperationId complete = uploading.NewId();
  const OperationId abort = uploading.NewId();
  const auto upload = uploading.Begin("o", {{"a", "b"}}, begin);
  ASSERT_TRUE(Is(upload, Code::kOk));
  const auto again = uploading.Begin("o", {{"a", "b"}}, begin);
  ASSERT_TRUE(Is(again, Code::kOk));
  EXPECT_EQ(again->id, upload->id);
  EXPECT_EQ(again->created, upload->created);
  EXPECT_EQ(uploading.List()->uploads.size(), 1U);
  const std::string content = MakeContent(1400, 100'000);
  const auto first = uploading.Part(*upload, 1, content, {}, part);
  ASSERT_TRUE(Is(first, Code::kOk));
  const auto theirs = uploading.Part(*upload, 1, "of somebody else");
  ASSERT_TRUE(Is(theirs, Code::kOk));
  EXPECT_EQ(uploading.Part(*upload, 1, content, {}, part)->etag, first->etag);
  EXPECT_EQ(uploading.Parts(*upload)->parts[0].etag, theirs->etag);
  EXPECT_TRUE(Is(uploading.Part(*upload, 2, content, {}, part), Code::kInvalidArgument));
  const auto done = uploading.Complete(*upload, {{.number = 1}}, {}, complete);
  ASSERT_TRUE(Is(done, Code::kOk));
  ASSERT_TRUE(Is(Put("o", "later"), Code::kOk));
  Reopen();
  const auto repeated = uploading.Complete(*upload, {{.number = 1}}, {}, complete);
  ASSERT_TRUE(Is(repeated, Code::kOk));
  EXPECT_EQ(repeated->version, done->version);
  EXPECT_EQ(repeated->etag, done->etag);
  EXPECT_EQ(Get("o").value_or(""), "later");
  const auto other = uploading.Begin("p");
  EXPECT_TRUE(Is(uploading.Abort(*other, abort), Code::kOk));
  EXPECT_TRUE(Is(uploading.Abort(*other, abort), Code::kOk));
  EXPECT_TRUE(Is(uploading.Abort(*other), Code::kNotFound));
}

TEST_P(StoreSuite, PartsMayComeAllAtOnce) {
  Uploading uploading(*this);
  const auto upload = uploading.Begin("o");
  ASSERT_TRUE(Is(upload, Code::kOk));
  std::vector<rt::Task<Result<ObjectInfo>>> tasks;
  std::vector<PartRef> parts;
  std::string whole;
  for (uint32_t number = 1; number <= 40; ++number) {
    const std::string content = MakeContent(number, 30'000 + number);
    whole += content;
    parts.push_back({.number = number});
    tasks.push_back(uploading.PutPart(MakeContext(), Uploading::Name(*upload), number, content));
  }
  std::ranges::reverse(tasks);
  for (const auto& result : Run(rt::WhenAll(std::move(tasks)))) ASSERT_TRUE(Is(result, Code::kOk));
  ASSERT_TRUE(Is(uploading.Complete(*upload, parts), Code::kOk));
  EXPECT_TRUE(Get("o").value_or("") == whole);
}

}  // namespace
}  // namespace forebay::store
