// SPDX-License-Identifier: Apache-2.0
#include "device/operation_log.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/tearing.h"

namespace forebay::device {

uint64_t OperationLog::Begin(Kind kind, std::string store, uint64_t offset, Bytes data) {
  base::MutexLock lock(mutex_);
  entries_.push_back({kind, std::move(store), ++last_, kNotYet, offset, std::move(data)});
  return last_;
}

void OperationLog::End(uint64_t begin) {
  base::MutexLock lock(mutex_);
  const auto entry = std::lower_bound(entries_.begin(), entries_.end(), begin,
                                      [](const Entry& e, uint64_t number) { return e.begin < number; });
  FB_CHECK(entry != entries_.end() && entry->begin == begin && entry->end == kNotYet);
  entry->end = ++last_;
}

uint64_t OperationLog::Mark(std::string text) {
  base::MutexLock lock(mutex_);
  ++last_;
  entries_.push_back({Kind::kMark, std::move(text), last_, last_, 0, {}});
  return last_;
}

uint64_t OperationLog::last() const {
  base::MutexLock lock(mutex_);
  return last_;
}

std::vector<OperationLog::Entry> OperationLog::entries() const {
  base::MutexLock lock(mutex_);
  return entries_;
}

std::unique_ptr<MemoryDevice> OperationLog::CrashedDevice(std::string_view store, uint64_t point, ByteView before,
                                                          base::Random& random, CrashMode mode) const {
  base::MutexLock lock(mutex_);
  uint64_t flushed = 0;  // the latest beginning of a flush that had ended
  for (const Entry& entry : entries_) {
    if (entry.kind == Kind::kFlush && entry.store == store && entry.end != kNotYet && entry.end <= point)
      flushed = std::max(flushed, entry.begin);
  }
  Bytes image(before.begin(), before.end());
  for (const Entry& entry : entries_) {
    if (entry.kind != Kind::kWrite || entry.store != store || entry.begin > point) continue;
    FB_CHECK(base::RangeFits(entry.offset, entry.data.size(), image.size()));
    const bool durable = entry.end != kNotYet && entry.end < flushed;
    ForEachSurvivor(entry.data.size(), random, durable ? CrashMode::kKeepAll : mode,
                    [&](uint64_t begin, uint64_t length) {
                      std::copy_n(entry.data.begin() + static_cast<ptrdiff_t>(begin), length,
                                  image.begin() + static_cast<ptrdiff_t>(entry.offset + begin));
                    });
  }
  return MemoryDevice::FromImage(image, std::string(store));
}

}  // namespace forebay::device
