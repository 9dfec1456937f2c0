// SPDX-License-Identifier: Apache-2.0
#include "engine/operation_rows.h"

#include <utility>

#include "base/codec.h"
#include "base/limits.h"
#include "engine/row_frame.h"
#include "store/checks.h"

namespace forebay::engine {
namespace {

constexpr uint8_t kHasContent = 1;
constexpr uint8_t kStored = 2;  // it took place and gave something

bool IsStored(const store::OperationRecord& record) {
  return store::HasResult(record.kind) && record.refusal.ok();
}

}  // namespace

std::string EncodeOperationKey(const OperationId& id, TenantId tenant) {
  std::string out(kOperationPrefix);
  base::Encoder encoder(&out);
  encoder.Raw(ByteView(id.bytes));
  encoder.U64BigEndian(static_cast<uint64_t>(tenant));
  return out;
}

std::string OperationRowsFrom(uint64_t unix_ms) {
  std::string out(kOperationPrefix);
  for (int shift = 40; shift >= 0; shift -= 8) out.push_back(static_cast<char>(unix_ms >> shift));
  return out;
}

Result<OperationKey> DecodeOperationKey(std::string_view row_key) {
  const RowName name{"operation", row_key};
  base::Decoder decoder(row_key);
  OperationKey out;
  const bool prefixed = decoder.Raw(kOperationPrefix.size()) == kOperationPrefix;
  decoder.Raw(MutableByteView(out.id.bytes));
  out.tenant = static_cast<TenantId>(decoder.U64BigEndian());
  if (!prefixed || !out.id.HasTime()) return Nonsense(name, "its key makes no sense");
  FB_TRY(Finish(decoder, name));
  return out;
}

std::string EncodeOperation(std::string_view row_key, const store::OperationRecord& record) {
  std::string out;
  base::Encoder encoder(&out);
  const bool stored = IsStored(record);
  encoder.U8(kRecordFormat);
  encoder.U8(static_cast<uint8_t>(record.kind));
  encoder.U8(static_cast<uint8_t>((record.content ? kHasContent : 0) | (stored ? kStored : 0)));
  encoder.U32(record.fingerprint);
  encoder.Varint(record.recorded_ms);
  encoder.U8(static_cast<uint8_t>(record.refusal.code()));
  if (!record.refusal.ok()) encoder.Blob(record.refusal.message());
  if (record.content) {
    encoder.Varint(record.content->size_bytes);
    encoder.U32(record.content->crc32c);
  }
  if (stored) {
    encoder.Varint(record.version);
    encoder.U64(static_cast<uint64_t>(record.modified_ns));
    const store::Content object = store::ObjectOf(record);
    if (record.kind == store::OperationKind::kOverwrite) {
      encoder.Varint(object.size_bytes);
      encoder.U32(object.crc32c);
    }
    encoder.Blob(record.etag == store::DefaultETag(record.version, object.crc32c) ? std::string_view() : record.etag);
  }
  return Seal(row_key, std::move(out));
}

Result<store::OperationRecord> DecodeOperation(std::string_view row_key, std::string_view value) {
  const RowName name{"operation", row_key};
  FB_ASSIGN(const std::string_view body, Unseal(name, value));
  base::Decoder decoder(body);
  store::OperationRecord record;
  const uint8_t kind = decoder.U8();
  const uint8_t flags = decoder.U8();
  record.kind = static_cast<store::OperationKind>(kind);
  record.fingerprint = decoder.U32();
  record.recorded_ms = decoder.Varint();
  const Code code = CodeFromNumber(decoder.U8());
  if (code != Code::kOk) record.refusal = Status(code, std::string(decoder.Blob(store::kMaxRefusalBytes)));
  if ((flags & kHasContent) != 0) {
    const uint64_t size = decoder.Varint();
    record.content = store::Content{.size_bytes = size, .crc32c = decoder.U32()};
    if (size > base::kMaxObjectBytes) decoder.Fail();
  }
  if ((flags & kStored) != 0 && record.content) {
    record.version = decoder.Varint();
    record.modified_ns = static_cast<int64_t>(decoder.U64());
    if (record.kind == store::OperationKind::kOverwrite) {
      record.object.size_bytes = decoder.Varint();
      record.object.crc32c = decoder.U32();
      if (record.object.size_bytes > base::kMaxObjectBytes) decoder.Fail();
    }
    record.etag = decoder.Blob(base::kMaxETagBytes);
    if (record.etag.empty()) record.etag = store::DefaultETag(record.version, store::ObjectOf(record).crc32c);
  }
  const bool sane = kind >= static_cast<uint8_t>(store::OperationKind::kPut) &&
                    kind <= static_cast<uint8_t>(store::kLastOperationKind) &&
                    (flags & ~(kHasContent | kStored)) == 0 && store::IsResult(code) &&
                    record.recorded_ms <= OperationId::kMaxUnixMs &&
                    IsStored(record) == ((flags & kStored) != 0) && (!IsStored(record) || record.content);
  if (!sane) decoder.Fail();
  FB_TRY(Finish(decoder, name));
  return record;
}

std::string EncodeOperations(const OperationsState& state) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  encoder.U64(state.count);
  encoder.U64(state.floor_ms);
  encoder.U64(state.clock_ms);
  return Seal(kOperationsKey, std::move(out));
}

Result<OperationsState> DecodeOperations(std::string_view value) {
  constexpr RowName kName{"operations", kOperationsKey};
  FB_ASSIGN(const std::string_view body, Unseal(kName, value));
  base::Decoder decoder(body);
  OperationsState state;
  state.count = decoder.U64();
  state.floor_ms = decoder.U64();
  state.clock_ms = decoder.U64();
  if (state.floor_ms > OperationId::kMaxUnixMs || state.clock_ms > OperationId::kMaxUnixMs) decoder.Fail();
  FB_TRY(Finish(decoder, kName));
  return state;
}

}  // namespace forebay::engine
