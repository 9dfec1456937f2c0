// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_regions.h"

#include <algorithm>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include "base/check.h"
#include "fabric/ofi_limits.h"

namespace forebay::fabric {

OfiOffers::OfiOffers(rt::Reactor& reactor, base::Random& random, uint32_t max_regions, OfiDomain& domain)
    : reactor_(reactor), domain_(domain), rules_(random, std::min(max_regions, kMaxPeerRegions)) {}

Result<OfiOffered*> OfiOffers::Offer(MutableByteView memory, Direction direction, base::TimePoint expiry,
                                     base::TimePoint now, OfiFrame* announcement) {
  FB_ASSIGN(const RegionToken token, rules_.Offer(memory, direction, expiry));
  auto offered = std::make_unique<OfiOffered>(reactor_);
  offered->token = token;
  offered->expiry = expiry;
  *announcement = {.type = OfiFrameType::kOffer,
                   .direction = static_cast<uint8_t>(direction),
                   .key = token.key,
                   .length = memory.size()};
  if (!memory.empty()) {
    auto registration = domain_.RegisterForPeer(memory, direction, token.key);
    if (!registration.ok()) {
      rules_.Remove(token.key);
      return registration.status();
    }
    offered->registration = *std::move(registration);
    announcement->provider_key = KeyOf(offered->registration);
    if (domain_.traits().virtual_addresses) announcement->offset = reinterpret_cast<uintptr_t>(memory.data());
  }
  announcement->lifetime_ns = UINT64_MAX;
  if (expiry != base::kNever) {
    announcement->lifetime_ns = static_cast<uint64_t>(std::max(expiry - now, base::Duration::zero()).count());
    expiries_.emplace(expiry, token.key);
  }
  OfiOffered* const result = offered.get();
  offers_.emplace(token.key, std::move(offered));
  return result;
}

OfiOffered* OfiOffers::Find(uint64_t key) {
  const auto found = offers_.find(key);
  return found == offers_.end() ? nullptr : found->second.get();
}

void OfiOffers::Remove(uint64_t key) {
  rules_.Remove(key);
  offers_.erase(key);
}

OfiOffered* OfiOffers::TakeExpired(base::TimePoint now) {
  if (expiries_.empty() || expiries_.begin()->first > now) return nullptr;
  const uint64_t key = expiries_.begin()->second;
  expiries_.erase(expiries_.begin());
  OfiOffered* const offered = Find(key);
  FB_CHECK(offered != nullptr);
  return offered;
}

void OfiOffers::BeginEnd(OfiOffered& offered) {
  offered.ending = true;
  expiries_.erase({offered.expiry, offered.token.key});
}

void OfiOffers::CloseAll() {
  expiries_.clear();
  for (auto& [key, offered] : offers_) {
    offered->registration.reset();
    offered->let_go.Set();
  }
}

Status OfiPeerRegions::Add(const OfiFrame& offer, base::TimePoint now) {
  if (regions_.size() >= kMaxPeerRegions) return Status::InvalidArgument("the peer offers too many regions");
  OfiPeerRegion region;
  region.provider_key = offer.provider_key;
  region.base = offer.offset;
  region.length = offer.length;
  region.direction = static_cast<Direction>(offer.direction);
  if (region.base > UINT64_MAX - region.length)
    return Status::InvalidArgument("the peer offers a region beyond all memory");
  const auto longest = static_cast<uint64_t>(base::Duration::max().count());
  if (offer.lifetime_ns < longest) {
    region.expiry =
        base::DeadlineAfter(now, base::Duration(static_cast<base::Duration::rep>(offer.lifetime_ns)));
  }
  if (!regions_.emplace(offer.key, region).second)
    return Status::InvalidArgument("the peer offers one key twice");
  return Status();
}

OfiPeerRegion* OfiPeerRegions::Find(uint64_t key) {
  const auto found = regions_.find(key);
  return found == regions_.end() ? nullptr : &found->second;
}

Refusal OfiPeerRegions::Judge(uint64_t key, uint64_t offset, uint64_t length, Direction wanted,
                              base::TimePoint now) const {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return Refusal::kUnknownKey;
  const OfiPeerRegion& region = found->second;
  if (region.direction != wanted) return Refusal::kWrongDirection;
  if (!base::RangeFits(offset, length, region.length)) return Refusal::kOutOfRange;
  if (region.ending) return Refusal::kWithdrawn;
  if (now >= region.expiry) return Refusal::kExpired;
  return Refusal::kNone;
}

}  // namespace forebay::fabric
