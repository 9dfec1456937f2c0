// SPDX-License-Identifier: Apache-2.0
#include "control/object_services.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "control/convert.h"

namespace forebay::control {

void ObjectServices::AddTo(MethodTable* table) {
  const auto add = [&]<typename Request, typename Response>(
                       MethodName name, rt::Task<Status> (ObjectServices::*handler)(
                                            const Caller&, store::Context&, const Request&, Response&)) {
    AddMethod<Request, Response>(table, name, std::bind_front(handler, this));
  };
  add("/forebay.control.v1.Buckets/Update", &ObjectServices::UpdateBucket);
  add("/forebay.control.v1.Namespace/Truncate", &ObjectServices::Truncate);
  add("/forebay.control.v1.Namespace/SetAttributes", &ObjectServices::SetAttributes);
  add("/forebay.control.v1.Namespace/ListVersions", &ObjectServices::ListVersions);
  add("/forebay.control.v1.Namespace/StatVersion", &ObjectServices::StatVersion);
  add("/forebay.control.v1.Namespace/DeleteVersion", &ObjectServices::DeleteVersion);
  add("/forebay.control.v1.Namespace/Pin", &ObjectServices::Pin);
}

rt::Task<Status> ObjectServices::UpdateBucket(const Caller&, store::Context& context,
                                              const pb::UpdateBucketRequest& request, pb::UpdateBucketResponse&) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  store::BucketSettings settings;
  FB_CO_ASSIGN(settings.versioning, FromMessage(request.versioning()));
  if (request.has_ttl_ms()) {
    FB_CO_ASSIGN(settings.ttl, TtlFrom(request.ttl_ms()));
  }
  co_return co_await store_.UpdateBucket(context, request.name(), settings);
}

rt::Task<Status> ObjectServices::Truncate(const Caller&, store::Context& context,
                                          const pb::TruncateObjectRequest& request,
                                          pb::TruncateObjectResponse& response) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  FB_CO_ASSIGN(store::ObjectInfo object, co_await store_.Truncate(context, request.bucket(), request.key(),
                                                                  request.size_bytes(), IfMatch(request.if_match())));
  ToMessage(std::move(object), response.mutable_object());
  co_return Status();
}

rt::Task<Status> ObjectServices::SetAttributes(const Caller&, store::Context& context,
                                               const pb::SetAttributesRequest& request, pb::SetAttributesResponse&) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  store::AttributeChange change{.condition = IfMatch(request.if_match()),
                                .set = {request.set().begin(), request.set().end()},
                                .remove = {request.remove().begin(), request.remove().end()}};
  co_return co_await store_.SetAttributes(context, request.bucket(), request.key(), request.version(),
                                          std::move(change));
}

rt::Task<Status> ObjectServices::ListVersions(const Caller&, store::Context& context,
                                              const pb::ListVersionsRequest& request,
                                              pb::ListVersionsResponse& response) {
  FB_CO_ASSIGN(const uint32_t limit, PageLimit(request.limit()));
  FB_CO_ASSIGN(store::VersionPage page,
               co_await store_.ListVersions(context, request.bucket(),
                                            {.prefix = request.prefix(),
                                             .after_key = request.after_key(),
                                             .after_version = request.after_version(),
                                             .limit = limit}));
  for (store::VersionInfo& version : page.versions) ToMessage(std::move(version), response.add_versions());
  response.set_truncated(page.truncated);
  co_return Status();
}

rt::Task<Status> ObjectServices::StatVersion(const Caller&, store::Context& context,
                                             const pb::StatVersionRequest& request,
                                             pb::StatVersionResponse& response) {
  FB_CO_ASSIGN(store::VersionInfo version,
               co_await store_.StatVersion(context, request.bucket(), request.key(), request.version()));
  ToMessage(std::move(version), response.mutable_version());
  co_return Status();
}

rt::Task<Status> ObjectServices::Pin(const Caller&, store::Context& context, const pb::PinRequest& request,
                                     pb::PinResponse&) {
  if (request.time_ms() == 0) co_return co_await store_.Unpin(context, request.bucket(), request.key());
  // What does not fit is too long all the more.
  const auto time = std::chrono::milliseconds(std::min<uint64_t>(request.time_ms(), INT64_MAX));
  co_return co_await store_.Pin(context, request.bucket(), request.key(), time);
}

rt::Task<Status> ObjectServices::DeleteVersion(const Caller&, store::Context& context,
                                               const pb::DeleteVersionRequest& request, pb::DeleteVersionResponse&) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  co_return co_await store_.DeleteVersion(context, request.bucket(), request.key(), request.version());
}

}  // namespace forebay::control
