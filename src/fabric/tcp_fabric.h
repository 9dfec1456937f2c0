// SPDX-License-Identifier: Apache-2.0
// TcpFabric: the fabric that every machine has. One TCP connection per endpoint; one-sidedness is emulated by the library of
// the region's owner, which checks key, range, direction and expiry of each transfer and receives payload straight into the
// region. Wire format: docs/formats/fabric-tcp.md. With SecureChannels it is the mover `tcp;tls`; without it is not encrypted:
// for loopback and trusted networks.
// Thread-safe. Outlives its listeners and calls of Connect; endpoints do not need it.
#pragma once

#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/random.h"
#include "base/secure_channel.h"
#include "fabric/fabric.h"
#include "rt/address.h"
#include "rt/thread_pool.h"

namespace forebay::fabric {

class TcpFabric final : public Fabric {
 public:
  /// `random`, borrowed, makes the keys; it is used on each reactor that has an endpoint, so it must be thread-safe
  /// unless there is only one. `secure`, borrowed for the fabric's life and its listeners', encrypts each connection; a
  /// fabric listens or connects with it, whichever side it is for. Null: in the clear.
  explicit TcpFabric(base::Random& random, base::SecureChannels* secure = nullptr) : random_(random), secure_(secure) {}

  std::string_view name() const override { return secure_ == nullptr ? "tcp" : "tcp;tls"; }
  /// A name instead of a number is resolved here and now, which blocks.
  Result<std::unique_ptr<Listener>> Listen(rt::Reactor& reactor, const std::string& address,
                                           EndpointOptions options) override;
  /// A name is resolved on a thread of the fabric's; the system's resolver keeps to its own time limits, not to `deadline`.
  rt::Task<Result<std::unique_ptr<Endpoint>>> Connect(rt::Reactor& reactor, std::string address, EndpointOptions options,
                                                      base::TimePoint deadline) override;

 private:
  rt::Task<Result<std::vector<rt::SocketAddress>>> Lookup(rt::Reactor& reactor, std::string address);
  rt::ThreadPool& resolver();

  base::Random& random_;
  base::SecureChannels* const secure_;
  base::Mutex mutex_;
  std::unique_ptr<rt::ThreadPool> resolver_ FB_GUARDED_BY(mutex_);  // made for the first name
};

}  // namespace forebay::fabric
