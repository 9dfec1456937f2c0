// SPDX-License-Identifier: Apache-2.0
#include "device/faulty_device.h"

#include <algorithm>
#include <utility>

#include "device/aligned_bytes.h"
#include "device/memory_device.h"

namespace forebay::device {

void FaultPlan::Add(const Fault& fault) {
  base::MutexLock lock(mutex_);
  faults_.push_back(fault);
}

void FaultPlan::Clear() {
  base::MutexLock lock(mutex_);
  faults_.clear();
}

uint64_t FaultPlan::operations(FaultOn on) const {
  base::MutexLock lock(mutex_);
  return operations_[static_cast<size_t>(on)];
}

uint64_t FaultPlan::hits() const {
  base::MutexLock lock(mutex_);
  return hits_;
}

std::optional<Fault> FaultPlan::Next(FaultOn on) {
  base::MutexLock lock(mutex_);
  const uint64_t number = operations_[static_cast<size_t>(on)]++;
  for (const Fault& fault : faults_) {
    if (fault.on != on || number < fault.nth || number - fault.nth >= fault.count) continue;
    ++hits_;
    return fault;
  }
  return std::nullopt;
}

Status FaultyDevice::ErrorOf(const Fault& fault, std::string_view verb, uint64_t offset) const {
  if (fault.kind == FaultKind::kNoSpace)
    return Status::ResourceExhausted("{}: {} at offset {}: no space left on device (injected)", name(), verb, offset);
  return Status::DataLoss("{}: {} at offset {}: input/output error (injected)", name(), verb, offset);
}

rt::Task<Status> FaultyDevice::Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) {
  const std::optional<Fault> fault = plan_.Next(FaultOn::kRead);
  if (!fault) co_return co_await base_->Read(reactor, offset, buffers);
  switch (fault->kind) {
    case FaultKind::kDelayed:
      co_await reactor.Sleep(fault->delay);
      break;
    case FaultKind::kFlipped:
      break;
    default:
      co_return ErrorOf(*fault, "read", offset);
  }
  FB_CO_TRY(co_await base_->Read(reactor, offset, buffers));
  if (fault->kind == FaultKind::kFlipped) {
    uint64_t at = fault->amount / 8;
    for (const MutableByteView& buffer : buffers) {
      if (at < buffer.size()) {
        buffer[at] ^= std::byte{static_cast<unsigned char>(1U << (fault->amount % 8))};
        break;
      }
      at -= buffer.size();
    }
  }
  co_return Status();
}

rt::Task<Status> FaultyDevice::Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) {
  const std::optional<Fault> fault = plan_.Next(FaultOn::kWrite);
  if (!fault) co_return co_await base_->Write(reactor, offset, buffers);
  switch (fault->kind) {
    case FaultKind::kDelayed:
      co_await reactor.Sleep(fault->delay);
      co_return co_await base_->Write(reactor, offset, buffers);
    case FaultKind::kLost:
      co_await reactor.Yield();
      co_return Status();
    case FaultKind::kTorn:
    case FaultKind::kMisdirected:
    case FaultKind::kFlipped: {
      Bytes data;
      for (const ByteView& buffer : buffers) data.insert(data.end(), buffer.begin(), buffer.end());
      co_return co_await WriteWith(reactor, *fault, offset, std::move(data));
    }
    default:
      co_return ErrorOf(*fault, "write", offset);
  }
}

rt::Task<Status> FaultyDevice::WriteWith(rt::Reactor& reactor, Fault fault, uint64_t offset, Bytes data) {
  AlignedBytes bad(data.size());
  std::copy(data.begin(), data.end(), bad.data());
  ByteView view = bad.view();
  if (fault.kind == FaultKind::kTorn) {
    view = view.first(std::min<uint64_t>(view.size(), base::RoundDown(fault.amount, kUnit)));
  } else if (fault.kind == FaultKind::kMisdirected) {
    const uint64_t room = size_bytes() - std::min<uint64_t>(view.size(), size_bytes());
    offset = base::RoundDown((offset + fault.amount) % (room + kUnit), kUnit);
  } else if (fault.amount / 8 < bad.size()) {
    bad.data()[fault.amount / 8] ^= std::byte{static_cast<unsigned char>(1U << (fault.amount % 8))};
  }
  FB_CO_TRY(co_await base_->Write(reactor, offset, std::span(&view, 1)));
  co_return fault.kind == FaultKind::kTorn ? ErrorOf(fault, "write", offset) : Status();
}

rt::Task<Status> FaultyDevice::Flush(rt::Reactor& reactor) {
  const std::optional<Fault> fault = plan_.Next(FaultOn::kFlush);
  if (!fault) co_return co_await base_->Flush(reactor);
  switch (fault->kind) {
    case FaultKind::kDelayed:
      co_await reactor.Sleep(fault->delay);
      co_return co_await base_->Flush(reactor);
    case FaultKind::kLost:
      co_await reactor.Yield();
      co_return Status();
    case FaultKind::kDropCache:
      if (auto* memory = dynamic_cast<MemoryDevice*>(base_.get())) memory->DropUnflushed();
      break;
    default:
      break;
  }
  co_return fault->kind == FaultKind::kNoSpace
      ? Status::ResourceExhausted("{}: flush: no space left on device (injected)", name())
      : Status::DataLoss("{}: flush: input/output error (injected)", name());
}

rt::Task<Status> FaultyDevice::ZeroAhead(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes) {
  return base_->ZeroAhead(reactor, begin_bytes, end_bytes);
}

}  // namespace forebay::device
