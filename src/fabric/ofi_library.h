// SPDX-License-Identifier: Apache-2.0
// OfiLibrary: one provider of libfabric, found and checked once, and what the ofi fabric needs to know of it.
// Everything that blocks in libfabric (looking up devices and routes) happens in its calls, so they belong on
// a thread that may block. Shared by an OfiFabric and all of its endpoints; outlives both. No header of
// libfabric is seen by those who include this. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "fabric/ofi_calls.h"
#include "rt/address.h"

// NOLINTBEGIN(readability-identifier-naming): libfabric's names
struct fid;
struct fid_cq;
struct fid_domain;
struct fid_ep;
struct fid_eq;
struct fid_mr;
struct fid_pep;
// NOLINTEND(readability-identifier-naming)

namespace forebay::fabric {

/// Every object of libfabric begins with a fid, and is closed by it.
struct FidClose {
  static void Close(fid* object);
  template <typename T>
  void operator()(T* object) const {
    Close(reinterpret_cast<fid*>(object));
  }
};
template <typename T>
using FidHandle = std::unique_ptr<T, FidClose>;

/// Where providers differ.
struct OfiTraits {
  bool device = false;              // an adapter moves payload, no processor (verbs)
  bool local_registration = false;  // buffers of ours must be registered as well (verbs)
  bool virtual_addresses = false;   // a region is addressed by its owner's pointers, not from 0
  bool provider_keys = false;       // the provider makes the keys; else they are our random numbers
  /// Closing a registration waits for whatever uses it (a device does). Without, a transfer that is being
  /// carried out goes on when its key is gone already, and only the order of the stream tells when it is
  /// over.
  bool close_is_final = false;
  /// A write completes when the peer's provider has put it into memory; must be asked for (tcp).
  bool ask_delivery = false;
  size_t pieces = 1;  // of local memory in one operation
};

class OfiLibrary {
 public:
  /// `provider` is "verbs" or "tcp". Unavailable, with the way out, when there is no libfabric, or it has no
  /// such provider or no device for it; FailedPrecondition when it would keep registrations alive on its own.
  static Result<std::shared_ptr<OfiLibrary>> Open(std::string provider);

  const std::string& provider() const { return provider_; }
  const OfiCalls& calls() const { return calls_; }
  /// Addresses of this machine's devices, without ports: "10.9.0.1".
  Result<std::vector<std::string>> Addresses() const;
  /// Blocks for as long as the provider looks for a route.
  Result<InfoHandle> ForConnect(const rt::SocketAddress& to) const;
  Result<InfoHandle> ForListen(const rt::SocketAddress& at) const;
  /// The libfabric fabric that `info` belongs to; stays open with the library.
  Result<fid_fabric*> FabricOf(const fi_info& info);
  static OfiTraits TraitsOf(const fi_info& info);

 private:
  OfiLibrary(std::string provider, const OfiCalls& calls) : provider_(std::move(provider)), calls_(calls) {}
  /// All that libfabric finds, layered providers included; `address` may be null.
  Result<InfoHandle> Ask(const rt::SocketAddress* address, bool listen) const;
  Result<InfoHandle> Find(const rt::SocketAddress* address, bool listen) const;
  Status CheckRegistrations();

  const std::string provider_;
  const OfiCalls calls_;
  base::Mutex mutex_;
  std::map<std::string, FidHandle<fid_fabric>> fabrics_ FB_GUARDED_BY(mutex_);  // by libfabric's name
};

/// Both: `error` is positive, of fi_errno.
std::string OfiErrorText(int error);
Status FromOfiError(int error, std::string_view what);

}  // namespace forebay::fabric
