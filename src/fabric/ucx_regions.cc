// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_regions.h"

#include <algorithm>

#include "base/bytes.h"

namespace forebay::fabric {

Result<OfferedRegions::Region*> OfferedRegions::Add(uint64_t key, MutableByteView memory,
                                                    base::TimePoint expiry) {
  FB_ASSIGN(auto mapping, context_->Map(memory));
  return &regions_.try_emplace(key, reactor_, std::move(mapping), expiry).first->second;
}

OfferedRegions::Region* OfferedRegions::Find(uint64_t key) {
  const auto found = regions_.find(key);
  return found == regions_.end() ? nullptr : &found->second;
}

void OfferedRegions::Unmap(Region& region) {
  context_->Unmap(region.mapping);
  region.gone.Set();
}

void OfferedRegions::UnmapAll() {
  for (auto& [key, region] : regions_) Unmap(region);
}

std::vector<uint64_t> OfferedRegions::Expired(base::TimePoint now) const {
  std::vector<uint64_t> keys;
  for (const auto& [key, region] : regions_) {
    if (!region.revoking && now >= region.expiry) keys.push_back(key);
  }
  return keys;
}

base::TimePoint OfferedRegions::NextExpiry(base::TimePoint now) const {
  base::TimePoint next = base::kNever;
  for (const auto& [key, region] : regions_) {
    if (region.expiry > now) next = std::min(next, region.expiry);
  }
  return next;
}

Status PeerRegions::Add(uint64_t key, Region region) {
  if (live_ >= limit_) return Status::InvalidArgument("more regions than the {} that it announced", limit_);
  if (key == 0 || !base::RangeFits(region.base, region.length, UINT64_MAX)) {
    return Status::InvalidArgument("a region that cannot be");
  }
  if (!regions_.try_emplace(key, region).second) return Status::InvalidArgument("two regions with one key");
  ++live_;
  return Status();
}

PeerRegions::Region* PeerRegions::Usable(uint64_t key, uint64_t offset, uint64_t length, Direction wanted,
                                         base::TimePoint now) {
  Region* region = Find(key);
  if (region == nullptr || region->revoked || region->direction != wanted || now >= region->until)
    return nullptr;
  return base::RangeFits(offset, length, region->length) ? region : nullptr;
}

PeerRegions::Region* PeerRegions::Find(uint64_t key) {
  const auto found = regions_.find(key);
  return found == regions_.end() ? nullptr : &found->second;
}

bool PeerRegions::Revoke(uint64_t key) {
  Region* region = Find(key);
  if (region == nullptr || region->revoked) return false;
  region->revoked = true;
  --live_;
  return region->flights == 0;
}

bool PeerRegions::Land(uint64_t key) {
  Region* region = Find(key);
  return region != nullptr && --region->flights == 0 && region->revoked;
}

void PeerRegions::Erase(uint64_t key) {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return;
  if (found->second.key != nullptr) ucp_rkey_destroy(found->second.key);
  if (!found->second.revoked) --live_;
  regions_.erase(found);
}

void PeerRegions::Clear() {
  for (auto& [key, region] : regions_) {
    if (region.key != nullptr) ucp_rkey_destroy(region.key);
  }
  regions_.clear();
  live_ = 0;
}

}  // namespace forebay::fabric
