// SPDX-License-Identifier: Apache-2.0
#include "engine/reader.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "rt/when_all.h"
#include "store/checks.h"

namespace forebay::engine {

rt::Task<Result<store::ReadData>> Reader::Read(const store::Context& context, uint64_t offset, uint64_t length) {
  FB_CO_TRY(store::CheckDeadline(context, "read"));
  FB_CO_TRY(store::CheckRead(bucket_name_, info(), offset, length));
  if (length == 0) co_return store::ReadData();
  if (state_->pieces.empty()) co_return co_await ReadInline(context, offset, length);
  std::vector<Part> parts = PartsOf(offset, length);
  size_t missing = 0;
  for (Part& part : parts) {
    part.content = core_.tier.Lookup(KeyOf(part));
    if (part.content.empty()) ++missing;
  }
  core_.tier_hits.fetch_add(parts.size() - missing, std::memory_order_relaxed);
  if (missing != 0) {
    core_.tier_misses.fetch_add(missing, std::memory_order_relaxed);
    FB_CO_TRY(co_await Fetch(context, parts));
  }
  co_return Gather(parts);
}

rt::Task<Result<store::ReadData>> Reader::ReadInline(const store::Context& context, uint64_t offset, uint64_t length) {
  std::vector<size_t> sizes{static_cast<size_t>(length)};
  FB_CO_ASSIGN(std::vector<base::Buffer> memory,
               co_await core_.memory.Allocate(context.reactor, context.deadline, std::move(sizes)));
  std::memcpy(memory[0].writable().data(), state_->inline_content.data() + offset, length);
  store::ReadData data;
  data.size_bytes = length;
  data.crc32c = length == info().size_bytes ? info().crc32c : base::Crc32c(memory[0].view());
  data.buffers = std::move(memory);
  co_return data;
}

std::vector<Reader::Part> Reader::PartsOf(uint64_t offset, uint64_t length) const {
  std::vector<Part> parts;
  auto piece = std::ranges::upper_bound(state_->pieces, offset, {}, &MappedPiece::begin) - 1;
  while (length != 0) {
    const uint8_t shift = state_->extents[piece->extent].record.block_shift;
    uint64_t at = piece->offset + (offset - piece->begin);  // in the extent
    uint64_t left = std::min(length, piece->begin + piece->length - offset);
    length -= left;
    while (left != 0) {
      const uint64_t begin = at & ((uint64_t{1} << shift) - 1);
      const uint64_t take = std::min(left, (uint64_t{1} << shift) - begin);
      parts.push_back({.extent = piece->extent,
                       .block = static_cast<uint32_t>(at >> shift),
                       .begin = begin,
                       .length = take,
                       .object_offset = offset,
                       .content = {}});
      at += take;
      offset += take;
      left -= take;
    }
    ++piece;
  }
  return parts;
}

uint64_t Reader::BlockBytes(const Part& part) const {
  const ExtentRecord& record = RecordOf(part);
  const uint64_t begin = uint64_t{part.block} << record.block_shift;
  return std::min(uint64_t{1} << record.block_shift, record.length_bytes - begin);
}

uint64_t Reader::DeviceOffset(const Part& part) const {
  const ExtentRecord& record = RecordOf(part);
  return record.first_unit * device::kUnit + (uint64_t{part.block} << record.block_shift);
}

bool Reader::Matches(const Part& part, ByteView content) const {
  return base::Crc32c(content) == RecordOf(part).checksums[part.block];
}

/// Fills the parts that are missing: all memory first, then neighbouring blocks in one device read.
rt::Task<Status> Reader::Fetch(const store::Context& context, std::vector<Part>& parts) {
  std::vector<size_t> sizes;
  for (const Part& part : parts)
    if (part.content.empty()) sizes.push_back(base::RoundUp(BlockBytes(part), device::kUnit));
  FB_CO_ASSIGN(std::vector<base::Buffer> memory,
               co_await core_.memory.Allocate(context.reactor, context.deadline, std::move(sizes)));
  std::vector<rt::Task<Status>> reads;
  size_t next = 0;  // in `memory`
  for (size_t i = 0; i < parts.size();) {
    if (!parts[i].content.empty()) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < parts.size() && parts[end].content.empty() && parts[end].extent == parts[i].extent &&
           parts[end].block == parts[end - 1].block + 1)
      ++end;
    reads.push_back(
        FetchRun(context.reactor, std::span(parts).subspan(i, end - i), std::span(memory).subspan(next, end - i)));
    next += end - i;
    i = end;
  }
  if (reads.size() == 1) co_return co_await std::move(reads.front());
  for (Status& status : co_await rt::WhenAll(std::move(reads))) FB_CO_TRY(std::move(status));
  co_return Status();
}

rt::Task<Status> Reader::FetchRun(rt::Reactor& reactor, std::span<Part> parts, std::span<base::Buffer> memory) {
  std::vector<MutableByteView> views;
  views.reserve(memory.size());
  for (base::Buffer& buffer : memory) views.push_back(buffer.writable());
  const uint32_t device = RecordOf(parts[0]).device;
  const Status read = co_await core_.devices.Read(reactor, device, DeviceOffset(parts[0]), views);
  if (!read.ok())
    co_return Status(read.code(), fmt::format("object `{}/{}` at offset {}: {}", bucket_name_, info().key,
                                              parts[0].object_offset, read.message()));
  for (size_t i = 0; i < parts.size(); ++i) {
    base::Buffer content = memory[i].Slice(0, BlockBytes(parts[i]));
    if (!Matches(parts[i], content.view())) {
      FB_CO_TRY(co_await ReadAgain(reactor, parts[i], memory[i]));
    }
    core_.tier.Insert(KeyOf(parts[i]), content);
    parts[i].content = std::move(content);
  }
  co_return Status();
}

rt::Task<Status> Reader::ReadAgain(rt::Reactor& reactor, const Part& part, base::Buffer& memory) {
  const uint32_t device = RecordOf(part).device;
  const MutableByteView view = memory.writable();
  FB_CO_TRY(co_await core_.devices.Read(reactor, device, DeviceOffset(part), {&view, 1}));
  if (Matches(part, memory.view().first(BlockBytes(part)))) {
    core_.log.Warning("{}: unit {} was read wrong once and right the second time: look at the drive's health",
                      core_.devices.at(device).name(), DeviceOffset(part) / device::kUnit);
    co_return Status();
  }
  core_.damaged_blocks.fetch_add(1, std::memory_order_relaxed);
  const Status damage = Status::DataLoss(
      "object `{}/{}` is damaged at offset {}: the block at unit {} of {} does not match its checksum", bucket_name_,
      info().key, part.object_offset, DeviceOffset(part) / device::kUnit, core_.devices.at(device).name());
  core_.log.Error("{}", damage.message());
  co_return damage;
}

store::ReadData Reader::Gather(const std::vector<Part>& parts) const {
  store::ReadData data;
  data.buffers.reserve(parts.size());
  for (const Part& part : parts) {
    base::Buffer bytes = part.content.Slice(part.begin, part.length);
    const bool whole = part.length == part.content.size();
    const uint32_t crc32c = whole ? RecordOf(part).checksums[part.block] : base::Crc32c(bytes.view());
    data.crc32c = base::Crc32cCombine(data.crc32c, crc32c, part.length);
    data.size_bytes += part.length;
    data.buffers.push_back(std::move(bytes));
  }
  return data;
}

}  // namespace forebay::engine
