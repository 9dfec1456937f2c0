// SPDX-License-Identifier: Apache-2.0
#include "device/mirror_record.h"

#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "base/codec.h"
#include "device/aligned_bytes.h"

namespace forebay::device {
namespace {

constexpr std::string_view kMagic = "FBMIRROR";
constexpr uint32_t kBothSides = (1U << kMirrorSides) - 1;

}  // namespace

std::string EncodeMirrorRecord(const MirrorRecord& record) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.Raw(kMagic);
  encoder.Raw(ByteView(record.store.bytes));
  encoder.U32(record.device);
  encoder.U32(record.side);
  encoder.U64(record.generation);
  encoder.U32(record.current);
  encoder.U32(base::Crc32c(AsBytes(out)));
  FB_CHECK(out.size() == kMirrorRecordBytes);
  return out;
}

std::optional<MirrorRecord> DecodeMirrorRecord(ByteView bytes) {
  if (bytes.size() < kMirrorRecordBytes) return std::nullopt;
  base::Decoder decoder(bytes.first(kMirrorRecordBytes));
  if (decoder.Raw(kMagic.size()) != kMagic) return std::nullopt;
  MirrorRecord record;
  decoder.Raw(record.store.bytes);
  record.device = decoder.U32();
  record.side = decoder.U32();
  record.generation = decoder.U64();
  record.current = decoder.U32();
  const uint32_t checksum = decoder.U32();
  if (checksum != base::Crc32c(bytes.first(kMirrorRecordBytes - sizeof(uint32_t)))) return std::nullopt;
  const bool sane = record.side < kMirrorSides && record.generation != 0 && record.generation != UINT64_MAX &&
                    record.current != 0 && (record.current & ~kBothSides) == 0;
  return sane ? std::optional(record) : std::nullopt;
}

rt::Task<Result<std::optional<MirrorRecord>>> ReadMirrorRecord(rt::Reactor& reactor, Device& side, Uuid store,
                                                               uint32_t device) {
  std::optional<MirrorRecord> newest;
  for (const uint64_t offset : kMirrorSlots) {
    AlignedBytes block(kUnit);
    const MutableByteView bytes = block.writable();
    FB_CO_TRY(co_await side.Read(reactor, offset, {&bytes, 1}));
    const std::optional<MirrorRecord> record = DecodeMirrorRecord(block.view());
    if (!record || record->store != store || record->device != device) continue;  // of a life before this one
    if (!newest || record->generation > newest->generation) newest = record;
  }
  co_return newest;
}

rt::Task<Status> WriteMirrorRecord(rt::Reactor& reactor, Device& side, MirrorRecord record) {
  AlignedBytes block(kUnit);
  const std::string content = EncodeMirrorRecord(record);
  std::memcpy(block.data(), content.data(), content.size());
  const ByteView view = block.view();
  co_return co_await side.Write(reactor, kMirrorSlots[record.generation % kMirrorSlots.size()], {&view, 1});
}

}  // namespace forebay::device
