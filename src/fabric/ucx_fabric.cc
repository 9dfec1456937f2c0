// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_fabric.h"

#include "fabric/limits.h"
#include "fabric/connection_endpoint.h"
#include "fabric/ucx_connection.h"
#include "fabric/ucx_frames.h"
#include "fabric/ucx_greeting.h"
#include "fabric/ucx_listener.h"

namespace forebay::fabric {

namespace {

Status CheckUcxOptions(const EndpointOptions& options) {
  FB_TRY(CheckOptions(options));
  if (options.max_regions <= kMaxUcxRegions) return Status();
  return Status::InvalidArgument("an endpoint over ucx offers at most {} regions at once, not {}",
                                 kMaxUcxRegions, options.max_regions);
}

}  // namespace

Result<std::unique_ptr<UcxFabric>> UcxFabric::Open(base::Random& random, std::string_view transports) {
  FB_ASSIGN(auto context, UcxContext::Open(transports));
  return std::unique_ptr<UcxFabric>(new UcxFabric(random, std::move(context)));
}

Result<std::unique_ptr<Listener>> UcxFabric::Listen(rt::Reactor& reactor, const std::string& address,
                                                    EndpointOptions options) {
  FB_TRY(CheckUcxOptions(options));
  FB_ASSIGN(const rt::HostPort parts, rt::SplitHostPort(address));
  auto numeric = rt::SocketAddress::Parse(parts.host, parts.port);
  if (!numeric.ok()) {
    FB_ASSIGN(const auto addresses, rt::Resolve(parts.host, parts.port));
    numeric = addresses.front();
  }
  FB_ASSIGN(auto listener, UcxListener::Open(context_, reactor, *numeric, options, random_));
  return std::unique_ptr<Listener>(std::move(listener));
}

rt::Task<Result<std::unique_ptr<Endpoint>>> UcxFabric::Connect(rt::Reactor& reactor, std::string address,
                                                               EndpointOptions options,
                                                               base::TimePoint deadline) {
  FB_CO_TRY(CheckUcxOptions(options));
  FB_CO_ASSIGN(const auto addresses, co_await Lookup(reactor, address));
  Status why = Status::NotFound("{} has no address", address);
  for (const rt::SocketAddress& candidate : addresses) {
    if (deadline <= reactor.Now())
      co_return Status::DeadlineExceeded("the deadline passed while connecting to {}", address);
    auto greeted = co_await DialUcx(reactor, context_, candidate, options, {nullptr, deadline});
    if (greeted.ok()) {
      auto connection = std::make_unique<UcxConnection>(reactor, *std::move(greeted), options, random_);
      connection->Start();
      co_return std::unique_ptr<Endpoint>(std::make_unique<ConnectionEndpoint<UcxConnection>>(std::move(connection)));
    }
    why = greeted.status();
  }
  co_return why;
}

rt::Task<Result<std::vector<rt::SocketAddress>>> UcxFabric::Lookup(rt::Reactor& reactor,
                                                                   std::string address) {
  FB_CO_ASSIGN(const rt::HostPort parts, rt::SplitHostPort(address));
  const auto numeric = rt::SocketAddress::Parse(parts.host, parts.port);
  if (numeric.ok()) co_return std::vector<rt::SocketAddress>{*numeric};
  co_return co_await rt::Offload(reactor, resolver(),
                                 [parts] { return rt::Resolve(parts.host, parts.port); });
}

rt::ThreadPool& UcxFabric::resolver() {
  base::MutexLock lock(mutex_);
  if (resolver_ == nullptr) resolver_ = std::make_unique<rt::ThreadPool>(1, "fb-resolve");
  return *resolver_;
}

}  // namespace forebay::fabric
