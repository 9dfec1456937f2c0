// SPDX-License-Identifier: Apache-2.0
#include "engine/scrub_row.h"

#include <algorithm>
#include <utility>

#include "base/codec.h"
#include "engine/row_frame.h"

namespace forebay::engine {
namespace {

constexpr size_t kMaxReasonBytes = 512;
constexpr size_t kMaxOwnerBytes = 2048;  // the longest key with its bucket and version
constexpr uint8_t kUnreadable = 1;
constexpr uint8_t kRepaired = 2;

void PutBlock(base::Encoder& encoder, const DamagedBlock& block) {
  encoder.Varint(block.extent);
  encoder.Varint(block.begin);
  encoder.Varint(block.length);
  encoder.Varint(block.device);
  encoder.Varint(block.unit);
  encoder.U8(static_cast<uint8_t>((block.unreadable ? kUnreadable : 0) | (block.repaired ? kRepaired : 0)));
  encoder.Varint(block.owners.size());
  for (const BlockOwner& owner : block.owners) {
    encoder.Blob(owner.name);
    encoder.Varint(owner.offset);
  }
}

DamagedBlock TakeBlock(base::Decoder& decoder) {
  DamagedBlock block;
  block.extent = decoder.Varint();
  block.begin = decoder.Varint();
  block.length = decoder.Varint();
  const uint64_t device = decoder.Varint();
  block.device = static_cast<uint32_t>(device);
  block.unit = decoder.Varint();
  const uint8_t flags = decoder.U8();
  block.unreadable = (flags & kUnreadable) != 0;
  block.repaired = (flags & kRepaired) != 0;
  const uint64_t owners = decoder.Varint();
  const bool fits = base::RangeFits(block.begin, block.length, kMaxExtentBytes);
  if (device > UINT32_MAX || (flags & ~(kUnreadable | kRepaired)) != 0 || owners > kMaxOwnersKept || !fits) decoder.Fail();
  for (uint64_t i = 0; i < owners && !decoder.failed(); ++i) {
    BlockOwner owner{.name = std::string(decoder.Blob(kMaxOwnerBytes))};
    owner.offset = decoder.Varint();
    block.owners.push_back(std::move(owner));
  }
  return block;
}

}  // namespace

std::string EncodeScrub(const ScrubState& state) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  encoder.U8(static_cast<uint8_t>(state.phase));
  encoder.U64(static_cast<uint64_t>(state.started_ns));
  encoder.U64(static_cast<uint64_t>(state.ended_ns));
  for (const uint64_t number :
       {state.bytes_per_second, state.end_extent, state.next_extent, state.total_bytes, state.passed_bytes,
        state.verified_bytes, state.damaged_blocks, state.repaired_blocks, state.damaged_rows})
    encoder.Varint(number);
  encoder.Blob(std::string_view(state.reason).substr(0, kMaxReasonBytes));
  const size_t kept = std::min(state.damage.size(), kMaxDamageKept);
  encoder.Varint(kept);
  for (size_t i = 0; i < kept; ++i) PutBlock(encoder, state.damage[i]);
  return Seal(kScrubKey, std::move(out));
}

Result<ScrubState> DecodeScrub(std::string_view value) {
  constexpr RowName kName{"scrub", kScrubKey};
  FB_ASSIGN(const std::string_view body, Unseal(kName, value));
  base::Decoder decoder(body);
  ScrubState state;
  const uint8_t phase = decoder.U8();
  state.phase = static_cast<ScrubPhase>(phase);
  state.started_ns = static_cast<int64_t>(decoder.U64());
  state.ended_ns = static_cast<int64_t>(decoder.U64());
  for (uint64_t* const number :
       {&state.bytes_per_second, &state.end_extent, &state.next_extent, &state.total_bytes, &state.passed_bytes,
        &state.verified_bytes, &state.damaged_blocks, &state.repaired_blocks, &state.damaged_rows})
    *number = decoder.Varint();
  state.reason = decoder.Blob(kMaxReasonBytes);
  const uint64_t kept = decoder.Varint();
  const bool known = phase >= static_cast<uint8_t>(ScrubPhase::kRunning) &&
                     phase <= static_cast<uint8_t>(ScrubPhase::kFailed);
  if (!known || kept > kMaxDamageKept) decoder.Fail();
  for (uint64_t i = 0; i < kept && !decoder.failed(); ++i) state.damage.push_back(TakeBlock(decoder));
  FB_TRY(Finish(decoder, kName));
  return state;
}

}  // namespace forebay::engine
