// SPDX-License-Identifier: Apache-2.0
// Buckets that keep versions.
#include <algorithm>
#include <map>

#include "base/checksum.h"
#include "base/random.h"
#include "store/operations.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

/// A bucket of its own, whose versioning is changed.
class Versions {
 public:
  static constexpr const char* kBucket = "versions";

  explicit Versions(StoreSuite& suite, Versioning versioning = Versioning::kOn) : suite_(suite) {
    const Context context = suite_.MakeContext();
    EXPECT_TRUE(Is(suite_.Run(suite_.store().CreateBucket(context, {.name = kBucket, .versioning = versioning})),
                   Code::kOk));
  }

  Status Set(Versioning versioning, OperationId id = {}) {
    Context context = suite_.MakeContext();
    context.operation = id;
    return suite_.Run(suite_.store().UpdateBucket(context, kBucket, {.versioning = versioning}));
  }
  Result<ObjectInfo> Put(const std::string& key, std::string content, PutOptions options = {}) {
    return suite_.Run(
        PutContent(suite_.store(), suite_.MakeContext(), kBucket, key, std::move(content), std::move(options)));
  }
  uint64_t PutVersion(const std::string& key, std::string content) {
    const Result<ObjectInfo> put = Put(key, std::move(content));
    EXPECT_TRUE(Is(put, Code::kOk));
    return put.ok() ? put->version : 0;
  }
  std::string Get(const std::string& key) {
    const Result<std::string> got = suite_.Run(GetContent(suite_.store(), suite_.MakeContext(), kBucket, key));
    return got.ok() ? *got : fmt::format("({})", CodeName(got.status().code()));
  }
  std::string Get(const std::string& key, uint64_t version) {
    const auto read = [&]() -> rt::Task<Result<std::string>> {
      const Context context = suite_.MakeContext();
      FB_CO_ASSIGN(const std::unique_ptr<ObjectReader> reader,
                   co_await suite_.store().OpenVersion(context, kBucket, key, version));
      EXPECT_EQ(reader->info().version, version);
      co_return co_await ReadContent(*reader, context);
    };
    const Result<std::string> got = suite_.Run(read());
    return got.ok() ? *got : fmt::format("({})", CodeName(got.status().code()));
  }
  Status Delete(const std::string& key, Condition condition = {}) {
    const Context context = suite_.MakeContext();
    return suite_.Run(suite_.store().Delete(context, kBucket, key, std::move(condition)));
  }
  Status DeleteVersion(const std::string& key, uint64_t version, OperationId id = {}) {
    Context context = suite_.MakeContext();
    context.operation = id;
    return suite_.Run(suite_.store().DeleteVersion(context, kBucket, key, version));
  }
  Result<VersionPage> Page(VersionListOptions options) {
    const Context context = suite_.MakeContext();
    return suite_.Run(suite_.store().ListVersions(context, kBucket, std::move(options)));
  }
  /// As `key content`, with + for the latest, x for a delete marker and 0 for the null version behind the key.
  std::vector<std::string> All(VersionListOptions options = {}) {
    std::vector<std::string> all;
    while (true) {
      const Result<VersionPage> page = Page(options);
      EXPECT_TRUE(Is(page, Code::kOk));
      if (!page.ok()) return all;
      for (const VersionInfo& version : page->versions) {
        std::string line = version.object.key;
        if (version.latest) line += "+";
        if (version.delete_marker) line += "x";
        if (version.null_version) line += "0";
        const Context context = suite_.MakeContext();
        const Result<VersionInfo> stat = suite_.Run(
            suite_.store().StatVersion(context, kBucket, version.object.key, version.object.version));
        EXPECT_TRUE(Is(stat, Code::kOk));
        if (stat.ok()) {
          EXPECT_EQ(stat->object.etag, version.object.etag);
          EXPECT_EQ(std::tuple(stat->latest, stat->delete_marker, stat->null_version),
                    std::tuple(version.latest, version.delete_marker, version.null_version))
              << line;
        }
        if (!version.delete_marker) line += " " + Get(version.object.key, version.object.version);
        all.push_back(line);
      }
      if (!page->truncated) return all;
      EXPECT_EQ(page->versions.size(), options.limit);
      options.after_key = page->versions.back().object.key;
      options.after_version = page->versions.back().object.version;
    }
  }
  TenantUsage Usage() {
    const Context context = suite_.MakeContext();
    return *suite_.Run(suite_.store().GetTenantUsage(context, TenantId::kRoot));
  }
  OperationId NewId() { return OperationId::Generate(suite_.store().operation_time_ms(), random_); }

 private:
  StoreSuite& suite_;
  base::SecureRandom random_;
};

using Lines = std::vector<std::string>;

TEST_P(StoreSuite, ABucketKeepsVersionsOfWhatIsPutAndDeleted) {
  Versions versions(*this);
  const uint64_t first = versions.PutVersion("k", "one");
  const std::string large = MakeContent(1, 100'000);
  const uint64_t second = versions.PutVersion("k", large);
  const uint64_t third = versions.PutVersion("k", "");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_EQ(versions.Get("k"), "");
  EXPECT_EQ(versions.Get("k", first), "one");
  EXPECT_TRUE(versions.Get("k", second) == large);
  EXPECT_EQ(versions.All(), (Lines{"k+ ", "k " + large, "k one"}));
  EXPECT_EQ(versions.Usage().objects, 3U);
  EXPECT_EQ(versions.Usage().bytes, 100'003U);
  ASSERT_TRUE(Is(versions.Delete("k"), Code::kOk));
  EXPECT_EQ(versions.Get("k"), "(NOT_FOUND)");
  EXPECT_TRUE(Is(versions.Delete("k"), Code::kNotFound));
  EXPECT_EQ(versions.All(), (Lines{"k+x", "k ", "k " + large, "k one"}));
  EXPECT_EQ(versions.Usage().objects, 4U);
  EXPECT_EQ(versions.Usage().bytes, 100'003U);
  Reopen();
  EXPECT_EQ(versions.Get("k"), "(NOT_FOUND)");
  EXPECT_EQ(versions.Get("k", first), "one");
  versions.PutVersion("k", "back");
  EXPECT_EQ(versions.Get("k"), "back");
  EXPECT_EQ(versions.All(), (Lines{"k+ back", "kx", "k ", "k " + large, "k one"}));
}

TEST_P(StoreSuite, VersionsGoOneByOneAndTheNextNewestIsCurrent) {
  Versions versions(*this);
  const uint64_t first = versions.PutVersion("k", "one");
  const uint64_t second = versions.PutVersion("k", MakeContent(2, 70'000));
  const uint64_t third = versions.PutVersion("k", "three");
  ASSERT_TRUE(Is(versions.DeleteVersion("k", second), Code::kOk));
  EXPECT_TRUE(Is(versions.DeleteVersion("k", second), Code::kNotFound));
  EXPECT_EQ(versions.Get("k", second), "(NOT_FOUND)");
  EXPECT_EQ(versions.All(), (Lines{"k+ three", "k one"}));
  ASSERT_TRUE(Is(versions.DeleteVersion("k", third), Code::kOk));
  EXPECT_EQ(versions.Get("k"), "one");
  ASSERT_TRUE(Is(versions.Delete("k"), Code::kOk));
  const Result<VersionPage> page = versions.Page({});
  ASSERT_TRUE(Is(page, Code::kOk));
  ASSERT_TRUE(page->versions.at(0).delete_marker);
  const uint64_t marker = page->versions[0].object.version;
  EXPECT_EQ(versions.Get("k", marker), "(NOT_FOUND)");
  ASSERT_TRUE(Is(versions.DeleteVersion("k", marker), Code::kOk));
  EXPECT_EQ(versions.Get("k"), "one");
  ASSERT_TRUE(Is(versions.DeleteVersion("k", first), Code::kOk));
  EXPECT_EQ(versions.Get("k"), "(NOT_FOUND)");
  EXPECT_EQ(versions.All(), Lines{});
  EXPECT_EQ(versions.Usage().objects, 0U);
  EXPECT_EQ(versions.Usage().bytes, 0U);
  EXPECT_TRUE(Is(versions.DeleteVersion("never", 1), Code::kNotFound));
}

TEST_P(StoreSuite, WhatWasThereBeforeIsTheNullVersion) {
  Versions versions(*this, Versioning::kOff);
  versions.PutVersion("k", "before");
  versions.PutVersion("k", "null");
  EXPECT_EQ(versions.All(), (Lines{"k+0 null"}));
  ASSERT_TRUE(Is(versions.Set(Versioning::kOn), Code::kOk));
  versions.PutVersion("k", "kept");
  EXPECT_EQ(versions.All(), (Lines{"k+ kept", "k0 null"}));
  ASSERT_TRUE(Is(versions.Set(Versioning::kSuspended), Code::kOk));
  versions.PutVersion("k", "new null");  // in place of the other one, which is not the current one
  EXPECT_EQ(versions.All(), (Lines{"k+0 new null", "k kept"}));
  versions.PutVersion("k", "newer null");
  EXPECT_EQ(versions.All(), (Lines{"k+0 newer null", "k kept"}));
  EXPECT_EQ(versions.Usage().objects, 2U);
  ASSERT_TRUE(Is(versions.Delete("k"), Code::kOk));
  EXPECT_EQ(versions.All(), (Lines{"k+x0", "k kept"}));
  versions.PutVersion("k", "back");  // in place of the marker
  EXPECT_EQ(versions.All(), (Lines{"k+0 back", "k kept"}));
  ASSERT_TRUE(Is(versions.Set(Versioning::kOn), Code::kOk));
  Reopen();
  versions.PutVersion("k", "last");
  EXPECT_EQ(versions.All(), (Lines{"k+ last", "k0 back", "k kept"}));
  EXPECT_EQ(versions.Usage().objects, 3U);
  EXPECT_EQ(versions.Usage().bytes, 12U);
}

TEST_P(StoreSuite, VersioningIsNeverUndone) {
  Versions versions(*this, Versioning::kOff);
  const Context context = MakeContext();
  EXPECT_EQ(Run(store().GetBucket(context, Versions::kBucket))->versioning, Versioning::kOff);
  EXPECT_TRUE(Is(versions.Set(Versioning::kSuspended), Code::kFailedPrecondition));
  ASSERT_TRUE(Is(versions.Set(Versioning::kOff), Code::kOk));
  const OperationId id = versions.NewId();
  ASSERT_TRUE(Is(versions.Set(Versioning::kOn, id), Code::kOk));
  EXPECT_TRUE(Is(versions.Set(Versioning::kOff), Code::kFailedPrecondition));
  ASSERT_TRUE(Is(versions.Set(Versioning::kSuspended), Code::kOk));
  ASSERT_TRUE(Is(versions.Set(Versioning::kOn, id), Code::kOk));  // it took place before
  EXPECT_EQ(Run(store().GetBucket(context, Versions::kBucket))->versioning, Versioning::kSuspended);
  EXPECT_TRUE(Is(versions.Set(Versioning::kOff), Code::kFailedPrecondition));
  Reopen();
  EXPECT_EQ(Run(store().GetBucket(MakeContext(), Versions::kBucket))->versioning, Versioning::kSuspended);
  EXPECT_TRUE(Is(Run(store().UpdateBucket(MakeContext(), "missing", {.versioning = Versioning::kOn})), Code::kNotFound));
  EXPECT_TRUE(Is(Run(store().CreateBucket(MakeContext(), {.name = "wrong", .versioning = Versioning::kSuspended})),
                 Code::kFailedPrecondition));
}

TEST_P(StoreSuite, ConditionsAreAboutTheCurrentVersion) {
  Versions versions(*this);
  ASSERT_TRUE(Is(versions.Put("k", "one", {.condition = Condition::IfAbsent()}), Code::kOk));
  EXPECT_TRUE(Is(versions.Put("k", "no", {.condition = Condition::IfAbsent()}), Code::kAlreadyExists));
  const auto two = versions.Put("k", "two");
  ASSERT_TRUE(Is(two, Code::kOk));
  EXPECT_TRUE(Is(versions.Delete("k", Condition::IfMatch("other")), Code::kFailedPrecondition));
  ASSERT_TRUE(Is(versions.Delete("k", Condition::IfMatch(two->etag)), Code::kOk));
  EXPECT_TRUE(Is(versions.Put("k", "no", {.condition = Condition::IfMatch(two->etag)}), Code::kNotFound));
  ASSERT_TRUE(Is(versions.Put("k", "three", {.condition = Condition::IfAbsent()}), Code::kOk));
  EXPECT_EQ(versions.All(), (Lines{"k+ three", "kx", "k two", "k one"}));
}

TEST_P(StoreSuite, ListingsShowCurrentVersionsAndVersionsComeInPages) {
  Versions versions(*this);
  for (const char* key : {"a", "a/1", "a/2", "b"})
    for (const char* content : {"1", "2", "3"}) versions.PutVersion(key, content);
  ASSERT_TRUE(Is(versions.Delete("a/1"), Code::kOk));
  const Context context = MakeContext();
  const auto page = Run(store().List(context, Versions::kBucket, {}));
  ASSERT_TRUE(Is(page, Code::kOk));
  EXPECT_EQ(EntriesOf(*page), (Lines{"a", "a/2", "b"}));
  const Lines all = {"a+ 3", "a 2", "a 1", "a/1+x", "a/1 3", "a/1 2", "a/1 1", "a/2+ 3", "a/2 2", "a/2 1", "b+ 3", "b 2", "b 1"};
  for (uint32_t limit = 1; limit <= all.size() + 1; ++limit) EXPECT_EQ(versions.All({.limit = limit}), all) << limit;
  EXPECT_EQ(versions.All({.prefix = "a/", .limit = 2}), Lines(all.begin() + 3, all.begin() + 10));
  EXPECT_EQ(versions.All({.prefix = "a/", .after_key = "a/1"}), Lines(all.begin() + 7, all.begin() + 10));
  EXPECT_EQ(versions.All({.prefix = "a/", .after_key = "a"}), Lines(all.begin() + 3, all.begin() + 10));
  EXPECT_EQ(versions.All({.prefix = "c"}), Lines{});
  // What comes behind a page is as of when it is asked for.
  const uint64_t newest = versions.Page({.prefix = "b"})->versions.at(0).object.version;
  ASSERT_TRUE(Is(versions.DeleteVersion("b", newest), Code::kOk));
  EXPECT_EQ(versions.All({.prefix = "b", .after_key = "b", .after_version = newest}), (Lines{"b+ 2", "b 1"}));
  EXPECT_TRUE(Is(versions.Page({.limit = 0}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(versions.Page({.limit = base::kMaxListPage + 1}), Code::kInvalidArgument));
}

TEST_P(StoreSuite, CopiesAndUploadsAddVersions) {
  Versions versions(*this);
  const std::string content = MakeContent(3, 90'000);
  versions.PutVersion("k", content);
  const Context context = MakeContext();
  const auto copy = Run(store().Compose(context, Versions::kBucket, "k",
                                        {{.bucket = Versions::kBucket, .key = "k", .offset = 10, .length = 80'000}}, {}));
  ASSERT_TRUE(Is(copy, Code::kOk));
  EXPECT_EQ(versions.All(), (Lines{"k+ " + content.substr(10, 80'000), "k " + content}));
  const auto upload = Run(store().CreateUpload(context, Versions::kBucket, "k", {}));
  ASSERT_TRUE(Is(upload, Code::kOk));
  const UploadName name{.bucket = Versions::kBucket, .key = "k", .id = upload->id};
  ASSERT_TRUE(Is(Run(store().CopyPart(context, name, 1, {.bucket = Versions::kBucket, .key = "k"})), Code::kOk));
  ASSERT_TRUE(Is(Run(store().CompleteUpload(context, name, {{.number = 1}}, {})), Code::kOk));
  EXPECT_EQ(versions.All().size(), 3U);
  EXPECT_TRUE(versions.Get("k") == content.substr(10, 80'000));
}

TEST_P(StoreSuite, ABucketThatKeepsVersionsTakesWholeObjects) {
  Versions versions(*this);
  versions.PutVersion("k", "content");
  for (const Versioning versioning : {Versioning::kOn, Versioning::kSuspended}) {
    ASSERT_TRUE(Is(versions.Set(versioning), Code::kOk));
    const Context context = MakeContext();
    EXPECT_TRUE(Is(Run(store().Overwrite(context, Versions::kBucket, "k", {.offset = 0})), Code::kFailedPrecondition));
    EXPECT_TRUE(Is(Run(store().Truncate(context, Versions::kBucket, "k", 0, {})), Code::kFailedPrecondition));
    EXPECT_TRUE(Is(Run(store().Rename(context, Versions::kBucket, "k", "l", {})), Code::kFailedPrecondition));
    EXPECT_TRUE(Is(Run(store().RenamePrefix(context, Versions::kBucket, "k", "l")), Code::kFailedPrecondition));
  }
  EXPECT_EQ(versions.All(), (Lines{"k+ content"}));
}

TEST_P(StoreSuite, ABucketWithVersionsIsNotEmpty) {
  Versions versions(*this);
  const uint64_t version = versions.PutVersion("k", "content");
  ASSERT_TRUE(Is(versions.Delete("k"), Code::kOk));
  const Context context = MakeContext();
  EXPECT_TRUE(Is(Run(store().DeleteBucket(context, Versions::kBucket)), Code::kFailedPrecondition));
  ASSERT_TRUE(Is(versions.DeleteVersion("k", version), Code::kOk));
  EXPECT_TRUE(Is(Run(store().DeleteBucket(context, Versions::kBucket)), Code::kFailedPrecondition));  // the marker
  ASSERT_TRUE(Is(versions.DeleteVersion("k", versions.Page({})->versions.at(0).object.version), Code::kOk));
  EXPECT_TRUE(Is(Run(store().DeleteBucket(context, Versions::kBucket)), Code::kOk));
}

TEST_P(StoreSuite, VersionsAndMarkersCountTowardsTheQuota) {
  FB_SKIP_IF_REFUSED(Refusal::kTenants);
  Versions versions(*this);
  const Context context = MakeContext();
  ASSERT_TRUE(Is(Run(store().SetQuota(context, TenantId::kRoot, {.max_bytes = 10, .max_objects = 3})), Code::kOk));
  const uint64_t first = versions.PutVersion("k", "12345");
  versions.PutVersion("k", "6789");
  EXPECT_TRUE(Is(versions.Put("k", "ab"), Code::kResourceExhausted));
  ASSERT_TRUE(Is(versions.Delete("k"), Code::kOk));
  EXPECT_TRUE(Is(versions.Put("k", "a"), Code::kResourceExhausted));  // three objects
  ASSERT_TRUE(Is(versions.DeleteVersion("k", first), Code::kOk));
  ASSERT_TRUE(Is(versions.Put("k", "ab"), Code::kOk));
  EXPECT_TRUE(Is(versions.Delete("k"), Code::kResourceExhausted));  // a marker more than there may be
  EXPECT_EQ(versions.Get("k"), "ab");
  EXPECT_EQ(versions.Usage().bytes, 6U);
}

TEST_P(StoreSuite, AVersionIsDeletedOnce) {
  Versions versions(*this);
  const uint64_t first = versions.PutVersion("k", "one");
  const OperationId id = versions.NewId();
  ASSERT_TRUE(Is(versions.DeleteVersion("k", first, id), Code::kOk));
  Reopen();
  EXPECT_TRUE(Is(versions.DeleteVersion("k", first, id), Code::kOk));
  EXPECT_TRUE(Is(versions.DeleteVersion("k", first + 1, id), Code::kInvalidArgument));
  const OperationId refused = versions.NewId();
  EXPECT_TRUE(Is(versions.DeleteVersion("k", 12'345, refused), Code::kNotFound));
  EXPECT_TRUE(Is(versions.DeleteVersion("k", 12'345, refused), Code::kNotFound));
}

TEST_P(StoreSuite, VersionsAgreeWithAModel) {
  Versions versions(*this, Versioning::kOff);
  const uint64_t seed = TestSeed(31);
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  base::SeededRandom random(seed);
  struct Kept {
    std::string content;
    bool marker;
    bool null;
  };
  std::map<std::string, std::map<uint64_t, Kept, std::greater<>>> model;  // by key; newest first
  Versioning mode = Versioning::kOff;
  uint64_t last = 0;  // the newest version that is known of
  const auto drop_null = [](std::map<uint64_t, Kept, std::greater<>>& of) {
    std::erase_if(of, [](const auto& version) { return version.second.null; });
  };
  for (int i = 0; i < 400 && !HasFailure(); ++i) {
    const std::string key(1, static_cast<char>('a' + random.Below(4)));
    auto& of = model[key];
    const uint64_t dice = random.Below(20);
    if (dice == 0) {
      mode = random.Below(2) == 0 || mode == Versioning::kOff ? Versioning::kOn : Versioning::kSuspended;
      ASSERT_TRUE(Is(versions.Set(mode), Code::kOk));
    } else if (dice < 10) {
      const std::string content = MakeContent(random.Next64(), random.Below(3000));
      if (mode != Versioning::kOn) drop_null(of);
      last = versions.PutVersion(key, content);
      of[last] = {content, false, mode != Versioning::kOn};
    } else if (dice < 14) {
      const bool is_there = !of.empty() && !of.begin()->second.marker;
      ASSERT_TRUE(Is(versions.Delete(key), is_there ? Code::kOk : Code::kNotFound));
      if (!is_there) continue;
      if (mode != Versioning::kOn) drop_null(of);
      if (mode == Versioning::kOff) continue;
      const uint64_t marker = versions.Page({.prefix = key, .limit = 1})->versions.at(0).object.version;
      of[marker] = {"", true, mode != Versioning::kOn};
    } else if (dice < 18) {
      if (of.empty()) continue;
      const auto victim = std::next(of.begin(), static_cast<ptrdiff_t>(random.Below(of.size())));
      ASSERT_TRUE(Is(versions.DeleteVersion(key, victim->first), Code::kOk));
      of.erase(victim);
    } else if (dice == 18) {
      Reopen();
    }
    EXPECT_EQ(versions.Get(key), of.empty() || of.begin()->second.marker ? "(NOT_FOUND)" : of.begin()->second.content);
  }
  Lines expected;
  uint64_t objects = 0;
  uint64_t bytes = 0;
  for (const auto& [key, of] : model) {
    for (const auto& [version, kept] : of) {
      expected.push_back(key + (version == of.begin()->first ? "+" : "") + (kept.marker ? "x" : "") + (kept.null ? "0" : "") +
                         (kept.marker ? "" : " " + kept.content));
      ++objects;
      bytes += kept.content.size();
    }
  }
  EXPECT_EQ(versions.All(), expected);
  EXPECT_EQ(versions.Usage().objects, objects);
  EXPECT_EQ(versions.Usage().bytes, bytes);
}

}  // namespace
}  // namespace forebay::store
