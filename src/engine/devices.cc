// SPDX-License-Identifier: Apache-2.0
#include "engine/devices.h"

#include <utility>

namespace forebay::engine {
namespace {

template <typename View>
uint64_t TotalSize(std::span<const View> buffers) {
  uint64_t total = 0;
  for (const View& buffer : buffers) total += buffer.size();
  return total;
}

}  // namespace

Devices::Devices(std::vector<std::unique_ptr<device::Device>> devices) {
  for (std::unique_ptr<device::Device>& device : devices) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->device = std::move(device);
  }
}

rt::Task<Status> Devices::Read(rt::Reactor& reactor, uint32_t id, uint64_t offset,
                               std::span<const MutableByteView> buffers) {
  bytes_read_.fetch_add(TotalSize(buffers), std::memory_order_relaxed);
  co_return co_await at(id).Read(reactor, offset, buffers);
}

rt::Task<Status> Devices::Write(rt::Reactor& reactor, uint32_t id, uint64_t offset,
                                std::span<const ByteView> buffers) {
  bytes_written_.fetch_add(TotalSize(buffers), std::memory_order_relaxed);
  Status status = co_await at(id).Write(reactor, offset, buffers);
  // Set after the write returned: a flush that began before does not cover it.
  MarkWritten(id);
  co_return status;
}

std::vector<uint32_t> Devices::TakeWritten() {
  std::vector<uint32_t> written;
  for (uint32_t id = 0; id < slots_.size(); ++id)
    if (slots_[id]->written.exchange(false)) written.push_back(id);
  return written;
}

}  // namespace forebay::engine
