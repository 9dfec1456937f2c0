// SPDX-License-Identifier: Apache-2.0
#include "fabric/region_table.h"

#include <algorithm>

namespace forebay::fabric {

Status RefusalStatus(Refusal refusal, uint64_t offset, uint64_t length) {
  switch (refusal) {
    case Refusal::kNone:
      return Status();
    case Refusal::kUnknownKey:
      return Status::PermissionDenied("the peer refused the transfer: it offers no region with this key");
    case Refusal::kOutOfRange:
      return Status::PermissionDenied("the peer refused the transfer: {} bytes at offset {} are outside of the region",
                                      length, offset);
    case Refusal::kWrongDirection:
      return Status::PermissionDenied("the peer refused the transfer: the region was offered for the other direction");
    case Refusal::kExpired:
      return Status::PermissionDenied("the peer refused the transfer: the offer of the region has expired");
    case Refusal::kWithdrawn:
      return Status::PermissionDenied("the peer withdrew the region: it may hold a part of the transfer");
  }
  return Status::PermissionDenied("the peer refused the transfer");
}

size_t RegionTable::SaltedHash::operator()(uint64_t key) const noexcept {
  uint64_t mixed = key ^ salt;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;  // SplitMix64's finalizer
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

RegionTable::RegionTable(base::Random& random, uint32_t max_regions)
    : random_(random), max_regions_(max_regions), regions_(0, SaltedHash{random.Next64()}) {}

Result<RegionToken> RegionTable::Offer(MutableByteView memory, Direction direction, base::TimePoint expiry) {
  if (regions_.size() >= max_regions_) {
    return Status::ResourceExhausted("{} memory regions are offered on this endpoint, its limit: withdraw some first",
                                     max_regions_);
  }
  uint64_t key = 0;
  while (key == 0 || regions_.contains(key) || Remembered(key)) key = random_.Next64();
  regions_.emplace(key, Region{memory, direction, expiry});
  return RegionToken{.key = key, .length = memory.size(), .direction = direction};
}

bool RegionTable::Remove(uint64_t key) {
  if (regions_.erase(key) == 0) return false;
  if (withdrawn_.size() < kRememberedKeys) {
    withdrawn_.push_back(key);
  } else {
    withdrawn_[next_withdrawn_] = key;
    next_withdrawn_ = (next_withdrawn_ + 1) % kRememberedKeys;
  }
  return true;
}

RegionTable::Access RegionTable::Check(uint64_t key, uint64_t offset, uint64_t length, Direction wanted,
                                       base::TimePoint now) {
  const auto found = regions_.find(key);
  const Region* region = found == regions_.end() ? nullptr : &found->second;
  const Refusal refusal = Judge(region, key, offset, length, wanted, now);
  if (refusal == Refusal::kNone) return {refusal, region->memory.subspan(offset, length)};
  ++refused_;
  if (refusal != Refusal::kExpired && refusal != Refusal::kWithdrawn) ++violations_;
  return {refusal, {}};
}

Refusal RegionTable::Judge(const Region* region, uint64_t key, uint64_t offset, uint64_t length, Direction wanted,
                           base::TimePoint now) const {
  if (region == nullptr) return Remembered(key) ? Refusal::kWithdrawn : Refusal::kUnknownKey;
  if (region->direction != wanted) return Refusal::kWrongDirection;
  if (!base::RangeFits(offset, length, region->memory.size())) return Refusal::kOutOfRange;
  if (now >= region->expiry) return Refusal::kExpired;
  return Refusal::kNone;
}

bool RegionTable::Remembered(uint64_t key) const {
  return std::find(withdrawn_.begin(), withdrawn_.end(), key) != withdrawn_.end();
}

}  // namespace forebay::fabric
