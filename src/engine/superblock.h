// SPDX-License-Identifier: Apache-2.0
// What stands in front of the data on each device: the superblock (at 0, with a copy at 64 KiB), which says
// whose device this is, and on device 0 the two slots of the commit witness. docs/formats/superblock.md has
// the layout with an example. Bytes that were read are hostile: decoding them never reads outside and fails
// with DataLoss. Thread-safe: pure functions, and coroutines over what the caller passes in.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/status.h"
#include "device/device.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::engine {

/// The newest format this program reads and the one it writes.
constexpr uint32_t kFormatVersion = 1;

constexpr uint64_t kSuperblockOffset = 0;
constexpr uint64_t kSuperblockCopyOffset = 64 * base::kKiB;
constexpr std::array<uint64_t, 2> kWitnessOffsets = {device::kUnit, 2 * device::kUnit};
/// Where extents begin.
constexpr uint64_t kDataStart = base::kMiB;
/// The smallest device: one that holds something besides its head.
constexpr uint64_t kMinDeviceBytes = kDataStart + base::kMiB;

constexpr size_t kSuperblockBytes = 60;
constexpr size_t kWitnessBytes = 36;
static_assert(kSuperblockBytes <= device::kUnit && kWitnessBytes <= 512,
              "a slot is written by one sector at least");

struct Superblock {
  Uuid store;
  uint32_t device_id = 0;
  uint32_t device_count = 0;
  uint64_t size_bytes = 0;  // of the device when it was formatted; it may have grown since
  uint64_t data_start = kDataStart;
  friend bool operator==(const Superblock&, const Superblock&) = default;
};

std::string EncodeSuperblock(const Superblock& superblock);
/// `name` is the device's, for messages. NotFound when there is no superblock at all (other magic), DataLoss
/// when it is damaged, FailedPrecondition when its format is newer than this program.
Result<Superblock> DecodeSuperblock(ByteView bytes, std::string_view name);

/// The highest acknowledged commit a device knows of, and the slot it stands in.
struct Witness {
  uint64_t commit = 0;
  size_t slot = 0;
};

std::string EncodeWitness(const Uuid& store, uint64_t commit);
/// Nothing when the slot is damaged, empty, or belongs to another store.
std::optional<uint64_t> DecodeWitness(ByteView bytes, const Uuid& store);

/// Writes superblock and copy, and with device 0 the two witness slots (commit 0); flushes.
rt::Task<Status> WriteSuperblock(rt::Reactor& reactor, device::Device& device, Superblock superblock);
/// The superblock, or its copy when the first one is damaged. Errors as DecodeSuperblock, and the device's
/// own.
rt::Task<Result<Superblock>> ReadSuperblock(rt::Reactor& reactor, device::Device& device);

/// The highest of the valid slots, of all copies; DataLoss when none is valid.
rt::Task<Result<Witness>> ReadWitness(rt::Reactor& reactor, device::Device& device, Uuid store);
/// Writes one slot. Not durable before a flush.
rt::Task<Status> WriteWitness(rt::Reactor& reactor, device::Device& device, Uuid store, Witness witness);

}  // namespace forebay::engine
