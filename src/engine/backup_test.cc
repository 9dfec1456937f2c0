// SPDX-License-Identifier: Apache-2.0
// Backups: copies of a store directory while it is written to, and of one that nobody serves. Each must be a
// clean store that holds one moment; and what is no whole copy must never be taken for one.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "engine/store_directory.h"
#include "meta/temporary_directory.h"

namespace forebay::engine {
namespace {

namespace fs = std::filesystem;

/// An engine as the callers of one reactor have it.
class Hand {
 public:
  Hand(Engine& engine, rt::Reactor& reactor, TenantId tenant = TenantId::kRoot)
      : engine_(engine), reactor_(reactor), tenant_(tenant) {}

  store::Context context() const { return {.reactor = reactor_, .tenant = tenant_}; }
  template <typename T>
  T Run(rt::Task<T> task) {
    return reactor_.BlockOn(std::move(task));
  }
  Engine& engine() { return engine_; }

  Status CreateBucket(const std::string& name) {
    const store::Context here = context();
    return Run(engine_.CreateBucket(here, {.name = name, .owner = tenant_}));
  }
  Status Put(const std::string& bucket, const std::string& key, const std::string& content) {
    return Run([](Hand& hand, std::string where, std::string what, std::string bytes) -> rt::Task<Status> {
      const store::Context here = hand.context();
      FB_CO_ASSIGN(const auto writer,
                   co_await hand.engine_.Put(here, where, what, {.size_bytes = bytes.size()}));
      co_return co_await hand.Fill(*writer, bytes);
    }(*this, bucket, key, content));
  }
  Status Overwrite(const std::string& bucket, const std::string& key, uint64_t offset,
                   const std::string& content) {
    return Run([](Hand& hand, std::string where, std::string what, uint64_t at,
                  std::string bytes) -> rt::Task<Status> {
      const store::Context here = hand.context();
      FB_CO_ASSIGN(const auto writer, co_await hand.engine_.Overwrite(here, where, what, {.offset = at}));
      co_return co_await hand.Fill(*writer, bytes);
    }(*this, bucket, key, offset, content));
  }
  Status PutPart(const store::UploadName& upload, uint32_t number, const std::string& content) {
    return Run([](Hand& hand, store::UploadName to, uint32_t which, std::string bytes) -> rt::Task<Status> {
      const store::Context here = hand.context();
      FB_CO_ASSIGN(const auto writer,
                   co_await hand.engine_.PutPart(here, to, which, {.size_bytes = bytes.size()}));
      co_return co_await hand.Fill(*writer, bytes);
    }(*this, upload, number, content));
  }
  Result<std::string> Get(const std::string& bucket, const std::string& key, uint64_t version = 0) {
    return Run(
        [](Hand& hand, std::string where, std::string what, uint64_t which) -> rt::Task<Result<std::string>> {
          const store::Context here = hand.context();
          auto reader = which == 0 ? co_await hand.engine_.Open(here, where, what, {})
                                   : co_await hand.engine_.OpenVersion(here, where, what, which);
          FB_CO_TRY(reader.status());
          std::string content;
          while (content.size() < (*reader)->info().size_bytes) {
            const uint64_t length =
                std::min<uint64_t>(base::kMaxChunkBytes, (*reader)->info().size_bytes - content.size());
            FB_CO_ASSIGN(const store::ReadData data, co_await (*reader)->Read(here, content.size(), length));
            for (const base::Buffer& buffer : data.buffers) content += AsText(buffer.view());
          }
          co_return content;
        }(*this, bucket, key, version));
  }
  Status Delete(const std::string& bucket, const std::string& key) {
    const store::Context here = context();
    return Run(engine_.Delete(here, bucket, key, {}));
  }
  Result<uint64_t> RenamePrefix(const std::string& bucket, const std::string& from, const std::string& to) {
    const store::Context here = context();
    return Run(engine_.RenamePrefix(here, bucket, from, to));
  }
  std::vector<std::string> Keys(const std::string& bucket, const std::string& prefix = {}) {
    const store::Context here = context();
    std::vector<std::string> keys;
    for (const store::ObjectInfo& object : Run(engine_.List(here, bucket, {.prefix = prefix}))->objects)
      keys.push_back(object.key);
    return keys;
  }
  std::vector<store::VersionInfo> Versions(const std::string& bucket) {
    const store::Context here = context();
    return Run(engine_.ListVersions(here, bucket, {}))->versions;
  }
  void Drain() { Run(engine_.Drain(reactor_)); }

 private:
  rt::Task<Status> Fill(store::ObjectWriter& writer, const std::string& content) {
    const store::Context here = context();
    for (size_t at = 0; at < content.size();) {
      FB_CO_ASSIGN(base::Buffer buffer, co_await writer.Allocate(here, content.size() - at));
      std::memcpy(buffer.writable().data(), content.data() + at, buffer.size());
      at += buffer.size();
      FB_CO_TRY(co_await writer.Write(here, std::move(buffer)));
    }
    co_return (co_await writer.Commit(here, std::nullopt)).status();
  }

  Engine& engine_;
  rt::Reactor& reactor_;
  const TenantId tenant_;
};

class BackupTest : public testing::Test {
 protected:
  StoreDirectory::Environment environment() {
    return {.arena = *arena_, .clock = clock_, .random = random_, .log = *log_};
  }
  std::string At(const std::string& name) const { return temporary_.path() + "/" + name; }

  std::unique_ptr<StoreDirectory> Create(StoreDirectory::CreateOptions create = {.size_bytes = 256 *
                                                                                               base::kMiB}) {
    auto store = StoreDirectory::Create(At("store"), create, environment(), {});
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    Hand hand((*store)->engine(), *reactor_);
    EXPECT_TRUE(hand.CreateBucket("bucket").ok());
    return *std::move(store);
  }
  std::unique_ptr<StoreDirectory> Open(const std::string& name) {
    auto store = StoreDirectory::Open(At(name), environment(), {});
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return store.ok() ? *std::move(store) : nullptr;
  }
  void Close(std::unique_ptr<StoreDirectory> store) { reactor_->BlockOn(store->engine().Drain(*reactor_)); }
  Result<uint64_t> Backup(StoreDirectory& store, const std::string& name, const CopyOptions& options = {}) {
    return store.CopyTo(At(name), environment(), options);
  }
  void ExpectClean(const std::string& name) {
    const auto report = StoreDirectory::Check(At(name), {.verify_data = true}, environment());
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    for (const std::string& error : report->errors) ADD_FAILURE() << name << ": " << error;
  }
  static uint64_t RoomOf(const std::string& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  }
  /// One byte of a device file, behind everybody's back.
  static void Flip(const std::string& path, uint64_t offset) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    char byte = 0;
    ASSERT_EQ(::pread(fd, &byte, 1, static_cast<off_t>(offset)), 1);
    byte = static_cast<char>(byte ^ 1);
    ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(offset)), 1);
    ASSERT_EQ(::fsync(fd), 0);
    ::close(fd);
  }

  meta::TemporaryDirectory temporary_;
  base::SystemClock clock_;
  base::SecureRandom random_;
  std::unique_ptr<base::Log> log_ = base::Log::Discard();
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(64 * base::kMiB);
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
};

/// One object of each kind, and what else a store holds.
class EveryKindTest : public BackupTest {
 protected:
  static constexpr uint64_t kSparseBytes = 130 * base::kMiB + 77;
  static constexpr auto kTenant = TenantId{7};

  void SetUp() override {
    store_ = Create();
    Hand hand(store_->engine(), *reactor_);
    const store::Context root = hand.context();
    ASSERT_TRUE(hand.Put("bucket", "empty", "").ok());
    ASSERT_TRUE(hand.Put("bucket", "inline", "a few bytes").ok());
    ASSERT_TRUE(hand.Put("bucket", "mapped", RandomContent(1, 5'000'001)).ok());
    // Holes, and map rows of their own.
    ASSERT_TRUE(hand.Put("bucket", "sparse", "start").ok());
    ASSERT_TRUE(hand.Run(store_->engine().Truncate(root, "bucket", "sparse", kSparseBytes, {})).ok());
    ASSERT_TRUE(hand.Overwrite("bucket", "sparse", 70 * base::kMiB + 3, RandomContent(2, 300'000)).ok());
    // Extents that two objects have.
    ASSERT_TRUE(
        hand.Run(store_->engine().Compose(root, "bucket", "shared",
                                          {{.bucket = "bucket", .key = "mapped", .offset = 1'000'000},
                                           {.bucket = "bucket", .key = "mapped", .length = 2'000'000}},
                                          {}))
            .ok());
    ASSERT_TRUE(hand.CreateBucket("versions").ok());
    ASSERT_TRUE(
        hand.Run(store_->engine().UpdateBucket(root, "versions", {.versioning = store::Versioning::kOn}))
            .ok());
    for (uint64_t seed = 3; seed < 6; ++seed)
      ASSERT_TRUE(hand.Put("versions", "v", RandomContent(seed, 70'000)).ok());
    ASSERT_TRUE(hand.Delete("versions", "v").ok());
    ASSERT_TRUE(
        hand.Run(store_->engine().SetQuota(root, kTenant, {.max_bytes = 50'000'000, .max_objects = 9})).ok());
    Hand tenant(store_->engine(), *reactor_, kTenant);
    ASSERT_TRUE(tenant.CreateBucket("theirs").ok());
    ASSERT_TRUE(tenant.Put("theirs", "t", RandomContent(6, 200'000)).ok());
    const store::Context theirs = tenant.context();
    const auto begun =
        tenant.Run(store_->engine().CreateUpload(theirs, "theirs", "large", {{"color", "blue"}}));
    ASSERT_TRUE(begun.ok());
    upload_ = {.bucket = "theirs", .key = "large", .id = begun->id};
    for (uint32_t part = 1; part < 3; ++part)
      ASSERT_TRUE(tenant.PutPart(upload_, part, RandomContent(10 + part, 600'000)).ok());
  }
  void TearDown() override {
    if (store_ != nullptr) Close(std::move(store_));
  }

  /// That `name` holds what SetUp made, and takes more of it.
  void ExpectEverything(const std::string& name) {
    ExpectClean(name);
    const std::unique_ptr<StoreDirectory> copy = Open(name);
    ASSERT_NE(copy, nullptr);
    Hand before(store_->engine(), *reactor_);
    Hand hand(copy->engine(), *reactor_);
    const std::vector<std::string> keys = hand.Keys("bucket");
    EXPECT_EQ(keys, (std::vector<std::string>{"empty", "inline", "mapped", "shared", "sparse"}));
    for (const std::string& key : keys)
      EXPECT_TRUE(*hand.Get("bucket", key) == *before.Get("bucket", key)) << key;
    std::string sparse(kSparseBytes, '\0');
    sparse.replace(0, 5, "start").replace(70 * base::kMiB + 3, 300'000, RandomContent(2, 300'000));
    EXPECT_TRUE(*hand.Get("bucket", "sparse") == sparse);

    EXPECT_EQ(hand.Get("versions", "v").status().code(), Code::kNotFound);
    const std::vector<store::VersionInfo> versions = hand.Versions("versions");
    ASSERT_EQ(versions.size(), 4U);
    EXPECT_TRUE(versions[0].delete_marker);
    for (size_t i = 1; i < 4; ++i)
      EXPECT_TRUE(*hand.Get("versions", "v", versions[i].object.version) == RandomContent(6 - i, 70'000));

    Hand tenant(copy->engine(), *reactor_, kTenant);
    const store::Context theirs = tenant.context();
    const store::TenantUsage usage = *tenant.Run(copy->engine().GetTenantUsage(theirs, kTenant));
    EXPECT_EQ(usage, *before.Run(store_->engine().GetTenantUsage(theirs, kTenant)));
    EXPECT_EQ(usage.quota.max_objects, 9U);
    EXPECT_EQ(copy->engine().usage().used_bytes, store_->engine().usage().used_bytes);
    // And it goes on from there.
    ASSERT_TRUE(
        tenant.Run(copy->engine().CompleteUpload(theirs, upload_, {{.number = 1}, {.number = 2}}, {})).ok());
    EXPECT_TRUE(*tenant.Get("theirs", "large") == RandomContent(11, 600'000) + RandomContent(12, 600'000));
    EXPECT_TRUE(hand.Put("bucket", "new", RandomContent(9, 100'000)).ok());
    EXPECT_NE(copy->engine().id(), store_->engine().id());
    hand.Drain();
  }

  std::unique_ptr<StoreDirectory> store_;
  store::UploadName upload_;
};

TEST_F(EveryKindTest, ABackupHasEverything) {
  const auto copied = Backup(*store_, "backup");
  ASSERT_TRUE(copied.ok()) << copied.status().ToString();
  EXPECT_GT(*copied, 5'000'000U);
  EXPECT_EQ(fs::file_size(At("backup/data0")), 256 * base::kMiB);
  EXPECT_LT(RoomOf(At("backup/data0")), 32 * base::kMiB) << "it takes room for what it holds";
  ExpectEverything("backup");
  ExpectClean("backup");
}

TEST_F(EveryKindTest, SoHasACopyOfTheBackup) {
  ASSERT_TRUE(Backup(*store_, "backup").ok());
  const auto copied = StoreDirectory::Copy(At("backup"), At("restored"), environment(), {.sparse = false});
  ASSERT_TRUE(copied.ok()) << copied.status().ToString();
  EXPECT_GE(RoomOf(At("restored/data0")), 256 * base::kMiB) << "a store to be served has its room";
  ExpectEverything("restored");
  ExpectClean("restored");
  ExpectClean("backup");
}

/// Writers in order, so that what a backup holds shows its moment.
class MomentTest : public BackupTest {
 protected:
  static constexpr int kRenamed = 20;

  /// Content that says what it should be.
  static std::string Numbered(uint64_t number, size_t size) {
    std::string content = fmt::format("{:020}", number);
    return content + RandomContent(number, size);
  }
  static uint64_t NumberOf(const std::string& content) { return std::stoull(content.substr(0, 20)); }

  /// Until `stop`: A, then B, have the same number; a prefix has one of two names; other objects come and go,
  /// so that space is free and used again all the time.
  static void Write(Engine& engine, const std::atomic<bool>& stop, std::atomic<uint64_t>& rounds) {
    const std::unique_ptr<rt::Reactor> reactor = *rt::Reactor::Create();
    Hand hand(engine, *reactor);
    // Space that the backup holds back may be missing for a while.
    const auto repeat = [&](auto change) {
      while (!stop) {
        const Status status = change();
        if (status.code() != Code::kResourceExhausted) {
          EXPECT_TRUE(status.ok()) << status.ToString();
          return;
        }
        std::this_thread::yield();
      }
    };
    for (uint64_t n = 1; !stop; ++n) {
      repeat([&] { return hand.Put("bucket", "A", Numbered(n, 1000)); });
      repeat([&] { return hand.Put("bucket", "B", Numbered(n, 100'000)); });
      const bool even = n % 2 == 0;
      repeat([&] {
        return hand.RenamePrefix("bucket", even ? "left/" : "right/", even ? "right/" : "left/").status();
      });
      repeat([&] {
        return hand.Put("bucket", fmt::format("churn/{}", n % 7), Numbered(n, 300'000 + n % 5 * 200'000));
      });
      repeat([&] { return hand.Overwrite("bucket", "field", n % 50 * 8192, RandomContent(n, 8192)); });
      if (n % 3 == 0)
        repeat([&] {
          const Status gone = hand.Delete("bucket", fmt::format("churn/{}", n % 5));
          return gone.code() == Code::kNotFound ? Status() : gone;
        });
      rounds = n;
    }
    hand.Drain();
  }

  void ExpectOneMoment(const std::string& name) {
    ExpectClean(name);
    std::unique_ptr<StoreDirectory> copy = Open(name);
    ASSERT_NE(copy, nullptr);
    {
      Hand hand(copy->engine(), *reactor_);
      const uint64_t a = NumberOf(*hand.Get("bucket", "A"));
      const uint64_t b = NumberOf(*hand.Get("bucket", "B"));
      EXPECT_TRUE(a == b || a == b + 1) << a << " and " << b;
      const size_t left = hand.Keys("bucket", "left/").size();
      const size_t right = hand.Keys("bucket", "right/").size();
      EXPECT_TRUE((left == kRenamed && right == 0) || (left == 0 && right == kRenamed))
          << left << " and " << right;
      for (const std::string& key : hand.Keys("bucket", "churn/")) {
        const std::string content = *hand.Get("bucket", key);
        EXPECT_TRUE(content == Numbered(NumberOf(content), content.size() - 20)) << key;
      }
    }
    Close(std::move(copy));
  }
};

TEST_F(MomentTest, ABackupDuringWritesIsOfOneMoment) {
  const std::unique_ptr<StoreDirectory> store = Create({.size_bytes = 64 * base::kMiB});
  Hand hand(store->engine(), *reactor_);
  for (int i = 0; i < kRenamed; ++i)
    ASSERT_TRUE(hand.Put("bucket", fmt::format("right/{:02}", i), Numbered(i, 200'000)).ok());
  for (const char* key : {"A", "B"}) ASSERT_TRUE(hand.Put("bucket", key, Numbered(0, 1000)).ok());
  ASSERT_TRUE(hand.Put("bucket", "field", RandomContent(1, 409'600)).ok());
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> rounds{0};
  std::thread writer([&] { Write(store->engine(), stop, rounds); });
  while (rounds < 5) std::this_thread::yield();
  for (const char* name : {"backup1", "backup2"}) {
    const uint64_t before = rounds;
    // Slow enough that all that the backup needs is replaced meanwhile.
    const auto copied = Backup(*store, name, {.bytes_per_second = 16 * base::kMiB});
    EXPECT_TRUE(copied.ok()) << copied.status().ToString();
    EXPECT_GT(rounds, before) << "writers go on";
  }
  stop = true;
  writer.join();
  EXPECT_EQ(store->engine().stats().waiting_for_readers, 0U) << "what was held back is free again";
  reactor_->BlockOn(store->engine().Drain(*reactor_));
  ExpectOneMoment("backup1");
  ExpectOneMoment("backup2");
}

TEST_F(BackupTest, ADamagedBlockIsNamedAndNothingIsLeft) {
  std::unique_ptr<StoreDirectory> store = Create();
  Hand hand(store->engine(), *reactor_);
  ASSERT_TRUE(hand.Put("bucket", "before", RandomContent(1, 100'000)).ok());
  const std::string content = RandomContent(2, 300'000);
  ASSERT_TRUE(hand.Put("bucket", "object", content).ok());
  const std::string data = meta::ReadFile(At("store/data0"));
  Flip(At("store/data0"), data.find(content.substr(0, 64)) + 140'000);

  const auto refused = Backup(*store, "backup");
  ASSERT_EQ(refused.status().code(), Code::kDataLoss) << refused.status().ToString();
  for (const std::string part : {"object `bucket/object`", "at offset 131072", "data0"})
    EXPECT_NE(refused.status().message().find(part), std::string::npos) << refused.status().ToString();
  EXPECT_FALSE(fs::exists(At("backup")));
  EXPECT_TRUE(hand.Delete("bucket", "object").ok());
  EXPECT_TRUE(Backup(*store, "backup").ok()) << "without it";
  ExpectClean("backup");
  Close(std::move(store));
}

TEST_F(BackupTest, AStoreThatIsNotCleanIsNotCopied) {
  Close(Create());
  fs::create_directories(At("empty"));
  const auto nothing = StoreDirectory::Copy(At("empty"), At("copy"), environment(), {});
  EXPECT_EQ(nothing.status().code(), Code::kNotFound);
  Flip(At("store/data0"), kSuperblockOffset + 20);
  Flip(At("store/data0"), kSuperblockCopyOffset + 20);
  const auto refused = StoreDirectory::Copy(At("store"), At("copy"), environment(), {});
  EXPECT_EQ(refused.status().code(), Code::kDataLoss) << refused.status().ToString();
  EXPECT_FALSE(fs::exists(At("copy")));
}

TEST_F(BackupTest, WhatIsThereIsNotTouched) {
  std::unique_ptr<StoreDirectory> store = Create();
  fs::create_directories(At("taken"));
  std::ofstream(At("taken/thesis.tex")) << "years of work";
  std::ofstream(At("file")) << "not a directory";
  for (const char* name : {"taken", "file", "store"})
    EXPECT_EQ(Backup(*store, name).status().code(), Code::kAlreadyExists) << name;
  EXPECT_EQ(meta::ReadFile(At("taken/thesis.tex")), "years of work");
  EXPECT_FALSE(fs::exists(At("taken/lock")));
  EXPECT_EQ(Backup(*store, "no/such").status().code(), Code::kNotFound);
  fs::create_directories(At("mounted/lost+found"));  // as on a fresh file system
  EXPECT_TRUE(Backup(*store, "mounted").ok());
  EXPECT_EQ(Backup(*store, "mounted").status().code(), Code::kAlreadyExists);
  ExpectClean("mounted");
  Close(std::move(store));
}

TEST_F(BackupTest, OneThatWasInterruptedIsNoStore) {
  std::unique_ptr<StoreDirectory> store = Create();
  ASSERT_TRUE(Backup(*store, "backup").ok());
  fs::rename(At("backup/store.toml"), At("backup/store.toml.partial"));
  const auto opened = StoreDirectory::Open(At("backup"), environment(), {});
  EXPECT_EQ(opened.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(opened.status().message().find("was interrupted"), std::string::npos)
      << opened.status().ToString();
  EXPECT_EQ(StoreDirectory::Check(At("backup"), {}, environment()).status().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(StoreDirectory::Create(At("backup"), {.size_bytes = 32 * base::kMiB}, environment(), {})
                .status()
                .code(),
            Code::kFailedPrecondition)
      << "a server does not start over in it";
  EXPECT_EQ(Backup(*store, "backup").status().code(), Code::kAlreadyExists);
  EXPECT_TRUE(fs::exists(At("backup/data0")));
  Close(std::move(store));
}

TEST_F(BackupTest, WhoeverWatchesMayEndIt) {
  std::unique_ptr<StoreDirectory> store = Create();
  Hand hand(store->engine(), *reactor_);
  ASSERT_TRUE(hand.Put("bucket", "object", RandomContent(1, 10'000'000)).ok());
  std::vector<CopyProgress> seen;
  const auto stopped = Backup(*store, "backup", {.watch = [&](const CopyProgress& progress) {
    seen.push_back(progress);
    EXPECT_FALSE(fs::exists(At("backup/store.toml"))) << "not before the end";
    return progress.copied_bytes == 0 ? Status() : Status::Cancelled("enough");
  }});
  EXPECT_EQ(stopped.status().code(), Code::kCancelled) << stopped.status().ToString();
  EXPECT_EQ(seen.front().total_bytes, 0U);
  EXPECT_EQ(seen.back().total_bytes, 10'000'000U);
  EXPECT_LT(seen.back().copied_bytes, 10'000'000U);
  EXPECT_FALSE(fs::exists(At("backup")));
  EXPECT_EQ(store->engine().stats().waiting_for_readers, 0U);
  Close(std::move(store));
}

TEST_F(BackupTest, TheRateIsHeld) {
  std::unique_ptr<StoreDirectory> store = Create();
  Hand hand(store->engine(), *reactor_);
  ASSERT_TRUE(hand.Put("bucket", "object", RandomContent(1, 8 * base::kMiB)).ok());
  const base::TimePoint begin = clock_.Now();
  ASSERT_TRUE(Backup(*store, "backup", {.bytes_per_second = 32 * base::kMiB}).ok());
  EXPECT_GE(clock_.Now() - begin, std::chrono::milliseconds(250));
  Close(std::move(store));
}

TEST_F(BackupTest, SeveralDevicesKeepTheirOrder) {
  std::unique_ptr<StoreDirectory> store =
      Create({.size_bytes = 64 * base::kMiB, .devices = {At("one"), At("two"), At("three")}});
  Hand hand(store->engine(), *reactor_);
  for (uint64_t i = 0; i < 9; ++i)
    ASSERT_TRUE(hand.Put("bucket", fmt::format("{}", i), RandomContent(i, 3'000'000)).ok());
  ASSERT_TRUE(Backup(*store, "backup").ok());
  Close(std::move(store));
  ExpectClean("backup");
  std::unique_ptr<StoreDirectory> copy = Open("backup");
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->config().devices,
            (std::vector<DeviceConfig>{{.path = "data0"}, {.path = "data1"}, {.path = "data2"}}));
  Hand there(copy->engine(), *reactor_);
  for (uint64_t i = 0; i < 9; ++i)
    EXPECT_TRUE(*there.Get("bucket", fmt::format("{}", i)) == RandomContent(i, 3'000'000));
  Close(std::move(copy));
}

TEST_F(BackupTest, PartsOfABackupAndOfItsOriginalAreNotMixed) {
  std::unique_ptr<StoreDirectory> store = Create();
  ASSERT_TRUE(Backup(*store, "backup").ok());
  Close(std::move(store));
  fs::rename(At("store/meta"), At("meta"));
  fs::rename(At("backup/meta"), At("store/meta"));
  EXPECT_EQ(StoreDirectory::Open(At("store"), environment(), {}).status().code(), Code::kFailedPrecondition);
}

/// A small file system that the backup goes to.
class FullTest : public BackupTest {
 protected:
  void SetUp() override {
    small_ = At("small");
    fs::create_directories(small_);
    mounted_ = ::mount("tmpfs", small_.c_str(), "tmpfs", 0, "size=260m") == 0;
    if (!mounted_) GTEST_SKIP() << "a small file system cannot be mounted here: needs root";
    store_ = Create();
    Hand hand(store_->engine(), *reactor_);
    for (uint64_t i = 0; i < 10; ++i)
      ASSERT_TRUE(hand.Put("bucket", fmt::format("{}", i), RandomContent(i, 10'000'000)).ok());
  }
  void TearDown() override {
    if (store_ != nullptr) {
      EXPECT_TRUE(Hand(store_->engine(), *reactor_).Put("bucket", "more", "the store goes on").ok());
      Close(std::move(store_));
    }
    if (mounted_) EXPECT_EQ(::umount(small_.c_str()), 0);
  }
  /// Somebody else's file.
  void Fill(uint64_t bytes) const {
    const int fd = ::open((small_ + "/filler").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(::posix_fallocate(fd, 0, static_cast<off_t>(bytes)), 0);
    ::close(fd);
  }
  void ExpectNothingLeft() const { EXPECT_FALSE(fs::exists(small_ + "/backup")); }

  std::string small_;
  bool mounted_ = false;
  std::unique_ptr<StoreDirectory> store_;
};

TEST_F(FullTest, WhatDoesNotFitIsNotBegun) {
  Fill(60 * base::kMiB);
  const auto full = Backup(*store_, "small/backup");
  EXPECT_EQ(full.status().code(), Code::kResourceExhausted) << full.status().ToString();
  ExpectNothingLeft();
}

TEST_F(FullTest, AFileSystemThatRunsFullEndsIt) {
  const auto full = Backup(*store_, "small/backup", {.watch = [&](const CopyProgress& progress) {
    if (progress.copied_bytes != 0) Fill(100 * base::kMiB);
    return Status();
  }});
  EXPECT_EQ(full.status().code(), Code::kResourceExhausted) << full.status().ToString();
  ExpectNothingLeft();
}

TEST_F(FullTest, SoDoesOneThatIsFullAtOnce) {
  const auto full = Backup(*store_, "small/backup", {.watch = [&](const CopyProgress& progress) {
    if (progress.copied_bytes != 0) Fill(245 * base::kMiB);
    return Status();
  }});
  EXPECT_EQ(full.status().code(), Code::kResourceExhausted) << full.status().ToString();
  ExpectNothingLeft();
}

TEST_F(FullTest, WithRoomItIsMade) {
  EXPECT_TRUE(Backup(*store_, "small/backup").ok());
  ExpectClean("small/backup");
}

}  // namespace
}  // namespace forebay::engine
