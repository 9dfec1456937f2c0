// SPDX-License-Identifier: Apache-2.0
#include "control/services.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "auth/session_exchange.h"
#include "base/limits.h"
#include "control/convert.h"

namespace forebay::control {

namespace {

uint64_t WholeMs(base::Duration duration) {
  return static_cast<uint64_t>(std::chrono::floor<std::chrono::milliseconds>(duration).count());
}

uint64_t ProcessCpuMicroseconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto microseconds = [](const timeval& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
  };
  return microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
}

}  // namespace

Services::Services(const ControlServerOptions& options, store::ObjectStore& store,
                   auth::SessionTable& sessions, CapabilityAuthority& authority, TenantRegistry& tenants,
                   AccessKeys& keys, const base::Clock& clock, base::Random& random,
                   std::function<size_t()> calls_in_progress, Traffic traffic, Backups* backups,
                   StoreDevices* devices, Scrubs* scrubs)
    : options_(options),
      store_(store),
      tenants_(tenants),
      object_services_(store),
      upload_services_(store),
      tenant_services_(tenants, keys),
      sessions_(sessions),
      authority_(authority),
      clock_(clock),
      random_(random),
      started_(clock.Now()),
      calls_in_progress_(std::move(calls_in_progress)),
      traffic_(std::move(traffic)),
      backups_(backups),
      devices_(devices),
      scrubs_(scrubs) {}

MethodTable Services::Methods() {
  MethodTable table;
  const auto add = [&]<typename Request, typename Response>(
                       MethodName name, rt::Task<Status> (Services::*handler)(const Caller&, store::Context&,
                                                                               const Request&, Response&)) {
    AddMethod<Request, Response>(&table, name, std::bind_front(handler, this));
  };
  add("/forebay.control.v1.Sessions/Open", &Services::OpenSession);
  add("/forebay.control.v1.Sessions/Close", &Services::CloseSession);
  add("/forebay.control.v1.Buckets/Create", &Services::CreateBucket);
  add("/forebay.control.v1.Buckets/Delete", &Services::DeleteBucket);
  add("/forebay.control.v1.Buckets/Get", &Services::GetBucket);
  add("/forebay.control.v1.Buckets/List", &Services::ListBuckets);
  add("/forebay.control.v1.Namespace/List", &Services::ListObjects);
  add("/forebay.control.v1.Namespace/Stat", &Services::StatObject);
  add("/forebay.control.v1.Namespace/Delete", &Services::DeleteObject);
  add("/forebay.control.v1.Namespace/Compose", &Services::ComposeObject);
  add("/forebay.control.v1.Namespace/Rename", &Services::RenameObject);
  add("/forebay.control.v1.Namespace/RenamePrefix", &Services::RenamePrefix);
  add("/forebay.control.v1.Admin/Health", &Services::Health);
  add("/forebay.control.v1.Admin/Stats", &Services::Stats);
  add("/forebay.control.v1.Admin/Space", &Services::Space);
  add("/forebay.control.v1.Admin/StartBackup", &Services::StartBackup);
  add("/forebay.control.v1.Admin/GetBackup", &Services::GetBackup);
  add("/forebay.control.v1.Admin/ReplaceDevice", &Services::ReplaceDevice);
  add("/forebay.control.v1.Admin/AddDevice", &Services::AddDevice);
  add("/forebay.control.v1.Admin/DrainDevice", &Services::DrainDevice);
  add("/forebay.control.v1.Admin/RemoveDevice", &Services::RemoveDevice);
  add("/forebay.control.v1.Admin/StartScrub", &Services::StartScrub);
  add("/forebay.control.v1.Admin/GetScrub", &Services::GetScrub);
  add("/forebay.control.v1.Admin/StopScrub", &Services::StopScrub);
  object_services_.AddTo(&table);
  upload_services_.AddTo(&table);
  tenant_services_.AddTo(&table);
  return table;
}

rt::Task<Status> Services::OpenSession(const Caller& caller, store::Context& context,
                                       const pb::OpenSessionRequest& request,
                                       pb::OpenSessionResponse& response) {
  auth::SessionNonce client_nonce;
  FB_CO_TRY(CopyExactly("client_nonce", request.client_nonce(), client_nonce));
  Result<auth::OpenedSession> session =
      caller.secret.has_value()
          ? sessions_.Open(caller.grant, *caller.secret, client_nonce)
          : co_await AgreeOnSession(caller, context.reactor, request, client_nonce, response);
  FB_CO_ASSIGN(const auth::OpenedSession opened, std::move(session));
  response.set_session_id(opened.id);
  response.set_server_nonce(opened.server_nonce.data(), opened.server_nonce.size());
  for (const DataEndpoint& endpoint : options_.data_endpoints) {
    pb::DataEndpoint& told = *response.add_data_endpoints();
    told.set_fabric(endpoint.fabric);
    told.set_address(endpoint.address);
  }
  response.set_expires_in_ms(WholeMs(std::max(opened.expiry - clock_.Now(), base::Duration::zero())));
  response.set_tenant(static_cast<uint64_t>(caller.grant->tenant));
  response.set_operation_time_ms(store_.operation_time_ms());
  pb::DataLimits& limits = *response.mutable_limits();
  limits.set_max_batch_items(base::kMaxBatchItems);
  limits.set_max_message_bytes(base::kMaxMessageBytes);
  limits.set_max_inline_bytes(base::kMaxInlineBytes);
  limits.set_max_chunk_bytes(base::kMaxChunkBytes);
  co_return Status();
}

rt::Task<Result<auth::OpenedSession>> Services::AgreeOnSession(const Caller& caller, rt::Reactor& reactor,
                                                               const pb::OpenSessionRequest& request,
                                                               const auth::SessionNonce& client_nonce,
                                                               pb::OpenSessionResponse& response) {
  auth::ServerShare share{.client_nonce = client_nonce, .tenant = caller.grant->tenant};
  FB_CO_TRY(CopyExactly("key_share", request.key_share(), share.client_share));
  if (!auth::IsSignedBy(caller.holder, AsBytes(auth::ClientShareText(client_nonce, share.client_share)),
                        AsBytes(request.share_signature())))
    co_return Status::Unauthenticated("the session's key share is not signed by the holder of {}", caller.grant->name);
  const auth::Secret mine = auth::Secret::Generate(random_);
  share.server_share = auth::KeyShareOf(mine);
  FB_CO_ASSIGN(const auth::Secret agreed, auth::Agree(mine, share.client_share));
  (void)co_await authority_.RememberTime(reactor);  // what expires now stays expired; a full disk must not keep anyone out
  FB_CO_ASSIGN(auth::OpenedSession opened, sessions_.Open(caller.grant, agreed, client_nonce));
  share.server_nonce = opened.server_nonce;
  share.session_id = opened.id;
  // A capability may have been revoked since the door looked, before the table knew this session.
  Status good = authority_.CheckGrant(*caller.grant);
  Result<auth::Signature> signature = good;
  if (good.ok()) signature = authority_.keys().SignWith(caller.grant->issuer, AsBytes(auth::ServerShareText(share)));
  if (!signature.ok()) {
    (void)sessions_.Close(opened.id, caller.grant->tenant);
    co_return signature.status();
  }
  response.set_key_share(share.server_share.data(), share.server_share.size());
  response.set_share_signature(signature->data(), signature->size());
  co_return opened;
}

rt::Task<Status> Services::CloseSession(const Caller& caller, store::Context&,
                                        const pb::CloseSessionRequest& request, pb::CloseSessionResponse&) {
  co_return sessions_.Close(request.session_id(), caller.grant->tenant);
}

rt::Task<Status> Services::CreateBucket(const Caller&, store::Context& context,
                                        const pb::CreateBucketRequest& request, pb::CreateBucketResponse&) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  FB_CO_ASSIGN(const store::BucketClass bucket_class, FromMessage(request.bucket_class()));
  FB_CO_ASSIGN(const std::optional<store::Versioning> versioning, FromMessage(request.versioning()));
  FB_CO_ASSIGN(const std::chrono::milliseconds ttl, TtlFrom(request.ttl_ms()));
  TenantId owner = context.tenant;
  if (!request.tenant().empty()) {
    const Result<TenantId> named = tenants_.Resolve(request.tenant());
    if (context.tenant != TenantId::kRoot && (!named.ok() || *named != context.tenant))
      co_return Status::PermissionDenied("only the root tenant makes buckets for others");
    FB_CO_ASSIGN(owner, named);
  }
  co_return co_await tenants_.CreateBucket(
      context,
      {.name = request.name(),
       .owner = owner,
       .bucket_class = bucket_class,
       .created = clock_.WallNow(),
       .versioning = versioning.value_or(store::Versioning::kOff),
       .ttl = ttl});
}

rt::Task<Status> Services::DeleteBucket(const Caller&, store::Context& context,
                                        const pb::DeleteBucketRequest& request, pb::DeleteBucketResponse&) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  co_return co_await store_.DeleteBucket(context, request.name());
}

rt::Task<Status> Services::GetBucket(const Caller&, store::Context& context,
                                     const pb::GetBucketRequest& request, pb::GetBucketResponse& response) {
  FB_CO_ASSIGN(const store::BucketInfo bucket, co_await store_.GetBucket(context, request.name()));
  ToMessage(bucket, response.mutable_bucket());
  co_return Status();
}

rt::Task<Status> Services::ListBuckets(const Caller&, store::Context& context,
                                       const pb::ListBucketsRequest& request,
                                       pb::ListBucketsResponse& response) {
  FB_CO_ASSIGN(const uint32_t limit, PageLimit(request.limit()));
  FB_CO_ASSIGN(const std::vector<store::BucketInfo> buckets, co_await store_.ListBuckets(context));
  auto next = std::upper_bound(
      buckets.begin(), buckets.end(), request.start_after(),
      [](const std::string& name, const store::BucketInfo& bucket) { return name < bucket.name; });
  for (uint32_t count = 0; next != buckets.end() && count < limit; ++next, ++count)
    ToMessage(*next, response.add_buckets());
  response.set_truncated(next != buckets.end());
  co_return Status();
}

rt::Task<Status> Services::ListObjects(const Caller&, store::Context& context,
                                       const pb::ListObjectsRequest& request,
                                       pb::ListObjectsResponse& response) {
  FB_CO_ASSIGN(const uint32_t limit, PageLimit(request.limit()));
  FB_CO_ASSIGN(store::ListPage page, co_await store_.List(context, request.bucket(),
                                                          {.prefix = request.prefix(),
                                                           .delimiter = request.delimiter(),
                                                           .start_after = request.start_after(),
                                                           .limit = limit}));
  for (store::ObjectInfo& object : page.objects) ToMessage(std::move(object), response.add_objects());
  for (std::string& prefix : page.common_prefixes) response.add_common_prefixes(std::move(prefix));
  response.set_truncated(page.truncated);
  response.set_next_start_after(std::move(page.next_start_after));
  co_return Status();
}

rt::Task<Status> Services::StatObject(const Caller&, store::Context& context,
                                      const pb::StatObjectRequest& request,
                                      pb::StatObjectResponse& response) {
  FB_CO_ASSIGN(store::ObjectInfo object, co_await store_.Stat(context, request.bucket(), request.key()));
  ToMessage(std::move(object), response.mutable_object());
  co_return Status();
}

rt::Task<Status> Services::DeleteObject(const Caller&, store::Context& context,
                                        const pb::DeleteObjectRequest& request, pb::DeleteObjectResponse&) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  co_return co_await store_.Delete(context, request.bucket(), request.key(), IfMatch(request.if_match()));
}

rt::Task<Status> Services::ComposeObject(const Caller&, store::Context& context,
                                         const pb::ComposeObjectRequest& request,
                                         pb::ComposeObjectResponse& response) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  FB_CO_ASSIGN(store::Condition condition, ConditionFrom(request.if_match(), request.if_absent()));
  std::vector<store::Source> sources;
  for (const pb::ComposeSource& source : request.sources()) sources.push_back(FromMessage(source));
  store::PutOptions options{.condition = std::move(condition),
                            .metadata = {request.metadata().begin(), request.metadata().end()},
                            .attributes = {request.attributes().begin(), request.attributes().end()},
                            .etag = request.etag()};
  if (request.has_size_bytes()) options.size_bytes = request.size_bytes();
  FB_CO_ASSIGN(store::ObjectInfo object, co_await store_.Compose(context, request.bucket(), request.key(),
                                                                 std::move(sources), std::move(options)));
  ToMessage(std::move(object), response.mutable_object());
  co_return Status();
}

rt::Task<Status> Services::RenameObject(const Caller&, store::Context& context,
                                        const pb::RenameObjectRequest& request, pb::RenameObjectResponse&) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  store::RenameOptions options{.source = IfMatch(request.if_match())};
  FB_CO_ASSIGN(options.target, ConditionFrom(request.to_if_match(), request.if_absent()));
  co_return co_await store_.Rename(context, request.bucket(), request.from(), request.to(), std::move(options));
}

rt::Task<Status> Services::RenamePrefix(const Caller&, store::Context& context,
                                        const pb::RenamePrefixRequest& request,
                                        pb::RenamePrefixResponse& response) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  FB_CO_ASSIGN(const uint64_t renamed,
               co_await store_.RenamePrefix(context, request.bucket(), request.from(), request.to()));
  response.set_renamed(renamed);
  co_return Status();
}

rt::Task<Status> Services::Health(const Caller&, store::Context&, const pb::HealthRequest&,
                                  pb::HealthResponse& response) {
  const Status health = store_.health();
  response.set_ready(health.ok());
  response.set_read_only(!health.ok());
  response.set_reason(std::string(health.message()));
  response.set_version(options_.version);
  co_return Status();
}

rt::Task<Status> Services::Stats(const Caller&, store::Context& context, const pb::StatsRequest&,
                                 pb::StatsResponse& response) {
  const store::StoreUsage usage = store_.usage();
  response.set_capacity_bytes(usage.capacity_bytes);
  response.set_used_bytes(usage.used_bytes);
  response.set_sessions(sessions_.size());
  response.set_calls_in_progress(calls_in_progress_());
  response.set_uptime_ms(WholeMs(clock_.Now() - started_));
  response.set_device_bytes_read(usage.device_bytes_read);
  response.set_device_bytes_written(usage.device_bytes_written);
  response.set_device_flushes(usage.device_flushes);
  response.set_cpu_us(ProcessCpuMicroseconds());
  if (traffic_ == nullptr) co_return Status();
  for (const FabricTraffic& traffic : co_await traffic_(context.reactor))
    ToMessage(traffic, response.add_traffic());
  co_return Status();
}

rt::Task<Status> Services::Space(const Caller&, store::Context& context, const pb::SpaceRequest&,
                                 pb::SpaceResponse& response) {
  FB_CO_ASSIGN(const store::StoreSpace space, co_await store_.GetSpace(context));
  ToMessage(space, &response);
  response.set_read_only_reason(std::string(store_.health().message()));
  co_return Status();
}

namespace {
Status NoBackups() { return Status::Unimplemented("this server's store makes no backups of itself"); }
}  // namespace

rt::Task<Status> Services::StartBackup(const Caller&, store::Context&, const pb::StartBackupRequest& request,
                                       pb::StartBackupResponse& response) {
  if (backups_ == nullptr) co_return NoBackups();
  FB_CO_ASSIGN(const uint64_t id, backups_->Start(request.directory(), request.bytes_per_s()));
  response.set_id(id);
  co_return Status();
}

rt::Task<Status> Services::GetBackup(const Caller&, store::Context&, const pb::GetBackupRequest& request,
                                     pb::GetBackupResponse& response) {
  if (backups_ == nullptr) co_return NoBackups();
  FB_CO_ASSIGN(const BackupState state, backups_->Get(request.id()));
  response.set_done(state.done);
  response.set_copied_bytes(state.copied_bytes);
  response.set_total_bytes(state.total_bytes);
  co_return Status();
}

namespace {
Status NoDevices() { return Status::Unimplemented("this server's store has no devices of its own"); }
}  // namespace

rt::Task<Status> Services::AddDevice(const Caller&, store::Context& context, const pb::AddDeviceRequest& request,
                                     pb::AddDeviceResponse&) {
  if (devices_ == nullptr) co_return NoDevices();
  co_return co_await devices_->Add(context.reactor, request.path(), request.mirror(), request.size_bytes());
}

rt::Task<Status> Services::DrainDevice(const Caller&, store::Context& context, const pb::DrainDeviceRequest& request,
                                       pb::DrainDeviceResponse&) {
  if (devices_ == nullptr) co_return NoDevices();
  co_return co_await devices_->Drain(context.reactor, request.path(), request.stop());
}

rt::Task<Status> Services::RemoveDevice(const Caller&, store::Context& context, const pb::RemoveDeviceRequest& request,
                                        pb::RemoveDeviceResponse&) {
  if (devices_ == nullptr) co_return NoDevices();
  co_return co_await devices_->Remove(context.reactor, request.path());
}

rt::Task<Status> Services::ReplaceDevice(const Caller&, store::Context& context,
                                         const pb::ReplaceDeviceRequest& request, pb::ReplaceDeviceResponse&) {
  if (devices_ == nullptr) co_return NoDevices();
  co_return co_await devices_->Replace(context.reactor, request.lost(), request.replacement());
}

namespace {
Status NoScrubs() { return Status::Unimplemented("this server's store does not scrub itself"); }
}  // namespace

rt::Task<Status> Services::StartScrub(const Caller&, store::Context&, const pb::StartScrubRequest& request,
                                      pb::StartScrubResponse&) {
  if (scrubs_ == nullptr) co_return NoScrubs();
  co_return scrubs_->Start(request.bytes_per_s(), request.anew());
}

rt::Task<Status> Services::GetScrub(const Caller&, store::Context&, const pb::GetScrubRequest&,
                                    pb::GetScrubResponse& response) {
  if (scrubs_ == nullptr) co_return NoScrubs();
  FB_CO_ASSIGN(const ScrubReport report, scrubs_->Get());
  ToMessage(report, &response);
  co_return Status();
}

rt::Task<Status> Services::StopScrub(const Caller&, store::Context&, const pb::StopScrubRequest&,
                                     pb::StopScrubResponse&) {
  if (scrubs_ == nullptr) co_return NoScrubs();
  co_return scrubs_->Stop();
}

}  // namespace forebay::control
