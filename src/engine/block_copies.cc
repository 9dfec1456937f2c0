// SPDX-License-Identifier: Apache-2.0
#include "engine/block_copies.h"

#include <cstring>
#include <vector>

#include "device/aligned_bytes.h"

namespace forebay::engine {

rt::Task<BlockCopies> CheckCopies(rt::Reactor& reactor, Devices& devices, uint32_t device, uint64_t offset,
                                  MutableByteView memory, const BlockCheck& is_right, Mending mending) {
  const uint32_t copies = devices.at(device).copies();
  BlockCopies found;
  std::vector<uint32_t> wrong;
  device::AlignedBytes spare(copies == 1 ? 0 : memory.size());
  uint32_t absent = 0;
  for (uint32_t copy = 0; copy < copies; ++copy) {
    const MutableByteView target = found.right ? spare.writable() : memory;
    Status read = co_await devices.ReadCopy(reactor, device, copy, offset, {&target, 1});
    if (read.ok() && is_right(target)) {
      found.right = true;
      continue;
    }
    if (read.code() == Code::kUnavailable && copies != 1) {  // it is not there
      ++absent;
      found.failure = std::move(read);
      continue;
    }
    if (!read.ok()) found.failure = std::move(read);
    wrong.push_back(copy);
  }
  found.wrong = static_cast<uint32_t>(wrong.size());
  found.none_there = absent == copies;
  if (!found.right || wrong.empty() || mending == Mending::kNo) co_return found;
  const ByteView content = memory;
  for (const uint32_t copy : wrong) {
    Status written = co_await devices.WriteCopy(reactor, device, copy, offset, {&content, 1});
    if (written.ok())
      ++found.repaired;
    else
      found.failure = std::move(written);
  }
  co_return found;
}

}  // namespace forebay::engine
