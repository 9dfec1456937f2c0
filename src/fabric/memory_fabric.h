// SPDX-License-Identifier: Apache-2.0
// MemoryFabric: the in-process twin of the real fabrics. Endpoints meet by address within one MemoryFabric object and may
// live on different reactors; what they do to each other goes through Post. Everything that has a rule (regions, limits,
// order, deadlines, silence) follows the same code as the tcp mover, so a layer above can be tested without sockets.
// Thread-safe. Outlives its listeners; endpoints do not need it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/random.h"
#include "fabric/fabric.h"

namespace forebay::fabric {

struct MemoryListenerState;

class MemoryFabric final : public Fabric {
 public:
  /// `random`, borrowed, makes the keys; it is used on each reactor that has an endpoint, so it must be thread-safe
  /// unless there is only one.
  explicit MemoryFabric(base::Random& random) : random_(random) {}

  std::string_view name() const override { return "memory"; }
  Result<std::unique_ptr<Listener>> Listen(rt::Reactor& reactor, const std::string& address,
                                           EndpointOptions options) override;
  rt::Task<Result<std::unique_ptr<Endpoint>>> Connect(rt::Reactor& reactor, std::string address, EndpointOptions options,
                                                      base::TimePoint deadline) override;

 private:
  friend class MemoryListener;
  void Remove(const std::string& address);

  base::Random& random_;
  base::Mutex mutex_;
  std::map<std::string, std::shared_ptr<MemoryListenerState>> listeners_ FB_GUARDED_BY(mutex_);
  unsigned next_port_ FB_GUARDED_BY(mutex_) = 10000;
};

}  // namespace forebay::fabric
