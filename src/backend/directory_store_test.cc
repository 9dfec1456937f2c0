// SPDX-License-Identifier: Apache-2.0
// What the directory backend promises beyond the suite: the tree is one for others too.
#include "backend/directory_store.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>

#include <gtest/gtest.h>

#include "backend/directory_fixture.h"
#include "base/checksum.h"
#include "base/limits.h"

namespace forebay::backend {
namespace {

namespace fs = std::filesystem;
using store::Condition;
using store::Context;
using store::ObjectInfo;

class DirectoryStoreTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Run(store().CreateBucket(context(), {.name = "bucket"})).ok()); }

  DirectoryStore& store() { return directory_.store(); }
  const Context& context() { return context_; }
  template <typename T>
  T Run(rt::Task<T> task) {
    return directory_.reactor().BlockOn(std::move(task));
  }
  static rt::Task<Result<ObjectInfo>> PutNow(DirectoryStore& store, const Context& context, std::string key, std::string content,
                                             store::PutOptions options) {
    FB_CO_ASSIGN(const auto writer, co_await store.Put(context, "bucket", std::move(key), std::move(options)));
    for (size_t at = 0; at < content.size();) {
      FB_CO_ASSIGN(base::Buffer buffer, co_await writer->Allocate(context, content.size() - at));
      std::memcpy(buffer.writable().data(), content.data() + at, buffer.size());
      at += buffer.size();
      FB_CO_TRY(co_await writer->Write(context, std::move(buffer)));
    }
    co_return co_await writer->Commit(context, std::nullopt);
  }
  Result<ObjectInfo> Put(const std::string& key, std::string content, store::PutOptions options = {}) {
    return Run(PutNow(store(), context(), key, std::move(content), std::move(options)));
  }
  Result<std::unique_ptr<store::ObjectReader>> Open(const std::string& key) {
    return Run(store().Open(context(), "bucket", key, {}));
  }
  Result<std::string> Read(store::ObjectReader& reader) {
    const auto data = Run(reader.Read(context(), 0, std::min<uint64_t>(reader.info().size_bytes, base::kMaxChunkBytes)));
    if (!data.ok()) return data.status();
    std::string content;
    for (const base::Buffer& buffer : data->buffers) content += AsText(buffer.view());
    return content;
  }
  Result<std::string> Get(const std::string& key) {
    const auto reader = Open(key);
    if (!reader.ok()) return reader.status();
    return Read(**reader);
  }
  Code Found(const std::string& key) { return Run(store().Stat(context(), "bucket", key)).status().code(); }
  ObjectInfo Stat(const std::string& key) {
    const auto info = Run(store().Stat(context(), "bucket", key));
    EXPECT_TRUE(info.ok()) << key << ": " << info.status().ToString();
    return info.value_or(ObjectInfo());
  }
  Status Delete(const std::string& key) { return Run(store().Delete(context(), "bucket", key, {})); }
  std::vector<std::string> Keys() {
    const auto page = Run(store().List(context(), "bucket", {}));
    EXPECT_TRUE(page.ok()) << page.status().ToString();
    std::vector<std::string> keys;
    if (page.ok())
      for (const ObjectInfo& object : page->objects) keys.push_back(object.key);
    return keys;
  }
  std::string File(const std::string& key) const { return directory_.File("bucket/" + key); }
  /// As if the file was written some time later: times of files stand still for some milliseconds.
  void MakeLater(const std::string& key) { fs::last_write_time(File(key), fs::last_write_time(File(key)) + std::chrono::seconds(1)); }

  OpenDirectory directory_;
  const Context context_{.reactor = directory_.reactor()};
};

using Names = std::vector<std::string>;

TEST_F(DirectoryStoreTest, AnObjectIsAFileForOthers) {
  const std::string content(300'000, 'x');
  ASSERT_TRUE(Put("models/llama/weights.bin", content).ok());
  EXPECT_EQ(ReadFile(File("models/llama/weights.bin")), content);
  struct stat info{};
  ASSERT_EQ(::stat(File("models/llama/weights.bin").c_str(), &info), 0);
  const mode_t mask = ::umask(022);
  ::umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask) << "as if others had made it";
  ASSERT_TRUE(Delete("models/llama/weights.bin").ok());
  EXPECT_FALSE(fs::exists(File("models"))) << "directories that are empty go with the last object";
}

TEST_F(DirectoryStoreTest, AFileOfOthersIsAnObjectAsItStands) {
  WriteFile(File("data/a.txt"), "123456789");
  fs::create_directories(directory_.File("others"));
  WriteFile(directory_.File("others/b"), "b");
  struct stat before{};
  ASSERT_EQ(::stat(File("data/a.txt").c_str(), &before), 0);
  const auto listed = Run(store().List(context(), "bucket", {}));
  ASSERT_TRUE(listed.ok());
  EXPECT_EQ(listed->objects.at(0).crc32c, 0U) << "nobody read it yet";
  const ObjectInfo info = Stat("data/a.txt");
  EXPECT_EQ(info.crc32c, 0xe3069283U);
  EXPECT_EQ(info.size_bytes, 9U);
  EXPECT_EQ(Get("data/a.txt").value_or(""), "123456789");
  EXPECT_EQ(Run(store().List(context(), "bucket", {}))->objects.at(0).crc32c, 0xe3069283U) << "it is remembered";
  directory_.Reopen();
  EXPECT_EQ(Stat("data/a.txt").etag, info.etag);
  EXPECT_EQ(Stat("data/a.txt").version, info.version);
  struct stat after{};
  ASSERT_EQ(::stat(File("data/a.txt").c_str(), &after), 0);
  EXPECT_TRUE(before.st_ctim.tv_sec == after.st_ctim.tv_sec && before.st_ctim.tv_nsec == after.st_ctim.tv_nsec)
      << "it was not touched";
  const auto buckets = Run(store().ListBuckets(context()));
  ASSERT_TRUE(buckets.ok());
  ASSERT_EQ(buckets->size(), 2U);
  EXPECT_EQ((*buckets)[1].name, "others");
  EXPECT_EQ((*buckets)[1].owner, TenantId::kRoot);
}

TEST_F(DirectoryStoreTest, AChangeByOthersIsANewVersion) {
  const auto put = Put("o", "from forebay", {.metadata = {{"kind", "text"}}});
  ASSERT_TRUE(put.ok());
  WriteFile(File("o"), "from somebody else");
  MakeLater("o");
  const ObjectInfo info = Stat("o");
  EXPECT_NE(info.etag, put->etag);
  EXPECT_GT(info.version, put->version);
  EXPECT_EQ(info.crc32c, base::Crc32c(AsBytes("from somebody else")));
  EXPECT_EQ(Get("o").value_or(""), "from somebody else");
  EXPECT_EQ(Put("o", "x", {.condition = Condition::IfMatch(put->etag)}).status().code(), Code::kFailedPrecondition);
  const auto again = Put("o", "and again", {.condition = Condition::IfMatch(info.etag)});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_GT(again->version, info.version);
}

TEST_F(DirectoryStoreTest, AReaderDoesNotMixVersionsWhenOthersWriteInPlace) {
  ASSERT_TRUE(Put("o", std::string(5000, 'a')).ok());
  const auto reader = Open("o");
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(Read(**reader).value_or(""), std::string(5000, 'a'));
  ASSERT_TRUE(Put("o", std::string(5000, 'b')).ok());
  EXPECT_EQ(Read(**reader).value_or(""), std::string(5000, 'a')) << "a replaced file is not a changed one";
  const auto second = Open("o");
  ASSERT_TRUE(second.ok());
  std::ofstream(File("o"), std::ios::in | std::ios::out) << "XYZ";
  MakeLater("o");
  const auto mixed = Read(**second);
  EXPECT_EQ(mixed.status().code(), Code::kAborted);
  EXPECT_NE(mixed.status().message().find("changed the file in place"), std::string_view::npos) << mixed.status().ToString();
  const auto third = Open("o");
  fs::resize_file(File("o"), 10);
  EXPECT_EQ(Run((*third)->Read(context(), 100, 10)).status().code(), Code::kAborted);
}

TEST_F(DirectoryStoreTest, MetadataFollowsAFileThatOthersMove) {
  ASSERT_TRUE(Put("o", "content", {.metadata = {{"kind", "text"}}}).ok());
  fs::rename(File("o"), File("moved"));
  EXPECT_EQ(Found("o"), Code::kNotFound);
  EXPECT_EQ(Stat("moved").metadata, (store::UserMetadata{{"kind", "text"}}));
}

TEST_F(DirectoryStoreTest, MetadataThatNoAttributeTakesIsKeptInTheSidecar) {
  const store::UserMetadata large = {{"m", std::string(8000, 'm')}};
  const auto put = Put("o", "content", {.metadata = large, .attributes = large});
  ASSERT_TRUE(put.ok()) << put.status().ToString();
  directory_.Reopen();
  EXPECT_EQ(Stat("o").metadata, large);
  EXPECT_EQ(Stat("o").etag, put->etag);
  ASSERT_TRUE(Run(store().SetAttributes(context(), "bucket", "o", 0, {.set = {{"n", "1"}}, .remove = {"m"}})).ok());
  EXPECT_EQ(Stat("o").attributes, (store::UserMetadata{{"n", "1"}}));
  EXPECT_EQ(Stat("o").metadata, large);
  const auto records = [&] {
    return std::ranges::count_if(fs::recursive_directory_iterator(directory_.File(".forebay/records")),
                                 [](const fs::directory_entry& entry) { return entry.is_regular_file(); });
  };
  EXPECT_EQ(records(), 1);
  fs::remove(File("o"));
  directory_.Reopen();
  EXPECT_EQ(records(), 0) << "nothing is kept of a file that others removed";
}

TEST_F(DirectoryStoreTest, KeysThatAreNoPathsAreKeptAndListedInOrder) {
  Names keys = {"/", "//", "/etc/passwd", "../../forebay-outside", ".", "..", "a", "a.b", "a/", "a//", "a//b", "a/../b", "a/b", "a0",
                std::string(256, 'n'), std::string(1024, 'k'), "n/" + std::string(255, 'n'), "\xc3\xa4/", "A", "\n"};
  std::ranges::sort(keys);
  for (const std::string& key : keys) ASSERT_TRUE(Put(key, "content of " + key).ok()) << key;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Keys(), keys);
    for (const std::string& key : keys) EXPECT_EQ(Get(key).value_or(""), "content of " + key);
    directory_.Reopen();
  }
  EXPECT_FALSE(fs::exists(fs::path(directory_.path()).parent_path() / "forebay-outside"));
  for (const std::string& key : keys) EXPECT_TRUE(Delete(key).ok()) << key;
  EXPECT_EQ(Keys(), Names{});
  EXPECT_TRUE(Run(store().DeleteBucket(context(), "bucket")).ok());
}

TEST_F(DirectoryStoreTest, WhatIsNoKeyIsRefused) {
  for (const std::string& key : {std::string(), std::string("a\0b", 3), std::string("\xff"), std::string(1025, 'k')}) {
    EXPECT_EQ(Put(key, "x").status().code(), Code::kInvalidArgument);
    EXPECT_EQ(Found(key), Code::kInvalidArgument);
    EXPECT_EQ(Delete(key).code(), Code::kInvalidArgument);
  }
  for (const std::string name : {".forebay", "..", ".", "bucket/x", "/tmp", "_forebay"})
    EXPECT_FALSE(Run(store().GetBucket(context(), name)).ok()) << name;
}

TEST_F(DirectoryStoreTest, AFileAndADirectoryOfOneNameAreTwoKeys) {
  for (const bool file_first : {true, false}) {
    ASSERT_TRUE(Put(file_first ? "x" : "x/y", "first").ok());
    ASSERT_TRUE(Put(file_first ? "x/y" : "x", "second").ok());
    EXPECT_EQ(Keys(), (Names{"x", "x/y"}));
    // What is in the way goes; the other stays where it is, also when it is written again.
    ASSERT_TRUE(Delete(file_first ? "x" : "x/y").ok());
    const std::string left = file_first ? "x/y" : "x";
    EXPECT_EQ(Get(left).value_or(""), "second");
    ASSERT_TRUE(Put(left, "third").ok());
    directory_.Reopen();
    EXPECT_EQ(Get(left).value_or(""), "third");
    ASSERT_TRUE(Delete(left).ok());
    EXPECT_EQ(Keys(), Names{});
  }
}

TEST_F(DirectoryStoreTest, NoPathLeadsOutThroughALink) {
  const OwnDirectory outside;
  WriteFile(outside.path() + "/secret", "secret");
  fs::create_directory_symlink(outside.path(), File("out"));
  fs::create_symlink(outside.path() + "/secret", File("link"));
  fs::create_directory_symlink("..", File("up"));
  fs::create_symlink("/proc/self/environ", File("magic"));
  fs::create_directory_symlink(outside.path(), directory_.File("linked"));
  for (const std::string key : {"out/secret", "link", "up/bucket/link", "magic", "out", "up"}) {
    EXPECT_EQ(Found(key), Code::kNotFound) << key;
    EXPECT_EQ(Delete(key).code(), Code::kNotFound) << key;
  }
  EXPECT_EQ(Run(store().GetBucket(context(), "linked")).status().code(), Code::kNotFound);
  EXPECT_EQ(Keys(), Names{});
  // The names can be used all the same, and the links stay what they are.
  for (const std::string key : {"out/secret", "out/new", "link", "up/x"}) ASSERT_TRUE(Put(key, "mine: " + key).ok()) << key;
  EXPECT_EQ(Keys(), (Names{"link", "out/new", "out/secret", "up/x"}));
  EXPECT_EQ(Get("out/secret").value_or(""), "mine: out/secret");
  EXPECT_EQ(ReadFile(outside.path() + "/secret"), "secret");
  EXPECT_FALSE(fs::exists(outside.path() + "/new"));
  EXPECT_TRUE(fs::is_symlink(File("link")));
  EXPECT_FALSE(fs::exists(directory_.File("x")));
  for (const std::string key : {"out/secret", "out/new", "link", "up/x"}) ASSERT_TRUE(Delete(key).ok());
  const Status kept = Run(store().DeleteBucket(context(), "bucket"));
  EXPECT_EQ(kept.code(), Code::kFailedPrecondition) << "links are not for us to remove";
  EXPECT_EQ(ReadFile(outside.path() + "/secret"), "secret");
}

TEST_F(DirectoryStoreTest, OneDirectoryIsRenamedAtOnce) {
  for (const char* const key : {"run/a", "run/b/c", "runs"}) ASSERT_TRUE(Put(key, key).ok());
  EXPECT_EQ(Run(store().RenamePrefix(context(), "bucket", "run/", "done/2024/")).value_or(0), 2U);
  EXPECT_EQ(Keys(), (Names{"done/2024/a", "done/2024/b/c", "runs"}));
  ASSERT_TRUE(Put("run/a", "new").ok());
  EXPECT_EQ(Run(store().RenamePrefix(context(), "bucket", "run/", "done/2024/")).status().code(), Code::kAlreadyExists);
  EXPECT_EQ(Run(store().RenamePrefix(context(), "bucket", "run/", "done/")).status().code(), Code::kUnimplemented)
      << "two directories that would become one";
  EXPECT_EQ(Run(store().RenamePrefix(context(), "bucket", "run/", "run/deeper/")).status().code(), Code::kUnimplemented);
  EXPECT_EQ(Run(store().RenamePrefix(context(), "bucket", "r", "s")).status().code(), Code::kUnimplemented);
  EXPECT_EQ(Run(store().RenamePrefix(context(), "bucket", "none/", "s/")).status().code(), Code::kNotFound);
  EXPECT_EQ(Get("run/a").value_or(""), "new");
}

TEST_F(DirectoryStoreTest, ASecondNameOfAFileIsAnObjectOfItsOwn) {
  ASSERT_TRUE(Put("a", "content").ok());
  fs::create_hard_link(File("a"), File("b"));
  ASSERT_TRUE(Run(store().Rename(context(), "bucket", "a", "b", {})).ok());
  EXPECT_EQ(Keys(), (Names{"b"}));
  EXPECT_EQ(Get("b").value_or(""), "content");
}

TEST_F(DirectoryStoreTest, ATreeIsServedByOneProcess) {
  (void)store();
  base::SystemClock clock;
  const auto log = base::Log::Discard();
  const auto arena = *base::Arena::Create(base::kMiB);
  const auto open = [&](const std::string& path) {
    return DirectoryStore::Open(path, {.arena = *arena, .clock = clock, .log = *log}).status();
  };
  const Status second = open(directory_.path());
  EXPECT_EQ(second.code(), Code::kFailedPrecondition);
  EXPECT_NE(second.message().find("another process"), std::string_view::npos) << second.ToString();
  EXPECT_EQ(open(directory_.File("none")).code(), Code::kNotFound);
}

TEST_F(DirectoryStoreTest, WhatACrashLeftIsSweptAtTheStart) {
  directory_.Close();
  WriteFile(directory_.File(".forebay/tmp/1f"), "half an object");
  WriteFile(directory_.File(".forebay/uploads/bucket/00000000000000ff/p00001"), "a part without an upload");
  directory_.Reopen();
  EXPECT_TRUE(fs::is_empty(directory_.File(".forebay/tmp")));
  EXPECT_FALSE(fs::exists(directory_.File(".forebay/uploads/bucket/00000000000000ff")));
  EXPECT_EQ(fs::status(directory_.File(".forebay")).permissions(), fs::perms::owner_all);
}

TEST_F(DirectoryStoreTest, ADamagedRecordCountsAsNone) {
  const auto put = Put("o", "123456789", {.metadata = {{"m", "1"}}});
  ASSERT_TRUE(put.ok());
  if (::setxattr(File("o").c_str(), "user.forebay", "garbage", 7, 0) != 0) GTEST_SKIP() << "the file system has no user attributes";
  const ObjectInfo info = Stat("o");
  EXPECT_EQ(info.crc32c, 0xe3069283U);
  EXPECT_NE(info.etag, put->etag);
  EXPECT_TRUE(info.metadata.empty());
}

TEST_F(DirectoryStoreTest, AHoleStaysAHole) {
  ASSERT_TRUE(Put("o", std::string(4096, 'x')).ok());
  constexpr uint64_t kSize = 64 * base::kGiB;
  const auto grown = Run(store().Truncate(context(), "bucket", "o", kSize, {}));
  ASSERT_TRUE(grown.ok()) << grown.status().ToString();
  const auto copied = Run(store().Compose(context(), "bucket", "copy", {{.bucket = "bucket", .key = "o"}}, {}));
  ASSERT_TRUE(copied.ok()) << copied.status().ToString();
  EXPECT_EQ(copied->crc32c, grown->crc32c);
  struct stat info{};
  ASSERT_EQ(::stat(File("copy").c_str(), &info), 0);
  EXPECT_EQ(static_cast<uint64_t>(info.st_size), kSize);
  EXPECT_LT(info.st_blocks, 1000);
}

/// A file system of 8 MiB, for those who may mount one.
class FullFileSystem : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a small file system to fill";
    if (::mount("none", mount_.path().c_str(), "tmpfs", 0, "size=8m") != 0) GTEST_SKIP() << "nothing can be mounted here";
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) ::umount2(mount_.path().c_str(), MNT_DETACH);
  }
  OwnDirectory mount_;
  bool mounted_ = false;
};

TEST_F(FullFileSystem, IsSaidAndLeavesWhatWasThere) {
  const base::SystemClock clock;
  const auto log = base::Log::Discard();
  const auto arena = *base::Arena::Create(32 * base::kMiB);
  const auto reactor = *rt::Reactor::Create();
  {
    const auto store = *DirectoryStore::Open(mount_.path(), {.arena = *arena, .clock = clock, .log = *log});
    const Context context{.reactor = *reactor};
    ASSERT_TRUE(reactor->BlockOn(store->CreateBucket(context, {.name = "bucket"})).ok());
    const auto put = [&](std::string key, size_t size) -> rt::Task<Status> {
      FB_CO_ASSIGN(const auto writer, co_await store->Put(context, "bucket", std::move(key), {}));
      for (size_t at = 0; at < size; at += base::kMiB) {
        FB_CO_ASSIGN(base::Buffer buffer, co_await writer->Allocate(context, base::kMiB));
        std::ranges::fill(buffer.writable(), std::byte{'x'});
        FB_CO_TRY(co_await writer->Write(context, std::move(buffer)));
      }
      co_return (co_await writer->Commit(context, std::nullopt)).status();
    };
    ASSERT_TRUE(reactor->BlockOn(put("o", 4 * base::kMiB)).ok());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(reactor->BlockOn(put("o", 16 * base::kMiB)).code(), Code::kResourceExhausted);
    const auto info = reactor->BlockOn(store->Stat(context, "bucket", "o"));
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->size_bytes, 4 * base::kMiB);
    EXPECT_TRUE(store->health().ok());
    ASSERT_TRUE(reactor->BlockOn(store->Delete(context, "bucket", "o", {})).ok());
    EXPECT_TRUE(reactor->BlockOn(put("o", 4 * base::kMiB)).ok()) << "what is freed can be used again";
  }
}

}  // namespace
}  // namespace forebay::backend
