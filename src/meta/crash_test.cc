// SPDX-License-Identifier: Apache-2.0
// CrashFileSystem by itself, and power cuts at random operations below a RocksMetaStore, recoveries included.
// FOREBAY_SEED chooses the first seed, FOREBAY_ROUNDS the number of them.
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "base/mutex.h"
#include "meta/crash_file_system.h"
#include "meta/rocks_meta_store.h"
#include "meta/temporary_directory.h"
#include "meta/test_transactions.h"
#include "rt/reactor.h"
#include "rt/when_all.h"

namespace forebay::meta {
namespace {

namespace fs = std::filesystem;

fs::path Scratch() {
  return FastScratch() / fmt::format("forebay-crash-{}", ::getpid());
}

std::string ContentOrNone(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return in ? std::move(out).str() : "(none)";
}

class CrashFileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(Scratch());
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(Scratch()); }

  std::unique_ptr<rocksdb::FSWritableFile> Create(const std::string& name) {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    EXPECT_TRUE(system()->NewWritableFile(Path(name), {}, &file, nullptr).ok());
    return file;
  }
  void Append(rocksdb::FSWritableFile& file, const std::string& text) {
    EXPECT_TRUE(file.Append(text, {}, nullptr).ok());
  }
  void Sync(rocksdb::FSWritableFile& file) { EXPECT_TRUE(file.Sync({}, nullptr).ok()); }
  void SyncDirectory() {
    std::unique_ptr<rocksdb::FSDirectory> directory;
    ASSERT_TRUE(system()->NewDirectory(directory_.string(), {}, &directory, nullptr).ok());
    ASSERT_TRUE(directory->Fsync({}, nullptr).ok());
  }
  /// A file whose content and name are durable.
  void Durable(const std::string& name, const std::string& text) {
    const auto file = Create(name);
    Append(*file, text);
    Sync(*file);
    SyncDirectory();
  }
  void Rename(const std::string& from, const std::string& to) {
    ASSERT_TRUE(system()->RenameFile(Path(from), Path(to), {}, nullptr).ok());
  }
  void Delete(const std::string& name) { ASSERT_TRUE(system()->DeleteFile(Path(name), {}, nullptr).ok()); }
  void Crash(FileCrashMode mode) { ASSERT_TRUE(crash_->Crash(random_, mode).ok()); }
  std::string Path(const std::string& name) const { return (directory_ / name).string(); }
  std::string Content(const std::string& name) const { return ContentOrNone(directory_ / name); }
  rocksdb::FileSystem* system() { return crash_->file_system().get(); }

  const fs::path directory_ = Scratch() / "dir";
  std::unique_ptr<CrashFileSystem> crash_ = std::make_unique<CrashFileSystem>(directory_.string());
  base::SeededRandom random_{3};
};

TEST_F(CrashFileSystemTest, SyncedBytesStayAndOthersGo) {
  {
    const auto file = Create("f");
    SyncDirectory();
    Append(*file, "synced ");
    Sync(*file);
    Append(*file, "not synced");
  }
  EXPECT_EQ(Content("f"), "synced not synced");
  Crash(FileCrashMode::kDropAll);
  EXPECT_EQ(Content("f"), "synced ");
}

TEST_F(CrashFileSystemTest, AFileIsFoundOnlyAfterItsDirectoryWasSynced) {
  {
    const auto file = Create("f");
    Append(*file, "text");
    Sync(*file);
  }
  Crash(FileCrashMode::kDropAll);
  EXPECT_EQ(Content("f"), "(none)");
}

TEST_F(CrashFileSystemTest, KeepAllKeepsAll) {
  Durable("old", "1");
  {
    const auto file = Create("f");
    Append(*file, "text");
  }
  Delete("old");
  Crash(FileCrashMode::kKeepAll);
  EXPECT_EQ(Content("f"), "text");
  EXPECT_EQ(Content("old"), "(none)");
}

TEST_F(CrashFileSystemTest, ARenameAndWhatItReplacedComeBack) {
  Durable("current", "old");
  Durable("temporary", "new");
  Rename("temporary", "current");
  EXPECT_EQ(Content("current"), "new");
  Crash(FileCrashMode::kDropAll);
  EXPECT_EQ(Content("current"), "old");
  EXPECT_EQ(Content("temporary"), "new");
}

TEST_F(CrashFileSystemTest, ASyncedRenameStays) {
  Durable("current", "old");
  Durable("temporary", "new");
  Rename("temporary", "current");
  SyncDirectory();
  Crash(FileCrashMode::kDropAll);
  EXPECT_EQ(Content("current"), "new");
  EXPECT_EQ(Content("temporary"), "(none)");
}

TEST_F(CrashFileSystemTest, ADeletedFileComesBackWithWhatWasSynced) {
  {
    const auto file = Create("f");
    SyncDirectory();
    Append(*file, "synced");
    Sync(*file);
    Append(*file, "more");
  }
  Delete("f");
  EXPECT_EQ(Content("f"), "(none)");
  Crash(FileCrashMode::kDropAll);
  EXPECT_EQ(Content("f"), "synced");
}

TEST_F(CrashFileSystemTest, AnEmptiedFileComesBack) {
  Durable("f", "old");
  {
    const auto file = Create("f");
    Append(*file, "new");
    Sync(*file);
  }
  Crash(FileCrashMode::kDropAll);
  EXPECT_EQ(Content("f"), "old");
}

TEST_F(CrashFileSystemTest, ChangesOfNamesSurviveAsABeginning) {
  std::map<std::string, int> seen;
  for (int round = 0; round < 60; ++round) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    crash_ = std::make_unique<CrashFileSystem>(directory_.string());
    Durable("a", "x");
    Rename("a", "b");
    Rename("b", "c");
    Delete("c");
    Crash(FileCrashMode::kRandom);
    std::string names;
    for (const auto& entry : fs::directory_iterator(directory_)) names += entry.path().filename().string();
    ++seen[names];
  }
  EXPECT_EQ(seen.size(), 4U);  // a, b, c or nothing
  EXPECT_EQ(seen.count("a") + seen.count("b") + seen.count("c") + seen.count(""), 4U);
}

TEST_F(CrashFileSystemTest, ATornTailIsABeginningOrHasZeros) {
  const std::string tail(4000, 't');
  bool zeros = false, shorter = false;
  for (int round = 0; round < 40; ++round) {
    crash_ = std::make_unique<CrashFileSystem>(directory_.string());
    {
      const auto file = Create("f");
      SyncDirectory();
      Append(*file, "head");
      Sync(*file);
      Append(*file, tail);
    }
    Crash(FileCrashMode::kRandom);
    const std::string found = Content("f");
    ASSERT_EQ(found.substr(0, 4), "head");
    ASSERT_EQ(found.find_first_not_of(std::string("t\0", 2), 4), std::string::npos);
    zeros |= found.find('\0') != std::string::npos;
    shorter |= found.size() < 4 + tail.size();
  }
  EXPECT_TRUE(zeros && shorter);
}

TEST_F(CrashFileSystemTest, WithoutPowerNothingChanges) {
  Durable("f", "text");
  const auto file = Create("g");
  crash_->CutPower();
  EXPECT_FALSE(file->Append("more", {}, nullptr).ok());
  EXPECT_FALSE(file->Sync({}, nullptr).ok());
  EXPECT_FALSE(system()->DeleteFile(Path("f"), {}, nullptr).ok());
  EXPECT_FALSE(system()->RenameFile(Path("f"), Path("h"), {}, nullptr).ok());
  std::unique_ptr<rocksdb::FSWritableFile> another;
  EXPECT_FALSE(system()->NewWritableFile(Path("i"), {}, &another, nullptr).ok());
}

// ---- power cuts below a store ----

/// The data device as far as the metadata is concerned: it keeps the witness of the last flush.
class WitnessHooks final : public GroupHooks {
 public:
  Status FinishGroup(View&, Batch&, bool*) override { return {}; }
  Status FlushData(uint64_t witness, bool) override {
    witness_ = witness;
    return {};
  }
  uint64_t witness() const { return witness_.load(); }

 private:
  std::atomic<uint64_t> witness_{0};
};

class PowerCut {
 public:
  PowerCut(uint64_t seed, bool syncs_lie)
      : random_(seed), syncs_lie_(syncs_lie), directory_(Scratch().string() + fmt::format("-{}", seed)) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~PowerCut() { fs::remove_all(directory_); }

  /// Some lives of a store, each ended by a power cut; what is wrong, if anything.
  Status Run() {
    const int lives = 3 + static_cast<int>(random_.Below(3));
    for (int life = 0; life < lives; ++life) {
      FB_TRY(Live(life));
    }
    return Check();
  }

 private:
  RocksMetaOptions Options(bool create, std::shared_ptr<rocksdb::FileSystem> file_system) const {
    // Small memory, so that tables are written and merged all the time.
    return {.path = Path(), .create = create, .witness = hooks_.witness(), .cache_bytes = base::kMiB,
            .write_buffer_bytes = 512 * base::kKiB, .committer = {.settle = std::chrono::milliseconds(1)},
            .file_system = std::move(file_system)};
  }

  Status Live(int life) {
    // Most cuts hit the work, some the opening.
    std::atomic<int64_t> left{static_cast<int64_t>(random_.Below(random_.Below(3) == 0 ? 60 : 600))};
    CrashFileSystem crash(Path(), {.use = [&] { return left.fetch_sub(1) > 0; }, .syncs_lie = syncs_lie_});
    const auto reactor = *rt::Reactor::Create();  // outlives the store
    auto store = RocksMetaStore::Open(Options(!made_, crash.file_system()), &hooks_);
    if (store.ok()) {
      made_ = true;
      Work(**store, *reactor, life);
    } else if (left.load() > 0) {
      return store.status();  // not for want of power
    }
    if (store.ok()) store->reset();
    return crash.Crash(random_, static_cast<FileCrashMode>(random_.Below(3)));
  }

  /// Three clients commit until the power is gone.
  void Work(RocksMetaStore& store, rt::Reactor& reactor, int life) {
    const auto client = [&](uint64_t number) -> rt::Task<void> {
      for (uint64_t i = 0; i < 400; ++i) {
        const std::string key = fmt::format("{:02}-{:03}", number, (i * 7 + number) % 150);
        const std::string value = fmt::format("{} {} {} ", life, number, i) + std::string(random_.Below(3000), 'v');
        const Status status = co_await store.Commit(reactor, Do([&](View&, Batch& batch) {
          batch.Put(Family::kObjects, key + "VERSION1", value);
          batch.Put(Family::kInline, key, value);
          return Status();
        }));
        if (!status.ok()) {
          maybe_[key].insert(value);
          co_return;
        }
        expected_[key] = value;
        maybe_.erase(key);
      }
    };
    std::vector<rt::Task<void>> clients;
    for (uint64_t i = 0; i < 3; ++i) clients.push_back(client(i));
    reactor.BlockOn(rt::WhenAll(std::move(clients)));
  }

  Status Check() {
    WitnessHooks none;
    FB_ASSIGN(const auto store, RocksMetaStore::Open(Options(!made_, nullptr), &none));
    std::set<std::string> keys;
    for (const auto& [key, value] : expected_) keys.insert(key);
    for (const auto& [key, values] : maybe_) keys.insert(key);
    for (const std::string& key : keys) {
      FB_ASSIGN(const std::optional<std::string> object, store->Get(Family::kObjects, key + "VERSION1"));
      FB_ASSIGN(const std::optional<std::string> inlined, store->Get(Family::kInline, key));
      if (object != inlined) return Status::DataLoss("{}: half of a transaction", key);
      const auto acknowledged = expected_.find(key);
      const bool right = acknowledged == expected_.end() ? !object : object == acknowledged->second;
      const auto maybe = maybe_.find(key);
      const bool possible = object && maybe != maybe_.end() && maybe->second.contains(*object);
      if (!right && !possible) return Status::DataLoss("{}: acknowledged, but not there", key);
    }
    return {};
  }
  std::string Path() const { return (directory_ / "meta").string(); }

  base::SeededRandom random_;
  const bool syncs_lie_;
  const fs::path directory_;
  WitnessHooks hooks_;
  std::map<std::string, std::string> expected_;  // the last acknowledged value
  // Values of later attempts that got an error: each may be there, wholly.
  std::map<std::string, std::set<std::string>> maybe_;
  bool made_ = false;
};

/// One client whose commits a power cut may take back, most of them: what is left is the beginning of what was done, at
/// least up to the last of the others.
class HistoryCut {
 public:
  explicit HistoryCut(uint64_t seed) : random_(seed), directory_(Scratch().string() + fmt::format("-history-{}", seed)) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~HistoryCut() { fs::remove_all(directory_); }

  Status Run() {
    const int lives = 3 + static_cast<int>(random_.Below(3));
    for (int life = 0; life < lives; ++life) {
      std::atomic<int64_t> left{static_cast<int64_t>(random_.Below(random_.Below(3) == 0 ? 60 : 600))};
      CrashFileSystem crash(Path(), {.use = [&] { return left.fetch_sub(1) > 0; }});
      FB_TRY(Live(crash.file_system(), left));
      FB_TRY(crash.Crash(random_, static_cast<FileCrashMode>(random_.Below(3))));
    }
    WitnessHooks hooks;
    FB_ASSIGN(const auto store, RocksMetaStore::Open(Options(nullptr), &hooks));
    return Check(*store);
  }

 private:
  RocksMetaOptions Options(std::shared_ptr<rocksdb::FileSystem> file_system) const {
    return {.path = (directory_ / "meta").string(), .create = !made_, .witness = hooks_.witness(), .cache_bytes = base::kMiB,
            .write_buffer_bytes = 512 * base::kKiB, .committer = {.settle = std::chrono::milliseconds(1)},
            .file_system = std::move(file_system)};
  }
  std::string Path() const { return (directory_ / "meta").string(); }

  Status Live(std::shared_ptr<rocksdb::FileSystem> file_system, const std::atomic<int64_t>& left) {
    const auto reactor = *rt::Reactor::Create();  // outlives the store
    auto store = RocksMetaStore::Open(Options(std::move(file_system)), &hooks_);
    if (!store.ok()) return left.load() > 0 ? store.status() : Status();  // or for want of power
    made_ = true;
    if (left.load() <= 0) return {};
    FB_TRY(Check(**store));
    for (bool on = true; on;) {
      const std::string key = fmt::format("{:03}VERSION1", random_.Below(100));
      const std::string value(1 + random_.Below(random_.Below(10) == 0 ? 100'000 : 1500), 'a' + static_cast<char>(random_.Below(26)));
      const bool durable = random_.Below(20) == 0;
      history_.emplace_back(key, value);
      on = reactor->BlockOn((*store)->Commit(*reactor, Do([&](View&, Batch& batch) {
        batch.Put(Family::kObjects, key, value);
        batch.Put(Family::kSystem, "count", std::to_string(history_.size()));
        return Status();
      }, {.durable = durable}))).ok();
      if (on && durable) kept_ = history_.size();
    }
    return {};
  }

  /// Whether the store is as after some of the commits; the others never were.
  Status Check(RocksMetaStore& store) {
    FB_ASSIGN(const std::optional<std::string> row, store.Get(Family::kSystem, "count"));
    const size_t count = row ? std::stoul(*row) : 0;
    if (count < kept_ || count > history_.size())
      return Status::DataLoss("{} commits are there of {}, of which {} were durable", count, history_.size(), kept_);
    history_.resize(count);
    kept_ = count;  // an opened store has what it found for good
    std::map<std::string, std::string> expected;
    for (const auto& [key, value] : history_) expected[key] = value;
    for (const auto& [key, value] : expected) {
      FB_ASSIGN(const std::optional<std::string> found, store.Get(Family::kObjects, key));
      if (found != value) return Status::DataLoss("{} is not as it was after commit {}", key, count);
    }
    return {};
  }

  base::SeededRandom random_;
  const fs::path directory_;
  WitnessHooks hooks_;
  std::vector<std::pair<std::string, std::string>> history_;  // key and value of each commit
  size_t kept_ = 0;  // of them, at least
  bool made_ = false;
};

uint64_t FirstSeed() {
  const char* seed = std::getenv("FOREBAY_SEED");
  return seed != nullptr ? std::strtoull(seed, nullptr, 10) : base::SecureRandom().Below(1'000'000);
}
int Rounds(int otherwise) {
  const char* rounds = std::getenv("FOREBAY_ROUNDS");
  return rounds != nullptr ? std::atoi(rounds) : otherwise;
}

/// What is wrong, by seed. In parallel, because RocksDB's background threads, which all stores of a process share, wait a
/// second after an error.
template <typename Run>
std::map<uint64_t, Status> Cut(uint64_t first, int rounds, Run run) {
  rocksdb::Env::Default()->SetBackgroundThreads(32, rocksdb::Env::HIGH);
  rocksdb::Env::Default()->SetBackgroundThreads(32, rocksdb::Env::LOW);
  std::atomic<uint64_t> next{first};
  base::Mutex mutex;
  std::map<uint64_t, Status> wrong;
  std::vector<std::thread> threads;
  for (int i = 0; i < std::min(rounds, 10); ++i) {
    threads.emplace_back([&] {
      for (uint64_t seed = next++; seed < first + static_cast<uint64_t>(rounds); seed = next++) {
        const Status status = run(seed);
        base::MutexLock lock(mutex);
        if (!status.ok()) wrong[seed] = status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

TEST(PowerCutTest, EveryAcknowledgedCommitIsThereAndNoneByHalf) {
  const auto run = [](uint64_t seed) { return PowerCut(seed, /*syncs_lie=*/false).Run(); };
  for (const auto& [seed, status] : Cut(FirstSeed(), Rounds(30), run))
    ADD_FAILURE() << "FOREBAY_SEED=" << seed << " FOREBAY_ROUNDS=1: " << status.ToString();
}

TEST(PowerCutTest, OfCommitsThatMayBeLostABeginningStays) {
  const auto run = [](uint64_t seed) { return HistoryCut(seed).Run(); };
  for (const auto& [seed, status] : Cut(FirstSeed(), Rounds(30), run))
    ADD_FAILURE() << "FOREBAY_SEED=" << seed << " FOREBAY_ROUNDS=1: " << status.ToString();
}

TEST(PowerCutTest, WithoutSyncsTheSameTestFails) {
  EXPECT_FALSE(Cut(1, 5, [](uint64_t seed) { return PowerCut(seed, /*syncs_lie=*/true).Run(); }).empty());
}

}  // namespace
}  // namespace forebay::meta
