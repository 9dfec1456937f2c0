// SPDX-License-Identifier: Apache-2.0
// OfiDomain: a protection domain and its registrations of memory. Normally each endpoint has its own, so that
// a key is worth nothing on any other connection, even where the provider makes the keys. Endpoints of a
// server that offers no memory may share one, and with it one registration of each arena. OfiArenas: the
// arenas that payload lives in. A domain registers an arena when it first sends from or reads into it; such
// registrations have no remote rights.
// Thread-safe.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/mutex.h"
#include "base/status.h"
#include "fabric/fabric.h"
#include "fabric/ofi_library.h"

namespace forebay::fabric {

class OfiDomain;

/// Outlives the arenas it was added to, or is removed from them first. Shared by an OfiFabric and its
/// domains.
class OfiArenas final : public base::ArenaRegistrar {
 public:
  /// Registers with the domains that exist; ResourceExhausted when that fails, or for more than kMaxArenas.
  Status Register(MutableByteView memory) override;
  void Unregister(MutableByteView memory) override;

 private:
  friend class OfiDomain;
  void Add(OfiDomain* domain);
  void Remove(OfiDomain* domain);
  /// The arena that `memory` lies in; empty when there is none.
  MutableByteView Find(ByteView memory);

  base::Mutex mutex_;
  std::vector<MutableByteView> arenas_ FB_GUARDED_BY(mutex_);
  std::vector<OfiDomain*> domains_ FB_GUARDED_BY(mutex_);  // each takes itself out
};

class OfiDomain {
 public:
  static Result<std::shared_ptr<OfiDomain>> Open(std::shared_ptr<OfiLibrary> library, const fi_info& info,
                                                 std::shared_ptr<OfiArenas> arenas);
  ~OfiDomain();

  const OfiTraits& traits() const { return traits_; }
  fid_domain* get() const { return domain_.get(); }
  fid_fabric* fabric() const { return fabric_; }

  /// Exactly `memory`, not empty, with exactly one remote right. `wanted_key` is taken where the provider
  /// lets us choose.
  Result<FidHandle<fid_mr>> RegisterForPeer(MutableByteView memory, Direction direction, uint64_t wanted_key);
  /// For our own operations; no remote right.
  Result<FidHandle<fid_mr>> RegisterForUs(ByteView memory);
  /// Null when no arena holds `memory`, or its arena cannot be registered; meaningless when
  /// traits().local_registration is off.
  void* DescriptorInArena(ByteView memory);

 private:
  friend class OfiArenas;
  struct Registered {
    MutableByteView arena;
    FidHandle<fid_mr> registration;  // null: it cannot be registered, and is not tried again
  };
  OfiDomain(std::shared_ptr<OfiLibrary> library, std::shared_ptr<OfiArenas> arenas, fid_fabric* fabric,
            OfiTraits traits, FidHandle<fid_domain> domain);
  const Registered* Known(ByteView memory) const FB_REQUIRES(mutex_);
  Status RegisterArena(MutableByteView arena);
  void Forget(MutableByteView arena);

  // Shared: endpoints outlive the fabric that made them.
  const std::shared_ptr<OfiLibrary> library_;
  const std::shared_ptr<OfiArenas> arenas_;
  fid_fabric* const fabric_;  // the library's
  const OfiTraits traits_;
  FidHandle<fid_domain> domain_;
  base::Mutex mutex_;
  std::vector<Registered> registered_ FB_GUARDED_BY(mutex_);
};

uint64_t KeyOf(const FidHandle<fid_mr>& registration);
void* DescriptorOf(const FidHandle<fid_mr>& registration);

}  // namespace forebay::fabric
