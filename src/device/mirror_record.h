// SPDX-License-Identifier: Apache-2.0
// MirrorRecord: what each side of a mirror says about both: which sides have all that was acknowledged, as of a
// generation that only goes up. Kept in two slots of each side, written in turn. docs/formats/superblock.md has the
// layout with an example. Bytes that were read are hostile: decoding never reads outside. Thread-safe: pure functions,
// and coroutines over what the caller passes in.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/status.h"
#include "device/device.h"

namespace forebay::device {

constexpr uint32_t kMirrorSides = 2;
/// Where the slots are, on each side: the user of a mirror keeps nothing there.
constexpr std::array<uint64_t, 2> kMirrorSlots = {3 * kUnit, 4 * kUnit};
constexpr size_t kMirrorRecordBytes = 48;
static_assert(kMirrorRecordBytes <= 512, "a slot is written by one sector");

struct MirrorRecord {
  Uuid store;
  uint32_t device = 0;      // of the store
  uint32_t side = 0;        // that it stands on
  uint64_t generation = 0;  // 1 when the mirror was made
  uint32_t current = 0;     // bit n: side n has everything
  friend bool operator==(const MirrorRecord&, const MirrorRecord&) = default;
};

std::string EncodeMirrorRecord(const MirrorRecord& record);
/// Nothing when the slot is damaged, empty, or says what cannot be.
std::optional<MirrorRecord> DecodeMirrorRecord(ByteView bytes);

/// The newest record on a side of that mirror: none when no slot has one. The device's own errors.
rt::Task<Result<std::optional<MirrorRecord>>> ReadMirrorRecord(rt::Reactor& reactor, Device& side, Uuid store,
                                                               uint32_t device);
/// Writes one slot. Not durable before a flush.
rt::Task<Status> WriteMirrorRecord(rt::Reactor& reactor, Device& side, MirrorRecord record);

}  // namespace forebay::device
