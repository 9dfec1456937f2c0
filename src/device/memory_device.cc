// SPDX-License-Identifier: Apache-2.0
#include "device/memory_device.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/request_check.h"
#include "device/tearing.h"

namespace forebay::device {

MemoryDevice::MemoryDevice(uint64_t size_bytes, std::string name, PowerSwitch* power)
    : name_(std::move(name)), size_bytes_(size_bytes), power_(power) {
  FB_CHECK(size_bytes > 0 && size_bytes % kUnit == 0);
}

std::unique_ptr<MemoryDevice> MemoryDevice::FromImage(ByteView image, std::string name, PowerSwitch* power) {
  auto device = std::make_unique<MemoryDevice>(image.size(), std::move(name), power);
  base::MutexLock lock(device->mutex_);
  for (uint64_t at = 0; at < image.size(); at += kUnit) {
    const ByteView unit = image.subspan(at, kUnit);
    if (std::all_of(unit.begin(), unit.end(), [](std::byte b) { return b == std::byte{0}; })) continue;
    Store(device->seen_, at, unit);
    Store(device->durable_, at, unit);
  }
  return device;
}

MemoryDevice::Unit& MemoryDevice::UnitAt(Units& units, uint64_t index) {
  std::unique_ptr<Unit>& unit = units[index];
  if (!unit) unit = std::make_unique<Unit>();  // value-initialized: zeros
  return *unit;
}

void MemoryDevice::Store(Units& units, uint64_t offset, ByteView data) {
  while (!data.empty()) {
    const uint64_t inside = offset % kUnit;
    const size_t length = std::min<size_t>(data.size(), kUnit - inside);
    std::memcpy(UnitAt(units, offset / kUnit).data() + inside, data.data(), length);
    data = data.subspan(length);
    offset += length;
  }
}

MemoryDevice::Units MemoryDevice::Copy(const Units& units) {
  Units copy;
  for (const auto& [index, unit] : units) copy.emplace_hint(copy.end(), index, std::make_unique<Unit>(*unit));
  return copy;
}

Status MemoryDevice::Powered() const {
  if (power_ == nullptr || power_->on()) return {};
  return Status::Unavailable("{}: the power is off", name_);
}

bool MemoryDevice::Use() { return power_ == nullptr || power_->Use(); }

rt::Task<Status> MemoryDevice::Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) {
  FB_CO_TRY(CheckRequest(name_, size_bytes_, "read", offset, buffers));
  co_await reactor.Yield();
  FB_CO_TRY(Powered());
  base::MutexLock lock(mutex_);
  for (const MutableByteView& buffer : buffers) {
    for (size_t at = 0; at < buffer.size(); at += kUnit, offset += kUnit) {
      const auto unit = seen_.find(offset / kUnit);
      if (unit == seen_.end()) {
        std::memset(buffer.data() + at, 0, kUnit);
      } else {
        std::memcpy(buffer.data() + at, unit->second->data(), kUnit);
      }
    }
  }
  co_return Status();
}

rt::Task<Status> MemoryDevice::Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) {
  FB_CO_ASSIGN(const uint64_t total, CheckRequest(name_, size_bytes_, "write", offset, buffers));
  co_await reactor.Yield();
  if (total == 0) co_return Powered();
  base::MutexLock lock(mutex_);
  if (!Use()) co_return Powered();
  Pending write{offset, {}};
  write.data.reserve(total);
  for (const ByteView& buffer : buffers) write.data.insert(write.data.end(), buffer.begin(), buffer.end());
  Store(seen_, offset, write.data);
  pending_.push_back(std::move(write));
  co_return Status();
}

rt::Task<Status> MemoryDevice::Flush(rt::Reactor& reactor) {
  uint64_t until = 0;
  {
    base::MutexLock lock(mutex_);
    until = flushed_ + pending_.size();
  }
  co_await reactor.Yield();
  base::MutexLock lock(mutex_);
  if (!Use()) co_return Powered();
  // Writes that returned after this flush was called stay volatile; another flush may have taken some of ours.
  const uint64_t count = until > flushed_ ? until - flushed_ : 0;
  const auto end = pending_.begin() + static_cast<ptrdiff_t>(std::min<uint64_t>(count, pending_.size()));
  for (auto write = pending_.begin(); write != end; ++write) Store(durable_, write->offset, write->data);
  flushed_ += static_cast<uint64_t>(end - pending_.begin());
  pending_.erase(pending_.begin(), end);
  co_return Status();
}

rt::Task<Status> MemoryDevice::ZeroAhead(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes) {
  if (begin_bytes % kUnit != 0 || end_bytes % kUnit != 0)
    co_return Status::InvalidArgument("{}: zeroing [{}, {}): not a multiple of {}", name_, begin_bytes, end_bytes, kUnit);
  if (end_bytes > size_bytes_)
    co_return Status::OutOfRange("{}: zeroing up to {}: the device has {} bytes", name_, end_bytes, size_bytes_);
  co_await reactor.Yield();
  co_return Powered();
}

std::unique_ptr<MemoryDevice> MemoryDevice::Crash(base::Random& random, CrashMode mode, PowerSwitch* power) const {
  auto found = std::make_unique<MemoryDevice>(size_bytes_, name_, power);
  base::MutexLock lock(mutex_);
  Units media = Copy(durable_);
  for (const Pending& write : pending_) {
    ForEachSurvivor(write.data.size(), random, mode, [&](uint64_t begin, uint64_t length) {
      Store(media, write.offset + begin, ByteView(write.data).subspan(begin, length));
    });
  }
  base::MutexLock found_lock(found->mutex_);
  found->seen_ = Copy(media);
  found->durable_ = std::move(media);
  return found;
}

void MemoryDevice::DropUnflushed() {
  base::MutexLock lock(mutex_);
  // Counts as gone, so that a flush in progress does not take later writes for these.
  flushed_ += pending_.size();
  pending_.clear();
  seen_ = Copy(durable_);
}

void MemoryDevice::FlipBit(uint64_t offset, unsigned bit) {
  FB_CHECK(offset < size_bytes_ && bit < 8);
  const std::byte mask{static_cast<unsigned char>(1U << bit)};
  base::MutexLock lock(mutex_);
  UnitAt(seen_, offset / kUnit)[offset % kUnit] ^= mask;
  UnitAt(durable_, offset / kUnit)[offset % kUnit] ^= mask;
}

Bytes MemoryDevice::image() const {
  Bytes out(size_bytes_);
  base::MutexLock lock(mutex_);
  for (const auto& [index, unit] : seen_) std::memcpy(out.data() + index * kUnit, unit->data(), kUnit);
  return out;
}

uint64_t MemoryDevice::unflushed_writes() const {
  base::MutexLock lock(mutex_);
  return pending_.size();
}

}  // namespace forebay::device
