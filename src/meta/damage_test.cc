// SPDX-License-Identifier: Apache-2.0
// Flips bits, and zeroes or removes pieces, in everything RocksDB wrote, one damage at a time, and opens the store with a
// current witness. Allowed: it refuses to open, or a read fails, with an error that is DataLoss; or nothing is lost.
// Never: a key is missing without an error, or has another value.
// FOREBAY_SEED chooses the sample, FOREBAY_EXHAUSTIVE=1 takes every bit of every byte (an hour).
#include <gtest/gtest.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/codec.h"
#include "base/random.h"
#include "meta/rocks_meta_store.h"
#include "meta/rocks_options.h"
#include "meta/temporary_directory.h"
#include "meta/test_transactions.h"
#include "rt/reactor.h"

namespace forebay::meta {
namespace {

namespace fs = std::filesystem;

using Content = std::map<std::pair<size_t, std::string>, std::string>;

/// A store with tables on two levels of age and two live logs, as a kill leaves it, and what is in it.
class Original {
 public:
  Original() {
    fs::remove_all(path());
    fs::create_directory(path());
    WriteTables();
    WriteLogs();
  }
  ~Original() { fs::remove_all(path()); }
  static fs::path path() { return FastScratch() / fmt::format("forebay-damage-{}", ::getpid()); }
  static fs::path store() { return path() / "original"; }
  static fs::path copy() { return path() / "copy"; }

  const Content& content() const { return content_; }
  uint64_t last_commit() const { return last_commit_; }

  std::vector<fs::path> Files(std::string_view part) const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(store())) {
      const std::string name = entry.path().filename().string();
      const bool note = name.ends_with(".durable") && part != ".durable";  // beside a MANIFEST
      if (name.find(part) != std::string::npos && !note && entry.file_size() > 0) files.push_back(name);
    }
    std::sort(files.begin(), files.end());
    return files;
  }

 private:
  void Add(Batch& batch, size_t family, const std::string& key, const std::string& value) {
    batch.Put(static_cast<Family>(family), key, value);
    content_[{family, key}] = value;
  }
  std::string Key(int i) const { return fmt::format("bucket/key-{:03}VERSION{}", i, i % 2); }

  void WriteTables() {
    const auto reactor = *rt::Reactor::Create();
    for (int life = 0; life < 3; ++life) {  // each opening moves the log into tables
      const auto store = *RocksMetaStore::Open({.path = store_path(), .create = life == 0}, nullptr);
      for (int i = 0; i < 12 && life < 2; ++i) {
        const Status status = reactor->BlockOn(store->Commit(*reactor, Do([&](View&, Batch& batch) {
          const int n = life * 12 + i;
          Add(batch, 1 + static_cast<size_t>(n) % 6, Key(n), fmt::format("value {} {}", n, std::string(50, 'v')));
          Add(batch, static_cast<size_t>(Family::kObjects), Key(n), fmt::format("object {}", n));
          return Status();
        })));
        FB_CHECK(status.ok());
      }
      last_commit_ = store->last_commit();
    }
  }

  /// With the means of RocksDB, since a store never keeps two logs for long.
  void WriteLogs() {
    RocksSetup setup = MakeSetup({.path = store_path()});
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors{{rocksdb::kDefaultColumnFamilyName, setup.unused}};
    for (size_t i = 0; i < kFamilies; ++i) descriptors.emplace_back(kFamilyNames[i], setup.families[i]);
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    const fs::path live = path() / "live";
    fs::rename(store(), live);
    FB_CHECK(rocksdb::DB::Open(setup.db, live.string(), descriptors, &handles, &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    FB_CHECK(db->PauseBackgroundWork().ok());
    for (int i = 100; i < 124; ++i) {
      rocksdb::WriteBatch batch;
      const std::string value = fmt::format("logged {}", i);
      for (const size_t family : {size_t{2}, 1 + static_cast<size_t>(i) % 6}) {
        FB_CHECK(batch.Put(handles[1 + family], Key(i), value).ok());
        content_[{family, Key(i)}] = value;
      }
      std::string number;
      base::Encoder(&number).U64(++last_commit_);
      FB_CHECK(batch.Put(handles[1], std::string(kCommitKey), number).ok());
      rocksdb::WriteOptions sync;
      sync.sync = true;
      FB_CHECK(db->Write(sync, &batch).ok());
      rocksdb::FlushOptions flush;
      flush.wait = false;
      flush.allow_write_stall = true;
      if (i == 111) FB_CHECK(db->Flush(flush, handles).ok());  // begins a new log; the tables are held up
    }
    fs::copy(live, store());  // as a kill leaves it
    FB_CHECK(db->ContinueBackgroundWork().ok());
    for (auto* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
    FB_CHECK(db->Close().ok());
    fs::remove_all(live);
  }
  std::string store_path() const { return store().string(); }

  Content content_;
  uint64_t last_commit_ = 0;
};

class DamageTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { original_ = new Original; }
  static void TearDownTestSuite() {
    delete original_;
    original_ = nullptr;
  }

  void SetUp() override {
    const char* seed = std::getenv("FOREBAY_SEED");
    const uint64_t number = seed != nullptr ? std::strtoull(seed, nullptr, 10) : base::SecureRandom().Below(1'000'000);
    std::printf("FOREBAY_SEED=%llu\n", static_cast<unsigned long long>(number));
    random_.emplace(number);
    exhaustive_ = std::getenv("FOREBAY_EXHAUSTIVE") != nullptr;
    witness_ = original_->last_commit();
  }

  /// Damages one file of a copy of the original, opens it and looks at everything. Tells what came of it.
  void Try(const fs::path& file, const std::string& damaged, const std::string& what) {
    fs::remove_all(Original::copy());
    fs::create_directory(Original::copy());
    for (const auto& entry : fs::directory_iterator(Original::store()))
      if (entry.path().filename() != file) fs::copy(entry.path(), Original::copy());
    if (damaged != kRemoved) WriteFile(Original::copy() / file, damaged);
    Look(fmt::format("{}: {}", file.string(), what));
  }

  void Look(const std::string& what) {
    const auto opened = RocksMetaStore::Open({.path = Original::copy().string(), .witness = witness_}, nullptr);
    if (!opened.ok()) {
      ++refused_;
      EXPECT_TRUE(opened.status().code() == Code::kDataLoss || opened.status().code() == Code::kFailedPrecondition)
          << what << ": " << opened.status().ToString();
      return;
    }
    RocksMetaStore& store = **opened;
    bool failed = false;
    for (const auto& [where, value] : original_->content()) {
      const auto read = store.Get(static_cast<Family>(where.first), where.second);
      if (!read.ok()) {
        failed = true;
        EXPECT_EQ(read.status().code(), Code::kDataLoss) << what << ": " << read.status().ToString();
      } else {
        EXPECT_EQ(*read, value) << what << ": family " << where.first << " key " << where.second;
      }
    }
    Content scanned;
    for (size_t family = 1; family < kFamilies; ++family) {
      Content part;
      const auto scan = store.NewScan(static_cast<Family>(family), "");
      for (scan->Seek(""); scan->Valid(); scan->Next()) part[{family, std::string(scan->key())}] = scan->value();
      if (scan->status().ok()) {
        const auto begin = original_->content().lower_bound({family, ""});
        const auto end = original_->content().lower_bound({family + 1, ""});
        EXPECT_TRUE(std::equal(begin, end, part.begin(), part.end())) << what << ": scan of family " << family;
      } else {
        failed = true;
      }
    }
    LookForObjects(store, what, &failed);
    ++(failed ? failed_ : intact_);
  }

  /// By First, which reads filters of prefixes.
  void LookForObjects(RocksMetaStore& store, const std::string& what, bool* failed) {
    const Status status = reactor_->BlockOn(store.Commit(*reactor_, Do([&](View& view, Batch&) {
      for (const auto& [where, value] : original_->content()) {
        if (where.first != static_cast<size_t>(Family::kObjects)) continue;
        const std::string prefix = where.second.substr(0, where.second.size() - kVersionBytes);
        const auto first = view.First(Family::kObjects, prefix + "VERSION0", prefix + "VERSION9");
        if (!first.ok()) {
          *failed = true;
        } else if (!*first || (*first)->second != value) {
          ADD_FAILURE() << what << ": First of " << prefix;
        }
      }
      return Status();
    })));
    EXPECT_TRUE(status.ok()) << what << ": " << status.ToString();
  }

  /// Flips bits of `part`'s files: about `sample` of them all, one random bit each.
  void FlipBits(std::string_view part, size_t sample) {
    const auto files = original_->Files(part);
    ASSERT_FALSE(files.empty());
    for (const fs::path& file : files) {
      const std::string content = ReadFile(Original::store() / file);
      const size_t step = exhaustive_ ? 1 : std::max<size_t>(1, content.size() * files.size() / sample);
      for (size_t at = exhaustive_ ? 0 : random_->Below(step); at < content.size(); at += step) {
        for (unsigned bit = 0; bit < 8; ++bit) {
          if (!exhaustive_ && bit != 0) break;
          const auto flipped = exhaustive_ ? bit : static_cast<unsigned>(random_->Below(8));
          std::string damaged = content;
          damaged[at] = static_cast<char>(damaged[at] ^ (1 << flipped));
          Try(file, damaged, fmt::format("byte {} of {} bit {}", at, content.size(), flipped));
          if (HasFailure()) return;
        }
      }
    }
    Report(part);
  }
  void Report(std::string_view part) const {
    std::printf("%.*s: %d refused to open, %d failed to read, %d intact\n", static_cast<int>(part.size()), part.data(),
                refused_, failed_, intact_);
  }

  static constexpr const char* kRemoved = "(removed)";
  static Original* original_;
  const std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();  // outlives each store
  std::optional<base::SeededRandom> random_;
  uint64_t witness_ = 0;
  bool exhaustive_ = false;
  int refused_ = 0, failed_ = 0, intact_ = 0;
};

Original* DamageTest::original_ = nullptr;

TEST_F(DamageTest, TheOriginalHasTwoLogsAndTablesAndIsIntact) {
  EXPECT_EQ(original_->Files(".log").size(), 2U);
  EXPECT_GE(original_->Files(".sst").size(), 7U);
  Try("LOCK", "", "nothing");
  EXPECT_EQ(intact_, 1);
}

TEST_F(DamageTest, ABitInTheLog) {
  FlipBits(".log", 250);
  // Both logs hold nothing but acknowledged commits, so there is no byte whose loss could go unnoticed.
  EXPECT_EQ(intact_, 0);
  EXPECT_EQ(failed_, 0);
}

TEST_F(DamageTest, ABitInTheLogWhileTheWitnessIsAGroupBehind) {
  // As of a busy store. Here the log itself must show that the last group was damaged and not torn.
  witness_ = original_->last_commit() - 1;
  FlipBits(".log", 250);
  EXPECT_EQ(intact_, 0);
  EXPECT_EQ(failed_, 0);
}

TEST_F(DamageTest, ABitInATable) {
  FlipBits(".sst", 400);
  EXPECT_GT(refused_ + failed_, 0);
}

TEST_F(DamageTest, ABitInTheManifest) { FlipBits("MANIFEST", 150); }

TEST_F(DamageTest, ABitInCurrent) {
  FlipBits("CURRENT", 100);
  EXPECT_EQ(intact_ + failed_, 0);
}

TEST_F(DamageTest, ABitInFilesThatOpeningCanDoWithout) {
  FlipBits(".durable", 20);
  FlipBits("IDENTITY", 36);
  FlipBits("OPTIONS", 40);
  EXPECT_EQ(refused_ + failed_, 0);
}

TEST_F(DamageTest, APieceOfZerosInTheLog) {
  for (const fs::path& file : original_->Files(".log")) {
    const std::string content = ReadFile(Original::store() / file);
    for (const size_t size : {size_t{7}, size_t{64}, size_t{512}}) {
      for (size_t at = 0; at < content.size(); at += exhaustive_ ? 1 : 97) {
        std::string damaged = content;
        const size_t length = std::min(size, damaged.size() - at);
        damaged.replace(at, length, std::string(length, '\0'));
        if (damaged == content) continue;
        Try(file, damaged, fmt::format("{} zeros at {} of {}", size, at, content.size()));
        if (HasFailure()) return;
      }
    }
  }
  Report("zeros");
}

/// A log of `commits` records of 4096 bytes each, so that one block of the log (32 KiB) is eight records.
void WritePagedLog(const fs::path& path, uint64_t commits) {
  RocksSetup setup = MakeSetup({.path = path.string()});
  setup.db.create_if_missing = true;
  setup.db.create_missing_column_families = true;
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors{{rocksdb::kDefaultColumnFamilyName, setup.unused}};
  for (size_t i = 0; i < kFamilies; ++i) descriptors.emplace_back(kFamilyNames[i], setup.families[i]);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(setup.db, path.string(), descriptors, &handles, &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  for (uint64_t commit = 1; commit <= commits; ++commit) {
    constexpr size_t kLogHeader = 7, kPadding = 4000;
    const auto build = [&](size_t padding) {
      rocksdb::WriteBatch batch;
      std::string number;
      base::Encoder(&number).U64(commit);
      EXPECT_TRUE(batch.Put(handles[1], std::string(kCommitKey), number).ok());
      EXPECT_TRUE(batch.Put(handles[2], fmt::format("key-{:04}", commit), std::string(padding, 'p')).ok());
      return batch;
    };
    rocksdb::WriteBatch batch = build(kPadding + 4096 - kLogHeader - build(kPadding).GetDataSize());
    ASSERT_EQ(batch.GetDataSize() + kLogHeader, 4096U);
    rocksdb::WriteOptions sync;
    sync.sync = true;
    ASSERT_TRUE(db->Write(sync, &batch).ok());
  }
  for (auto* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
  ASSERT_TRUE(db->Close().ok());
}

TEST_F(DamageTest, AZeroedPageInTheMiddleOfTheLogIsAGap) {
  // RocksDB takes a page of zeros for the unused end of a block and goes on with the next block, without a word.
  fs::remove_all(Original::copy());
  WritePagedLog(Original::copy(), 24);
  fs::path log;
  for (const auto& entry : fs::directory_iterator(Original::copy()))
    if (entry.path().extension() == ".log") log = entry.path();
  const std::string content = ReadFile(log);
  ASSERT_EQ(content.size(), 24U * 4096);
  {
    fs::copy(Original::copy(), Original::path() / "intact");
    const auto intact = RocksMetaStore::Open({.path = (Original::path() / "intact").string(), .witness = 24}, nullptr);
    ASSERT_TRUE(intact.ok()) << intact.status().ToString();
  }
  for (const uint64_t page : {0, 3, 8, 12}) {
    std::string damaged = content;
    damaged.replace(page * 4096, 4096, std::string(4096, '\0'));
    WriteFile(log, damaged);
    const auto opened = RocksMetaStore::Open({.path = Original::copy().string(), .witness = 24}, nullptr);
    EXPECT_EQ(opened.status().code(), Code::kDataLoss) << "page " << page;
    EXPECT_NE(opened.status().message().find("missing"), std::string_view::npos) << opened.status().ToString();
  }
}

TEST_F(DamageTest, ACutOffFile) {
  for (const char* part : {".log", ".sst", "MANIFEST", "CURRENT"}) {
    for (const fs::path& file : original_->Files(part)) {
      const std::string content = ReadFile(Original::store() / file);
      for (int i = 0; i < 8; ++i) {
        const size_t size = random_->Below(content.size());
        Try(file, content.substr(0, size), fmt::format("cut off at {} of {}", size, content.size()));
        if (HasFailure()) return;
      }
    }
  }
  Report("cut off");
}

TEST_F(DamageTest, AMissingFile) {
  for (const char* part : {".log", ".sst", "MANIFEST", "CURRENT"}) {
    for (const fs::path& file : original_->Files(part)) Try(file, kRemoved, "removed");
  }
  Report("missing");
  EXPECT_EQ(intact_, 0);
}

TEST_F(DamageTest, ARefusalChangesNothing) {
  const fs::path newest = original_->Files(".log").back();
  const std::string content = ReadFile(Original::store() / newest);
  std::string damaged = content;
  damaged[damaged.size() / 2] ^= 1;
  Try(newest, damaged, "a bit");
  ASSERT_EQ(refused_, 1);
  // Put right again it opens, with everything.
  WriteFile(Original::copy() / newest, content);
  Look("repaired");
  EXPECT_EQ(intact_, 1);
}

}  // namespace
}  // namespace forebay::meta
