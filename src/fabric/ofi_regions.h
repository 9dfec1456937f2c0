// SPDX-License-Identifier: Apache-2.0
// The two tables of regions of an ofi endpoint. OfiOffers: what we offer to the peer, with its registration,
// on top of the RegionTable that all fabrics share. OfiPeerRegions: what the peer offers to us, where it
// lies, and how many operations of ours are under way in it; it judges our own transfers before they go out,
// because a device answers a transfer that breaks the rules by breaking the connection. Reactor-local.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"
#include "fabric/ofi_domain.h"
#include "fabric/ofi_frames.h"
#include "fabric/region_table.h"
#include "rt/sync.h"

namespace forebay::fabric {

struct OfiOffered {
  explicit OfiOffered(rt::Reactor& reactor) : let_go(reactor), closed(reactor) {}
  RegionToken token;
  FidHandle<fid_mr> registration;  // null for an empty region, and once it is over
  base::TimePoint expiry = base::kNever;
  bool ending = false;
  bool withdrawn = false;
  rt::Event let_go;  // the peer has no operation under way any more
  rt::Event closed;  // nothing of the peer's reaches it any more
};

class OfiOffers {
 public:
  OfiOffers(rt::Reactor& reactor, base::Random& random, uint32_t max_regions, OfiDomain& domain);

  /// Registers; fills `announcement` for the peer. ResourceExhausted at the limit, and when memory cannot be
  /// locked.
  Result<OfiOffered*> Offer(MutableByteView memory, Direction direction, base::TimePoint expiry,
                            base::TimePoint now, OfiFrame* announcement);
  /// Null when there is none.
  OfiOffered* Find(uint64_t key);
  /// Once it is closed.
  void Remove(uint64_t key);
  /// The next offer that expires and is not ending; kNever when there is none.
  base::TimePoint next_expiry() const { return expiries_.empty() ? base::kNever : expiries_.begin()->first; }
  /// Takes an offer that has expired off the list of those that will; null when there is none.
  OfiOffered* TakeExpired(base::TimePoint now);
  /// It ends, for whatever reason: it does not expire any more.
  void BeginEnd(OfiOffered& offered);
  /// The endpoint is closed: so are the registrations.
  void CloseAll();

  RegionTable& rules() { return rules_; }
  const RegionTable& rules() const { return rules_; }

 private:
  rt::Reactor& reactor_;
  OfiDomain& domain_;
  RegionTable rules_;
  std::unordered_map<uint64_t, std::unique_ptr<OfiOffered>> offers_;
  std::set<std::pair<base::TimePoint, uint64_t>> expiries_;
};

struct OfiPeerRegion {
  uint64_t provider_key = 0;
  uint64_t base = 0;
  uint64_t length = 0;
  Direction direction = Direction::kPeerWrites;  // as its owner says it: kPeerWrites is for our writes
  base::TimePoint expiry = base::kNever;
  uint32_t under_way = 0;  // operations of ours
  bool ending = false;     // the owner wants it back
};

class OfiPeerRegions {
 public:
  /// Fails when the peer offers a key twice or more than kMaxPeerRegions.
  Status Add(const OfiFrame& offer, base::TimePoint now);
  OfiPeerRegion* Find(uint64_t key);
  void Remove(uint64_t key) { regions_.erase(key); }
  Refusal Judge(uint64_t key, uint64_t offset, uint64_t length, Direction wanted, base::TimePoint now) const;
  void Clear() { regions_.clear(); }

 private:
  std::map<uint64_t, OfiPeerRegion>
      regions_;  // ordered: the peer chooses the keys, and could make a hash table slow
};

}  // namespace forebay::fabric
