// SPDX-License-Identifier: Apache-2.0
#include "bench/cases.h"

#include <algorithm>
#include <string>

#include "base/bytes.h"

namespace forebay::bench {
namespace {

constexpr std::chrono::milliseconds kLimitDuration{1000};
constexpr uint64_t kScratchBytes = base::kGiB;
// Headers and bodies around 4 KiB of payload: what a get of one object puts on the wire beside it.
constexpr size_t kRequestOverhead = 224;
constexpr size_t kReplyOverhead = 224;
constexpr uint64_t kSmallObject = 64 * base::kKiB;

Result<Limit> Measure(const Case& spec, LimitKind kind) {
  const LoadSpec& load = spec.load;
  const auto size = static_cast<size_t>(load.object_bytes);
  switch (kind) {
    case LimitKind::kStream:
      return MeasureStream(size * load.batch, kLimitDuration);
    case LimitKind::kCopy:
      return MeasureCopy(size * load.batch, kLimitDuration);
    case LimitKind::kEcho:
      return MeasureEcho(kRequestOverhead, size * load.batch + kReplyOverhead, load.depth * load.threads,
                         kLimitDuration);
    case LimitKind::kDeviceOrStream: {
      FB_ASSIGN(Limit device, MeasureDeviceRead(spec.device_directory, base::RoundUp(size, 4096),
                                                load.depth * load.threads, kScratchBytes, kLimitDuration));
      FB_ASSIGN(Limit stream, MeasureStream(size, kLimitDuration));
      return device.bytes_per_second() < stream.bytes_per_second() ? device : stream;
    }
    case LimitKind::kFlushedWrite:
      return MeasureFlushedWrite(spec.device_directory, base::RoundUp(size, 4096), load.depth * load.threads,
                                 kScratchBytes, 2 * kLimitDuration);
    case LimitKind::kSingleFlushedWrite:
      return MeasureFlushedWrite(spec.device_directory, base::RoundUp(size, 4096), 1, 64 * base::kMiB,
                                 2 * kLimitDuration);
  }
  return Status::Internal("no such limit");
}

bool ComparesOperations(LimitKind kind) {
  return kind == LimitKind::kEcho || kind == LimitKind::kSingleFlushedWrite;
}

double CpuPerGiB(const Limit& limit) {
  return limit.bytes == 0
             ? 0
             : limit.cpu_seconds * static_cast<double>(base::kGiB) / static_cast<double>(limit.bytes);
}

Error ErrorOf(const Status& status) { return {status.code(), std::string(status.message())}; }

}  // namespace

LimitKind ChooseLimit(const LoadSpec& load) {
  if (load.operation == Operation::kPut)
    return load.object_bytes <= kSmallObject ? LimitKind::kSingleFlushedWrite : LimitKind::kFlushedWrite;
  if (load.heat == Heat::kCold) return LimitKind::kDeviceOrStream;
  return load.object_bytes * load.batch <= kSmallObject ? LimitKind::kEcho : LimitKind::kStream;
}

std::string_view LimitName(LimitKind kind) {
  switch (kind) {
    case LimitKind::kStream:
      return "raw loopback stream";
    case LimitKind::kCopy:
      return "memcpy, one thread";
    case LimitKind::kEcho:
      return "bare echo on the same reactor";
    case LimitKind::kDeviceOrStream:
      return "device reads or raw loopback stream, the smaller";
    case LimitKind::kFlushedWrite:
      return "device writes, flushed each round";
    case LimitKind::kSingleFlushedWrite:
      return "single write + flush";
  }
  return "";
}

double CaseReport::fraction() const {
  if (ComparesOperations(limit)) {
    const double limit_rate = limit_operations_per_second;
    return limit_rate > 0 ? load.operations_per_second() / limit_rate : 0;
  }
  return limit_bytes_per_second > 0 ? load.bytes_per_second() / limit_bytes_per_second : 0;
}

std::expected<CaseReport, Error> RunCase(const Case& spec, const CaseConnector& connect) {
  LimitKind limit = spec.limit;
  if (limit == LimitKind::kStream) {
    const auto client = connect(1);
    if (!client) return std::unexpected(client.error());
    if ((*client)->path().starts_with("shm ")) limit = LimitKind::kCopy;
  }
  const Result<Limit> before = Measure(spec, limit);
  if (!before.ok()) return std::unexpected(ErrorOf(before.status()));
  auto load = RunLoad(spec.load, [&] { return connect(spec.connections); });
  if (!load) return std::unexpected(load.error());
  const Result<Limit> after = Measure(spec, limit);
  if (!after.ok()) return std::unexpected(ErrorOf(after.status()));
  CaseReport report;
  report.load = *std::move(load);
  report.limit = limit;
  report.limit_bytes_per_second = (before->bytes_per_second() + after->bytes_per_second()) / 2;
  report.limit_operations_per_second = (before->operations_per_second() + after->operations_per_second()) / 2;
  report.limit_cpu_seconds_per_gib = (CpuPerGiB(*before) + CpuPerGiB(*after)) / 2;
  return report;
}

}  // namespace forebay::bench
