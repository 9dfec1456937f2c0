// SPDX-License-Identifier: Apache-2.0
// UcxListener: takes connection requests and greets them, many at a time, so that a connector that dawdles
// holds up nobody; what is greeted waits in a bounded queue for Accept. When all places are taken, the
// longest ungreeted one has to go. Reactor-local. Destroyed after Close was awaited.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include <ucp/api/ucp.h>

#include "base/random.h"
#include "fabric/fabric.h"
#include "fabric/ucx_connection.h"
#include "fabric/ucx_worker.h"
#include "rt/address.h"
#include "rt/cancel.h"
#include "rt/channel.h"
#include "rt/gate.h"
#include "rt/sync.h"

namespace forebay::fabric {

class UcxListener final : public Listener {
 public:
  /// Connections that are being greeted or wait for Accept; each holds a worker, with about 1 MiB of
  /// registered buffers.
  static constexpr size_t kMaxWaiting = 64;

  /// FailedPrecondition when the address is taken, or belongs to no RDMA device.
  static Result<std::unique_ptr<UcxListener>> Open(std::shared_ptr<UcxContext> context, rt::Reactor& reactor,
                                                   const rt::SocketAddress& address,
                                                   const EndpointOptions& options, base::Random& random);
  ~UcxListener() override;

  std::string address() const override { return address_; }
  rt::Task<Result<std::unique_ptr<Endpoint>>> Accept(rt::Reactor& home) override;
  rt::Task<void> Close() override;

 private:
  UcxListener(std::shared_ptr<UcxContext> context, rt::Reactor& reactor, std::unique_ptr<UcxWorker> worker,
              const EndpointOptions& options, base::Random& random);
  static void OnRequest(ucp_conn_request_h request, void* self);
  /// Starts to greet those who asked, as far as there are places.
  void TakeRequests();
  rt::Task<void> Greet(ucp_conn_request_h request);

  const std::shared_ptr<UcxContext> context_;
  rt::Reactor& reactor_;
  std::unique_ptr<UcxWorker> worker_;
  ucp_listener_h handle_ = nullptr;  // until Close
  std::string address_;
  const EndpointOptions options_;
  base::Random& random_;
  rt::CancelToken life_;                     // cancelled by Close
  std::deque<ucp_conn_request_h> requests_;  // at most kMaxWaiting
  size_t places_ = kMaxWaiting;              // that are free
  std::list<rt::CancelToken> greeting_;      // oldest first
  rt::Channel<UcxGreeted> greeted_;
  rt::Gate accepting_;  // calls of Accept
  rt::Gate gate_;       // our coroutines
};

}  // namespace forebay::fabric
