// SPDX-License-Identifier: Apache-2.0
#include "engine/pins.h"

namespace forebay::engine {

std::vector<CachedName> Pins::TakeEnded(uint64_t now_ms, size_t most) {
  std::vector<CachedName> ended;
  if (count_.load(std::memory_order_relaxed) == 0) return ended;
  base::MutexLock lock(mutex_);
  for (auto pin = pins_.begin(); pin != pins_.end() && ended.size() < most;) {
    if (pin->second.record.until_ms > now_ms) {
      ++pin;
    } else {
      ended.push_back(pin->first);
      pin = pins_.erase(pin);
    }
  }
  count_.store(pins_.size(), std::memory_order_relaxed);
  return ended;
}

store::PinnedUsage Pins::Of(TenantId owner, uint64_t now_ms) const {
  store::PinnedUsage usage;
  base::MutexLock lock(mutex_);
  for (const auto& [name, pin] : pins_) {
    if (pin.owner != owner || pin.record.until_ms <= now_ms) continue;
    ++usage.objects;
    usage.bytes += pin.record.size_bytes;
  }
  return usage;
}

}  // namespace forebay::engine
