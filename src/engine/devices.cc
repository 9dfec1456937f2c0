// SPDX-License-Identifier: Apache-2.0
#include "engine/devices.h"

#include <utility>

#include "base/check.h"
#include "device/absent_device.h"

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
  slots_.reserve(kMaxDevices);
  for (std::unique_ptr<device::Device>& device : devices) Add(std::move(device));
}

uint32_t Devices::Add(std::unique_ptr<device::Device> device) {
  FB_CHECK(slots_.size() < kMaxDevices);
  auto slot = std::make_unique<Slot>();
  slot->mirror = dynamic_cast<device::MirrorDevice*>(device.get());
  slot->absent = dynamic_cast<device::AbsentDevice*>(device.get()) != nullptr;
  slot->device = std::move(device);
  slots_.push_back(std::move(slot));
  count_.store(slots_.size(), std::memory_order_release);
  return static_cast<uint32_t>(slots_.size() - 1);
}

bool Devices::IsCurrent(uint32_t id, uint32_t copy) const {
  return mirror(id) == nullptr || mirror(id)->sides()[copy].state == device::SideState::kCurrent;
}

uint32_t Devices::FirstBut(uint32_t id) const {
  uint32_t first = 0;
  while (first + 1 < size() && (first == id || absent(first))) ++first;
  return first;
}

Departure Devices::departure(uint32_t id) const {
  base::MutexLock lock(mutex_);
  const auto found = departures_.find(id);
  return found == departures_.end() ? Departure() : found->second;
}

void Devices::FailDeparture(uint32_t id, const Status& failure) {
  base::MutexLock lock(mutex_);
  if (departures_[id].leaving) departures_[id].failure = failure;
}

void Devices::SetDeparture(uint32_t id, Departure departure) {
  base::MutexLock lock(mutex_);
  departures_[id] = std::move(departure);
}

rt::Task<Status> Devices::Read(rt::Reactor& reactor, uint32_t id, uint64_t offset,
                               std::span<const MutableByteView> buffers) {
  slots_[id]->bytes_read.fetch_add(TotalSize(buffers), std::memory_order_relaxed);
  co_return co_await at(id).Read(reactor, offset, buffers);
}

rt::Task<Status> Devices::Write(rt::Reactor& reactor, uint32_t id, uint64_t offset,
                                std::span<const ByteView> buffers) {
  slots_[id]->bytes_written.fetch_add(TotalSize(buffers), std::memory_order_relaxed);
  Status status = co_await at(id).Write(reactor, offset, buffers);
  // Set after the write returned: a flush that began before does not cover it.
  MarkWritten(id);
  co_return status;
}

rt::Task<Status> Devices::ReadCopy(rt::Reactor& reactor, uint32_t id, uint32_t copy, uint64_t offset,
                                   std::span<const MutableByteView> buffers) {
  slots_[id]->bytes_read.fetch_add(TotalSize(buffers), std::memory_order_relaxed);
  co_return co_await at(id).ReadCopy(reactor, copy, offset, buffers);
}

rt::Task<Status> Devices::WriteCopy(rt::Reactor& reactor, uint32_t id, uint32_t copy, uint64_t offset,
                                    std::span<const ByteView> buffers) {
  slots_[id]->bytes_written.fetch_add(TotalSize(buffers), std::memory_order_relaxed);
  Status status = co_await at(id).WriteCopy(reactor, copy, offset, buffers);
  MarkWritten(id);
  co_return status;
}

uint64_t Devices::bytes_read() const {
  uint64_t bytes = 0;
  for (uint32_t id = 0; id < size(); ++id) bytes += bytes_read(id);
  return bytes;
}

uint64_t Devices::bytes_written() const {
  uint64_t bytes = 0;
  for (uint32_t id = 0; id < size(); ++id) bytes += bytes_written(id);
  return bytes;
}

std::vector<uint32_t> Devices::TakeWritten() {
  std::vector<uint32_t> written;
  for (uint32_t id = 0; id < size(); ++id)
    if (slots_[id]->written.exchange(false) && !absent(id)) written.push_back(id);
  return written;
}

}  // namespace forebay::engine
