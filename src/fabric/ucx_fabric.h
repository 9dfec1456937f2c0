// SPDX-License-Identifier: Apache-2.0
// UcxFabric: the fabric over UCX, for machines whose RDMA stack comes as a UCX build (BlueField, HPC-X, CUDA
// images). Connections by socket address over reliable connected queue pairs, and nothing else: where UCX
// moves memory by its own program (tcp, shared memory) it checks no key, so those are refused. Wire:
// docs/formats/fabric-ucx.md. For one trust domain: UCX registers memory for both directions and believes
// what another UCX tells it (docs/fabric.md). Thread-safe. Outlives its listeners and calls of Connect;
// endpoints do not need it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "fabric/fabric.h"
#include "fabric/ucx_context.h"
#include "rt/address.h"
#include "rt/thread_pool.h"

namespace forebay::fabric {

class UcxFabric final : public Fabric {
 public:
  /// `transports`: a list of rc, rc_verbs, rc_mlx5; it takes the place of UCX_TLS. `random`, borrowed, makes
  /// the keys; it is used on each reactor that has an endpoint, so it must be thread-safe unless there is
  /// only one. PermissionDenied for transports that check no keys, FailedPrecondition without an RDMA device.
  static Result<std::unique_ptr<UcxFabric>> Open(base::Random& random, std::string_view transports);

  std::string_view name() const override { return "ucx;rc"; }
  /// A name instead of a number is resolved here and now, which blocks.
  Result<std::unique_ptr<Listener>> Listen(rt::Reactor& reactor, const std::string& address,
                                           EndpointOptions options) override;
  /// A name is resolved on a thread of the fabric's; the system's resolver keeps to its own time limits, not
  /// to `deadline`.
  rt::Task<Result<std::unique_ptr<Endpoint>>> Connect(rt::Reactor& reactor, std::string address,
                                                      EndpointOptions options,
                                                      base::TimePoint deadline) override;

 private:
  UcxFabric(base::Random& random, std::shared_ptr<UcxContext> context)
      : random_(random), context_(std::move(context)) {}
  rt::Task<Result<std::vector<rt::SocketAddress>>> Lookup(rt::Reactor& reactor, std::string address);
  rt::ThreadPool& resolver();

  base::Random& random_;
  const std::shared_ptr<UcxContext> context_;
  base::Mutex mutex_;
  std::unique_ptr<rt::ThreadPool> resolver_ FB_GUARDED_BY(mutex_);  // made for the first name
};

}  // namespace forebay::fabric
