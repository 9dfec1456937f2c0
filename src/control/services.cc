// SPDX-License-Identifier: Apache-2.0
#include "control/services.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "control/convert.h"

namespace forebay::control {

namespace {

/// What a page holds when the request leaves it open.
Result<uint32_t> PageLimit(uint32_t asked) {
  if (asked > base::kMaxListPage) {
    return Status::InvalidArgument("limit is {}; a page holds at most {}", asked, base::kMaxListPage);
  }
  return asked == 0 ? base::kMaxListPage : asked;
}

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
                   auth::SessionTable& sessions, const base::Clock& clock,
                   std::function<size_t()> calls_in_progress, Traffic traffic)
    : options_(options),
      store_(store),
      sessions_(sessions),
      clock_(clock),
      started_(clock.Now()),
      calls_in_progress_(std::move(calls_in_progress)),
      traffic_(std::move(traffic)) {}

MethodTable Services::Methods() {
  MethodTable table;
  const auto add = [&]<typename Request, typename Response>(
                       const char* name, rt::Task<Status> (Services::*handler)(const Caller&, store::Context&,
                                                                               const Request&, Response&)) {
    AddMethod<Request, Response>(&table, std::string("/forebay.control.v1.") + name,
                                 std::bind_front(handler, this));
  };
  add("Sessions/Open", &Services::OpenSession);
  add("Sessions/Close", &Services::CloseSession);
  add("Buckets/Create", &Services::CreateBucket);
  add("Buckets/Delete", &Services::DeleteBucket);
  add("Buckets/Get", &Services::GetBucket);
  add("Buckets/List", &Services::ListBuckets);
  add("Namespace/List", &Services::ListObjects);
  add("Namespace/Stat", &Services::StatObject);
  add("Namespace/Delete", &Services::DeleteObject);
  add("Admin/Health", &Services::Health);
  add("Admin/Stats", &Services::Stats);
  return table;
}

rt::Task<Status> Services::OpenSession(const Caller& caller, store::Context&,
                                       const pb::OpenSessionRequest& request,
                                       pb::OpenSessionResponse& response) {
  auth::SessionNonce client_nonce;
  if (request.client_nonce().size() != client_nonce.size()) {
    co_return Status::InvalidArgument("client_nonce has {} bytes; it has {}", request.client_nonce().size(),
                                      client_nonce.size());
  }
  std::memcpy(client_nonce.data(), request.client_nonce().data(), client_nonce.size());
  const auth::Credentials& credentials = caller.credentials;
  FB_CO_ASSIGN(const auth::OpenedSession opened,
               sessions_.Open(credentials.tenant, caller.rights, credentials.secret, client_nonce));
  response.set_session_id(opened.id);
  response.set_server_nonce(opened.server_nonce.data(), opened.server_nonce.size());
  for (const DataEndpoint& endpoint : options_.data_endpoints) {
    pb::DataEndpoint& told = *response.add_data_endpoints();
    told.set_fabric(endpoint.fabric);
    told.set_address(endpoint.address);
  }
  response.set_expires_in_ms(WholeMs(opened.expiry - clock_.Now()));
  response.set_tenant(static_cast<uint64_t>(credentials.tenant));
  response.set_operation_time_ms(store_.operation_time_ms());
  pb::DataLimits& limits = *response.mutable_limits();
  limits.set_max_batch_items(base::kMaxBatchItems);
  limits.set_max_message_bytes(base::kMaxMessageBytes);
  limits.set_max_inline_bytes(base::kMaxInlineBytes);
  limits.set_max_chunk_bytes(base::kMaxChunkBytes);
  co_return Status();
}

rt::Task<Status> Services::CloseSession(const Caller& caller, store::Context&,
                                        const pb::CloseSessionRequest& request, pb::CloseSessionResponse&) {
  co_return sessions_.Close(request.session_id(), caller.credentials.tenant);
}

rt::Task<Status> Services::CreateBucket(const Caller&, store::Context& context,
                                        const pb::CreateBucketRequest& request, pb::CreateBucketResponse&) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  FB_CO_ASSIGN(const store::BucketClass bucket_class, FromMessage(request.bucket_class()));
  co_return co_await store_.CreateBucket(context, {.name = request.name(),
                                                   .owner = context.tenant,
                                                   .bucket_class = bucket_class,
                                                   .created = clock_.WallNow()});
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
  store::Condition condition;
  if (!request.if_match().empty()) condition = store::Condition::IfMatch(request.if_match());
  co_return co_await store_.Delete(context, request.bucket(), request.key(), std::move(condition));
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

}  // namespace forebay::control
