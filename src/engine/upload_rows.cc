// SPDX-License-Identifier: Apache-2.0
#include "engine/upload_rows.h"

#include <utility>

#include "base/codec.h"
#include "base/limits.h"
#include "engine/row_frame.h"

namespace forebay::engine {
namespace {

constexpr size_t kNumberBytes = sizeof(uint64_t);

void PutBigEndian32(base::Encoder& encoder, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) encoder.U8(static_cast<uint8_t>(number >> shift));
}

}  // namespace

// ---- keys ----

std::string UploadsPrefix(uint64_t bucket) {
  std::string out(kUploadPrefix);
  base::Encoder(&out).U64BigEndian(bucket);
  return out;
}

std::string EncodeUploadKey(uint64_t bucket, std::string_view key, uint64_t upload) {
  std::string out = UploadsPrefix(bucket);
  base::Encoder encoder(&out);
  encoder.Raw(key);
  encoder.U8(0);
  encoder.U64BigEndian(upload);
  return out;
}

Result<UploadKey> DecodeUploadKey(std::string_view row_key) {
  const RowName name{"upload", row_key};
  if (row_key.size() < kUploadPrefix.size() + kNumberBytes + 1 + kNumberBytes)
    return Nonsense(name, "its key is too short");
  base::Decoder decoder(row_key);
  UploadKey out;
  const bool prefixed = decoder.Raw(kUploadPrefix.size()) == kUploadPrefix;
  out.bucket = decoder.U64BigEndian();
  out.key = decoder.Raw(decoder.remaining() - 1 - kNumberBytes);
  const uint8_t separator = decoder.U8();
  out.upload = decoder.U64BigEndian();
  if (!prefixed || separator != 0 || out.upload == 0 || !base::CheckKey(out.key).ok())
    return Nonsense(name, "its key makes no sense");
  return out;
}

std::string PartsPrefix(uint64_t upload) {
  std::string out(kPartPrefix);
  base::Encoder(&out).U64BigEndian(upload);
  return out;
}

std::string EncodePartKey(uint64_t upload, uint32_t number) {
  std::string out = PartsPrefix(upload);
  base::Encoder encoder(&out);
  PutBigEndian32(encoder, number);
  return out;
}

Result<PartKey> DecodePartKey(std::string_view row_key) {
  const RowName name{"part", row_key};
  base::Decoder decoder(row_key);
  PartKey out;
  const bool prefixed = decoder.Raw(kPartPrefix.size()) == kPartPrefix;
  out.upload = decoder.U64BigEndian();
  for (int i = 0; i < 4; ++i) out.number = (out.number << 8) | decoder.U8();
  if (!prefixed || out.upload == 0 || out.number == 0 || out.number > base::kMaxParts)
    return Nonsense(name, "its key makes no sense");
  FB_TRY(Finish(decoder, name));
  return out;
}

// ---- records ----

std::string EncodeUpload(std::string_view row_key, const UploadRecord& record) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  encoder.U64(static_cast<uint64_t>(record.created_ns));
  PutMetadata(encoder, record.metadata);
  return Seal(row_key, std::move(out));
}

Result<UploadRecord> DecodeUpload(std::string_view row_key, std::string_view value) {
  const RowName name{"upload", row_key};
  FB_ASSIGN(const std::string_view body, Unseal(name, value));
  base::Decoder decoder(body);
  UploadRecord record;
  record.created_ns = static_cast<int64_t>(decoder.U64());
  record.metadata = TakeMetadata(decoder);
  FB_TRY(Finish(decoder, name));
  return record;
}

std::string EncodePart(std::string_view row_key, const PartRecord& record) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  encoder.Varint(record.size_bytes);
  encoder.U32(record.crc32c);
  encoder.Blob(record.etag);
  encoder.U64(static_cast<uint64_t>(record.modified_ns));
  PutPieces(encoder, record.pieces);
  return Seal(row_key, std::move(out));
}

Result<PartRecord> DecodePart(std::string_view row_key, std::string_view value) {
  const RowName name{"part", row_key};
  FB_ASSIGN(const std::string_view body, Unseal(name, value));
  base::Decoder decoder(body);
  PartRecord record;
  record.size_bytes = decoder.Varint();
  record.crc32c = decoder.U32();
  record.etag = decoder.Blob(base::kMaxETagBytes);
  record.modified_ns = static_cast<int64_t>(decoder.U64());
  if (record.size_bytes > base::kMaxPartBytes) decoder.Fail();
  if (!decoder.failed()) record.pieces = TakePieces(decoder, record.size_bytes);
  FB_TRY(Finish(decoder, name));
  return record;
}

}  // namespace forebay::engine
