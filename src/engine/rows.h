// SPDX-License-Identifier: Apache-2.0
// The rows of the metadata: their keys and records, encoded and decoded. docs/formats/metadata.md has the
// grammar with an example of each. Every record ends with a CRC32C over its key and itself, so that a flipped
// bit in memory and a row under a wrong key are seen, not only what RocksDB's own checksums see. Decoders
// take hostile bytes: they fail with DataLoss that names the row, and whatever they give is in range.
// Thread-safe: pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/status.h"
#include "device/device.h"
#include "store/object_store.h"

namespace forebay::engine {

/// What an overwrite writes begins and ends at multiples of this, or of more. docs/engine-parts.md, "Overwrites".
constexpr uint64_t kFineGrain = 4096;

/// Content up to this size lives in the metadata.
constexpr uint64_t kMaxInlineContent = 1024;
/// Objects beyond this size have their map in segments of this size, one row each.
constexpr uint64_t kSegmentBytes = 64 * base::kMiB;
/// Pieces of the map of one segment, of one part of an upload, and of one object: more are refused, so that reading
/// and changing an object stay within bounds: each piece of a chunk that is read may need a unit of memory of its own.
constexpr size_t kMaxSegmentPieces = 4096;
/// Of a segment that was overwritten piece by piece. What writes in grains keeps well below it.
constexpr size_t kMaxOverwrittenPieces = 2 * kMaxSegmentPieces;
constexpr size_t kMaxPartPieces = 16'384;
constexpr size_t kMaxObjectPieces = 2'000'000;
/// What a decoder accepts; the writer makes at most kWriterExtentBytes.
constexpr uint64_t kMaxExtentBytes = 16 * base::kMiB;
constexpr uint64_t kWriterExtentBytes = 4 * base::kMiB;
/// Bytes of an extent under one checksum, as a shift; a record may say another within the two limits.
constexpr uint8_t kWriterBlockShift = 16;
constexpr uint8_t kMinBlockShift = 12;
constexpr uint8_t kMaxBlockShift = 20;
/// A free-space group: 4096 units, 16 MiB, 512 bytes of bitmap.
constexpr uint64_t kGroupUnits = 4096;
constexpr size_t kGroupBitmapBytes = kGroupUnits / 8;
constexpr size_t kGroupBitmapWords = kGroupUnits / 64;

/// Instead of an extent's number: the bytes are zero and stand nowhere.
constexpr uint64_t kHole = 0;

/// A run of an object's bytes in an extent, or a hole. Where it stands in the object follows from the runs before it.
struct Piece {
  uint64_t extent = 0;
  uint64_t offset = 0;  // in the extent; of a hole 0
  uint64_t length = 0;  // never 0
  friend bool operator==(const Piece&, const Piece&) = default;
};

enum class Storage : uint8_t {
  kInline = 1,     // in Family::kInline
  kMap = 2,        // pieces in the object record
  kSegmented = 3,  // pieces in Family::kMaps, one row for each segment
};

struct ObjectRecord {
  bool delete_marker = false;  // then it has no content, and no row of it
  bool kept = false;           // put while the bucket kept versions; not the null version
  uint64_t null_version = 0;   // kept only: the key's when this came, 0 for none. Of its newest row: its now, if it is there
  uint64_t content = 0;  // the number that its rows of kInline or kMaps stand under; 0 to encode: the version's own
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;
  std::string etag;
  int64_t modified_ns = 0;
  store::UserMetadata metadata;
  store::UserMetadata attributes{};
  Storage storage = Storage::kInline;
  std::vector<Piece> pieces;  // kMap only; they add up to size_bytes
  friend bool operator==(const ObjectRecord&, const ObjectRecord&) = default;
};

struct ObjectKey {
  uint64_t bucket = 0;
  std::string_view key;
  uint64_t version = 0;
};

struct ExtentRecord {
  uint32_t device = 0;
  uint64_t first_unit = 0;  // counted from the start of the device
  uint64_t length_bytes = 0;
  uint8_t block_shift = kWriterBlockShift;
  uint64_t references = 1;
  bool cache = false;  // of objects of cache-class buckets only: a power cut may leave other bytes in its place
  std::vector<uint32_t> checksums;  // one for each block; the last block may be short

  uint64_t units() const { return base::DivideUp(length_bytes, device::kUnit); }
  friend bool operator==(const ExtentRecord&, const ExtentRecord&) = default;
};

struct BucketRecord {
  uint64_t id = 0;
  store::BucketInfo info;  // without the name, which is the key
};

/// Numbers that are given out once, for ever.
struct Counters {
  uint64_t next_extent = 1;
  uint64_t next_version = 1;
  uint64_t next_bucket = 1;
  friend bool operator==(const Counters&, const Counters&) = default;
};

using GroupBitmap =
    std::array<uint64_t, kGroupBitmapWords>;  // bit n of word w: unit 64 w + n of the group is in use

// ---- keys ----

constexpr std::string_view kIdentityKey = "engine/identity";
constexpr std::string_view kCountersKey = "engine/counters";

/// Everything of one bucket starts with this.
std::string BucketPrefix(uint64_t bucket);
/// All versions of one object start with this; the newest comes first. Every key of the object is below
/// PrefixEnd of it.
std::string ObjectPrefix(uint64_t bucket, std::string_view key);
std::string EncodeObjectKey(uint64_t bucket, std::string_view key, uint64_t version);
/// The bounds of a search for the versions of one object: at or above, and below. They are those for which
/// the metadata store looks at no other object. No version is 0.
inline std::string FirstVersion(uint64_t bucket, std::string_view key) {
  return EncodeObjectKey(bucket, key, UINT64_MAX);
}
inline std::string EndOfVersions(uint64_t bucket, std::string_view key) {
  return EncodeObjectKey(bucket, key, 0);
}
/// The smallest string above all that start with `prefix`, which holds a byte below 0xff.
std::string PrefixEnd(std::string_view prefix);
Result<ObjectKey> DecodeObjectKey(std::string_view row_key);

/// Keys of kInline (content) and kExtents (extent id).
std::string NumberKey(uint64_t number);
Result<uint64_t> DecodeNumberKey(std::string_view row_key);
std::string SegmentKey(uint64_t content, uint32_t segment);
struct SegmentName {
  uint64_t content = 0;
  uint32_t segment = 0;
};
Result<SegmentName> DecodeSegmentKey(std::string_view row_key);
std::string GroupKey(uint32_t device, uint32_t group);
struct GroupName {
  uint32_t device = 0;
  uint32_t group = 0;
};
Result<GroupName> DecodeGroupKey(std::string_view row_key);

// ---- records; `row_key` is the key they stand under ----

std::string EncodeObject(std::string_view row_key, const ObjectRecord& record);
/// `content` of what it gives is never 0.
Result<ObjectRecord> DecodeObject(std::string_view row_key, std::string_view value);

std::string EncodePieces(std::string_view row_key, std::span<const Piece> pieces);
/// The pieces of one segment; `expected_bytes` is how many they must add up to.
Result<std::vector<Piece>> DecodePieces(std::string_view row_key, std::string_view value,
                                        uint64_t expected_bytes);

std::string EncodeExtent(std::string_view row_key, const ExtentRecord& record);
Result<ExtentRecord> DecodeExtent(std::string_view row_key, std::string_view value);

std::string EncodeBucket(std::string_view name, const BucketRecord& record);
Result<BucketRecord> DecodeBucket(std::string_view name, std::string_view value);

std::string EncodeGroup(std::string_view row_key, const GroupBitmap& bitmap);
Result<GroupBitmap> DecodeGroup(std::string_view row_key, std::string_view value);

std::string EncodeCounters(const Counters& counters);
Result<Counters> DecodeCounters(std::string_view value);

struct Identity {
  Uuid store;
  bool current = true;  // its format is the one that this program writes
};
std::string EncodeIdentity(const Uuid& store);
/// The identity of another store that has rows of the same format.
Result<std::string> EncodeIdentityLike(std::string_view value, const Uuid& store);
/// FailedPrecondition when the metadata has a newer format.
Result<Identity> DecodeIdentity(std::string_view value);

// ---- what follows from the numbers ----

/// Segments of an object of `size_bytes`.
constexpr uint64_t SegmentCount(uint64_t size_bytes) { return base::DivideUp(size_bytes, kSegmentBytes); }
/// Bytes of segment `segment` of an object of `size_bytes`.
constexpr uint64_t SegmentLength(uint64_t size_bytes, uint64_t segment) {
  const uint64_t begin = segment * kSegmentBytes;
  return begin >= size_bytes ? 0 : std::min(kSegmentBytes, size_bytes - begin);
}

}  // namespace forebay::engine
