// SPDX-License-Identifier: Apache-2.0
#include "engine/rows.h"

#include <algorithm>
#include <utility>

#include "base/codec.h"
#include "base/limits.h"
#include "engine/row_frame.h"
#include "store/tenancy.h"

namespace forebay::engine {
namespace {

/// 2: the accounts of tenants are kept. 3: objects may share extents, and have content under another number than
/// their version's; operations have new kinds. 4: objects may have holes and attributes, and buckets versions. 5: objects of cache-class
/// buckets stand in an order, and their extents say whose they are. A program that does not know these would leave them wrong,
/// so it is made to refuse; older ones are read.
constexpr uint8_t kIdentityFormat = 5;
/// Of an object's record that has kContentFlag.
constexpr uint8_t kContentFormat = 2;
/// Of an extent's record that has flags.
constexpr uint8_t kFlaggedExtentFormat = 2;
constexpr uint8_t kCacheFlag = 1;
constexpr uint8_t kDeleteMarkerFlag = 1;
constexpr uint8_t kContentFlag = 2;
constexpr uint8_t kKeptFlag = 4;
constexpr uint8_t kAttributesFlag = 8;
constexpr uint8_t kNullVersionFlag = 16;
constexpr uint8_t kObjectFlags = kDeleteMarkerFlag | kContentFlag | kKeptFlag | kAttributesFlag | kNullVersionFlag;
constexpr uint8_t kVersioningOnFlag = 1;  // of a bucket
constexpr uint8_t kVersioningSuspendedFlag = 2;
constexpr uint8_t kTtlFlag = 4;
constexpr size_t kVersionBytes = 8;

/// The version that ends the key of an object's row, which is long enough; 0 when it is not.
uint64_t VersionOf(std::string_view row_key) {
  if (row_key.size() < kVersionBytes) return 0;
  return ~base::Decoder(row_key.substr(row_key.size() - kVersionBytes)).U64BigEndian();
}

uint8_t FlagsOf(store::Versioning versioning) {
  switch (versioning) {
    case store::Versioning::kOff:
      return 0;
    case store::Versioning::kOn:
      return kVersioningOnFlag;
    case store::Versioning::kSuspended:
      return kVersioningSuspendedFlag;
  }
  std::unreachable();
}

bool SizeSuitsStorage(const ObjectRecord& record) {
  switch (record.storage) {
    case Storage::kInline:
      return record.size_bytes <= kMaxInlineContent;
    case Storage::kMap:
      return record.size_bytes > 0 && record.size_bytes <= kSegmentBytes;
    case Storage::kSegmented:
      return record.size_bytes > kSegmentBytes && record.size_bytes <= base::kMaxObjectBytes;
  }
  return false;
}

}  // namespace

// ---- keys ----

std::string BucketPrefix(uint64_t bucket) { return NumberKey(bucket); }

std::string ObjectPrefix(uint64_t bucket, std::string_view key) {
  std::string out;
  out.reserve(sizeof(bucket) + key.size() + 1 + kVersionBytes);
  base::Encoder encoder(&out);
  encoder.U64BigEndian(bucket);
  encoder.Raw(key);
  encoder.U8(0);
  return out;
}

std::string EncodeObjectKey(uint64_t bucket, std::string_view key, uint64_t version) {
  std::string out = ObjectPrefix(bucket, key);
  base::Encoder(&out).U64BigEndian(~version);
  return out;
}

std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

Result<ObjectKey> DecodeObjectKey(std::string_view row_key) {
  const RowName name{"object", row_key};
  if (row_key.size() < sizeof(uint64_t) + 1 + kVersionBytes) return Nonsense(name, "its key is too short");
  base::Decoder decoder(row_key);
  ObjectKey out;
  out.bucket = decoder.U64BigEndian();
  out.key = decoder.Raw(decoder.remaining() - 1 - kVersionBytes);
  const uint8_t separator = decoder.U8();
  out.version = ~decoder.U64BigEndian();
  if (separator != 0 || !base::CheckKey(out.key).ok()) return Nonsense(name, "its key makes no sense");
  return out;
}

std::string NumberKey(uint64_t number) {
  std::string out;
  base::Encoder(&out).U64BigEndian(number);
  return out;
}

Result<uint64_t> DecodeNumberKey(std::string_view row_key) {
  base::Decoder decoder(row_key);
  const uint64_t number = decoder.U64BigEndian();
  FB_TRY(Finish(decoder, {"numbered", row_key}));
  return number;
}

std::string SegmentKey(uint64_t content, uint32_t segment) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U64BigEndian(content);
  for (int shift = 24; shift >= 0; shift -= 8) encoder.U8(static_cast<uint8_t>(segment >> shift));
  return out;
}

Result<SegmentName> DecodeSegmentKey(std::string_view row_key) {
  base::Decoder decoder(row_key);
  SegmentName out;
  out.content = decoder.U64BigEndian();
  for (int i = 0; i < 4; ++i) out.segment = (out.segment << 8) | decoder.U8();
  FB_TRY(Finish(decoder, {"map", row_key}));
  return out;
}

std::string GroupKey(uint32_t device, uint32_t group) { return NumberKey((uint64_t{device} << 32) | group); }

Result<GroupName> DecodeGroupKey(std::string_view row_key) {
  FB_ASSIGN(const uint64_t number, DecodeNumberKey(row_key));
  return GroupName{.device = static_cast<uint32_t>(number >> 32), .group = static_cast<uint32_t>(number)};
}

// ---- records ----

std::string EncodeObject(std::string_view row_key, const ObjectRecord& record) {
  std::string out;
  base::Encoder encoder(&out);
  const bool other_content = record.content != 0 && record.content != VersionOf(row_key);
  encoder.U8(other_content ? kContentFormat : kRecordFormat);
  encoder.U8(static_cast<uint8_t>((record.delete_marker ? kDeleteMarkerFlag : 0) | (other_content ? kContentFlag : 0) |
                                  (record.kept ? kKeptFlag : 0) | (record.attributes.empty() ? 0 : kAttributesFlag) |
                                  (record.null_version == 0 ? 0 : kNullVersionFlag)));
  if (other_content) encoder.Varint(record.content);
  if (record.null_version != 0) encoder.Varint(record.null_version);
  encoder.U8(static_cast<uint8_t>(record.storage));
  encoder.Varint(record.size_bytes);
  encoder.U32(record.crc32c);
  encoder.Blob(record.etag);
  encoder.U64(static_cast<uint64_t>(record.modified_ns));
  PutMetadata(encoder, record.metadata);
  if (!record.attributes.empty()) PutMetadata(encoder, record.attributes);
  if (record.storage == Storage::kMap) PutPieces(encoder, record.pieces);
  return Seal(row_key, std::move(out));
}

Result<ObjectRecord> DecodeObject(std::string_view row_key, std::string_view value) {
  const RowName name{"object", row_key};
  FB_ASSIGN(const std::string_view body, Unseal(name, value, kContentFormat));
  base::Decoder decoder(body);
  ObjectRecord record;
  const uint8_t flags = decoder.U8();
  record.delete_marker = (flags & kDeleteMarkerFlag) != 0;
  record.kept = (flags & kKeptFlag) != 0;
  const uint64_t version = VersionOf(row_key);
  record.content = (flags & kContentFlag) != 0 ? decoder.Varint() : version;
  if (record.content == 0 || record.content > version) decoder.Fail();
  if ((flags & kNullVersionFlag) != 0) {
    record.null_version = decoder.Varint();
    if (!record.kept || record.null_version == 0 || record.null_version >= version) decoder.Fail();
  }
  record.storage = static_cast<Storage>(decoder.U8());
  record.size_bytes = decoder.Varint();
  record.crc32c = decoder.U32();
  record.etag = decoder.Blob(base::kMaxETagBytes);
  record.modified_ns = static_cast<int64_t>(decoder.U64());
  record.metadata = TakeMetadata(decoder);
  if ((flags & kAttributesFlag) != 0) record.attributes = TakeMetadata(decoder);
  if ((flags & ~kObjectFlags) != 0 || !SizeSuitsStorage(record)) decoder.Fail();
  if (record.delete_marker && record.size_bytes != 0) decoder.Fail();
  if (record.storage == Storage::kMap && !decoder.failed())
    record.pieces = TakePieces(decoder, record.size_bytes);
  FB_TRY(Finish(decoder, name));
  return record;
}

std::string EncodePieces(std::string_view row_key, std::span<const Piece> pieces) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  PutPieces(encoder, pieces);
  return Seal(row_key, std::move(out));
}

Result<std::vector<Piece>> DecodePieces(std::string_view row_key, std::string_view value,
                                        uint64_t expected_bytes) {
  const RowName name{"map", row_key};
  FB_ASSIGN(const std::string_view body, Unseal(name, value));
  base::Decoder decoder(body);
  std::vector<Piece> pieces = TakePieces(decoder, expected_bytes);
  FB_TRY(Finish(decoder, name));
  return pieces;
}

std::string EncodeExtent(std::string_view row_key, const ExtentRecord& record) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(record.cache ? kFlaggedExtentFormat : kRecordFormat);
  if (record.cache) encoder.U8(kCacheFlag);
  encoder.Varint(record.device);
  encoder.Varint(record.first_unit);
  encoder.Varint(record.length_bytes);
  encoder.U8(record.block_shift);
  encoder.Varint(record.references);
  for (const uint32_t checksum : record.checksums) encoder.U32(checksum);
  return Seal(row_key, std::move(out));
}

Result<ExtentRecord> DecodeExtent(std::string_view row_key, std::string_view value) {
  const RowName name{"extent", row_key};
  FB_ASSIGN(const std::string_view body, Unseal(name, value, kFlaggedExtentFormat));
  base::Decoder decoder(body);
  ExtentRecord record;
  record.cache = static_cast<uint8_t>(value.front()) == kFlaggedExtentFormat;
  if (record.cache && decoder.U8() != kCacheFlag) decoder.Fail();
  const uint64_t device = decoder.Varint();
  record.device = static_cast<uint32_t>(device);
  record.first_unit = decoder.Varint();
  record.length_bytes = decoder.Varint();
  record.block_shift = decoder.U8();
  record.references = decoder.Varint();
  const bool sane =
      device <= UINT32_MAX && record.first_unit <= UINT64_MAX / device::kUnit - kMaxExtentBytes &&
      record.length_bytes != 0 && record.length_bytes <= kMaxExtentBytes &&
      record.block_shift >= kMinBlockShift && record.block_shift <= kMaxBlockShift && record.references != 0;
  if (!sane) decoder.Fail();
  if (!decoder.failed()) {
    const uint64_t blocks = base::DivideUp(record.length_bytes, uint64_t{1} << record.block_shift);
    if (blocks * sizeof(uint32_t) != decoder.remaining()) decoder.Fail();
    for (uint64_t i = 0; i < blocks && !decoder.failed(); ++i) record.checksums.push_back(decoder.U32());
  }
  FB_TRY(Finish(decoder, name));
  return record;
}

std::string EncodeBucket(std::string_view name, const BucketRecord& record) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  const bool has_ttl = record.info.ttl.count() != 0;
  encoder.U8(FlagsOf(record.info.versioning) | (has_ttl ? kTtlFlag : 0));
  encoder.Varint(record.id);
  encoder.Varint(static_cast<uint64_t>(record.info.owner));
  encoder.U8(static_cast<uint8_t>(record.info.bucket_class));
  encoder.U64(static_cast<uint64_t>(record.info.created.time_since_epoch().count()));
  if (has_ttl) encoder.Varint(static_cast<uint64_t>(record.info.ttl.count()));
  return Seal(name, std::move(out));
}

Result<BucketRecord> DecodeBucket(std::string_view name, std::string_view value) {
  const RowName row{"bucket", name};
  FB_ASSIGN(const std::string_view body, Unseal(row, value));
  base::Decoder decoder(body);
  BucketRecord record;
  uint8_t flags = decoder.U8();
  const bool has_ttl = (flags & kTtlFlag) != 0;
  flags &= static_cast<uint8_t>(~kTtlFlag);
  if (flags == kVersioningOnFlag) record.info.versioning = store::Versioning::kOn;
  if (flags == kVersioningSuspendedFlag) record.info.versioning = store::Versioning::kSuspended;
  record.id = decoder.Varint();
  record.info.name = name;
  record.info.owner = static_cast<TenantId>(decoder.Varint());
  const uint8_t bucket_class = decoder.U8();
  record.info.bucket_class = static_cast<store::BucketClass>(bucket_class);
  record.info.created = base::WallTime(base::Duration(static_cast<int64_t>(decoder.U64())));
  const bool is_cache = record.info.bucket_class == store::BucketClass::kCache;
  if (has_ttl) {
    const uint64_t ttl_ms = decoder.Varint();
    if (!is_cache || ttl_ms == 0 || ttl_ms > static_cast<uint64_t>(store::kMaxTtl.count())) decoder.Fail();
    record.info.ttl = std::chrono::milliseconds(static_cast<int64_t>(ttl_ms & INT64_MAX));
  }
  const bool sane = flags == FlagsOf(record.info.versioning) && record.id != 0 &&
                    bucket_class <= static_cast<uint8_t>(store::BucketClass::kCache) &&
                    store::CheckBucketName(record.info.owner, name).ok();
  if (!sane) decoder.Fail();
  FB_TRY(Finish(decoder, row));
  return record;
}

std::string EncodeGroup(std::string_view row_key, const GroupBitmap& bitmap) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  for (const uint64_t word : bitmap) encoder.U64(word);
  return Seal(row_key, std::move(out));
}

Result<GroupBitmap> DecodeGroup(std::string_view row_key, std::string_view value) {
  const RowName name{"free-space", row_key};
  FB_ASSIGN(const std::string_view body, Unseal(name, value));
  base::Decoder decoder(body);
  GroupBitmap bitmap{};
  for (uint64_t& word : bitmap) word = decoder.U64();
  FB_TRY(Finish(decoder, name));
  return bitmap;
}

std::string EncodeCounters(const Counters& counters) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  encoder.U64(counters.next_extent);
  encoder.U64(counters.next_version);
  encoder.U64(counters.next_bucket);
  return Seal(kCountersKey, std::move(out));
}

Result<Counters> DecodeCounters(std::string_view value) {
  constexpr RowName kName{"counters", kCountersKey};
  FB_ASSIGN(const std::string_view body, Unseal(kName, value));
  base::Decoder decoder(body);
  Counters counters;
  counters.next_extent = decoder.U64();
  counters.next_version = decoder.U64();
  counters.next_bucket = decoder.U64();
  if (counters.next_extent == 0 || counters.next_version == 0 || counters.next_bucket == 0) decoder.Fail();
  FB_TRY(Finish(decoder, kName));
  return counters;
}

std::string EncodeIdentity(const Uuid& store) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kIdentityFormat);
  encoder.Raw(ByteView(store.bytes));
  return Seal(kIdentityKey, std::move(out));
}

Result<std::string> EncodeIdentityLike(std::string_view value, const Uuid& store) {
  FB_TRY(DecodeIdentity(value).status());
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(static_cast<uint8_t>(value.front()));
  encoder.Raw(ByteView(store.bytes));
  return Seal(kIdentityKey, std::move(out));
}

Result<Identity> DecodeIdentity(std::string_view value) {
  constexpr RowName kName{"identity", kIdentityKey};
  FB_ASSIGN(const std::string_view body, Unseal(kName, value, kIdentityFormat));
  base::Decoder decoder(body);
  Identity identity{.current = value.front() == static_cast<char>(kIdentityFormat)};
  decoder.Raw(identity.store.bytes);
  FB_TRY(Finish(decoder, kName));
  return identity;
}

}  // namespace forebay::engine
