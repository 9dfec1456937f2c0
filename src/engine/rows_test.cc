// SPDX-License-Identifier: Apache-2.0
#include "engine/cache_rows.h"
#include "engine/rows.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/codec.h"
#include "base/random.h"
#include "engine/upload_rows.h"

namespace forebay::engine {
namespace {

constexpr uint64_t kBucket = 3;

ObjectRecord InlineObject() {
  return {.content = 1,
          .size_bytes = 9,
          .crc32c = 0xe3069283,
          .etag = "abc",
          .modified_ns = 1'700'000'000'000'000'000,
          .metadata = {{"color", "blue"}},
          .storage = Storage::kInline};
}

ObjectRecord MappedObject() {
  ObjectRecord record = InlineObject();
  record.storage = Storage::kMap;
  record.size_bytes = 5'000'000;
  record.pieces = {{.extent = 7, .offset = 0, .length = 4'194'304},
                   {.extent = 8, .offset = 4096, .length = 805'696}};
  return record;
}

PartRecord Part() {
  return {.size_bytes = 5'000'000,
          .crc32c = 0xe3069283,
          .etag = "abc",
          .modified_ns = 1'700'000'000'000'000'000,
          .pieces = MappedObject().pieces};
}

ExtentRecord Extent() {
  return {.device = 1,
          .first_unit = 256,
          .length_bytes = 70'000,
          .block_shift = 16,
          .references = 2,
          .checksums = {1, 2}};
}

TEST(KeysTest, TheNewestVersionOfAnObjectComesFirst) {
  EXPECT_LT(EncodeObjectKey(kBucket, "a", 9), EncodeObjectKey(kBucket, "a", 8));
  EXPECT_EQ(base::ToHex(AsBytes(EncodeObjectKey(3, "a", 1))),
            "0000000000000003"
            "61"
            "00"
            "fffffffffffffffe");
}

TEST(KeysTest, ObjectsAreInTheOrderOfTheirKeys) {
  EXPECT_LT(EncodeObjectKey(kBucket, "a", 1), EncodeObjectKey(kBucket, "a\x01", 99));
  EXPECT_LT(EncodeObjectKey(kBucket, "a", 1), EncodeObjectKey(kBucket, "aa", 99));
  EXPECT_LT(EncodeObjectKey(kBucket, "a/b", 1), EncodeObjectKey(kBucket, "b", 1));
  EXPECT_LT(EncodeObjectKey(3, "z", 1), EncodeObjectKey(4, "a", 1));
}

TEST(KeysTest, TheBoundsOfAnObjectHoldItsVersionsOnly) {
  for (const uint64_t version : {1UL, 2UL, 1UL << 63, UINT64_MAX}) {
    EXPECT_GE(EncodeObjectKey(kBucket, "key", version), FirstVersion(kBucket, "key"));
    EXPECT_LT(EncodeObjectKey(kBucket, "key", version), EndOfVersions(kBucket, "key"));
    EXPECT_FALSE(EncodeObjectKey(kBucket, "key\x01", version) < EndOfVersions(kBucket, "key"));
  }
}

TEST(KeysTest, ComeBack) {
  const std::string key = EncodeObjectKey(12, "models/llama", 34);
  const Result<ObjectKey> name = DecodeObjectKey(key);
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->bucket, 12U);
  EXPECT_EQ(name->key, "models/llama");
  EXPECT_EQ(name->version, 34U);
  EXPECT_EQ(DecodeSegmentKey(SegmentKey(5, 6))->segment, 6U);
  EXPECT_EQ(DecodeGroupKey(GroupKey(2, 9))->device, 2U);
  EXPECT_EQ(DecodeGroupKey(GroupKey(2, 9))->group, 9U);
}

TEST(KeysTest, NonsenseIsRefused) {
  EXPECT_EQ(DecodeObjectKey("short").status().code(), Code::kDataLoss);
  std::string key = EncodeObjectKey(1, "key", 1);
  key[8 + 3] = 'x';  // the separator
  EXPECT_EQ(DecodeObjectKey(key).status().code(), Code::kDataLoss);
  EXPECT_EQ(DecodeNumberKey("1234567").status().code(), Code::kDataLoss);
  EXPECT_EQ(DecodeSegmentKey("1234567890123").status().code(), Code::kDataLoss);
}

TEST(KeysTest, UploadsStandByKeyAndTheirPartsByNumber) {
  const std::vector<std::string> keys = {EncodeUploadKey(3, "a", 9), EncodeUploadKey(3, "b", 2), EncodeUploadKey(3, "b", 300),
                                         EncodeUploadKey(3, "b\x01", 1), EncodeUploadKey(3, "ba", 1), EncodeUploadKey(4, "a", 1)};
  EXPECT_TRUE(std::ranges::is_sorted(keys));
  const Result<UploadKey> key = DecodeUploadKey(keys[2]);
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->bucket, 3U);
  EXPECT_EQ(key->key, "b");
  EXPECT_EQ(key->upload, 300U);
  EXPECT_LT(EncodePartKey(7, 255), EncodePartKey(7, 256));
  EXPECT_EQ(DecodePartKey(EncodePartKey(7, 256))->number, 256U);
  EXPECT_EQ(DecodePartKey(EncodePartKey(7, 256))->upload, 7U);
  for (const std::string& bad : {std::string("engine/upload/"), keys[0].substr(0, keys[0].size() - 1), EncodeUploadKey(3, "", 9),
                                 EncodeUploadKey(3, "a", 0), std::string("engine/uploaD/") + keys[0].substr(14)})
    EXPECT_EQ(DecodeUploadKey(bad).status().code(), Code::kDataLoss) << bad;
  for (const std::string& bad : {std::string("engine/part/"), EncodePartKey(7, 0), EncodePartKey(0, 1), EncodePartKey(7, 10'001),
                                 EncodePartKey(7, 1) + "x"})
    EXPECT_EQ(DecodePartKey(bad).status().code(), Code::kDataLoss) << bad;
}

ExtentRecord CacheExtent() {
  ExtentRecord record = Extent();
  record.cache = true;
  return record;
}
OrderRecord Order() { return {.key = "key", .size_bytes = 9, .put_ms = 0x017f22e279b0}; }
store::BucketInfo CacheInfo() {
  return {.name = "bucket",
          .bucket_class = store::BucketClass::kCache,
          .created = base::WallTime(base::Duration(1'700'000'000'000'000'000)),
          .ttl = std::chrono::hours(1)};
}

/// One kind of record: an example under its key, and the decoder.
struct Kind {
  std::string name;
  std::string key;
  std::string value;
  std::function<Status(std::string_view, std::string_view)> decode;
  char newest_format = 1;
};

std::vector<Kind> Kinds() {
  const std::string object_key = EncodeObjectKey(kBucket, "key", 1);
  const std::string renamed_key = EncodeObjectKey(kBucket, "key", 4);  // its content is that of version 1
  const auto object = [](std::string_view key, std::string_view value) {
    return DecodeObject(key, value).status();
  };
  GroupBitmap bitmap{};
  bitmap[3] = 0xff00;
  return {
      {"inline object", object_key, EncodeObject(object_key, InlineObject()), object, 2},
      {"mapped object", object_key, EncodeObject(object_key, MappedObject()), object, 2},
      {"renamed object", renamed_key, EncodeObject(renamed_key, InlineObject()), object, 2},
      {"pieces", SegmentKey(1, 0), EncodePieces(SegmentKey(1, 0), MappedObject().pieces),
       [](std::string_view key, std::string_view value) {
         return DecodePieces(key, value, 5'000'000).status();
       }},
      {"extent", NumberKey(7), EncodeExtent(NumberKey(7), Extent()),
       [](std::string_view key, std::string_view value) { return DecodeExtent(key, value).status(); }, 2},
      {"cache extent", NumberKey(7), EncodeExtent(NumberKey(7), CacheExtent()),
       [](std::string_view key, std::string_view value) { return DecodeExtent(key, value).status(); }, 2},
      {"cache order", EncodeOrderKey({3, 5}), EncodeOrder(EncodeOrderKey({3, 5}), Order()),
       [](std::string_view key, std::string_view value) { return DecodeOrder(key, value).status(); }},
      {"pin", EncodePinKey({3, 5}), EncodePin(EncodePinKey({3, 5}), {.until_ms = 5, .size_bytes = 9}),
       [](std::string_view key, std::string_view value) { return DecodePin(key, value).status(); }},
      {"cache totals", std::string(kCacheTotalsKey), EncodeCacheTotals({.device_bytes = 4096, .clock_ms = 5}),
       [](std::string_view, std::string_view value) { return DecodeCacheTotals(value).status(); }},
      {"cache bucket", "bucket", EncodeBucket("bucket", {.id = 3, .info = CacheInfo()}),
       [](std::string_view key, std::string_view value) { return DecodeBucket(key, value).status(); }},
      {"bucket", "bucket", EncodeBucket("bucket", {.id = 3, .info = {.name = "bucket"}}),
       [](std::string_view key, std::string_view value) { return DecodeBucket(key, value).status(); }},
      {"group", GroupKey(0, 1), EncodeGroup(GroupKey(0, 1), bitmap),
       [](std::string_view key, std::string_view value) { return DecodeGroup(key, value).status(); }},
      {"upload", EncodeUploadKey(kBucket, "key", 7),
       EncodeUpload(EncodeUploadKey(kBucket, "key", 7), {.created_ns = 5, .metadata = {{"color", "blue"}}}),
       [](std::string_view key, std::string_view value) { return DecodeUpload(key, value).status(); }},
      {"part", EncodePartKey(7, 3), EncodePart(EncodePartKey(7, 3), Part()),
       [](std::string_view key, std::string_view value) { return DecodePart(key, value).status(); }},
      {"counters", std::string(kCountersKey),
       EncodeCounters({.next_extent = 5, .next_version = 6, .next_bucket = 7}),
       [](std::string_view, std::string_view value) { return DecodeCounters(value).status(); }},
      {"identity", std::string(kIdentityKey), EncodeIdentity(Uuid()),
       [](std::string_view, std::string_view value) { return DecodeIdentity(value).status(); }, 5},
  };
}

TEST(RowsTest, ComeBack) {
  const std::string key = EncodeObjectKey(kBucket, "key", 1);
  EXPECT_EQ(*DecodeObject(key, EncodeObject(key, InlineObject())), InlineObject());
  EXPECT_EQ(*DecodeObject(key, EncodeObject(key, MappedObject())), MappedObject());
  const std::string renamed = EncodeObjectKey(kBucket, "key", 4);
  EXPECT_EQ(*DecodeObject(renamed, EncodeObject(renamed, InlineObject())), InlineObject());
  ObjectRecord kept = MappedObject();
  kept.kept = true;
  EXPECT_EQ(*DecodeObject(key, EncodeObject(key, kept)), kept);
  const std::string later = EncodeObjectKey(kBucket, "key", 9);
  kept.null_version = 8;
  kept.content = 9;
  EXPECT_EQ(*DecodeObject(later, EncodeObject(later, kept)), kept);
  kept.null_version = 9;
  EXPECT_EQ(DecodeObject(later, EncodeObject(later, kept)).status().code(), Code::kDataLoss);
  kept.null_version = 0;
  kept.content = 1;
  kept.attributes = {{"posix.mode", "0644"}, {"s3.tag", ""}};
  EXPECT_EQ(*DecodeObject(key, EncodeObject(key, kept)), kept);
  ObjectRecord marker{.delete_marker = true, .kept = true, .content = 1, .etag = {}, .modified_ns = 5, .metadata = {}, .pieces = {}};
  EXPECT_EQ(*DecodeObject(key, EncodeObject(key, marker)), marker);
  marker.size_bytes = 1;
  EXPECT_EQ(DecodeObject(key, EncodeObject(key, marker)).status().code(), Code::kDataLoss);
  ObjectRecord own = InlineObject();
  own.content = 0;
  EXPECT_EQ(DecodeObject(renamed, EncodeObject(renamed, own))->content, 4U);
  EXPECT_EQ(*DecodeExtent(NumberKey(7), EncodeExtent(NumberKey(7), Extent())), Extent());
  const std::string part = EncodePartKey(7, 3);
  EXPECT_EQ(*DecodePart(part, EncodePart(part, Part())), Part());
  const std::string upload = EncodeUploadKey(kBucket, "key", 7);
  const UploadRecord upload_record{.created_ns = 5, .metadata = {{"color", "blue"}}};
  EXPECT_EQ(*DecodeUpload(upload, EncodeUpload(upload, upload_record)), upload_record);
  const Counters counters{.next_extent = 5, .next_version = 6, .next_bucket = 7};
  EXPECT_EQ(*DecodeCounters(EncodeCounters(counters)), counters);
  store::BucketInfo info{.name = "models", .owner = TenantId{9}, .bucket_class = store::BucketClass::kCache};
  info.versioning = store::Versioning::kSuspended;
  const BucketRecord bucket = *DecodeBucket("models", EncodeBucket("models", {.id = 4, .info = info}));
  EXPECT_EQ(bucket.id, 4U);
  EXPECT_EQ(bucket.info.owner, TenantId{9});
  EXPECT_EQ(bucket.info.bucket_class, store::BucketClass::kCache);
  EXPECT_EQ(bucket.info.versioning, store::Versioning::kSuspended);
}

// The examples of docs/formats/metadata.md; their checksums were computed with another implementation.
TEST(RowsTest, HaveTheDocumentedBytes) {
  const auto hex = [](const std::string& bytes) { return base::ToHex(AsBytes(bytes)); };
  const std::string object = EncodeObjectKey(kBucket, "key", 1);
  EXPECT_EQ(hex(object), "00000000000000036b657900fffffffffffffffe");
  EXPECT_EQ(hex(EncodeObject(object, InlineObject())),
            "01"
            "000109"
            "839206e3"
            "03616263"
            "00002a36fe9c9717"
            "01"
            "05636f6c6f72"
            "04626c7565"
            "84738106");
  const std::string renamed = EncodeObjectKey(kBucket, "key", 4);
  EXPECT_EQ(hex(renamed), "00000000000000036b657900fffffffffffffffb");
  EXPECT_EQ(hex(EncodeObject(renamed, InlineObject())),
            "02"
            "02010109"
            "839206e3"
            "03616263"
            "00002a36fe9c9717"
            "01"
            "05636f6c6f72"
            "04626c7565"
            "795d290c");
  EXPECT_EQ(hex(SegmentKey(1, 0)), "000000000000000100000000");
  EXPECT_EQ(hex(EncodePieces(SegmentKey(1, 0), MappedObject().pieces)),
            "01"
            "02"
            "070080808002"
            "088020c09631"
            "fc83a908");
  std::vector<Piece> with_hole = MappedObject().pieces;
  with_hole.insert(with_hole.begin() + 1, {.extent = kHole, .offset = 0, .length = 8 << 20});
  EXPECT_EQ(hex(EncodePieces(SegmentKey(1, 0), with_hole)),
            "01"
            "03"
            "070080808002"
            "000080808004"
            "088020c09631"
            "889c45a6");
  EXPECT_EQ(*DecodePieces(SegmentKey(1, 0), EncodePieces(SegmentKey(1, 0), with_hole), 5'000'000 + (8 << 20)), with_hole);
  EXPECT_EQ(hex(NumberKey(7)), "0000000000000007");
  EXPECT_EQ(hex(EncodeExtent(NumberKey(7), Extent())),
            "01"
            "018002f0a2041002"
            "0100000002000000"
            "ed600856");
  EXPECT_EQ(hex(EncodeExtent(NumberKey(7), CacheExtent())),
            "0201"
            "018002f0a2041002"
            "0100000002000000"
            "da717688");
  EXPECT_EQ(*DecodeExtent(NumberKey(7), EncodeExtent(NumberKey(7), CacheExtent())), CacheExtent());
  const std::string order_key = EncodeOrderKey({3, 5});
  EXPECT_EQ(hex(order_key), "656e67696e652f63616368652f6f726465722f" "0000000000000003" "0000000000000005");
  EXPECT_EQ(hex(EncodeOrder(order_key, Order())), "01" "b0f38997f22f" "09" "036b6579" "8a90fe67");
  EXPECT_EQ(*DecodeOrder(order_key, EncodeOrder(order_key, Order())), Order());
  EXPECT_EQ(*DecodeOrderKey(order_key), (CachedName{3, 5}));
  const std::string pin_key = EncodePinKey({3, 5});
  const PinRecord pin{.until_ms = 0x017f22e279b0 + 3'600'000, .size_bytes = 9};
  EXPECT_EQ(hex(pin_key), "656e67696e652f63616368652f70696e2f" "0000000000000003" "0000000000000005");
  EXPECT_EQ(hex(EncodePin(pin_key, pin)), "01" "b0d0e598f22f" "09" "c0fe2239");
  EXPECT_EQ(*DecodePin(pin_key, EncodePin(pin_key, pin)), pin);
  const CacheTotals totals{.device_bytes = 73'728, .clock_ms = 0x017f22e279b0};
  EXPECT_EQ(hex(EncodeCacheTotals(totals)), "01" "0020010000000000" "b079e2227f010000" "3a3069b2");
  EXPECT_EQ(*DecodeCacheTotals(EncodeCacheTotals(totals)), totals);
  EXPECT_EQ(hex(EncodeBucket("bucket", {.id = 3, .info = CacheInfo()})),
            "01"
            "04030101"
            "00002a36fe9c9717"
            "80dddb01"
            "1f4096be");
  EXPECT_EQ(DecodeBucket("bucket", EncodeBucket("bucket", {.id = 3, .info = CacheInfo()}))->info.ttl, std::chrono::hours(1));
  const store::BucketInfo info{.name = "bucket",
                               .created = base::WallTime(base::Duration(1'700'000'000'000'000'000))};
  EXPECT_EQ(hex(EncodeBucket("bucket", {.id = 3, .info = info})),
            "01"
            "00030100"
            "00002a36fe9c9717"
            "ad7b7314");
  EXPECT_EQ(hex(EncodeCounters({.next_extent = 5, .next_version = 6, .next_bucket = 7})),
            "01"
            "0500000000000000"
            "0600000000000000"
            "0700000000000000"
            "37e852f8");
  Uuid store;
  ASSERT_TRUE(Uuid::Parse("00112233-4455-4677-8899-aabbccddeeff", &store));
  EXPECT_EQ(hex(EncodeIdentity(store)),
            "05"
            "00112233445546778899aabbccddeeff"
            "2cabf452");
  std::string before_accounts(21, '\0');  // format 1
  ASSERT_TRUE(base::FromHex("0100112233445546778899aabbccddeeffa1ac8b28",
                            std::as_writable_bytes(std::span(before_accounts))));
  EXPECT_EQ(DecodeIdentity(before_accounts)->store, store);
  EXPECT_FALSE(DecodeIdentity(before_accounts)->current);
  EXPECT_TRUE(DecodeIdentity(EncodeIdentity(store))->current);
  GroupBitmap bitmap{};
  bitmap[3] = 0xff00;  // units 4296 to 4303
  EXPECT_EQ(hex(GroupKey(0, 1)), "0000000000000001");
  EXPECT_EQ(hex(EncodeGroup(GroupKey(0, 1), bitmap)),
            "01" + std::string(50, '0') + "ff" + std::string(972, '0') + "f463f94f");
}

TEST(RowsTest, EveryTruncationIsRefused) {
  for (const Kind& kind : Kinds()) {
    ASSERT_TRUE(kind.decode(kind.key, kind.value).ok()) << kind.name;
    for (size_t length = 0; length < kind.value.size(); ++length)
      EXPECT_EQ(kind.decode(kind.key, kind.value.substr(0, length)).code(), Code::kDataLoss)
          << kind.name << " " << length;
    EXPECT_EQ(kind.decode(kind.key, kind.value + "x").code(), Code::kDataLoss) << kind.name;
  }
}

TEST(RowsTest, EveryFlippedBitIsSeen) {
  for (const Kind& kind : Kinds()) {
    for (size_t bit = 0; bit < kind.value.size() * 8; ++bit) {
      std::string bad = kind.value;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_EQ(kind.decode(kind.key, bad).code(), Code::kDataLoss) << kind.name << " bit " << bit;
    }
  }
}

TEST(RowsTest, ARowUnderAnotherKeyIsSeen) {
  for (const Kind& kind : Kinds()) {
    if (kind.name == "counters" || kind.name == "identity" || kind.name == "cache totals") continue;  // they have one key
    std::string other = kind.key;
    other.back() = static_cast<char>(other.back() ^ 1);
    EXPECT_EQ(kind.decode(other, kind.value).code(), Code::kDataLoss) << kind.name;
  }
}

/// A record with a right checksum around a body that makes no sense.
std::string Sealed(std::string_view key, std::string body) {
  base::Encoder(&body).U32(base::Crc32cExtend(base::Crc32c(AsBytes(key)), AsBytes(body)));
  return body;
}

TEST(RowsTest, RandomBodiesWithARightChecksumNeverPassTheLimits) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 4711;
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  base::SeededRandom random(seed);
  for (const Kind& kind : Kinds()) {
    for (int round = 0; round < 2000; ++round) {
      std::string body = kind.value.substr(0, kind.value.size() - 4);
      for (uint64_t i = 0; i <= random.Below(4); ++i)
        body[1 + random.Below(body.size() - 1)] = static_cast<char>(random.Next64());
      if (random.Below(4) == 0) body.resize(1 + random.Below(body.size()));
      const std::string value = Sealed(kind.key, body);
      const Status status = kind.decode(kind.key, value);
      EXPECT_TRUE(status.ok() || status.code() == Code::kDataLoss) << kind.name;
      if (kind.name == "extent" && status.ok()) {
        const ExtentRecord record = *DecodeExtent(kind.key, value);
        EXPECT_LE(record.length_bytes, kMaxExtentBytes);
        EXPECT_EQ(record.checksums.size(),
                  base::DivideUp(record.length_bytes, uint64_t{1} << record.block_shift));
      }
      if (kind.name == "mapped object" && status.ok()) {
        const ObjectRecord record = *DecodeObject(kind.key, value);
        uint64_t total = 0;
        for (const Piece& piece : record.pieces) total += piece.length;
        if (record.storage == Storage::kMap) EXPECT_EQ(total, record.size_bytes);
      }
    }
  }
}

TEST(RowsTest, ANewerFormatIsRefusedAsSuch) {
  for (const Kind& kind : Kinds()) {
    std::string body = kind.value.substr(0, kind.value.size() - 4);
    body[0] = static_cast<char>(kind.newest_format + 1);
    const Status status = kind.decode(kind.key, Sealed(kind.key, body));
    EXPECT_EQ(status.code(), Code::kFailedPrecondition) << kind.name;
    EXPECT_NE(status.message().find("use a newer forebay"), std::string::npos) << kind.name;
  }
}

TEST(RowsTest, ContentIsNeverYoungerThanTheVersionThatHasIt) {
  const std::string key = EncodeObjectKey(kBucket, "key", 4);
  ObjectRecord record = InlineObject();
  record.content = 5;
  EXPECT_EQ(DecodeObject(key, EncodeObject(key, record)).status().code(), Code::kDataLoss);
}

TEST(RowsTest, AHoleStandsNowhere) {
  const std::string key = SegmentKey(1, 0);
  const auto decode = [&](const Piece& piece, uint64_t bytes) {
    return DecodePieces(key, EncodePieces(key, std::vector{piece}), bytes).status().code();
  };
  EXPECT_EQ(decode({.extent = kHole, .offset = 0, .length = kSegmentBytes}, kSegmentBytes), Code::kOk);
  EXPECT_EQ(decode({.extent = kHole, .offset = 1, .length = 10}, 10), Code::kDataLoss);
  EXPECT_EQ(decode({.extent = kHole, .offset = 0, .length = 11}, 10), Code::kDataLoss);
  EXPECT_EQ(decode({.extent = 1, .offset = 0, .length = kMaxExtentBytes + 1}, kMaxExtentBytes + 1), Code::kDataLoss);
}

TEST(RowsTest, AHugeCountOfPiecesAllocatesNothing) {
  std::string body("\x01", 1);
  base::Encoder(&body).Varint(UINT64_MAX);
  const std::string key = SegmentKey(1, 0);
  EXPECT_EQ(DecodePieces(key, Sealed(key, body), 100).status().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace forebay::engine
