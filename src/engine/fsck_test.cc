// SPDX-License-Identifier: Apache-2.0
#include "engine/fsck.h"

#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "engine/rows.h"
#include "engine/tenant_accounts.h"
#include "store/system_records.h"

namespace forebay::engine {
namespace {

using meta::Family;

class FsckTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(twins_.CreateBucket().ok());
    ASSERT_TRUE(twins_.Put("small", "inline content").ok());
    ASSERT_TRUE(twins_.Put("medium", RandomContent(1, 300'000)).ok());
    ASSERT_TRUE(twins_.Put("large", RandomContent(2, 65 << 20)).ok());
    ASSERT_TRUE(twins_.Put("gone", RandomContent(3, 300'000)).ok());
    ASSERT_TRUE(twins_.Delete("gone").ok());
    twins_.Close();
  }

  FsckReport Check(bool verify_data = false) { return twins_.Fsck(verify_data); }
  /// The single error, or all of them.
  std::string Errors(bool verify_data = false) {
    std::string all;
    for (const std::string& error : Check(verify_data).errors) all += error + "\n";
    return all;
  }
  /// The first row of a family, and a change of it.
  std::pair<std::string, std::string> FirstRow(Family family) {
    return *twins_.media()->First(family, {}, {});
  }
  void Set(Family family, const std::string& key, std::optional<std::string> value) {
    twins_.media()->Damage(family, key, std::move(value));
  }

  TwinStore twins_;
};

TEST_F(FsckTest, AStoreThatWasUsedIsClean) {
  const FsckReport report = Check(true);
  EXPECT_TRUE(report.clean()) << Errors(true);
  EXPECT_EQ(report.buckets, 1U);
  EXPECT_EQ(report.objects, 3U);
  EXPECT_EQ(report.object_bytes, 14 + 300'000 + (65U << 20));
  EXPECT_EQ(report.verified_bytes, 300'000 + (65U << 20));
  EXPECT_EQ(report.capacity_bytes, 127 * base::kMiB);
}

TEST_F(FsckTest, TheServersOwnRecordsAreCheckedAndNotCounted) {
  twins_.Reopen();
  store::SystemRecords records(twins_.engine());
  ASSERT_TRUE(twins_.Run(records.Open(twins_.reactor())).ok());
  ASSERT_TRUE(twins_.Run(records.Put(twins_.reactor(), "tenant/3", Bytes(100), {})).ok());
  twins_.Close();
  const FsckReport report = Check(true);
  EXPECT_TRUE(report.clean()) << Errors(true);
  EXPECT_EQ(report.buckets, 1U);
  EXPECT_EQ(report.objects, 3U);
  EXPECT_EQ(report.object_bytes, 14 + 300'000 + (65U << 20));
  const auto last = twins_.media()->First(Family::kInline, FirstRow(Family::kInline).first + '\0', {});
  Set(Family::kInline, last->first, std::nullopt);
  EXPECT_EQ(Errors(), "object `_forebay/tenant/3` has no content: its row is missing\n");
}

TEST_F(FsckTest, FindsASecondNullVersion) {
  const auto [key, value] = FirstRow(Family::kObjects);
  const ObjectKey name = *DecodeObjectKey(key);
  ObjectRecord marker;
  marker.delete_marker = true;
  const std::string older = EncodeObjectKey(name.bucket, name.key, name.version - 1);
  Set(Family::kObjects, older, EncodeObject(older, marker));
  EXPECT_NE(Errors().find("has more than one null version"), std::string::npos) << Errors();
}

TEST_F(FsckTest, FindsAUnitThatNothingUses) {
  const auto [key, value] = FirstRow(Family::kGroups);
  GroupBitmap bitmap = *DecodeGroup(key, value);
  bitmap.back() |= uint64_t{1} << 63;
  Set(Family::kGroups, key, EncodeGroup(key, bitmap));
  EXPECT_EQ(Errors(), "unit 4095 of device 0 is a leak: in use, but of no extent\n");
}

TEST_F(FsckTest, FindsAUnitThatIsUsedAndCalledFree) {
  const auto [key, value] = FirstRow(Family::kGroups);
  GroupBitmap bitmap = *DecodeGroup(key, value);
  bitmap[kDataStart / device::kUnit / 64] = 0;
  Set(Family::kGroups, key, EncodeGroup(key, bitmap));
  EXPECT_EQ(Errors(), "unit 256 of device 0 is free, but of an extent\n");
}

TEST_F(FsckTest, FindsAnExtentThatNoObjectHas) {
  const auto [key, value] = FirstRow(Family::kExtents);
  ExtentRecord record = *DecodeExtent(key, value);
  record.first_unit = 30'000;
  record.length_bytes = 1;
  record.checksums = {0};
  const std::string other = NumberKey(1'000'000);
  Set(Family::kExtents, other, EncodeExtent(other, record));
  const std::string errors = Errors();
  EXPECT_NE(errors.find("extent 1000000 is a leak of 4.0 KiB"), std::string::npos) << errors;
  EXPECT_NE(errors.find("extent 1000000 has a number that was not given out"), std::string::npos) << errors;
  EXPECT_NE(errors.find("group 7 of device 0 has extents and no free-space row"), std::string::npos)
      << errors;
}

TEST_F(FsckTest, FindsExtentsThatOverlap) {
  const auto [key, value] = FirstRow(Family::kExtents);
  const auto next = *twins_.media()->First(Family::kExtents, key + '\0', {});
  ExtentRecord record = *DecodeExtent(next.first, next.second);
  record.first_unit = DecodeExtent(key, value)->first_unit + 1;
  Set(Family::kExtents, next.first, EncodeExtent(next.first, record));
  EXPECT_NE(Errors().find("overlaps another one"), std::string::npos) << Errors();
}

TEST_F(FsckTest, FindsAWrongReferenceCount) {
  const auto [key, value] = FirstRow(Family::kExtents);
  ExtentRecord record = *DecodeExtent(key, value);
  record.references = 3;
  Set(Family::kExtents, key, EncodeExtent(key, record));
  EXPECT_EQ(Errors(), fmt::format("extent {} counts 3 references and has 1\n", *DecodeNumberKey(key)));
}

TEST_F(FsckTest, FindsAMissingExtentAndWhoseItWas) {
  const auto [key, value] = FirstRow(Family::kExtents);
  Set(Family::kExtents, key, std::nullopt);
  EXPECT_NE(Errors().find(fmt::format("object `bucket/medium` at offset 0: extent {} does not exist",
                                      *DecodeNumberKey(key))),
            std::string::npos)
      << Errors();
}

TEST_F(FsckTest, FindsAnExtentOutsideOfItsDevice) {
  const auto [key, value] = FirstRow(Family::kExtents);
  ExtentRecord record = *DecodeExtent(key, value);
  record.first_unit = 128 * base::kMiB / device::kUnit - 1;
  Set(Family::kExtents, key, EncodeExtent(key, record));
  EXPECT_NE(Errors().find("outside of the data"), std::string::npos) << Errors();
}

TEST_F(FsckTest, FindsDamagedAndMissingInlineContent) {
  const auto [key, value] = FirstRow(Family::kInline);
  Set(Family::kInline, key, "inline Content");
  EXPECT_EQ(Errors(),
            "object `bucket/small` does not match its checksum: its content in the metadata is damaged\n");
  Set(Family::kInline, key, std::nullopt);
  EXPECT_EQ(Errors(), "object `bucket/small` has no content: its row is missing\n");
}

TEST_F(FsckTest, FindsRowsThatAreLeftOver) {
  Set(Family::kInline, NumberKey(77), "left over");
  const std::string map = SegmentKey(77, 0);
  Set(Family::kMaps, map, EncodePieces(map, {}));
  EXPECT_EQ(Errors(),
            "inline content of content 77 is left over: no object has it\n"
            "map row 0 of content 77 is left over: no object has it\n");
}

TEST_F(FsckTest, FindsAMissingSegment) {
  const auto [key, value] = FirstRow(Family::kMaps);
  Set(Family::kMaps, key, std::nullopt);
  EXPECT_NE(Errors().find("object `bucket/large`: segment 0 of its map is missing"), std::string::npos)
      << Errors();
}

TEST_F(FsckTest, FindsAnAccountThatIsNotWhatIsThere) {
  const std::string root = TenantKey(TenantId::kRoot);
  store::TenantUsage usage{.objects = 3, .bytes = 14 + 300'000 + (65 << 20), .buckets = 1};
  usage.quota.max_objects = 1;  // is nobody's business here
  Set(Family::kSystem, root, EncodeTenant(root, usage));
  EXPECT_EQ(Errors(), "");
  usage.bytes += 1;
  Set(Family::kSystem, root, EncodeTenant(root, usage));
  const std::string other = TenantKey(TenantId{7});
  Set(Family::kSystem, other, EncodeTenant(other, {.buckets = 2}));
  EXPECT_EQ(Errors(),
            "the account of tenant 1 says 3 objects of 68457455 bytes in 1 buckets; there are 3 of 68457454 "
            "bytes in 1\n"
            "the account of tenant 7 says 0 objects of 0 bytes in 2 buckets; there are 0 of 0 bytes in 0\n");
  Set(Family::kSystem, other, "nonsense");
  EXPECT_NE(Errors().find("the tenant row 656e67696e652f74656e616e742f0000000000000007 is damaged"),
            std::string::npos)
      << Errors();
}

TEST_F(FsckTest, AStoreFromBeforeThereWereAccountsIsClean) {
  Set(Family::kSystem, TenantKey(TenantId::kRoot), std::nullopt);
  EXPECT_EQ(Errors(), "");
}

TEST_F(FsckTest, FindsObjectsWithoutABucket) {
  Set(Family::kBuckets, "bucket", std::nullopt);
  EXPECT_NE(Errors().find("object `(bucket 1)/small` is in a bucket that does not exist"), std::string::npos)
      << Errors();
}

TEST_F(FsckTest, EveryRowThatIsDamagedIsFound) {
  for (const Family family : {Family::kBuckets, Family::kObjects, Family::kInline, Family::kMaps,
                              Family::kExtents, Family::kGroups}) {
    const auto [key, value] = FirstRow(family);
    std::string bad = value;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 0x10);
    Set(family, key, bad);
    EXPECT_NE(Errors(), "") << "family " << static_cast<int>(family);
    Set(family, key, value);
  }
  EXPECT_EQ(Errors(), "");
}

TEST_F(FsckTest, OnlyReadingTheDataFindsDamagedBlocks) {
  const auto [key, value] = FirstRow(Family::kExtents);
  const ExtentRecord record = *DecodeExtent(key, value);
  twins_.disk().FlipBit(record.first_unit * device::kUnit + 100'000, 2);
  EXPECT_EQ(Errors(false), "");
  EXPECT_EQ(Errors(true),
            fmt::format("extent {} at 65536 does not match its checksum: unit {} of disk0 is damaged\n"
                        "object `bucket/medium` is damaged at or after offset 0\n",
                        *DecodeNumberKey(key), record.first_unit + 16));
}

TEST_F(FsckTest, KeepsSomeErrorsAndCountsAll) {
  for (uint64_t version = 1000; version < 1500; ++version) Set(Family::kInline, NumberKey(version), "x");
  const FsckReport report = Check();
  EXPECT_EQ(report.error_count, 500U);
  EXPECT_EQ(report.errors.size(), 100U);
}

}  // namespace
}  // namespace forebay::engine
