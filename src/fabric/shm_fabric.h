// SPDX-License-Identifier: Apache-2.0
// ShmFabric: the fabric between processes of one host. An endpoint has a Unix socket and two rings in shared
// memory, one that each side writes; above them it is the same connection as tcp's, so the same rules hold:
// the library of a region's owner checks each transfer and copies it, and no process can reach memory that
// was not offered. Why not without that copy: docs/fabric.md. Format: docs/formats/fabric-shm.md. Addresses:
// "/path/of/socket", or "@name" ("@" lets the system choose). Thread-safe. Outlives its listeners and calls
// of Connect; endpoints do not need it.
#pragma once

#include <memory>
#include <string>

#include "base/random.h"
#include "fabric/fabric.h"
#include "fabric/shm_socket.h"

namespace forebay::fabric {

class ShmFabric final : public Fabric {
 public:
  /// `random`, borrowed, makes the keys; it is used on each reactor that has an endpoint, so it must be
  /// thread-safe unless there is only one.
  explicit ShmFabric(base::Random& random, ShmOptions shm = {}) : random_(random), shm_(std::move(shm)) {}

  std::string_view name() const override { return "shm"; }
  /// Looks at the file system, which may block. FailedPrecondition when somebody listens there.
  Result<std::unique_ptr<Listener>> Listen(rt::Reactor& reactor, const std::string& address,
                                           EndpointOptions options) override;
  /// PermissionDenied when the listener's user is not allowed.
  rt::Task<Result<std::unique_ptr<Endpoint>>> Connect(rt::Reactor& reactor, std::string address,
                                                      EndpointOptions options,
                                                      base::TimePoint deadline) override;

 private:
  base::Random& random_;
  const ShmOptions shm_;
};

}  // namespace forebay::fabric
