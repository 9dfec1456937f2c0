// SPDX-License-Identifier: Apache-2.0
#include "client/core.h"

#include <algorithm>

#include "auth/capability.h"
#include "auth/credentials.h"
#include "auth/rpc_auth.h"
#include "rt/address.h"

namespace forebay {
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

Result<std::unique_ptr<Client::Core>> Client::Core::Open(ClientOptions options) {
  if (options.connections == 0 || options.connections > kMaxConnections)
    return Status::InvalidArgument("{} data connections: 1 to {} are allowed", options.connections,
                                   kMaxConnections);
  if (options.timeout.count() <= 0)
    return Status::InvalidArgument("a timeout of {} ns: it must be above 0", options.timeout.count());
  FB_ASSIGN(auth::Identity identity, LoadIdentity(options));
  FB_ASSIGN(const auto tls, LoadTls(options));
  std::unique_ptr<auth::TlsContext> data_tls;
  if (tls != nullptr) {
    // The data plane is the same server: it has the name by which the control plane is reached.
    FB_ASSIGN(const rt::HostPort place, rt::SplitHostPort(options.server));
    FB_ASSIGN(data_tls, auth::TlsContext::ForClient(*tls, auth::kDataProtocol, place.host));
  }
  std::unique_ptr<Core> core(new Core(std::move(options), std::move(data_tls)));
  FB_ASSIGN(core->control_,
            control::ControlClient::Create(
                {.server = core->options_.server, .call_timeout = core->options_.timeout, .tls = tls},
                std::move(identity), core->clock_, core->random_));
  FB_ASSIGN(core->thread_, rt::ReactorThread::Create({.name = "forebay"}));
  core->gate_ = std::make_unique<rt::Gate>(core->reactor());
  FB_ASSIGN(client::MoverChoice choice, client::MoverChoice::Of(core->movers_, core->options_.fabric));
  core->pool_ = std::make_unique<client::DataPool>(
      core->reactor(), std::move(choice), core->threads_,
      [core = core.get()](base::Duration timeout) { return core->OpenSession(timeout); },
      core->options_.connections);
  const base::TimePoint deadline = core->DeadlineFor(kDefaultTimeout);
  FB_TRY(core->Block([core = core.get(), deadline] { return core->pool().OpenAll(deadline); }));
  return core;
}

Client::Core::~Core() {
  if (thread_ == nullptr) return;
  ending_ = true;
  if (pool_ != nullptr) {
    thread_->Run([this]() -> rt::Task<void> {
      gate_->Shut();
      co_await pool_->Close(Status::Unavailable("the client is going away"));
      co_await gate_->Close();
    });
  }
}

Result<client::DataTarget> Client::Core::OpenSession(base::Duration timeout) {
  FB_ASSIGN(control::ClientSession session, control_->OpenSession(std::min(timeout, kOpenWithin)));
  return client::DataTarget{
      .key = {.id = session.id, .tenant = session.tenant, .key = std::move(session.key)},
      .endpoints = std::move(session.data_endpoints)};
}

std::string Client::Core::path() const {
  return rt::RunOn(reactor(), [this]() -> rt::Task<std::string> { co_return pool_->path(); });
}

std::string Client::Core::path_reason() const {
  return rt::RunOn(reactor(), [this]() -> rt::Task<std::string> { co_return pool_->path_reason(); });
}

Status Client::Core::CheckMayBlock() const {
  if (!reactor().InReactor()) return {};
  return Status::FailedPrecondition(
      "a blocking call inside of a callback would wait for itself; use the Async form");
}

Error Client::Core::ErrorOf(const Status& status) const {
  Error error = client::ToError(status);
  if (error.code == Code::kUnavailable && ending_) error.code = Code::kCancelled;
  return error;
}

rt::Task<Result<BatchResult<GetResult>>> Client::Core::Get(std::span<const GetItem> items,
                                                           MutableByteView memory, base::TimePoint deadline) {
  return pool_->With(deadline, true, [items, memory, deadline](client::DataSession& session) {
    return client::GetItems(session, items, memory, deadline);
  });
}

rt::Task<Result<BatchResult<PutResult>>> Client::Core::Put(std::span<const PutItem> items,
                                                           std::span<const client::PutTicket> tickets,
                                                           ByteView memory, base::TimePoint deadline) {
  return pool_->With(deadline, false, [items, tickets, memory, deadline](client::DataSession& session) {
    return client::PutItems(session, items, tickets, memory, deadline);
  });
}

}  // namespace forebay
