// SPDX-License-Identifier: Apache-2.0
#include "client/connector.h"

#include <algorithm>

#include "auth/capability.h"
#include "auth/credentials.h"
#include "auth/rpc_auth.h"
#include "rt/address.h"

namespace forebay::client {
namespace {

constexpr unsigned kMaxConnections = 64;
/// Opening a session is not tried for longer than this, whatever time the call has: the client's end waits
/// for it.
constexpr base::Duration kOpenWithin = std::chrono::seconds(10);

Result<auth::Identity> LoadIdentity(const ClientOptions& options) {
  if (!options.capability_path.empty()) {
    FB_ASSIGN(auth::HeldCapability held, auth::HeldCapability::Load(options.capability_path));
    return auth::Identity(std::move(held));
  }
  FB_ASSIGN(auth::Credentials credentials, auth::Credentials::Load(options.credentials_path));
  return auth::Identity(std::move(credentials));
}

/// Null without TLS.
Result<std::shared_ptr<const auth::TlsFiles>> LoadTls(const ClientOptions& options) {
  if (options.tls_directory.empty()) return nullptr;
  FB_ASSIGN(auth::TlsFiles files, auth::TlsFiles::Load(options.tls_directory, auth::CertificateUse::kClient,
                                                       base::SystemClock().WallNow()));
  return std::make_shared<const auth::TlsFiles>(std::move(files));
}

}  // namespace

Result<std::unique_ptr<Connector>> Connector::Open(const ClientOptions& options) {
  if (options.connections == 0 || options.connections > kMaxConnections)
    return Status::InvalidArgument("{} data connections: 1 to {} are allowed", options.connections,
                                   kMaxConnections);
  if (options.timeout.count() <= 0)
    return Status::InvalidArgument("a timeout of {} ns: it must be above 0", options.timeout.count());
  FB_TRY(CheckRetry(options.retry));
  FB_ASSIGN(auth::Identity identity, LoadIdentity(options));
  FB_ASSIGN(const auto tls, LoadTls(options));
  std::unique_ptr<auth::TlsContext> data_tls;
  if (tls != nullptr) {
    // The data plane is the same server: it has the name by which the control plane is reached.
    FB_ASSIGN(const rt::HostPort place, rt::SplitHostPort(options.server));
    FB_ASSIGN(data_tls, auth::TlsContext::ForClient(*tls, auth::kDataProtocol, place.host));
  }
  std::unique_ptr<Connector> connector(new Connector(options, std::move(data_tls)));
  FB_ASSIGN(connector->control_,
            control::ControlClient::Create({.server = options.server, .call_timeout = options.timeout, .tls = tls},
                                           std::move(identity), connector->clock_, connector->random_));
  return connector;
}

Result<DataTarget> Connector::OpenSession(base::Duration timeout) {
  FB_ASSIGN(control::ClientSession session, control_->OpenSession(std::min(timeout, kOpenWithin)));
  ids_.Learn(session.operation_time_ms);
  return DataTarget{.key = {.id = session.id, .tenant = session.tenant, .key = std::move(session.key)},
                    .endpoints = std::move(session.data_endpoints)};
}

Result<std::unique_ptr<DataPool>> Connector::MakePool(rt::Reactor& reactor, rt::ThreadPool& threads) {
  FB_ASSIGN(MoverChoice choice, MoverChoice::Of(movers_, fabric_));
  return std::make_unique<DataPool>(
      reactor, std::move(choice), threads, [this](base::Duration timeout) { return OpenSession(timeout); }, lanes_,
      random_, retry_);
}

}  // namespace forebay::client
