// SPDX-License-Identifier: Apache-2.0
// The two sides of an offer over ucx. OfferedRegions: what this endpoint offers, each with its registration
// at the device, which dies with the offer. PeerRegions: what the peer offers, as it told, with the keys to
// reach it; it judges our own transfers before they start, because one that the peer's device refuses would
// end the connection. Reactor-local.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

#include "base/clock.h"
#include "base/status.h"
#include "fabric/fabric.h"
#include "fabric/ucx_context.h"
#include "rt/reactor.h"
#include "rt/sync.h"

namespace forebay::fabric {

class OfferedRegions {
 public:
  struct Region {
    Region(rt::Reactor& reactor, UcxContext::Mapping made, base::TimePoint end)
        : mapping(std::move(made)), expiry(end), given_up(reactor), gone(reactor) {}
    UcxContext::Mapping mapping;
    base::TimePoint expiry;
    bool revoking = false;
    rt::Event given_up;  // the peer said that it no longer uses the region
    rt::Event gone;      // the registration is dead
  };

  OfferedRegions(rt::Reactor& reactor, std::shared_ptr<UcxContext> context)
      : reactor_(reactor), context_(std::move(context)) {}
  ~OfferedRegions() { UnmapAll(); }

  /// The region's registration, under the key that names it; its packed key is for the peer.
  Result<Region*> Add(uint64_t key, MutableByteView memory, base::TimePoint expiry);
  /// Null when there is none. Stays where it is until Erase.
  Region* Find(uint64_t key);
  void Erase(uint64_t key) { regions_.erase(key); }
  /// The registration dies; the entry stays until Erase.
  void Unmap(Region& region);
  void UnmapAll();

  /// Keys of regions whose time is over and which nobody ends yet.
  std::vector<uint64_t> Expired(base::TimePoint now) const;
  /// When the time of the next one after `now` is over.
  base::TimePoint NextExpiry(base::TimePoint now) const;

 private:
  rt::Reactor& reactor_;
  const std::shared_ptr<UcxContext> context_;
  std::unordered_map<uint64_t, Region> regions_;
};

class PeerRegions {
 public:
  struct Region {
    ucp_rkey_h key = nullptr;  // null for an empty region
    uint64_t base = 0;
    uint64_t length = 0;
    Direction direction = Direction::kPeerWrites;
    base::TimePoint until;  // by the peer's word at its arrival
    uint32_t flights = 0;   // transfers of ours under way
    bool revoked = false;   // the peer wants it back: no new transfer
  };

  /// `limit`: how many the peer said it offers at once.
  explicit PeerRegions(uint32_t limit) : limit_(limit) {}

  /// Takes the region over. InvalidArgument for a key that is there already, an impossible range, or one too
  /// many.
  Status Add(uint64_t key, Region region);
  /// The region if a transfer may start at once; null when the owner has to be asked.
  Region* Usable(uint64_t key, uint64_t offset, uint64_t length, Direction wanted, base::TimePoint now);
  Region* Find(uint64_t key);
  /// No new transfer from now on. True when nothing is under way, so that it can be given up at once.
  bool Revoke(uint64_t key);
  /// One transfer ended. True when it was the last of a revoked region.
  bool Land(uint64_t key);
  void Erase(uint64_t key);
  /// Forgets all; while the worker that unpacked their keys still lives.
  void Clear();

 private:
  const uint32_t limit_;
  uint32_t live_ = 0;  // not revoked
  std::unordered_map<uint64_t, Region> regions_;
};

}  // namespace forebay::fabric
