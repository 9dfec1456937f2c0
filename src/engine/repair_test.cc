// SPDX-License-Identifier: Apache-2.0
// Repair: each kind of damage that fsck finds is repaired, what can be read stays readable, a cut does no harm.
#include "engine/repair.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "engine/engine_fixture.h"
#include "engine/loader.h"
#include "engine/operation_rows.h"
#include "engine/rows.h"
#include "engine/scrub_row.h"
#include "engine/tenant_accounts.h"
#include "engine/upload_rows.h"

namespace forebay::engine {
namespace {

using meta::Family;

/// Takes so many commits and then no more, as if the power had gone.
class CutMeta final : public meta::MetaStore {
 public:
  CutMeta(meta::MetaStore& below, uint64_t commits) : below_(below), left_(commits) {}
  Result<std::optional<std::string>> Get(Family family, std::string_view key) override { return below_.Get(family, key); }
  std::unique_ptr<meta::Scan> NewScan(Family family, std::string_view end) override {
    return below_.NewScan(family, end);
  }
  std::unique_ptr<meta::Snapshot> TakeSnapshot() override { return below_.TakeSnapshot(); }
  rt::Task<Status> Commit(rt::Reactor& reactor, std::unique_ptr<meta::Transaction> transaction) override {
    if (left_ == 0) co_return Status::Unavailable("the power is off");
    --left_;
    co_return co_await below_.Commit(reactor, std::move(transaction));
  }
  uint64_t last_commit() const override { return below_.last_commit(); }
  meta::CommitStats stats() const override { return below_.stats(); }
  Result<meta::MetaSpace> Space() const override { return below_.Space(); }
  Status health() const override { return below_.health(); }

 private:
  meta::MetaStore& below_;
  uint64_t left_;
};

/// How many commits a repair gets, and how large they may be.
struct Cut {
  uint64_t commits = UINT64_MAX;
  size_t batch_bytes = kRepairBatchBytes;
};

class RepairTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(twins_.CreateBucket("bucket").ok());
    Put("small", "inline content");
    Put("medium", RandomContent(1, 300'000));
    Put("several", RandomContent(2, 6 << 20));  // extents of 4 MiB and 2 MiB
    static const std::string large = RandomContent(3, 65 << 20);
    Put("large", large);  // two segments
    Put("other", RandomContent(4, 200'000));
    std::vector<store::Source> sources{{.bucket = "bucket", .key = "several"}};
    ASSERT_TRUE(twins_.Run(twins_.engine().Compose(twins_.context(), "bucket", "copy", std::move(sources), {})).ok());
    contents_["copy"] = contents_["several"];
    twins_.Close();
    ASSERT_TRUE(twins_.Fsck(true).clean());
  }
  void Put(const std::string& key, const std::string& content) {
    ASSERT_TRUE(twins_.Put(key, content, {.size_bytes = content.size()}).ok());
    contents_[key] = content;
  }
  void Set(Family family, const std::string& key, std::optional<std::string> value) {
    twins_.media()->Damage(family, key, std::move(value));
  }
  std::pair<std::string, std::string> FirstRow(Family family, const std::string& from = {}) {
    return *twins_.media()->First(family, from, {});
  }
  ObjectRecord RecordOf(const std::string& key) {
    const auto [row, value] = *twins_.media()->First(Family::kObjects, ObjectPrefix(1, key), {});
    return DecodeVersion(row, value)->record;
  }
  /// The key and the record of an extent of an object with a map.
  std::pair<std::string, ExtentRecord> ExtentOf(const std::string& key, size_t piece = 0) {
    const std::string row = NumberKey(RecordOf(key).pieces.at(piece).extent);
    return {row, *DecodeExtent(row, *twins_.media()->Get(Family::kExtents, row))};
  }

  RepairPlan Repair(const RepairOptions& options = {}, const Cut& cut = {}) {
    std::vector<std::unique_ptr<device::Device>> lent;
    lent.push_back(std::make_unique<LentDevice>(twins_.disk(), twins_.faults()));
    Devices devices(std::move(lent));
    const auto below = *meta::MemoryMetaStore::Open(twins_.media(), 0, nullptr);
    CutMeta meta(*below, cut.commits);
    Result<RepairPlan> plan = twins_.Run(PlanRepair(twins_.reactor(), devices, meta, options));
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    applied_ = twins_.Run(ApplyRepair(twins_.reactor(), devices, meta, *plan, cut.batch_bytes));
    return *std::move(plan);
  }
  std::string Errors(bool verify_data = false) {
    std::string all;
    for (const std::string& error : twins_.Fsck(verify_data).errors) all += error + "\n";
    return all;
  }
  /// Repairs; the metadata is clean afterwards, a second repair does nothing, and all objects but `damaged` are right.
  RepairPlan RepairAndCheck(const std::set<std::string>& damaged = {}, const RepairOptions& options = {}) {
    EXPECT_NE(Errors(options.verify_data || options.remove_damaged), "") << "nothing to repair";
    RepairPlan plan = Repair(options);
    EXPECT_TRUE(applied_.ok()) << applied_.ToString();
    EXPECT_EQ(Errors(), "") << FormatRepair(plan).substr(0, 4000);
    EXPECT_TRUE(Repair(options).empty()) << "a second repair has nothing to do";
    twins_.Reopen();
    for (const auto& [key, content] : contents_) {
      if (damaged.contains(key)) continue;
      const Result<std::string> got = twins_.Get(key);
      EXPECT_TRUE(got.ok() && *got == content) << key << ": " << got.status().ToString();
    }
    return plan;
  }
  Result<std::string> ReadAt(const std::string& key, uint64_t offset, uint64_t length) {
    const auto reader = twins_.Open(key);
    if (!reader.ok()) return reader.status();
    return twins_.Read(**reader, offset, length);
  }

  TwinStore twins_{{.device_bytes = 256 * base::kMiB}};
  std::map<std::string, std::string> contents_;
  Status applied_;
};

TEST_F(RepairTest, AStoreWithoutDamageIsLeftAlone) {
  const RepairPlan plan = Repair({.verify_data = true});
  EXPECT_TRUE(plan.empty()) << FormatRepair(plan);
  EXPECT_TRUE(plan.unrepaired.empty());
}

TEST_F(RepairTest, FreeSpaceIsWhatTheExtentsSay) {
  const auto [key, value] = FirstRow(Family::kGroups);
  GroupBitmap bitmap = *DecodeGroup(key, value);
  bitmap.back() |= uint64_t{1} << 63;
  bitmap[kDataStart / device::kUnit / 64] = 0;
  Set(Family::kGroups, key, EncodeGroup(key, bitmap));
  const auto next = FirstRow(Family::kGroups, key + '\0');
  Set(Family::kGroups, next.first, std::nullopt);
  RepairAndCheck();
}

TEST_F(RepairTest, ReferencesAreCounted) {
  auto [key, record] = ExtentOf("several");
  EXPECT_EQ(record.references, 2U) << "the copy has it too";
  for (const uint64_t wrong : {1, 7}) {
    record.references = wrong;
    Set(Family::kExtents, key, EncodeExtent(key, record));
    RepairAndCheck();
    EXPECT_EQ(ExtentOf("several").second.references, 2U);
    twins_.Close();
  }
}

TEST_F(RepairTest, WhatNobodyRefersToGoes) {
  ExtentRecord record = ExtentOf("medium").second;
  record.first_unit = 60'000;
  const std::string extent = NumberKey(1'000'000);
  Set(Family::kExtents, extent, EncodeExtent(extent, record));
  Set(Family::kInline, NumberKey(77), "left over");
  const std::string map = SegmentKey(77, 0);
  Set(Family::kMaps, map, EncodePieces(map, {}));
  const std::string part = EncodePartKey(99, 1);
  Set(Family::kSystem, part, EncodePart(part, {}));
  const RepairPlan plan = RepairAndCheck();
  EXPECT_EQ(plan.lost.size(), 4U);
  EXPECT_NE(FormatRepair(plan).find("inline 000000000000004d 6c656674206f766572 content that no object has\n"),
            std::string::npos)
      << FormatRepair(plan);
}

TEST_F(RepairTest, OfAnObjectThatLostAnExtentTheRestCanBeRead) {
  const std::string gone = ExtentOf("several").first;
  Set(Family::kExtents, gone, std::nullopt);
  RepairAndCheck({"several", "copy"});
  for (const std::string key : {"several", "copy"}) {
    EXPECT_EQ(*ReadAt(key, 5 << 20, 1 << 20), contents_[key].substr(5 << 20)) << key;
    const Result<std::string> lost = ReadAt(key, 0, 4096);
    EXPECT_EQ(lost.status().code(), Code::kDataLoss);
    EXPECT_NE(lost.status().message().find("`bucket/" + key + "` is damaged at offset 0"), std::string::npos)
        << lost.status().ToString();
  }
}

TEST_F(RepairTest, OfAnObjectThatLostASegmentTheRestCanBeRead) {
  Set(Family::kMaps, FirstRow(Family::kMaps).first, "nonsense");
  RepairAndCheck({"large"});
  EXPECT_EQ(*ReadAt("large", 64 << 20, 1 << 20), contents_["large"].substr(64 << 20));
  EXPECT_EQ(ReadAt("large", 0, 4096).status().code(), Code::kDataLoss);
}

TEST_F(RepairTest, OfExtentsThatOverlapTheOneThatMatchesStays) {
  // `other` is said to be where `medium` is.
  auto [key, record] = ExtentOf("other");
  record.first_unit = ExtentOf("medium").second.first_unit + 1;
  Set(Family::kExtents, key, EncodeExtent(key, record));
  const RepairPlan plan = RepairAndCheck({"other"});
  EXPECT_NE(FormatRepair(plan).find("object `bucket/other` (version "), std::string::npos) << FormatRepair(plan);
  EXPECT_EQ(twins_.Get("other").status().code(), Code::kDataLoss);
}

TEST_F(RepairTest, WhatIsLeftOfAnExtentThatWasWrittenOverCanBeRead) {
  // `other` was written to where the blocks of `medium` behind the first are.
  auto [key, record] = ExtentOf("other");
  const uint64_t old = record.first_unit;
  record.first_unit = ExtentOf("medium").second.first_unit + 16;
  Set(Family::kExtents, key, EncodeExtent(key, record));
  twins_.WriteDisk(record.first_unit * device::kUnit,
                   twins_.ReadDisk(old * device::kUnit, record.units() * device::kUnit));
  RepairAndCheck({"medium"});
  EXPECT_EQ(*ReadAt("medium", 0, 65'536), contents_["medium"].substr(0, 65'536));
  EXPECT_EQ(ReadAt("medium", 65'536, 1).status().code(), Code::kDataLoss);
}

TEST_F(RepairTest, AnObjectWhoseInlineContentIsLostIsMovedAside) {
  const auto [key, value] = FirstRow(Family::kInline);
  Set(Family::kInline, key, "inline Content");
  const RepairPlan plan = RepairAndCheck({"small"});
  EXPECT_EQ(twins_.Get("small").status().code(), Code::kNotFound);
  EXPECT_EQ(plan.lost.size(), 2U) << "the object's row, and what is there of its content";
}

TEST_F(RepairTest, ABucketWhoseRowIsDamagedIsThereAgain) {
  Set(Family::kBuckets, "bucket", "nonsense");
  RepairAndCheck();
}

TEST_F(RepairTest, ObjectsOfABucketThatIsGoneGetOne) {
  Set(Family::kBuckets, "bucket", std::nullopt);
  RepairAndCheck({"small", "medium", "several", "large", "other", "copy"});
  const auto info = twins_.Run(twins_.engine().Stat(twins_.context(), "lost-1", "large"));
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->size_bytes, 65U << 20);
}

TEST_F(RepairTest, NumbersAreNeverGivenOutTwice) {
  const uint64_t version = DecodeObjectKey(twins_.media()->First(Family::kObjects, ObjectPrefix(1, "other"), {})->first)->version;
  Set(Family::kSystem, std::string(kCountersKey), EncodeCounters({}));
  RepairAndCheck();
  ASSERT_TRUE(twins_.Put("new", "content").ok());
  EXPECT_GT(twins_.Run(twins_.engine().Stat(twins_.context(), "bucket", "new"))->version, version);
  twins_.Close();
  Set(Family::kSystem, std::string(kCountersKey), "nonsense");
  RepairAndCheck();
}

TEST_F(RepairTest, AccountsAreCountedAgain) {
  const std::string root = TenantKey(TenantId::kRoot);
  Set(Family::kSystem, root, EncodeTenant(root, {.objects = 1, .quota = {.max_objects = 99}}));
  const std::string other = TenantKey(TenantId{7});
  Set(Family::kSystem, other, "nonsense");
  RepairAndCheck();
  EXPECT_EQ(DecodeTenant(root, *twins_.media()->Get(Family::kSystem, root))->quota.max_objects, 99U);
}

TEST_F(RepairTest, AfterALostResultNothingOfItsTimeActs) {
  base::SeededRandom random(3);
  const OperationId id = OperationId::Generate(1'700'000'000'000, random);
  const std::string row = EncodeOperationKey(id, TenantId::kRoot);
  Set(Family::kSystem, row, "nonsense");
  RepairAndCheck();
  const std::string key(kOperationsKey);
  EXPECT_EQ(DecodeOperations(*twins_.media()->Get(Family::kSystem, key))->floor_ms, 1'700'000'000'000U);
  twins_.Close();
  Set(Family::kSystem, key, "nonsense");
  EXPECT_NE(Errors(), "");
  Repair({.now_ms = 1'800'000'000'000});
  EXPECT_EQ(Errors(), "");
  EXPECT_EQ(DecodeOperations(*twins_.media()->Get(Family::kSystem, key))->floor_ms, 1'800'000'000'000U);
}

TEST_F(RepairTest, ADamagedRowOfTheScrubIsMovedAside) {
  Set(Family::kSystem, std::string(kScrubKey), "nonsense");
  RepairAndCheck();
}

TEST_F(RepairTest, ASecondNullVersionIsKept) {
  const auto [key, value] = *twins_.media()->First(Family::kObjects, ObjectPrefix(1, "other"), {});
  const ObjectKey name = *DecodeObjectKey(key);
  const std::string older = EncodeObjectKey(name.bucket, name.key, name.version - 1);
  ObjectRecord record = RecordOf("small");
  record.content = 0;  // its own
  Set(Family::kObjects, older, EncodeObject(older, record));
  Set(Family::kInline, NumberKey(name.version - 1), "inline content");
  RepairAndCheck();
  EXPECT_EQ(twins_.Run(twins_.engine().ListVersions(twins_.context(), "bucket", {.prefix = "other"}))->versions.size(), 2U);
}

TEST_F(RepairTest, TwoObjectsWithOneContentGetTheirOwn) {
  uint64_t version = 900'000;
  for (const std::string of : {"small", "large"}) {
    ObjectRecord record = RecordOf(of);
    const std::string key = EncodeObjectKey(1, of + "-twin", ++version);
    Set(Family::kObjects, key, EncodeObject(key, record));
    contents_[of + "-twin"] = contents_[of];
  }
  RepairAndCheck();
}

TEST_F(RepairTest, DamagedBlocksStayUnlessTheyAreToGo) {
  const ExtentRecord extent = ExtentOf("several").second;
  twins_.disk().FlipBit(extent.first_unit * device::kUnit + 70'000, 1);
  RepairPlan plan = Repair({.verify_data = true});
  EXPECT_TRUE(plan.empty()) << FormatRepair(plan);
  EXPECT_EQ(plan.unrepaired.size(), 2U) << "the object and its copy, by name";
  plan = RepairAndCheck({"several", "copy"}, {.remove_damaged = true});
  EXPECT_EQ(twins_.Get("several").status().code(), Code::kNotFound);
  twins_.Close();
  EXPECT_EQ(Errors(true), "");
}

TEST_F(RepairTest, WithoutRoomForWhatStandsForLostContentItSaysSo) {
  twins_.Reopen();
  const auto filled = twins_.Put("filler", RandomContent(9, 112 << 20), {.size_bytes = 112 << 20});
  ASSERT_TRUE(filled.ok()) << filled.status().ToString();
  while (twins_.Put("filler-" + std::to_string(contents_.size()), RandomContent(contents_.size(), 1 << 20)).ok())
    contents_["filler-" + std::to_string(contents_.size())] = RandomContent(contents_.size(), 1 << 20);
  twins_.Close();
  const std::string gone = ExtentOf("several").first;
  const std::string extent = *twins_.media()->Get(Family::kExtents, gone);
  // Its units are in use by nobody else, so there would be room: another one takes it.
  const std::string taken = NumberKey(*DecodeNumberKey(gone) + 500'000);
  Set(Family::kExtents, gone, std::nullopt);
  Set(Family::kExtents, taken, EncodeExtent(taken, *DecodeExtent(gone, extent)));
  const RepairPlan plan = Repair();
  EXPECT_NE(FormatRepair(plan).find("not repaired: object `bucket/several`"), std::string::npos) << FormatRepair(plan);
  Repair({.remove_damaged = true});
  EXPECT_EQ(Errors(true), "");
}

/// Rows and what they are the rows of, before any damage.
class RepairPropertyTest : public RepairTest, public testing::WithParamInterface<uint64_t> {
 protected:
  using RowName = std::pair<Family, std::string>;

  /// The rows that an object cannot be read without.
  std::set<RowName> RowsOf(const std::string& key) {
    const auto [row, value] = *twins_.media()->First(Family::kObjects, ObjectPrefix(1, key), {});
    const NewestVersion version = *DecodeVersion(row, value);
    std::set<RowName> rows{{Family::kObjects, row}};
    std::vector<Piece> pieces = version.record.pieces;
    if (version.record.storage == Storage::kInline) rows.emplace(Family::kInline, NumberKey(version.record.content));
    if (version.record.storage == Storage::kSegmented)
      for (uint32_t segment = 0; segment < SegmentCount(version.record.size_bytes); ++segment) {
        const std::string map = SegmentKey(version.record.content, segment);
        rows.emplace(Family::kMaps, map);
        const auto more = *DecodePieces(map, *twins_.media()->Get(Family::kMaps, map),
                                        SegmentLength(version.record.size_bytes, segment));
        pieces.insert(pieces.end(), more.begin(), more.end());
      }
    for (const Piece& piece : pieces) rows.emplace(Family::kExtents, NumberKey(piece.extent));
    return rows;
  }
  std::vector<RowName> AllRows() {
    std::vector<RowName> rows;
    for (size_t number = 0; number < meta::kFamilies; ++number) {
      const auto family = static_cast<Family>(number);
      std::string from;
      while (const auto row = twins_.media()->First(family, from, {})) {
        const bool own = family == Family::kSystem && (row->first == meta::kCommitKey || row->first == kIdentityKey);
        if (!own) rows.emplace_back(family, row->first);
        from = row->first + '\0';
      }
    }
    return rows;
  }
  void DamageRow(base::Random& random, const RowName& row) {
    std::string value = *twins_.media()->Get(row.first, row.second);
    switch (random.Below(3)) {
      case 0:
        return Set(row.first, row.second, std::nullopt);
      case 1:
        return Set(row.first, row.second, value.substr(0, random.Below(value.size() + 1)));
      default:
        break;
    }
    if (value.empty()) value = "x";
    const uint64_t bit = random.Below(8 * value.size());
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << (bit % 8)));
    Set(row.first, row.second, value);
  }
};

TEST_P(RepairPropertyTest, WhatWasNotDamagedIsRightAfterwardsAlsoAfterCuts) {
  base::SeededRandom random(GetParam());
  twins_.Reopen();
  for (int i = 0; i < 30; ++i)
    Put("object" + std::to_string(i), RandomContent(100 + i, random.Below(i % 2 == 0 ? 1024 : 200'000)));
  twins_.Close();
  std::map<std::string, std::set<RowName>> rows_of;
  for (const auto& [key, content] : contents_) rows_of[key] = RowsOf(key);
  std::vector<RowName> rows = AllRows();
  std::set<RowName> damaged;
  const uint64_t count = 1 + random.Below(8);
  for (uint64_t i = 0; i < count; ++i) {
    const RowName row = rows[random.Below(rows.size())];
    if (damaged.insert(row).second) DamageRow(random, row);
  }
  // Cut short, some times.
  for (uint64_t cuts = random.Below(4); cuts != 0; --cuts) {
    Repair({}, {.commits = random.Below(6), .batch_bytes = 1 + random.Below(200)});
    twins_.disk().DropUnflushed();
  }
  const RepairPlan plan = Repair();
  ASSERT_TRUE(applied_.ok()) << applied_.ToString();
  ASSERT_EQ(Errors(), "") << "seed " << GetParam() << "\n" << FormatRepair(plan).substr(0, 4000);
  EXPECT_TRUE(Repair().empty()) << "seed " << GetParam();
  twins_.Reopen();
  std::string bucket = "bucket";
  if (!twins_.Run(twins_.engine().GetBucket(twins_.context(), bucket)).ok()) bucket = "lost-1";
  for (const auto& [key, content] : contents_) {
    const bool hit = std::ranges::any_of(rows_of[key], [&](const RowName& row) { return damaged.contains(row); });
    if (hit) continue;
    const auto reader = twins_.Run(twins_.engine().Open(twins_.context(), bucket, key, {}));
    ASSERT_TRUE(reader.ok()) << "seed " << GetParam() << ", " << key << ": " << reader.status().ToString();
    ASSERT_EQ((*reader)->info().size_bytes, content.size());
    for (uint64_t at = 0; at < content.size(); at += base::kMaxChunkBytes) {
      const uint64_t length = std::min<uint64_t>(base::kMaxChunkBytes, content.size() - at);
      const Result<std::string> got = twins_.Read(**reader, at, length);
      ASSERT_TRUE(got.ok() && *got == content.substr(at, length))
          << "seed " << GetParam() << ", " << key << " at " << at << ": " << got.status().ToString();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RepairPropertyTest, testing::Range<uint64_t>(1, 13));

}  // namespace
}  // namespace forebay::engine
