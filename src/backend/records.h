// SPDX-License-Identifier: Apache-2.0
// Records: what the directory backend keeps beside content, as bytes: of an object (an extended attribute, or a file of
// the sidecar), of buckets, uploads, quotas and checksums. docs/formats/directory.md has the grammar. The decoders are
// made for hostile bytes: DataLoss, never more. Immutable values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "store/object_store.h"
#include "store/operations.h"

namespace forebay::backend {

/// No record is longer: metadata and attributes of kMaxUserMetadataBytes each, and all the rest.
constexpr size_t kMaxRecordBytes = 128 * base::kKiB;

/// Of an object that Forebay wrote, or whose attributes it changed. It holds for content of this size and time.
struct ObjectRecord {
  uint64_t revision = 0;  // goes up with the version and with each change of attributes
  uint64_t version = 0;
  uint64_t size_bytes = 0;
  int64_t file_modified_ns = 0;  // mtime
  int64_t modified_ns = 0;
  uint32_t crc32c = 0;
  std::string etag{};
  store::UserMetadata metadata{};
  store::UserMetadata attributes{};
  friend bool operator==(const ObjectRecord&, const ObjectRecord&) = default;
};

/// The checksum of a file that others wrote, as long as nothing about it changes.
struct ChecksumRecord {
  uint64_t inode = 0;
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  uint32_t crc32c = 0;
  friend bool operator==(const ChecksumRecord&, const ChecksumRecord&) = default;
};

struct BucketRecord {
  TenantId owner = TenantId::kRoot;
  int64_t created_ns = 0;
  friend bool operator==(const BucketRecord&, const BucketRecord&) = default;
};

struct UploadRecord {
  std::string key{};
  int64_t created_ns = 0;
  store::UserMetadata metadata{};
  friend bool operator==(const UploadRecord&, const UploadRecord&) = default;
};

using Quotas = std::map<TenantId, store::Quota>;

std::string Encode(const ObjectRecord& record);
std::string Encode(const ChecksumRecord& record);
std::string Encode(const BucketRecord& record);
std::string Encode(const UploadRecord& record);
std::string Encode(const Quotas& quotas);
Result<ObjectRecord> DecodeObject(std::string_view bytes);
Result<ChecksumRecord> DecodeChecksum(std::string_view bytes);
Result<BucketRecord> DecodeBucket(std::string_view bytes);
Result<UploadRecord> DecodeUpload(std::string_view bytes);
Result<Quotas> DecodeQuotas(std::string_view bytes);

/// One entry of the operation journal.
struct JournalEntry {
  enum class Kind : uint8_t {
    kResult = 1,    // an operation ended without an effect (a refusal), or its effect is known to have taken place
    kIntent = 2,    // the effect is about to take place
    kDone = 3,      // it did: of the intent with this number
    kVoid = 4,      // it did not
    kHorizon = 5,   // numbers and times that hold for all that follows
  };
  Kind kind = Kind::kResult;
  uint64_t number = 0;  // of the intent; of a horizon: no version above it was given
  // Of a result and an intent:
  OperationId id{};
  TenantId tenant = TenantId::kNone;
  store::OperationRecord result{};
  // Of an intent: how to tell afterwards.
  std::string bucket{};
  std::string key{};      // of the target; empty: of the bucket itself
  uint64_t inode = 0;     // of the file or directory that the effect puts there, or takes away
  bool removes = false;   // the effect is that it is not there any more
  uint64_t revision = 0;  // not 0: the effect is that the object there has this revision
  // Of a horizon:
  uint64_t floor_ms = 0;  // up to here results were let go
  uint64_t time_ms = 0;   // of the operation clock
  friend bool operator==(const JournalEntry&, const JournalEntry&) = default;
};

std::string Encode(const JournalEntry& entry);
Result<JournalEntry> DecodeJournalEntry(std::string_view bytes);

}  // namespace forebay::backend
