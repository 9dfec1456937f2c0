// SPDX-License-Identifier: Apache-2.0
// The rows of uploads: objects that are put in parts. docs/formats/metadata.md has them. Decoders take hostile bytes:
// they fail with DataLoss that names the row, and whatever they give is in range. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/rows.h"
#include "store/object_store.h"

namespace forebay::engine {

/// In Family::kSystem. Of a bucket the uploads stand in the order of their keys, those of one key as they were begun.
constexpr std::string_view kUploadPrefix = "engine/upload/";
/// In Family::kSystem, in the order of the parts of each upload.
constexpr std::string_view kPartPrefix = "engine/part/";

struct UploadKey {
  uint64_t bucket = 0;
  std::string_view key;
  uint64_t upload = 0;
};
std::string UploadsPrefix(uint64_t bucket);
std::string EncodeUploadKey(uint64_t bucket, std::string_view key, uint64_t upload);
Result<UploadKey> DecodeUploadKey(std::string_view row_key);

struct PartKey {
  uint64_t upload = 0;
  uint32_t number = 0;
};
std::string PartsPrefix(uint64_t upload);
std::string EncodePartKey(uint64_t upload, uint32_t number);
Result<PartKey> DecodePartKey(std::string_view row_key);

struct UploadRecord {
  int64_t created_ns = 0;
  store::UserMetadata metadata;  // of the object that it becomes
  friend bool operator==(const UploadRecord&, const UploadRecord&) = default;
};
std::string EncodeUpload(std::string_view row_key, const UploadRecord& record);
Result<UploadRecord> DecodeUpload(std::string_view row_key, std::string_view value);

struct PartRecord {
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;
  std::string etag;
  int64_t modified_ns = 0;
  std::vector<Piece> pieces;  // they add up to size_bytes
  friend bool operator==(const PartRecord&, const PartRecord&) = default;
};
std::string EncodePart(std::string_view row_key, const PartRecord& record);
Result<PartRecord> DecodePart(std::string_view row_key, std::string_view value);

}  // namespace forebay::engine
