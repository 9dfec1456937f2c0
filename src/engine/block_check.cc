// SPDX-License-Identifier: Apache-2.0
#include "engine/block_check.h"

#include <algorithm>

#include "base/checksum.h"
#include "engine/block_copies.h"

namespace forebay::engine {
namespace {

/// A block of a run as it lies in the run's memory.
uint64_t BlockLength(const BlockRun& run, size_t block) {
  return std::min(run.block_bytes, run.length - block * run.block_bytes);
}

bool Matches(const BlockRun& run, size_t block, ByteView memory) {
  return base::Crc32c(memory.subspan(block * run.block_bytes, BlockLength(run, block))) == run.checksums[block];
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

rt::Task<RunCheck> CheckRun(rt::Reactor& reactor, Devices& devices, const BlockRun& run, MutableByteView memory,
                            Mending mending) {
  const uint32_t copies = devices.at(run.device).copies();
  const MutableByteView view = memory.first(run.device_bytes());
  std::vector<bool> suspect(run.checksums.size(), false);
  bool was_read = true;
  bool any = false;
  for (uint32_t copy = 0; copy < copies; ++copy) {
    if (!devices.IsCurrent(run.device, copy)) continue;
    const Status read = co_await devices.ReadCopy(reactor, run.device, copy, run.offset, {&view, 1});
    if (read.code() == Code::kUnavailable && copies != 1) continue;  // it was lost just now
    any = true;
    was_read &= read.ok();
    for (size_t block = 0; block < run.checksums.size(); ++block)
      if (!read.ok() || !Matches(run, block, memory)) suspect[block] = true;
  }
  if (!any) suspect.assign(suspect.size(), true);
  RunCheck check;
  for (size_t block = 0; block < run.checksums.size(); ++block) {
    if (!suspect[block]) continue;
    const uint64_t at = block * run.block_bytes;
    const MutableByteView part = memory.subspan(at, base::RoundUp(BlockLength(run, block), device::kUnit));
    const auto matches = [&](ByteView content) {
      return base::Crc32c(content.first(BlockLength(run, block))) == run.checksums[block];
    };
    BlockCopies found = co_await CheckCopies(reactor, devices, run.device, run.offset + at, part, matches, mending);
    // When the whole could not be read, this was the block's first time.
    if (!found.right && !was_read)
      found = co_await CheckCopies(reactor, devices, run.device, run.offset + at, part, matches, mending);
    if (!found.right)
      check.damaged.push_back({.block = block, .unreadable = !found.failure.ok()});
    else if (found.repaired != 0)
      check.repaired.push_back(block);
  }
  co_return check;
}

}  // namespace forebay::engine
