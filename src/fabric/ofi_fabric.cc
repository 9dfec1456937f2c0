// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_fabric.h"

#include <utility>
#include <vector>

#include "fabric/limits.h"
#include "fabric/connection_endpoint.h"
#include "fabric/ofi_connection.h"
#include "fabric/ofi_greeting.h"
#include "fabric/ofi_listener.h"

namespace forebay::fabric {

namespace {
/// A dead address may hold one of them up for some seconds.
constexpr size_t kDialers = 4;
}  // namespace

Result<std::unique_ptr<OfiFabric>> OfiFabric::Open(OfiOptions options, base::Random& random) {
  FB_ASSIGN(auto library, OfiLibrary::Open(options.provider));
  auto domains =
      std::make_unique<OfiDomains>(std::move(library), options.domain == OfiOptions::Domain::kShared);
  return std::unique_ptr<OfiFabric>(new OfiFabric("ofi;" + options.provider, std::move(domains), random));
}

OfiFabric::OfiFabric(std::string name, std::unique_ptr<OfiDomains> domains, base::Random& random)
    : name_(std::move(name)), random_(random), domains_(std::move(domains)) {}

OfiFabric::~OfiFabric() = default;

Result<std::vector<std::string>> OfiFabric::Addresses() const { return domains_->library()->Addresses(); }

Result<std::unique_ptr<Listener>> OfiFabric::Listen(rt::Reactor& reactor, const std::string& address,
                                                    EndpointOptions options) {
  FB_TRY(CheckOptions(options));
  FB_ASSIGN(const rt::HostPort parts, rt::SplitHostPort(address));
  auto numeric = rt::SocketAddress::Parse(parts.host, parts.port);
  if (!numeric.ok()) {
    FB_ASSIGN(const auto addresses, rt::Resolve(parts.host, parts.port));
    numeric = addresses.front();
  }
  return OfiListener::Open(reactor, *numeric, options, *domains_, random_);
}

rt::Task<Result<std::unique_ptr<Endpoint>>> OfiFabric::Connect(rt::Reactor& reactor, std::string address,
                                                               EndpointOptions options,
                                                               base::TimePoint deadline) {
  FB_CO_TRY(CheckOptions(options));
  FB_CO_ASSIGN(const rt::HostPort parts, rt::SplitHostPort(address));
  auto numeric = rt::SocketAddress::Parse(parts.host, parts.port);
  std::vector<rt::SocketAddress> addresses;
  if (numeric.ok()) {
    addresses.push_back(*numeric);
  } else {
    FB_CO_ASSIGN(addresses, co_await rt::Offload(reactor, dialers(),
                                                 [parts] { return rt::Resolve(parts.host, parts.port); }));
  }
  Status why = Status::NotFound("{} has no address", address);
  for (const rt::SocketAddress& candidate : addresses) {
    if (deadline <= reactor.Now())
      co_return Status::DeadlineExceeded("connect to {}: the deadline passed", address);
    auto link = co_await rt::Offload(
        reactor, dialers(), [this, candidate, options] { return StartDial(*domains_, candidate, options); });
    if (!link.ok()) {
      why = link.status().WithContext("connect to " + candidate.ToString());
      continue;
    }
    auto greeted = co_await FinishDial(reactor, *std::move(link), candidate.ToString(), options,
                                       !domains_->shared(), deadline);
    if (greeted.ok()) {
      auto connection = std::make_unique<OfiConnection>(reactor, *std::move(greeted), options, random_);
      connection->Start();
      co_return std::unique_ptr<Endpoint>(std::make_unique<ConnectionEndpoint<OfiConnection>>(std::move(connection)));
    }
    why = greeted.status();
  }
  co_return why;
}

base::ArenaRegistrar& OfiFabric::arenas() { return domains_->arenas(); }

rt::ThreadPool& OfiFabric::dialers() {
  base::MutexLock lock(mutex_);
  if (dialers_ == nullptr) dialers_ = std::make_unique<rt::ThreadPool>(kDialers, "fb-dial");
  return *dialers_;
}

}  // namespace forebay::fabric
