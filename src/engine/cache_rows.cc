// SPDX-License-Identifier: Apache-2.0
#include "engine/cache_rows.h"

#include "base/codec.h"
#include "base/limits.h"
#include "engine/row_frame.h"

namespace forebay::engine {
namespace {

std::string EncodeName(std::string_view prefix, const CachedName& name) {
  std::string out(prefix);
  base::Encoder encoder(&out);
  encoder.U64BigEndian(name.bucket);
  encoder.U64BigEndian(name.version);
  return out;
}

Result<CachedName> DecodeName(std::string_view prefix, const RowName& row) {
  if (!row.row_key.starts_with(prefix)) return Nonsense(row, "its key makes no sense");
  base::Decoder decoder(row.row_key.substr(prefix.size()));
  CachedName name;
  name.bucket = decoder.U64BigEndian();
  name.version = decoder.U64BigEndian();
  if (name.bucket == 0 || name.version == 0) decoder.Fail();
  FB_TRY(Finish(decoder, row));
  return name;
}

}  // namespace

std::string OrderPrefix(uint64_t bucket) {
  std::string out(kCacheOrderPrefix);
  base::Encoder(&out).U64BigEndian(bucket);
  return out;
}

std::string EncodeOrderKey(const CachedName& name) { return EncodeName(kCacheOrderPrefix, name); }

Result<CachedName> DecodeOrderKey(std::string_view row_key) {
  return DecodeName(kCacheOrderPrefix, {"cache order", row_key});
}

std::string EncodeOrder(std::string_view row_key, const OrderRecord& record) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  encoder.Varint(record.put_ms);
  encoder.Varint(record.size_bytes);
  encoder.Blob(record.key);
  return Seal(row_key, std::move(out));
}

Result<OrderRecord> DecodeOrder(std::string_view row_key, std::string_view value) {
  const RowName name{"cache order", row_key};
  FB_ASSIGN(const std::string_view body, Unseal(name, value));
  base::Decoder decoder(body);
  OrderRecord record;
  record.put_ms = decoder.Varint();
  record.size_bytes = decoder.Varint();
  record.key = decoder.Blob(base::kMaxKeyBytes);
  if (record.size_bytes > base::kMaxObjectBytes || record.put_ms > INT64_MAX) decoder.Fail();
  if (!decoder.failed() && !base::CheckKey(record.key).ok()) decoder.Fail();
  FB_TRY(Finish(decoder, name));
  return record;
}

std::string EncodePinKey(const CachedName& name) { return EncodeName(kCachePinPrefix, name); }

Result<CachedName> DecodePinKey(std::string_view row_key) { return DecodeName(kCachePinPrefix, {"pin", row_key}); }

std::string EncodePin(std::string_view row_key, const PinRecord& record) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  encoder.Varint(record.until_ms);
  encoder.Varint(record.size_bytes);
  return Seal(row_key, std::move(out));
}

Result<PinRecord> DecodePin(std::string_view row_key, std::string_view value) {
  const RowName name{"pin", row_key};
  FB_ASSIGN(const std::string_view body, Unseal(name, value));
  base::Decoder decoder(body);
  PinRecord record;
  record.until_ms = decoder.Varint();
  record.size_bytes = decoder.Varint();
  if (record.size_bytes > base::kMaxObjectBytes || record.until_ms > INT64_MAX) decoder.Fail();
  FB_TRY(Finish(decoder, name));
  return record;
}

std::string EncodeCacheTotals(const CacheTotals& totals) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  encoder.U64(totals.device_bytes);
  encoder.U64(totals.clock_ms);
  return Seal(kCacheTotalsKey, std::move(out));
}

Result<CacheTotals> DecodeCacheTotals(std::string_view value) {
  constexpr RowName kName{"cache totals", kCacheTotalsKey};
  FB_ASSIGN(const std::string_view body, Unseal(kName, value));
  base::Decoder decoder(body);
  CacheTotals totals;
  totals.device_bytes = decoder.U64();
  totals.clock_ms = decoder.U64();
  if (totals.clock_ms > INT64_MAX || totals.device_bytes > INT64_MAX) decoder.Fail();
  FB_TRY(Finish(decoder, kName));
  return totals;
}

}  // namespace forebay::engine
