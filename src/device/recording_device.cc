// SPDX-License-Identifier: Apache-2.0
#include "device/recording_device.h"

#include "device/request_check.h"

namespace forebay::device {

rt::Task<Status> RecordingDevice::Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) {
  // What the device below refuses never was an operation.
  FB_CO_ASSIGN(const uint64_t total, CheckRequest(name(), size_bytes(), "write", offset, buffers));
  if (total == 0) co_return co_await base_->Write(reactor, offset, buffers);
  Bytes data;
  data.reserve(total);
  for (const ByteView& buffer : buffers) data.insert(data.end(), buffer.begin(), buffer.end());
  const uint64_t begin = log_.Begin(OperationLog::Kind::kWrite, name(), offset, std::move(data));
  FB_CO_TRY(co_await base_->Write(reactor, offset, buffers));
  log_.End(begin);
  co_return Status();
}

rt::Task<Status> RecordingDevice::Flush(rt::Reactor& reactor) {
  const uint64_t begin = log_.Begin(OperationLog::Kind::kFlush, name(), 0, {});
  FB_CO_TRY(co_await base_->Flush(reactor));
  log_.End(begin);
  co_return Status();
}

}  // namespace forebay::device
