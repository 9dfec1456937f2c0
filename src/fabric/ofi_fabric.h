// SPDX-License-Identifier: Apache-2.0
// OfiFabric: the fabric over libfabric's connected endpoints. Provider `verbs` moves bytes by RDMA devices,
// provider `tcp` runs the same code on any host. Regions are enforced by the provider, not by our library;
// messages, offers and the end of offers are ours: docs/formats/fabric-ofi.md. What each provider guarantees:
// docs/fabric.md. Thread-safe. Outlives its listeners and calls of Connect; endpoints do not need it.
// Destroyed before the reactors that Connect was called on, since threads of its own post to them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/mutex.h"
#include "base/random.h"
#include "fabric/fabric.h"
#include "rt/address.h"
#include "rt/thread_pool.h"

namespace forebay::fabric {

class OfiDomains;

struct OfiOptions {
  std::string provider = "verbs";  ///< or "tcp"
  enum class Domain : uint8_t {
    kPerEndpoint,  ///< each endpoint has its own: keys are worth nothing on any other connection
    /// One for all endpoints, and so one registration of each arena: for a server with many connections. Its
    /// endpoints refuse Offer.
    kShared,
  };
  Domain domain = Domain::kPerEndpoint;
};

class OfiFabric final : public Fabric {
 public:
  /// `random`, borrowed, makes the keys; it is used on each reactor that has an endpoint, so it must be
  /// thread-safe unless there is only one. Blocks while libfabric looks for devices; the first call sets an
  /// environment variable for libfabric unless it is set (FI_MR_CACHE_MAX_COUNT=0), so it belongs to the
  /// start of a program. Unavailable, with the way out, when there is no device; FailedPrecondition when
  /// libfabric would keep registrations alive on its own.
  static Result<std::unique_ptr<OfiFabric>> Open(OfiOptions options, base::Random& random);
  ~OfiFabric() override;

  std::string_view name() const override { return name_; }
  /// Addresses of this machine that one can listen on and be reached at through the provider, without ports.
  Result<std::vector<std::string>> Addresses() const;
  /// A name instead of a number is resolved here and now, which blocks.
  Result<std::unique_ptr<Listener>> Listen(rt::Reactor& reactor, const std::string& address,
                                           EndpointOptions options) override;
  /// Names and routes are looked up on threads of the fabric's; they keep to their own time limits, not to
  /// `deadline`.
  rt::Task<Result<std::unique_ptr<Endpoint>>> Connect(rt::Reactor& reactor, std::string address,
                                                      EndpointOptions options,
                                                      base::TimePoint deadline) override;

  /// For arenas that payload is sent from or read into: they are registered once for each protection domain,
  /// without remote rights. What lies in no arena is registered for each transfer anew.
  base::ArenaRegistrar& arenas();

 private:
  OfiFabric(std::string name, std::unique_ptr<OfiDomains> domains, base::Random& random);
  rt::ThreadPool& dialers();

  const std::string name_;
  base::Random& random_;
  const std::unique_ptr<OfiDomains> domains_;
  base::Mutex mutex_;
  std::unique_ptr<rt::ThreadPool> dialers_ FB_GUARDED_BY(mutex_);  // made for the first connection
};

}  // namespace forebay::fabric
