// SPDX-License-Identifier: Apache-2.0
#include "engine/block_check.h"

#include <algorithm>
#include <optional>

#include "base/checksum.h"

namespace forebay::engine {
namespace {

/// A block of a run as it lies in the run's memory.
uint64_t BlockLength(const BlockRun& run, size_t block) {
  return std::min(run.block_bytes, run.length - block * run.block_bytes);
}

bool Matches(const BlockRun& run, size_t block, ByteView memory) {
  return base::Crc32c(memory.subspan(block * run.block_bytes, BlockLength(run, block))) == run.checksums[block];
}

/// Reads one block again, into its place; what is wrong with it, if anything still is.
rt::Task<std::optional<BadBlock>> ReadAgain(rt::Reactor& reactor, Devices& devices, const BlockRun& run, size_t block,
                                            MutableByteView memory) {
  const uint64_t at = block * run.block_bytes;
  const MutableByteView view = memory.subspan(at, base::RoundUp(BlockLength(run, block), device::kUnit));
  const Status read = co_await devices.Read(reactor, run.device, run.offset + at, {&view, 1});
  if (!read.ok()) co_return BadBlock{.block = block, .unreadable = true};
  if (Matches(run, block, memory)) co_return std::nullopt;
  co_return BadBlock{.block = block};
}

}  // namespace

void AddRuns(uint64_t extent, const ExtentRecord& record, uint64_t most_bytes, std::vector<BlockRun>& runs) {
  const uint64_t block_bytes = uint64_t{1} << record.block_shift;
  for (uint64_t begin = 0; begin < record.length_bytes; begin += most_bytes) {
    const uint64_t length = std::min(most_bytes, record.length_bytes - begin);
    const auto first = record.checksums.begin() + static_cast<ptrdiff_t>(begin / block_bytes);
    runs.push_back({.extent = extent,
                    .begin = begin,
                    .length = length,
                    .device = record.device,
                    .offset = record.first_unit * device::kUnit + begin,
                    .block_bytes = block_bytes,
                    .checksums = {first, first + static_cast<ptrdiff_t>(base::DivideUp(length, block_bytes))}});
  }
}

rt::Task<RunCheck> CheckRun(rt::Reactor& reactor, Devices& devices, const BlockRun& run, MutableByteView memory) {
  RunCheck check;
  const MutableByteView view = memory.first(run.device_bytes());
  const Status read = co_await devices.Read(reactor, run.device, run.offset, {&view, 1});
  for (size_t block = 0; block < run.checksums.size(); ++block) {
    if (read.ok() && Matches(run, block, memory)) continue;
    // When the whole could not be read, this is the block's first time.
    std::optional<BadBlock> bad = co_await ReadAgain(reactor, devices, run, block, memory);
    if (bad && !read.ok()) bad = co_await ReadAgain(reactor, devices, run, block, memory);
    if (bad) check.damaged.push_back(*bad);
  }
  co_return check;
}

}  // namespace forebay::engine
