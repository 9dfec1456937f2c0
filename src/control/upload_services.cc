// SPDX-License-Identifier: Apache-2.0
#include "control/upload_services.h"

#include <functional>
#include <utility>

#include "control/convert.h"

namespace forebay::control {
namespace {

/// The upload that a request names.
template <typename Request>
store::UploadName NameOf(const Request& request) {
  return {.bucket = request.bucket(), .key = request.key(), .id = request.upload()};
}

}  // namespace

void UploadServices::AddTo(MethodTable* table) {
  const auto add = [&]<typename Request, typename Response>(
                       MethodName name, rt::Task<Status> (UploadServices::*handler)(
                                            const Caller&, store::Context&, const Request&, Response&)) {
    AddMethod<Request, Response>(table, name, std::bind_front(handler, this));
  };
  add("/forebay.control.v1.Uploads/Create", &UploadServices::Create);
  add("/forebay.control.v1.Uploads/CopyPart", &UploadServices::CopyPart);
  add("/forebay.control.v1.Uploads/ListParts", &UploadServices::ListParts);
  add("/forebay.control.v1.Uploads/List", &UploadServices::List);
  add("/forebay.control.v1.Uploads/Complete", &UploadServices::Complete);
  add("/forebay.control.v1.Uploads/Abort", &UploadServices::Abort);
}

rt::Task<Status> UploadServices::Create(const Caller&, store::Context& context,
                                        const pb::CreateUploadRequest& request, pb::CreateUploadResponse& response) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  FB_CO_ASSIGN(store::UploadInfo upload,
               co_await store_.CreateUpload(context, request.bucket(), request.key(),
                                            {request.metadata().begin(), request.metadata().end()}));
  ToMessage(std::move(upload), response.mutable_upload());
  co_return Status();
}

rt::Task<Status> UploadServices::CopyPart(const Caller&, store::Context& context, const pb::CopyPartRequest& request,
                                          pb::CopyPartResponse& response) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  FB_CO_ASSIGN(store::ObjectInfo part, co_await store_.CopyPart(context, NameOf(request), request.number(),
                                                                FromMessage(request.source())));
  ToMessage(std::move(part), response.mutable_part());
  co_return Status();
}

rt::Task<Status> UploadServices::ListParts(const Caller&, store::Context& context,
                                           const pb::ListPartsRequest& request, pb::ListPartsResponse& response) {
  FB_CO_ASSIGN(const uint32_t limit, PageLimit(request.limit()));
  FB_CO_ASSIGN(store::PartPage page,
               co_await store_.ListParts(context, NameOf(request), request.start_after(), limit));
  for (store::PartInfo& part : page.parts) ToMessage(std::move(part), response.add_parts());
  response.set_truncated(page.truncated);
  co_return Status();
}

rt::Task<Status> UploadServices::List(const Caller&, store::Context& context, const pb::ListUploadsRequest& request,
                                      pb::ListUploadsResponse& response) {
  FB_CO_ASSIGN(const uint32_t limit, PageLimit(request.limit()));
  FB_CO_ASSIGN(store::UploadPage page, co_await store_.ListUploads(context, request.bucket(),
                                                                   {.prefix = request.prefix(),
                                                                    .after_key = request.after_key(),
                                                                    .after_id = request.after_upload(),
                                                                    .limit = limit}));
  for (store::UploadInfo& upload : page.uploads) ToMessage(std::move(upload), response.add_uploads());
  response.set_truncated(page.truncated);
  co_return Status();
}

rt::Task<Status> UploadServices::Complete(const Caller&, store::Context& context,
                                          const pb::CompleteUploadRequest& request,
                                          pb::CompleteUploadResponse& response) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  store::CompleteOptions options{.etag = request.etag()};
  FB_CO_ASSIGN(options.condition, ConditionFrom(request.if_match(), request.if_absent()));
  if (request.has_crc32c()) options.crc32c = request.crc32c();
  std::vector<store::PartRef> parts;
  parts.reserve(static_cast<size_t>(request.parts_size()));
  for (const pb::PartRef& part : request.parts()) parts.push_back({.number = part.number(), .etag = part.etag()});
  FB_CO_ASSIGN(store::ObjectInfo object,
               co_await store_.CompleteUpload(context, NameOf(request), std::move(parts), std::move(options)));
  ToMessage(std::move(object), response.mutable_object());
  co_return Status();
}

rt::Task<Status> UploadServices::Abort(const Caller&, store::Context& context, const pb::AbortUploadRequest& request,
                                       pb::AbortUploadResponse&) {
  FB_CO_ASSIGN(context.operation, OperationFrom(request.operation_id()));
  co_return co_await store_.AbortUpload(context, NameOf(request));
}

}  // namespace forebay::control
