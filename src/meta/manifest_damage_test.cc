// SPDX-License-Identifier: Apache-2.0
// What a store makes of a manifest whose end is missing, torn or changed. Two shapes of it matter: one that ends with what
// an opening wrote, all of it durable before CURRENT named the file, and one that ends with what a flush of all families
// appended later, which a power cut may tear.
#include <gtest/gtest.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "base/codec.h"
#include "meta/rocks_manifest_check.h"
#include "meta/rocks_meta_store.h"
#include "meta/rocks_options.h"
#include "meta/temporary_directory.h"
#include "meta/test_transactions.h"
#include "rt/reactor.h"

namespace forebay::meta {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSector = 512;

/// Where the records of a manifest of one block begin, and where the last one ends.
std::vector<size_t> Boundaries(const std::string& manifest) {
  constexpr size_t kHeader = 7;
  std::vector<size_t> boundaries{0};
  for (size_t at = 0; at + kHeader <= manifest.size();) {
    base::Decoder header(std::string_view(manifest).substr(at + 4));
    at += kHeader + header.U16();
    boundaries.push_back(at);
  }
  return boundaries;
}

class ManifestDamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  /// Commits `count` transactions that put a row into objects and one into another family, turn by turn.
  void Commit(RocksMetaStore& store, int count) {
    for (int i = 0; i < count; ++i) {
      const Status status = reactor_->BlockOn(store.Commit(*reactor_, Do([&](View&, Batch& batch) {
        const std::string key = fmt::format("key-{:03}VERSION1", rows_.size());
        for (const Family family : {Family::kObjects, Other(i)}) {
          batch.Put(family, key, fmt::format("value {}", rows_.size()));
          rows_[{family, key}] = fmt::format("value {}", rows_.size());
        }
        return Status();
      })));
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    witness_ = store.last_commit();
  }
  static Family Other(int i) { return i % 2 == 0 ? Family::kInline : Family::kGroups; }

  std::unique_ptr<RocksMetaStore> Open(const fs::path& path, bool create = false) {
    return *RocksMetaStore::Open({.path = path.string(), .create = create, .witness = witness_}, nullptr);
  }

  /// A killed store: what it had when it was opened last is in tables, the rest in its log.
  void MakeRecovered() {
    { Commit(*Open(directory_ / "live", true), 12); }
    const auto store = Open(directory_ / "live");
    Commit(*store, 6);
    fs::copy(directory_ / "live", original_);
  }

  /// A store that lost its power when the manifest had been given a flush of all families, and had not been synced: the logs
  /// that were flushed are still there. Gives the size of what was durable.
  size_t MakeFlushed() {
    { Commit(*Open(directory_ / "live", true), 12); }
    RocksSetup setup = MakeSetup({.path = (directory_ / "live").string()});
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors{{rocksdb::kDefaultColumnFamilyName, setup.unused}};
    for (size_t i = 0; i < kFamilies; ++i) descriptors.emplace_back(kFamilyNames[i], setup.families[i]);
    for (auto& descriptor : descriptors) descriptor.options.disable_auto_compactions = true;  // the flush is to be the end
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    EXPECT_TRUE(rocksdb::DB::Open(setup.db, (directory_ / "live").string(), descriptors, &handles, &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    for (int i = 0; i < 6; ++i) {
      rocksdb::WriteBatch batch;
      const std::string key = fmt::format("late-{:03}VERSION1", i);
      for (const Family family : {Family::kObjects, Other(i)}) {
        EXPECT_TRUE(batch.Put(handles[1 + static_cast<size_t>(family)], key, "late").ok());
        rows_[{family, key}] = "late";
      }
      std::string number;
      base::Encoder(&number).U64(++witness_);
      EXPECT_TRUE(batch.Put(handles[1], std::string(kCommitKey), number).ok());
      rocksdb::WriteOptions sync;
      sync.sync = true;
      EXPECT_TRUE(db->Write(sync, &batch).ok());
    }
    fs::copy(directory_ / "live", original_);
    const size_t durable = fs::file_size(Manifest());
    EXPECT_TRUE(db->Flush(rocksdb::FlushOptions(), handles).ok());
    fs::copy(directory_ / "live", original_, fs::copy_options::recursive | fs::copy_options::skip_existing);
    fs::copy(directory_ / "live" / Manifest().filename(), Manifest(), fs::copy_options::overwrite_existing);
    EXPECT_GT(fs::file_size(Manifest()), durable);
    for (auto* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
    EXPECT_TRUE(db->Close().ok());
    return durable;
  }

  fs::path Manifest() const {
    std::string name = ReadFile(original_ / "CURRENT");
    name.pop_back();
    return original_ / name;
  }

  /// Opens a copy that has `manifest`. Ok: everything is there; DataLoss: that is what opening said. Anything else fails.
  Code Try(const std::string& manifest, const std::string& what) {
    const fs::path copy = directory_ / "copy";
    fs::remove_all(copy);
    fs::copy(original_, copy);
    WriteFile(copy / Manifest().filename(), manifest);
    const auto store = RocksMetaStore::Open({.path = copy.string(), .witness = witness_}, nullptr);
    if (!store.ok()) {
      EXPECT_EQ(store.status().code(), Code::kDataLoss) << what << ": " << store.status().ToString();
      last_refusal_ = store.status().ToString();
      return Code::kDataLoss;
    }
    for (const auto& [where, value] : rows_) {
      const auto found = (*store)->Get(where.first, where.second);
      if (found.ok() && *found == value) continue;
      ADD_FAILURE() << what << ": " << where.second << " of family " << static_cast<int>(where.first) << " is "
                    << (!found.ok() ? found.status().ToString() : "missing, and no error says so");
      return Code::kInternal;
    }
    return Code::kOk;
  }

  const std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();  // outlives each store
  const fs::path directory_ = FastScratch() / fmt::format("forebay-manifest-{}", ::getpid());
  const fs::path original_ = directory_ / "original";
  std::map<std::pair<Family, std::string>, std::string> rows_;
  uint64_t witness_ = 0;
  std::string last_refusal_;
};

TEST(DurableNoteTest, Format) {  // the example in docs/formats/metadata.md
  EXPECT_EQ(EncodeDurableNote("MANIFEST-000007", 1717), "1717 3cfbceaf\n");
  EXPECT_EQ(DecodeDurableNote("MANIFEST-000007", "1717 3cfbceaf\n"), 1717U);
  for (const char* wrong : {"", "1717 3cfbceaf", "1718 3cfbceaf\n", "01717 3cfbceaf\n", "1717 3cfbceaf\n\n",
                            "99999999999999999999999 1"})
    EXPECT_EQ(DecodeDurableNote("MANIFEST-000007", wrong), std::nullopt) << wrong;
  EXPECT_EQ(DecodeDurableNote("MANIFEST-000008", "1717 3cfbceaf\n"), std::nullopt);
}

TEST_F(ManifestDamageTest, WhatAnOpeningWroteIsThereToItsEnd) {
  MakeRecovered();
  const std::string manifest = ReadFile(Manifest());
  ASSERT_EQ(Try(manifest, "unchanged"), Code::kOk) << last_refusal_;
  const std::vector<size_t> boundaries = Boundaries(manifest);
  ASSERT_GT(boundaries.size(), 15U);
  ASSERT_EQ(boundaries.back(), manifest.size());
  for (const size_t at : boundaries) {
    for (const size_t size : {at, at + 5}) {
      if (size >= manifest.size()) continue;
      ASSERT_EQ(Try(manifest.substr(0, size), fmt::format("cut off at {}", size)), Code::kDataLoss);
    }
  }
  EXPECT_NE(last_refusal_.find(Manifest().filename().string()), std::string::npos) << last_refusal_;
}

TEST_F(ManifestDamageTest, ABitOfTheHeaderOfAnyRecordCounts) {
  // A longer length reaches beyond the file: RocksDB takes that for the end.
  MakeRecovered();
  const std::string manifest = ReadFile(Manifest());
  for (const size_t boundary : Boundaries(manifest)) {
    if (boundary == manifest.size()) break;
    for (unsigned bit = 4 * 8; bit < 7 * 8; ++bit) {
      std::string damaged = manifest;
      damaged[boundary + bit / 8] = static_cast<char>(damaged[boundary + bit / 8] ^ (1 << bit % 8));
      ASSERT_EQ(Try(damaged, fmt::format("bit {} of the record at {}", bit, boundary)), Code::kDataLoss);
    }
  }
}

TEST_F(ManifestDamageTest, SectorsOfZerosInWhatAnOpeningWroteCount) {
  MakeRecovered();
  const std::string manifest = ReadFile(Manifest());
  for (size_t at = 0; at < manifest.size(); at += kSector) {
    std::string damaged = manifest;
    const size_t length = std::min(kSector, manifest.size() - at);
    damaged.replace(at, length, std::string(length, '\0'));
    ASSERT_EQ(Try(damaged, fmt::format("zeros at {}", at)), Code::kDataLoss);
  }
}

TEST_F(ManifestDamageTest, TheNoteIsASecondProof) {
  // Without it, or with a damaged one, the store opens as one that an earlier version wrote, and has a note again.
  MakeRecovered();
  const std::string manifest = ReadFile(Manifest());
  const fs::path note = Manifest().string() + ".durable";
  const std::string content = ReadFile(note);
  EXPECT_EQ(content.substr(0, content.find(' ')), std::to_string(manifest.size()));
  for (const std::string& changed : {"9" + content, content.substr(0, 3), std::string(), std::string(500, '1')}) {
    WriteFile(note, changed);
    EXPECT_EQ(Try(manifest, "the note is " + changed), Code::kOk) << last_refusal_;
  }
  fs::remove(note);
  EXPECT_EQ(Try(manifest, "there is no note"), Code::kOk) << last_refusal_;
  int notes = 0;
  for (const auto& entry : fs::directory_iterator(directory_ / "copy")) notes += entry.path().extension() == ".durable";
  EXPECT_EQ(notes, 1);
}

TEST_F(ManifestDamageTest, AFlushThatAPowerCutToreIsUndone) {
  const size_t durable = MakeFlushed();
  const std::string manifest = ReadFile(Manifest());
  ASSERT_EQ(Try(manifest, "unchanged"), Code::kOk) << last_refusal_;
  for (size_t size = durable; size < manifest.size(); size += 1 + (size - durable) % 13)
    ASSERT_EQ(Try(manifest.substr(0, size), fmt::format("cut off at {}", size)), Code::kOk) << last_refusal_;
  std::vector<std::pair<size_t, size_t>> sectors;  // of the part that was not synced
  for (size_t at = durable; at < manifest.size();) {
    const size_t end = std::min((at / kSector + 1) * kSector, manifest.size());
    sectors.emplace_back(at, end - at);
    at = end;
  }
  ASSERT_GE(sectors.size(), 2U);
  for (size_t lost = 1; lost < size_t{1} << sectors.size(); ++lost) {
    std::string torn = manifest;
    for (size_t i = 0; i < sectors.size(); ++i)
      if ((lost >> i & 1) != 0) torn.replace(sectors[i].first, sectors[i].second, std::string(sectors[i].second, '\0'));
    ASSERT_EQ(Try(torn, fmt::format("sectors {:b} are zeros", lost)), Code::kOk) << last_refusal_;
  }
}

TEST_F(ManifestDamageTest, AFlushThatWasDamagedIsRefusedOnceItsLogsAreGone) {
  const size_t durable = MakeFlushed();
  const std::string manifest = ReadFile(Manifest());
  fs::remove_all(original_);
  fs::copy(directory_ / "live", original_);  // without the logs
  ASSERT_EQ(Try(manifest, "unchanged"), Code::kOk) << last_refusal_;
  for (const size_t boundary : Boundaries(manifest)) {
    if (boundary < durable || boundary == manifest.size()) continue;
    ASSERT_EQ(Try(manifest.substr(0, boundary), fmt::format("cut off at {}", boundary)), Code::kDataLoss);
  }
}

}  // namespace
}  // namespace forebay::meta
