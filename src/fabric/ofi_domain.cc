// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_domain.h"

#include <algorithm>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include "fabric/ofi_limits.h"

namespace forebay::fabric {

namespace {
bool Holds(ByteView outer, ByteView inner) {
  return inner.data() >= outer.data() &&
         base::RangeFits(static_cast<uint64_t>(inner.data() - outer.data()), inner.size(), outer.size());
}
}  // namespace

Status OfiArenas::Register(MutableByteView memory) {
  base::MutexLock lock(mutex_);
  if (arenas_.size() >= kMaxArenas) {
    return Status::ResourceExhausted("{} arenas are registered with this fabric, its limit", kMaxArenas);
  }
  for (OfiDomain* domain : domains_) {
    if (!domain->traits().local_registration) continue;
    if (const Status status = domain->RegisterArena(memory); !status.ok()) {
      for (OfiDomain* other : domains_) other->Forget(memory);
      return status;
    }
  }
  arenas_.push_back(memory);
  return Status();
}

void OfiArenas::Unregister(MutableByteView memory) {
  base::MutexLock lock(mutex_);
  std::erase_if(arenas_, [&](MutableByteView arena) { return arena.data() == memory.data(); });
  for (OfiDomain* domain : domains_) domain->Forget(memory);
}

void OfiArenas::Add(OfiDomain* domain) {
  base::MutexLock lock(mutex_);
  domains_.push_back(domain);
}

void OfiArenas::Remove(OfiDomain* domain) {
  base::MutexLock lock(mutex_);
  std::erase(domains_, domain);
}

MutableByteView OfiArenas::Find(ByteView memory) {
  base::MutexLock lock(mutex_);
  for (const MutableByteView arena : arenas_) {
    if (Holds(arena, memory)) return arena;
  }
  return {};
}

Result<std::shared_ptr<OfiDomain>> OfiDomain::Open(std::shared_ptr<OfiLibrary> library, const fi_info& info,
                                                   std::shared_ptr<OfiArenas> arenas) {
  FB_ASSIGN(fid_fabric* const fabric, library->FabricOf(info));
  fid_domain* domain = nullptr;
  const int error = fi_domain(fabric, const_cast<fi_info*>(&info), &domain, nullptr);
  if (error != 0) return FromOfiError(-error, "open a protection domain");
  return std::shared_ptr<OfiDomain>(new OfiDomain(std::move(library), std::move(arenas), fabric,
                                                  OfiLibrary::TraitsOf(info), FidHandle<fid_domain>(domain)));
}

OfiDomain::OfiDomain(std::shared_ptr<OfiLibrary> library, std::shared_ptr<OfiArenas> arenas,
                     fid_fabric* fabric, OfiTraits traits, FidHandle<fid_domain> domain)
    : library_(std::move(library)),
      arenas_(std::move(arenas)),
      fabric_(fabric),
      traits_(traits),
      domain_(std::move(domain)) {
  arenas_->Add(this);
}

OfiDomain::~OfiDomain() {
  arenas_->Remove(this);
  base::MutexLock lock(mutex_);
  registered_.clear();
}

Result<FidHandle<fid_mr>> OfiDomain::RegisterForPeer(MutableByteView memory, Direction direction,
                                                     uint64_t wanted_key) {
  fid_mr* registration = nullptr;
  const uint64_t right = direction == Direction::kPeerReads ? FI_REMOTE_READ : FI_REMOTE_WRITE;
  const int error = fi_mr_reg(domain_.get(), memory.data(), memory.size(), right, 0,
                              traits_.provider_keys ? 0 : wanted_key, 0, &registration, nullptr);
  if (error != 0) return RegistrationFailed(-error, memory.size());
  return FidHandle<fid_mr>(registration);
}

Result<FidHandle<fid_mr>> OfiDomain::RegisterForUs(ByteView memory) {
  fid_mr* registration = nullptr;
  const int error = fi_mr_reg(domain_.get(), memory.data(), memory.size(),
                              FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 0, 0, &registration, nullptr);
  if (error != 0) return RegistrationFailed(-error, memory.size());
  return FidHandle<fid_mr>(registration);
}

const OfiDomain::Registered* OfiDomain::Known(ByteView memory) const {
  for (const Registered& entry : registered_) {
    if (Holds(entry.arena, memory)) return &entry;
  }
  return nullptr;
}

void* OfiDomain::DescriptorInArena(ByteView memory) {
  {
    base::MutexLock lock(mutex_);
    if (const Registered* entry = Known(memory)) return DescriptorOf(entry->registration);
  }
  // Nothing unregisters an arena while a buffer of it is in use.
  const MutableByteView arena = arenas_->Find(memory);
  if (arena.empty()) return nullptr;
  const bool registered = RegisterArena(arena).ok();
  base::MutexLock lock(mutex_);
  if (!registered) registered_.push_back({arena, nullptr});
  const Registered* entry = Known(memory);
  return entry == nullptr ? nullptr : DescriptorOf(entry->registration);
}

Status OfiDomain::RegisterArena(MutableByteView arena) {
  FB_ASSIGN(FidHandle<fid_mr> registration, RegisterForUs(arena));
  base::MutexLock lock(mutex_);
  registered_.push_back({arena, std::move(registration)});
  return Status();
}

void OfiDomain::Forget(MutableByteView arena) {
  base::MutexLock lock(mutex_);
  std::erase_if(registered_, [&](const Registered& entry) { return entry.arena.data() == arena.data(); });
}

uint64_t KeyOf(const FidHandle<fid_mr>& registration) { return fi_mr_key(registration.get()); }

void* DescriptorOf(const FidHandle<fid_mr>& registration) {
  return registration == nullptr ? nullptr : fi_mr_desc(registration.get());
}

}  // namespace forebay::fabric
