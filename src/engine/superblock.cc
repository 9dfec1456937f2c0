// SPDX-License-Identifier: Apache-2.0
#include "engine/superblock.h"

#include <utility>

#include "base/check.h"
#include "base/checksum.h"
#include "base/codec.h"
#include "device/aligned_bytes.h"

namespace forebay::engine {
namespace {

constexpr std::string_view kSuperblockMagic = "FBSUPER1";
constexpr std::string_view kWitnessMagic = "FBWITNES";

void AppendChecksum(std::string* out) { base::Encoder(out).U32(base::Crc32c(AsBytes(*out))); }

rt::Task<Status> WriteBlock(rt::Reactor& reactor, device::Device& device, uint64_t offset,
                            std::string content) {
  device::AlignedBytes block(device::kUnit);
  std::memcpy(block.writable().data(), content.data(), content.size());
  const ByteView view = block.view();
  co_return co_await device.Write(reactor, offset, {&view, 1});
}

rt::Task<Result<device::AlignedBytes>> ReadBlock(rt::Reactor& reactor, device::Device& device,
                                                 uint64_t offset) {
  device::AlignedBytes block(device::kUnit);
  const MutableByteView bytes = block.writable();
  FB_CO_TRY(co_await device.Read(reactor, offset, {&bytes, 1}));
  co_return std::move(block);
}

rt::Task<Result<Superblock>> ReadSuperblockAt(rt::Reactor& reactor, device::Device& device, uint64_t offset) {
  FB_CO_ASSIGN(const device::AlignedBytes block, co_await ReadBlock(reactor, device, offset));
  co_return DecodeSuperblock(block.view(), device.name());
}

}  // namespace

std::string EncodeSuperblock(const Superblock& superblock) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.Raw(kSuperblockMagic);
  encoder.U32(kFormatVersion);
  encoder.Raw(ByteView(superblock.store.bytes));
  encoder.U32(superblock.device_id);
  encoder.U32(superblock.device_count);
  encoder.U64(superblock.size_bytes);
  encoder.U32(static_cast<uint32_t>(device::kUnit));
  encoder.U64(superblock.data_start);
  AppendChecksum(&out);
  FB_CHECK(out.size() == kSuperblockBytes);
  return out;
}

Result<Superblock> DecodeSuperblock(ByteView bytes, std::string_view name) {
  if (bytes.size() < kSuperblockBytes || AsText(bytes.first(kSuperblockMagic.size())) != kSuperblockMagic)
    return Status::NotFound("{} holds no superblock of a Forebay store", name);
  base::Decoder decoder(bytes.first(kSuperblockBytes));
  decoder.Raw(kSuperblockMagic.size());
  // The version is looked at before the checksum: a later format may be longer.
  const uint32_t version = decoder.U32();
  if (version > kFormatVersion)
    return Status::FailedPrecondition(
        "{} has store format {}, this program knows formats up to {}: use a newer forebay", name, version,
        kFormatVersion);
  Superblock superblock;
  decoder.Raw(superblock.store.bytes);
  superblock.device_id = decoder.U32();
  superblock.device_count = decoder.U32();
  superblock.size_bytes = decoder.U64();
  const uint32_t unit = decoder.U32();
  superblock.data_start = decoder.U64();
  const uint32_t checksum = decoder.U32();
  if (checksum != base::Crc32c(bytes.first(kSuperblockBytes - sizeof(uint32_t))))
    return Status::DataLoss("the superblock of {} is damaged: its checksum does not match", name);
  const bool sane = version == kFormatVersion && unit == device::kUnit && superblock.device_count >= 1 &&
                    superblock.device_id < superblock.device_count && superblock.data_start >= kDataStart &&
                    superblock.data_start % device::kUnit == 0 &&
                    superblock.data_start < superblock.size_bytes;
  if (!sane) return Status::DataLoss("the superblock of {} makes no sense", name);
  return superblock;
}

std::string EncodeWitness(const Uuid& store, uint64_t commit) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.Raw(kWitnessMagic);
  encoder.Raw(ByteView(store.bytes));
  encoder.U64(commit);
  AppendChecksum(&out);
  FB_CHECK(out.size() == kWitnessBytes);
  return out;
}

std::optional<uint64_t> DecodeWitness(ByteView bytes, const Uuid& store) {
  if (bytes.size() < kWitnessBytes) return std::nullopt;
  base::Decoder decoder(bytes.first(kWitnessBytes));
  if (decoder.Raw(kWitnessMagic.size()) != kWitnessMagic) return std::nullopt;
  Uuid owner;
  decoder.Raw(owner.bytes);
  const uint64_t commit = decoder.U64();
  if (decoder.U32() != base::Crc32c(bytes.first(kWitnessBytes - sizeof(uint32_t))) || owner != store)
    return std::nullopt;
  return commit;
}

rt::Task<Status> WriteSuperblock(rt::Reactor& reactor, device::Device& device, Superblock superblock) {
  const std::string content = EncodeSuperblock(superblock);
  if (superblock.device_id == 0) {
    for (size_t slot = 0; slot < kWitnessOffsets.size(); ++slot)
      FB_CO_TRY(co_await WriteWitness(reactor, device, superblock.store, {.commit = 0, .slot = slot}));
  }
  FB_CO_TRY(co_await WriteBlock(reactor, device, kSuperblockCopyOffset, content));
  FB_CO_TRY(co_await WriteBlock(reactor, device, kSuperblockOffset, content));
  co_return co_await device.Flush(reactor);
}

rt::Task<Result<Superblock>> ReadSuperblock(rt::Reactor& reactor, device::Device& device) {
  if (device.size_bytes() < kMinDeviceBytes)
    co_return Status::FailedPrecondition("{} has {} bytes; a data device has at least {}", device.name(),
                                         device.size_bytes(), kMinDeviceBytes);
  Result<Superblock> first = co_await ReadSuperblockAt(reactor, device, kSuperblockOffset);
  if (first.ok()) co_return first;
  // One that says it is of a newer format may have a wrong bit there: what changes a format changes the copy
  // first.
  Result<Superblock> copy = co_await ReadSuperblockAt(reactor, device, kSuperblockCopyOffset);
  if (copy.ok()) co_return copy;
  const bool newer =
      first.error().code() != Code::kFailedPrecondition && copy.error().code() == Code::kFailedPrecondition;
  co_return newer ? copy : first;
}

rt::Task<Result<Witness>> ReadWitness(rt::Reactor& reactor, device::Device& device, Uuid store) {
  std::optional<Witness> highest;
  device::AlignedBytes block(device::kUnit);
  const MutableByteView bytes = block.writable();
  for (uint32_t copy = 0; copy < device.copies(); ++copy) {
    for (size_t slot = 0; slot < kWitnessOffsets.size(); ++slot) {
      // A slot that cannot be read counts like a damaged one: the other slot is there for that.
      if (!(co_await device.ReadCopy(reactor, copy, kWitnessOffsets[slot], {&bytes, 1})).ok()) continue;
      const std::optional<uint64_t> commit = DecodeWitness(block.view(), store);
      if (commit && (!highest || *commit > highest->commit)) highest = Witness{.commit = *commit, .slot = slot};
    }
  }
  if (!highest)
    co_return Status::DataLoss(
        "both witness slots of {} are damaged: which commits were acknowledged is not known", device.name());
  co_return *highest;
}

rt::Task<Status> WriteWitness(rt::Reactor& reactor, device::Device& device, Uuid store, Witness witness) {
  co_return co_await WriteBlock(reactor, device, kWitnessOffsets[witness.slot],
                                EncodeWitness(store, witness.commit));
}

}  // namespace forebay::engine
