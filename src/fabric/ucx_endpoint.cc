// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_endpoint.h"

#include <utility>

#include "rt/call_on.h"

namespace forebay::fabric {

UcxEndpoint::~UcxEndpoint() {
  if (connection_->ended()) return;
  rt::Reactor& reactor = connection_->reactor();
  // Nobody waits for it: the task keeps the connection until its operations have ended.
  (void)rt::StartOn(reactor, [connection = std::move(connection_)]() -> rt::Task<void> {
    return connection->Fence(Status::Unavailable("the endpoint was destroyed"));
  });
}

}  // namespace forebay::fabric
