// SPDX-License-Identifier: Apache-2.0
#include "backend/records.h"

#include "base/checksum.h"
#include "base/codec.h"
#include "base/limits.h"

namespace forebay::backend {
namespace {

constexpr size_t kChecksumBytes = 4;
constexpr uint8_t kObject = 'O';
constexpr uint8_t kChecksum = 'C';
constexpr uint8_t kBucket = 'B';
constexpr uint8_t kUpload = 'U';
constexpr uint8_t kQuotas = 'Q';
constexpr uint8_t kJournal = 'J';
constexpr uint8_t kFormat = 1;

/// Two bytes say what it is and in which format, four at the end are the CRC32C of all before.
std::string Begin(uint8_t what) { return {static_cast<char>(what), static_cast<char>(kFormat)}; }
std::string End(std::string bytes) {
  const uint32_t crc32c = base::Crc32c(AsBytes(bytes));
  base::Encoder(&bytes).U32(crc32c);
  return bytes;
}

Result<std::string_view> Inside(std::string_view bytes, uint8_t what, std::string_view name) {
  if (bytes.size() < 2 + kChecksumBytes) return Status::DataLoss("{} is cut off", name);
  const std::string_view checked = bytes.substr(0, bytes.size() - kChecksumBytes);
  base::Decoder crc32c(AsBytes(bytes.substr(checked.size())));
  if (crc32c.U32() != base::Crc32c(AsBytes(checked))) return Status::DataLoss("{} is damaged: its checksum differs", name);
  base::Decoder head(AsBytes(checked));
  if (head.U8() != what) return Status::DataLoss("{} is something else", name);
  if (const uint8_t format = head.U8(); format != kFormat)
    return Status::DataLoss("{} has format {}, this program knows {}: use the one that wrote it", name, format, kFormat);
  return checked.substr(2);
}

void Put(const store::UserMetadata& metadata, base::Encoder* out) {
  out->Varint(metadata.size());
  for (const auto& [name, value] : metadata) {
    out->Blob(name);
    out->Blob(value);
  }
}

store::UserMetadata TakeMetadata(base::Decoder* in) {
  store::UserMetadata metadata;
  // Each takes two bytes at least, so the bytes that are there bound the work.
  for (uint64_t left = in->Varint(); left != 0 && !in->failed(); --left) {
    std::string name(in->Blob(base::kMaxUserMetadataBytes));
    metadata[std::move(name)] = in->Blob(base::kMaxUserMetadataBytes);
  }
  return metadata;
}

void PutTime(int64_t ns, base::Encoder* out) { out->U64(static_cast<uint64_t>(ns)); }
int64_t TakeTime(base::Decoder* in) { return static_cast<int64_t>(in->U64()); }

bool TakeBool(base::Decoder* in) {
  const uint8_t value = in->U8();
  if (value > 1) in->Fail();
  return value == 1;
}

void Put(const store::Content& content, base::Encoder* out) {
  out->Varint(content.size_bytes);
  out->U32(content.crc32c);
}
store::Content TakeContent(base::Decoder* in) {
  store::Content content;
  content.size_bytes = in->Varint();
  content.crc32c = in->U32();
  return content;
}

void Put(const store::OperationRecord& record, base::Encoder* out) {
  out->U8(static_cast<uint8_t>(record.kind));
  out->U32(record.fingerprint);
  out->U64(record.recorded_ms);
  out->U8(record.content ? 1 : 0);
  if (record.content) Put(*record.content, out);
  out->Varint(static_cast<uint64_t>(record.refusal.code()));
  out->Blob(record.refusal.message());
  out->Varint(record.version);
  PutTime(record.modified_ns, out);
  out->Blob(record.etag);
  Put(record.object, out);
}

store::OperationRecord TakeOperation(base::Decoder* in) {
  store::OperationRecord record;
  const uint8_t kind = in->U8();
  if (kind == 0 || kind > static_cast<uint8_t>(store::kLastOperationKind)) in->Fail();
  record.kind = static_cast<store::OperationKind>(kind);
  record.fingerprint = in->U32();
  record.recorded_ms = in->U64();
  if (TakeBool(in)) record.content = TakeContent(in);
  const Code code = CodeFromNumber(in->Varint());
  const std::string_view message = in->Blob(store::kMaxRefusalBytes);
  if (!store::IsResult(code)) in->Fail();
  record.refusal = Status(code, std::string(message));
  record.version = in->Varint();
  record.modified_ns = TakeTime(in);
  record.etag = in->Blob(base::kMaxETagBytes);
  record.object = TakeContent(in);
  return record;
}

}  // namespace

std::string Encode(const ObjectRecord& record) {
  std::string bytes = Begin(kObject);
  base::Encoder out(&bytes);
  out.Varint(record.revision);
  out.Varint(record.version);
  out.Varint(record.size_bytes);
  PutTime(record.file_modified_ns, &out);
  PutTime(record.modified_ns, &out);
  out.U32(record.crc32c);
  out.Blob(record.etag);
  Put(record.metadata, &out);
  Put(record.attributes, &out);
  return End(std::move(bytes));
}

Result<ObjectRecord> DecodeObject(std::string_view bytes) {
  constexpr std::string_view kName = "an object's record";
  FB_ASSIGN(const std::string_view inside, Inside(bytes, kObject, kName));
  base::Decoder in(AsBytes(inside));
  ObjectRecord record;
  record.revision = in.Varint();
  record.version = in.Varint();
  // No clock gives more; anybody may have written it.
  if (record.revision > INT64_MAX || record.version > INT64_MAX) in.Fail();
  record.size_bytes = in.Varint();
  record.file_modified_ns = TakeTime(&in);
  record.modified_ns = TakeTime(&in);
  record.crc32c = in.U32();
  record.etag = in.Blob(base::kMaxETagBytes);
  record.metadata = TakeMetadata(&in);
  record.attributes = TakeMetadata(&in);
  FB_TRY(in.Finish(kName));
  return record;
}

std::string Encode(const ChecksumRecord& record) {
  std::string bytes = Begin(kChecksum);
  base::Encoder out(&bytes);
  out.U64(record.inode);
  out.U64(record.size_bytes);
  PutTime(record.modified_ns, &out);
  PutTime(record.changed_ns, &out);
  out.U32(record.crc32c);
  return End(std::move(bytes));
}

Result<ChecksumRecord> DecodeChecksum(std::string_view bytes) {
  constexpr std::string_view kName = "a checksum's record";
  FB_ASSIGN(const std::string_view inside, Inside(bytes, kChecksum, kName));
  base::Decoder in(AsBytes(inside));
  ChecksumRecord record;
  record.inode = in.U64();
  record.size_bytes = in.U64();
  record.modified_ns = TakeTime(&in);
  record.changed_ns = TakeTime(&in);
  record.crc32c = in.U32();
  FB_TRY(in.Finish(kName));
  return record;
}

std::string Encode(const BucketRecord& record) {
  std::string bytes = Begin(kBucket);
  base::Encoder out(&bytes);
  out.Varint(static_cast<uint64_t>(record.owner));
  PutTime(record.created_ns, &out);
  return End(std::move(bytes));
}

Result<BucketRecord> DecodeBucket(std::string_view bytes) {
  constexpr std::string_view kName = "a bucket's record";
  FB_ASSIGN(const std::string_view inside, Inside(bytes, kBucket, kName));
  base::Decoder in(AsBytes(inside));
  BucketRecord record;
  record.owner = TenantId{in.Varint()};
  record.created_ns = TakeTime(&in);
  if (record.owner == TenantId::kNone) in.Fail();
  FB_TRY(in.Finish(kName));
  return record;
}

std::string Encode(const UploadRecord& record) {
  std::string bytes = Begin(kUpload);
  base::Encoder out(&bytes);
  out.Blob(record.key);
  PutTime(record.created_ns, &out);
  Put(record.metadata, &out);
  return End(std::move(bytes));
}

Result<UploadRecord> DecodeUpload(std::string_view bytes) {
  constexpr std::string_view kName = "an upload's record";
  FB_ASSIGN(const std::string_view inside, Inside(bytes, kUpload, kName));
  base::Decoder in(AsBytes(inside));
  UploadRecord record;
  record.key = in.Blob(base::kMaxKeyBytes);
  record.created_ns = TakeTime(&in);
  record.metadata = TakeMetadata(&in);
  if (!base::CheckKey(record.key).ok()) in.Fail();
  FB_TRY(in.Finish(kName));
  return record;
}

std::string Encode(const Quotas& quotas) {
  std::string bytes = Begin(kQuotas);
  base::Encoder out(&bytes);
  out.Varint(quotas.size());
  for (const auto& [tenant, quota] : quotas) {
    out.Varint(static_cast<uint64_t>(tenant));
    out.Varint(quota.max_bytes);
    out.Varint(quota.max_objects);
  }
  return End(std::move(bytes));
}

Result<Quotas> DecodeQuotas(std::string_view bytes) {
  constexpr std::string_view kName = "the record of quotas";
  FB_ASSIGN(const std::string_view inside, Inside(bytes, kQuotas, kName));
  base::Decoder in(AsBytes(inside));
  Quotas quotas;
  for (uint64_t left = in.Varint(); left != 0 && !in.failed(); --left) {
    const TenantId tenant{in.Varint()};
    quotas[tenant].max_bytes = in.Varint();
    quotas[tenant].max_objects = in.Varint();
  }
  FB_TRY(in.Finish(kName));
  return quotas;
}

std::string Encode(const JournalEntry& entry) {
  std::string bytes = Begin(kJournal);
  base::Encoder out(&bytes);
  out.U8(static_cast<uint8_t>(entry.kind));
  out.Varint(entry.number);
  if (entry.kind == JournalEntry::Kind::kResult || entry.kind == JournalEntry::Kind::kIntent) {
    out.Raw(entry.id.bytes);
    out.Varint(static_cast<uint64_t>(entry.tenant));
    Put(entry.result, &out);
  }
  if (entry.kind == JournalEntry::Kind::kIntent) {
    out.Blob(entry.bucket);
    out.Blob(entry.key);
    out.U64(entry.inode);
    out.U8(entry.removes ? 1 : 0);
    out.Varint(entry.revision);
  }
  if (entry.kind == JournalEntry::Kind::kHorizon) {
    out.U64(entry.floor_ms);
    out.U64(entry.time_ms);
  }
  return End(std::move(bytes));
}

Result<JournalEntry> DecodeJournalEntry(std::string_view bytes) {
  using Kind = JournalEntry::Kind;
  constexpr std::string_view kName = "a journal entry";
  FB_ASSIGN(const std::string_view inside, Inside(bytes, kJournal, kName));
  base::Decoder in(AsBytes(inside));
  JournalEntry entry;
  const uint8_t kind = in.U8();
  if (kind < static_cast<uint8_t>(Kind::kResult) || kind > static_cast<uint8_t>(Kind::kHorizon)) in.Fail();
  entry.kind = static_cast<Kind>(kind);
  entry.number = in.Varint();
  if (entry.kind == Kind::kResult || entry.kind == Kind::kIntent) {
    in.Raw(entry.id.bytes);
    entry.tenant = TenantId{in.Varint()};
    entry.result = TakeOperation(&in);
  }
  if (entry.kind == Kind::kIntent) {
    entry.bucket = in.Blob(base::kMaxBucketNameBytes);
    entry.key = in.Blob(base::kMaxKeyBytes);
    entry.inode = in.U64();
    entry.removes = TakeBool(&in);
    entry.revision = in.Varint();
  }
  if (entry.kind == Kind::kHorizon) {
    entry.floor_ms = in.U64();
    entry.time_ms = in.U64();
  }
  FB_TRY(in.Finish(kName));
  return entry;
}

}  // namespace forebay::backend
