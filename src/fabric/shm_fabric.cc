// SPDX-License-Identifier: Apache-2.0
#include "fabric/shm_fabric.h"

#include <utility>

#include "fabric/limits.h"
#include "fabric/shm_ring.h"
#include "fabric/connection_endpoint.h"
#include "fabric/stream_connection.h"
#include "fabric/stream_listener.h"

namespace forebay::fabric {

namespace {

Status CheckShmOptions(const ShmOptions& shm) {
  if (ShmRingSizeIsGood(shm.ring_bytes)) return Status();
  return Status::InvalidArgument("a ring of {} bytes: give a power of two from {} to {}", shm.ring_bytes,
                                 kMinShmRingBytes, kMaxShmRingBytes);
}

}  // namespace

Result<std::unique_ptr<Listener>> ShmFabric::Listen(rt::Reactor& reactor, const std::string& address,
                                                    EndpointOptions options) {
  FB_TRY(CheckOptions(options));
  FB_TRY(CheckShmOptions(shm_));
  FB_ASSIGN(const ShmAddress parsed, ShmAddress::Parse(address));
  FB_ASSIGN(auto socket, ListenShm(parsed, shm_));
  return std::unique_ptr<Listener>(
      std::make_unique<StreamListener>(reactor, std::move(socket), options, random_));
}

rt::Task<Result<std::unique_ptr<Endpoint>>> ShmFabric::Connect(rt::Reactor& reactor, std::string address,
                                                               EndpointOptions options,
                                                               base::TimePoint deadline) {
  FB_CO_TRY(CheckOptions(options));
  FB_CO_TRY(CheckShmOptions(shm_));
  FB_CO_ASSIGN(const ShmAddress parsed, ShmAddress::Parse(address));
  FB_CO_ASSIGN(Greeted greeted, co_await DialShm(reactor, parsed, options, shm_, deadline));
  auto connection = std::make_unique<StreamConnection>(reactor, std::move(greeted), options, random_);
  connection->Start();
  co_return std::unique_ptr<Endpoint>(std::make_unique<ConnectionEndpoint<StreamConnection>>(std::move(connection)));
}

}  // namespace forebay::fabric
