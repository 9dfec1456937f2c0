// SPDX-License-Identifier: Apache-2.0
#include "control/client_impl.h"

#include "auth/hkdf.h"
#include "auth/session_exchange.h"
#include "rt/address.h"

namespace forebay::control {

namespace {

/// A page of 1,000 objects with the longest keys, metadata and attributes has about 18 MiB.
constexpr int kMaxResponseBytes = 32 * 1024 * 1024;

/// What gRPC calls the address. Numbers go without a resolver; "dns:" keeps a name from being read as another
/// scheme.
Result<std::string> TargetOf(const std::string& server) {
  const Result<rt::SocketAddress> address = rt::SocketAddress::ParseHostPort(server);
  if (address.ok()) return (address->family() == AF_INET6 ? "ipv6:" : "ipv4:") + address->ToString();
  const Result<rt::HostPort> parts = rt::SplitHostPort(server);
  if (!parts.ok()) return parts.error().WithContext(fmt::format("server address `{}`", server));
  return "dns:///" + server;
}

}  // namespace

ControlClient::Impl::Impl(Options options, const std::string& target, auth::Identity identity,
                          std::unique_ptr<auth::TlsContext> tls, const base::Clock& clock, base::Random& random)
    : options_(std::move(options)),
      identity_(std::move(identity)),
      tls_(std::move(tls)),
      clock_(clock),
      random_(random) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxResponseBytes);
  // A server that was restarted is found again soon, not after gRPC's two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // In spite of its name this is how long one attempt may take, up to the server's first frame.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // a call sent again would carry a used proof
  channel_ = grpc::CreateCustomChannel(
      target, options_.tls == nullptr ? grpc::InsecureChannelCredentials() : ChannelTls(*options_.tls),
      arguments);
  sessions = pb::Sessions::NewStub(channel_);
  buckets = pb::Buckets::NewStub(channel_);
  objects = pb::Namespace::NewStub(channel_);
  uploads = pb::Uploads::NewStub(channel_);
  tenants = pb::Tenants::NewStub(channel_);
  keys = pb::Keys::NewStub(channel_);
  capabilities = pb::Capabilities::NewStub(channel_);
  admin = pb::Admin::NewStub(channel_);
}

Status ControlClient::Impl::Explain(const grpc::Status& status, base::Duration limit, base::TimePoint deadline) const {
  const bool unconnected = status.error_message().starts_with("failed to connect");
  const base::Duration left = deadline - clock_.Now();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && (unconnected || tls_ != nullptr) &&
      left > base::Duration::zero()) {
    FB_TRY(FindTrouble(options_.server, tls_.get(), left));  // the better words, if it is not over by now
  }
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && unconnected) {
    return Status::Unavailable("no Forebay server answers at {}; start one with: forebay serve",
                               options_.server);
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return Status::DeadlineExceeded("the server at {} did not answer within {} ms", options_.server,
                                    std::chrono::ceil<std::chrono::milliseconds>(limit).count());
  }
  return FromGrpc(status);
}

/// What both sides have agreed on, of which the session's key is made.
Result<auth::Secret> ControlClient::Impl::SharedSecret(const auth::Secret& mine, const auth::SessionNonce& client_nonce,
                                                       const auth::SessionNonce& server_nonce,
                                                       const pb::OpenSessionResponse& response) const {
  if (const auto* credentials = std::get_if<auth::Credentials>(&identity_)) return credentials->secret;
  const auto* held = std::get_if<auth::HeldCapability>(&identity_);
  if (held == nullptr) return Status::Unauthenticated("a session needs credentials or a capability");
  auth::ServerShare share{.client_nonce = client_nonce,
                          .client_share = auth::KeyShareOf(mine),
                          .server_nonce = server_nonce,
                          .session_id = response.session_id(),
                          .tenant = TenantId{response.tenant()}};
  FB_TRY(CopyExactly("key_share", response.key_share(), share.server_share));
  if (!auth::IsSignedBy(held->capability().issuer(), AsBytes(auth::ServerShareText(share)),
                        AsBytes(response.share_signature())))
    return Status::Unauthenticated(
        "{} is not the server that issued the capability: it cannot sign with its key", options_.server);
  return auth::Agree(mine, share.server_share);
}

Result<ClientSession> ControlClient::Impl::OpenSession(base::Duration timeout) {
  auth::SessionNonce client_nonce;
  random_.Fill(client_nonce);
  pb::OpenSessionRequest request;
  request.set_client_nonce(client_nonce.data(), client_nonce.size());
  const auth::Secret mine = auth::Secret::Generate(random_);
  if (const auto* held = std::get_if<auth::HeldCapability>(&identity_)) {
    const auth::PublicKey share = auth::KeyShareOf(mine);
    const auth::Signature signature = held->Sign(AsBytes(auth::ClientShareText(client_nonce, share)));
    request.set_key_share(share.data(), share.size());
    request.set_share_signature(signature.data(), signature.size());
  }
  pb::OpenSessionResponse response;
  FB_TRY(Call("Sessions/Open", sessions, &pb::Sessions::Stub::Open, request, &response, timeout));
  auth::SessionNonce server_nonce;
  if (!CopyExactly("server_nonce", response.server_nonce(), server_nonce).ok() || response.session_id() == 0) {
    return Status::Internal(
        "the server at {} opened a session without an id or a nonce; its version does not fit this "
        "program's",
        options_.server);
  }
  FB_ASSIGN(const auth::Secret shared, SharedSecret(mine, client_nonce, server_nonce, response));
  ClientSession session;
  session.id = response.session_id();
  session.tenant = TenantId{response.tenant()};
  session.key = auth::SessionKeyOf(shared, client_nonce, server_nonce, session.id, session.tenant);
  for (const pb::DataEndpoint& endpoint : response.data_endpoints())
    session.data_endpoints.push_back({.fabric = endpoint.fabric(), .address = endpoint.address()});
  session.expires_in = std::chrono::milliseconds(
      std::min<uint64_t>(response.expires_in_ms(),
                         std::chrono::duration_cast<std::chrono::milliseconds>(base::kMaxWait).count()));
  session.operation_time_ms = response.operation_time_ms();
  session.max_batch_items = response.limits().max_batch_items();
  session.max_message_bytes = response.limits().max_message_bytes();
  session.max_inline_bytes = response.limits().max_inline_bytes();
  session.max_chunk_bytes = response.limits().max_chunk_bytes();
  return session;
}

Result<std::unique_ptr<ControlClient>> ControlClient::Create(Options options, auth::Identity identity,
                                                             const base::Clock& clock, base::Random& random) {
  QuietLibraryLogs();
  FB_ASSIGN(const std::string target, TargetOf(options.server));
  std::unique_ptr<auth::TlsContext> tls;
  if (options.tls != nullptr) {
    FB_ASSIGN(const rt::HostPort place, rt::SplitHostPort(options.server));
    FB_ASSIGN(tls, auth::TlsContext::ForClient(*options.tls, auth::kControlProtocol, place.host));
  }
  auto impl = std::make_unique<Impl>(std::move(options), target, std::move(identity), std::move(tls),
                                     clock, random);
  return std::unique_ptr<ControlClient>(new ControlClient(std::move(impl)));
}

ControlClient::ControlClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlClient::~ControlClient() = default;

Result<ClientSession> ControlClient::OpenSession(base::Duration timeout) {
  return impl_->OpenSession(timeout);
}

Status ControlClient::CloseSession(uint64_t session_id, base::Duration timeout) {
  pb::CloseSessionRequest request;
  request.set_session_id(session_id);
  pb::CloseSessionResponse response;
  return impl_->Call("Sessions/Close", impl_->sessions, &pb::Sessions::Stub::Close, request, &response,
                     timeout);
}

Status ControlClient::CreateBucket(const std::string& name, store::BucketClass bucket_class,
                                   const OperationId& operation, base::Duration timeout,
                                   const std::string& tenant, store::Versioning versioning,
                                   std::chrono::milliseconds ttl) {
  pb::CreateBucketRequest request;
  if (versioning != store::Versioning::kOff) request.set_versioning(ToMessage(versioning));
  request.set_ttl_ms(static_cast<uint64_t>(ttl.count()));
  request.set_name(name);
  request.set_tenant(tenant);
  request.set_bucket_class(ToMessage(bucket_class));
  request.set_operation_id(ToBytes(operation));
  pb::CreateBucketResponse response;
  return impl_->Call("Buckets/Create", impl_->buckets, &pb::Buckets::Stub::Create, request, &response,
                     timeout);
}

Status ControlClient::DeleteBucket(const std::string& name, const OperationId& operation,
                                   base::Duration timeout) {
  pb::DeleteBucketRequest request;
  request.set_name(name);
  request.set_operation_id(ToBytes(operation));
  pb::DeleteBucketResponse response;
  return impl_->Call("Buckets/Delete", impl_->buckets, &pb::Buckets::Stub::Delete, request, &response,
                     timeout);
}

Status ControlClient::UpdateBucket(const std::string& name, const store::BucketSettings& settings,
                                   const OperationId& operation, base::Duration timeout) {
  pb::UpdateBucketRequest request;
  request.set_name(name);
  if (settings.versioning) request.set_versioning(ToMessage(*settings.versioning));
  if (settings.ttl) request.set_ttl_ms(static_cast<uint64_t>(settings.ttl->count()));
  request.set_operation_id(ToBytes(operation));
  pb::UpdateBucketResponse response;
  return impl_->Call("Buckets/Update", impl_->buckets, &pb::Buckets::Stub::Update, request, &response, timeout);
}

Result<store::BucketInfo> ControlClient::GetBucket(const std::string& name, base::Duration timeout) {
  pb::GetBucketRequest request;
  request.set_name(name);
  pb::GetBucketResponse response;
  FB_TRY(impl_->Call("Buckets/Get", impl_->buckets, &pb::Buckets::Stub::Get, request, &response, timeout));
  return FromMessage(response.bucket());
}

Result<BucketPage> ControlClient::ListBuckets(const std::string& start_after, uint32_t limit,
                                              base::Duration timeout) {
  pb::ListBucketsRequest request;
  request.set_start_after(start_after);
  request.set_limit(limit);
  pb::ListBucketsResponse response;
  FB_TRY(impl_->Call("Buckets/List", impl_->buckets, &pb::Buckets::Stub::List, request, &response, timeout));
  BucketPage page{.truncated = response.truncated()};
  for (const pb::Bucket& message : response.buckets()) {
    FB_ASSIGN(store::BucketInfo bucket, FromMessage(message));
    page.buckets.push_back(std::move(bucket));
  }
  return page;
}

Result<Tenant> ControlClient::CreateTenant(const std::string& name, const TenantChange& limits,
                                           base::Duration timeout) {
  pb::CreateTenantRequest request;
  request.set_name(name);
  ToMessage(limits, request.mutable_limits());
  pb::CreateTenantResponse response;
  FB_TRY(
      impl_->Call("Tenants/Create", impl_->tenants, &pb::Tenants::Stub::Create, request, &response, timeout));
  return FromMessage(response.tenant());
}

Result<std::vector<Tenant>> ControlClient::ListTenants(base::Duration timeout) {
  std::vector<Tenant> all;
  pb::ListTenantsRequest request;
  for (bool more = true; more;) {
    pb::ListTenantsResponse response;
    FB_TRY(
        impl_->Call("Tenants/List", impl_->tenants, &pb::Tenants::Stub::List, request, &response, timeout));
    for (const pb::Tenant& tenant : response.tenants()) all.push_back(FromMessage(tenant));
    more = response.truncated() && !response.tenants().empty();
    if (more) request.set_start_after(response.tenants().rbegin()->id());
  }
  return all;
}

Result<Tenant> ControlClient::GetTenant(const std::string& tenant, base::Duration timeout) {
  pb::GetTenantRequest request;
  request.set_tenant(tenant);
  pb::GetTenantResponse response;
  FB_TRY(impl_->Call("Tenants/Get", impl_->tenants, &pb::Tenants::Stub::Get, request, &response, timeout));
  return FromMessage(response.tenant());
}

Result<Tenant> ControlClient::SetTenant(const std::string& tenant, const TenantChange& limits,
                                        base::Duration timeout) {
  pb::SetTenantRequest request;
  request.set_tenant(tenant);
  ToMessage(limits, request.mutable_limits());
  pb::SetTenantResponse response;
  FB_TRY(impl_->Call("Tenants/Set", impl_->tenants, &pb::Tenants::Stub::Set, request, &response, timeout));
  return FromMessage(response.tenant());
}

Status ControlClient::DeleteTenant(const std::string& tenant, base::Duration timeout) {
  pb::DeleteTenantRequest request;
  request.set_tenant(tenant);
  pb::DeleteTenantResponse response;
  return impl_->Call("Tenants/Delete", impl_->tenants, &pb::Tenants::Stub::Delete, request, &response,
                     timeout);
}

Result<ControlClient::CreatedKey> ControlClient::CreateKey(const std::string& tenant,
                                                           base::Duration timeout) {
  pb::CreateKeyRequest request;
  request.set_tenant(tenant);
  pb::CreateKeyResponse response;
  FB_TRY(impl_->Call("Keys/Create", impl_->keys, &pb::Keys::Stub::Create, request, &response, timeout));
  return CreatedKey{.key = FromMessage(response.key()), .secret = response.secret()};
}

Result<std::vector<AccessKey>> ControlClient::ListKeys(const std::string& tenant, base::Duration timeout) {
  std::vector<AccessKey> all;
  pb::ListKeysRequest request;
  request.set_tenant(tenant);
  for (bool more = true; more;) {
    pb::ListKeysResponse response;
    FB_TRY(impl_->Call("Keys/List", impl_->keys, &pb::Keys::Stub::List, request, &response, timeout));
    for (const pb::AccessKey& key : response.keys()) all.push_back(FromMessage(key));
    more = response.truncated() && !response.keys().empty();
    if (more) request.set_start_after(response.keys().rbegin()->id());
  }
  return all;
}

Status ControlClient::DeleteKey(const std::string& id, base::Duration timeout) {
  pb::DeleteKeyRequest request;
  request.set_id(id);
  pb::DeleteKeyResponse response;
  return impl_->Call("Keys/Delete", impl_->keys, &pb::Keys::Stub::Delete, request, &response, timeout);
}

Result<ServerHealth> ControlClient::Health(base::Duration timeout) {
  pb::HealthResponse response;
  FB_TRY(impl_->Call("Admin/Health", impl_->admin, &pb::Admin::Stub::Health, {}, &response, timeout));
  return ServerHealth{.ready = response.ready(),
                      .read_only = response.read_only(),
                      .reason = response.reason(),
                      .version = response.version()};
}

Result<ServerStats> ControlClient::Stats(base::Duration timeout) {
  pb::StatsResponse response;
  FB_TRY(impl_->Call("Admin/Stats", impl_->admin, &pb::Admin::Stub::Stats, {}, &response, timeout));
  const uint64_t max_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(base::Duration::max()).count();
  ServerStats stats{.capacity_bytes = response.capacity_bytes(),
                    .used_bytes = response.used_bytes(),
                    .sessions = response.sessions(),
                    .calls_in_progress = response.calls_in_progress(),
                    .uptime = std::chrono::milliseconds(std::min(response.uptime_ms(), max_ms)),
                    .device_bytes_read = response.device_bytes_read(),
                    .device_bytes_written = response.device_bytes_written(),
                    .device_flushes = response.device_flushes(),
                    .cpu_us = response.cpu_us(),
                    .traffic = {}};
  for (const pb::FabricTraffic& traffic : response.traffic()) stats.traffic.push_back(FromMessage(traffic));
  return stats;
}

Result<ServerSpace> ControlClient::Space(base::Duration timeout) {
  pb::SpaceResponse response;
  FB_TRY(impl_->Call("Admin/Space", impl_->admin, &pb::Admin::Stub::Space, {}, &response, timeout));
  return ServerSpace{.space = FromMessage(response), .read_only_reason = response.read_only_reason()};
}

Status ControlClient::ReplaceDevice(const std::string& lost, const std::string& replacement, base::Duration timeout) {
  pb::ReplaceDeviceRequest request;
  request.set_lost(lost);
  request.set_replacement(replacement);
  pb::ReplaceDeviceResponse response;
  return impl_->Call("Admin/ReplaceDevice", impl_->admin, &pb::Admin::Stub::ReplaceDevice, request, &response, timeout);
}

Status ControlClient::AddDevice(const std::string& path, const std::string& mirror, uint64_t size_bytes,
                                base::Duration timeout) {
  pb::AddDeviceRequest request;
  request.set_path(path);
  request.set_mirror(mirror);
  request.set_size_bytes(size_bytes);
  pb::AddDeviceResponse response;
  return impl_->Call("Admin/AddDevice", impl_->admin, &pb::Admin::Stub::AddDevice, request, &response, timeout);
}

Status ControlClient::DrainDevice(const std::string& path, bool stop, base::Duration timeout) {
  pb::DrainDeviceRequest request;
  request.set_path(path);
  request.set_stop(stop);
  pb::DrainDeviceResponse response;
  return impl_->Call("Admin/DrainDevice", impl_->admin, &pb::Admin::Stub::DrainDevice, request, &response, timeout);
}

Status ControlClient::RemoveDevice(const std::string& path, base::Duration timeout) {
  pb::RemoveDeviceRequest request;
  request.set_path(path);
  pb::RemoveDeviceResponse response;
  return impl_->Call("Admin/RemoveDevice", impl_->admin, &pb::Admin::Stub::RemoveDevice, request, &response, timeout);
}

Result<uint64_t> ControlClient::StartBackup(const std::string& directory, uint64_t bytes_per_second,
                                            base::Duration timeout) {
  pb::StartBackupRequest request;
  request.set_directory(directory);
  request.set_bytes_per_s(bytes_per_second);
  pb::StartBackupResponse response;
  FB_TRY(impl_->Call("Admin/StartBackup", impl_->admin, &pb::Admin::Stub::StartBackup, request, &response, timeout));
  return response.id();
}

Result<BackupState> ControlClient::GetBackup(uint64_t id, base::Duration timeout) {
  pb::GetBackupRequest request;
  request.set_id(id);
  pb::GetBackupResponse response;
  FB_TRY(impl_->Call("Admin/GetBackup", impl_->admin, &pb::Admin::Stub::GetBackup, request, &response, timeout));
  return BackupState{.done = response.done(),
                     .copied_bytes = response.copied_bytes(),
                     .total_bytes = response.total_bytes()};
}

Status ControlClient::StartScrub(uint64_t bytes_per_second, bool anew, base::Duration timeout) {
  pb::StartScrubRequest request;
  request.set_bytes_per_s(bytes_per_second);
  request.set_anew(anew);
  pb::StartScrubResponse response;
  return impl_->Call("Admin/StartScrub", impl_->admin, &pb::Admin::Stub::StartScrub, request, &response, timeout);
}

Result<ScrubReport> ControlClient::GetScrub(base::Duration timeout) {
  pb::GetScrubResponse response;
  FB_TRY(impl_->Call("Admin/GetScrub", impl_->admin, &pb::Admin::Stub::GetScrub, {}, &response, timeout));
  return FromMessage(response);
}

Status ControlClient::StopScrub(base::Duration timeout) {
  pb::StopScrubResponse response;
  return impl_->Call("Admin/StopScrub", impl_->admin, &pb::Admin::Stub::StopScrub, {}, &response, timeout);
}

Result<auth::Capability> ControlClient::IssueCapability(const IssueTerms& terms, base::Duration timeout) {
  pb::IssueCapabilityRequest request;
  request.set_holder_key(terms.holder.data(), terms.holder.size());
  request.set_tenant(static_cast<uint64_t>(terms.tenant));
  request.set_bucket(terms.bucket);
  request.set_prefix(terms.prefix);
  request.set_rights(terms.rights.bits());
  request.set_ttl_ms(static_cast<uint64_t>(
      std::max<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(terms.ttl).count(), 0)));
  ToMessage(terms.rates, request.mutable_rates());
  pb::IssueCapabilityResponse response;
  FB_TRY(impl_->Call("Capabilities/Issue", impl_->capabilities, &pb::Capabilities::Stub::Issue, request, &response,
                     timeout));
  Result<auth::Capability> made = auth::Capability::Decode(AsBytes(response.capability()));
  if (!made.ok() || !made->CheckSignatures().ok() || made->holder() != terms.holder)
    return Status::Internal("the server at {} answered with something else than the capability that was asked for",
                            impl_->server());
  return made;
}

Result<std::vector<IssuedCapability>> ControlClient::ListCapabilities(base::Duration timeout) {
  std::vector<IssuedCapability> all;
  pb::ListCapabilitiesRequest request;
  for (;;) {
    pb::ListCapabilitiesResponse response;
    FB_TRY(impl_->Call("Capabilities/List", impl_->capabilities, &pb::Capabilities::Stub::List, request, &response,
                       timeout));
    for (const pb::CapabilityInfo& info : response.capabilities()) {
      IssuedCapability one{.revoked = info.revoked()};
      FB_TRY(FromMessage(info, &one.block));
      all.push_back(std::move(one));
    }
    if (!response.truncated() || response.capabilities().empty()) return all;
    request.set_start_after(response.capabilities().rbegin()->id());
  }
}

Result<uint64_t> ControlClient::RevokeCapability(const auth::CapabilityId& id, base::Duration timeout) {
  pb::RevokeCapabilityRequest request;
  request.set_id(id.data(), id.size());
  pb::RevokeCapabilityResponse response;
  FB_TRY(impl_->Call("Capabilities/Revoke", impl_->capabilities, &pb::Capabilities::Stub::Revoke, request, &response,
                     timeout));
  return response.sessions_ended();
}

Result<uint64_t> ControlClient::RevokeTenant(TenantId tenant, base::Duration timeout) {
  pb::RevokeTenantRequest request;
  request.set_tenant(static_cast<uint64_t>(tenant));
  pb::RevokeTenantResponse response;
  FB_TRY(impl_->Call("Capabilities/RevokeTenant", impl_->capabilities, &pb::Capabilities::Stub::RevokeTenant, request,
                     &response, timeout));
  return response.sessions_ended();
}

Result<uint64_t> ControlClient::RotateKey(bool drop_old, base::Duration timeout) {
  pb::RotateKeyRequest request;
  request.set_drop_old(drop_old);
  pb::RotateKeyResponse response;
  FB_TRY(impl_->Call("Capabilities/RotateKey", impl_->capabilities, &pb::Capabilities::Stub::RotateKey, request,
                     &response, timeout));
  return response.sessions_ended();
}

}  // namespace forebay::control
