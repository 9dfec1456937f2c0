// SPDX-License-Identifier: Apache-2.0
// The calls about objects, their versions, and uploads.
#include "control/client_impl.h"

namespace forebay::control {

Result<store::ListPage> ControlClient::List(const std::string& bucket, const store::ListOptions& options,
                                            base::Duration timeout) {
  pb::ListObjectsRequest request;
  request.set_bucket(bucket);
  request.set_prefix(options.prefix);
  request.set_delimiter(options.delimiter);
  request.set_start_after(options.start_after);
  request.set_limit(options.limit);
  pb::ListObjectsResponse response;
  FB_TRY(
      impl_->Call("Namespace/List", impl_->objects, &pb::Namespace::Stub::List, request, &response, timeout));
  store::ListPage page{.truncated = response.truncated(), .next_start_after = response.next_start_after()};
  for (pb::Object& object : *response.mutable_objects())
    page.objects.push_back(FromMessage(std::move(object)));
  page.common_prefixes.assign(response.common_prefixes().begin(), response.common_prefixes().end());
  return page;
}

Result<store::ObjectInfo> ControlClient::Stat(const std::string& bucket, const std::string& key,
                                              base::Duration timeout) {
  pb::StatObjectRequest request;
  request.set_bucket(bucket);
  request.set_key(key);
  pb::StatObjectResponse response;
  FB_TRY(
      impl_->Call("Namespace/Stat", impl_->objects, &pb::Namespace::Stub::Stat, request, &response, timeout));
  return FromMessage(std::move(*response.mutable_object()));
}

Status ControlClient::Delete(const std::string& bucket, const std::string& key, const std::string& if_match,
                             const OperationId& operation, base::Duration timeout) {
  pb::DeleteObjectRequest request;
  request.set_bucket(bucket);
  request.set_key(key);
  request.set_if_match(if_match);
  request.set_operation_id(ToBytes(operation));
  pb::DeleteObjectResponse response;
  return impl_->Call("Namespace/Delete", impl_->objects, &pb::Namespace::Stub::Delete, request, &response,
                     timeout);
}

Result<store::ObjectInfo> ControlClient::Compose(const std::string& bucket, const std::string& key,
                                                 const std::vector<store::Source>& sources,
                                                 const store::PutOptions& options, const OperationId& operation,
                                                 base::Duration timeout) {
  pb::ComposeObjectRequest request;
  request.set_bucket(bucket);
  request.set_key(key);
  for (const store::Source& source : sources) ToMessage(source, request.add_sources());
  request.set_if_match(options.condition.etag);
  request.set_if_absent(options.condition.kind == store::Condition::Kind::kIfAbsent);
  request.mutable_metadata()->insert(options.metadata.begin(), options.metadata.end());
  request.mutable_attributes()->insert(options.attributes.begin(), options.attributes.end());
  request.set_etag(options.etag);
  if (options.size_bytes) request.set_size_bytes(*options.size_bytes);
  request.set_operation_id(ToBytes(operation));
  pb::ComposeObjectResponse response;
  FB_TRY(impl_->Call("Namespace/Compose", impl_->objects, &pb::Namespace::Stub::Compose, request, &response,
                     timeout));
  return FromMessage(std::move(*response.mutable_object()));
}

Status ControlClient::Rename(const std::string& bucket, const std::string& from, const std::string& to,
                             const store::RenameOptions& options, const OperationId& operation,
                             base::Duration timeout) {
  pb::RenameObjectRequest request;
  request.set_bucket(bucket);
  request.set_from(from);
  request.set_to(to);
  request.set_if_match(options.source.etag);
  request.set_if_absent(options.target.kind == store::Condition::Kind::kIfAbsent);
  request.set_to_if_match(options.target.etag);
  request.set_operation_id(ToBytes(operation));
  pb::RenameObjectResponse response;
  return impl_->Call("Namespace/Rename", impl_->objects, &pb::Namespace::Stub::Rename, request, &response,
                     timeout);
}

Result<uint64_t> ControlClient::RenamePrefix(const std::string& bucket, const std::string& from,
                                             const std::string& to, const OperationId& operation,
                                             base::Duration timeout) {
  pb::RenamePrefixRequest request;
  request.set_bucket(bucket);
  request.set_from(from);
  request.set_to(to);
  request.set_operation_id(ToBytes(operation));
  pb::RenamePrefixResponse response;
  FB_TRY(impl_->Call("Namespace/RenamePrefix", impl_->objects, &pb::Namespace::Stub::RenamePrefix, request,
                     &response, timeout));
  return response.renamed();
}

Result<store::ObjectInfo> ControlClient::Truncate(const std::string& bucket, const std::string& key,
                                                  uint64_t size_bytes, const std::string& if_match,
                                                  const OperationId& operation, base::Duration timeout) {
  pb::TruncateObjectRequest request;
  request.set_bucket(bucket);
  request.set_key(key);
  request.set_size_bytes(size_bytes);
  request.set_if_match(if_match);
  request.set_operation_id(ToBytes(operation));
  pb::TruncateObjectResponse response;
  FB_TRY(impl_->Call("Namespace/Truncate", impl_->objects, &pb::Namespace::Stub::Truncate, request, &response,
                     timeout));
  return FromMessage(std::move(*response.mutable_object()));
}

Status ControlClient::SetAttributes(const std::string& bucket, const std::string& key, uint64_t version,
                                    const store::AttributeChange& change, const OperationId& operation,
                                    base::Duration timeout) {
  pb::SetAttributesRequest request;
  request.set_bucket(bucket);
  request.set_key(key);
  request.set_version(version);
  request.set_if_match(change.condition.etag);
  request.mutable_remove()->Assign(change.remove.begin(), change.remove.end());
  request.mutable_set()->insert(change.set.begin(), change.set.end());
  request.set_operation_id(ToBytes(operation));
  pb::SetAttributesResponse response;
  return impl_->Call("Namespace/SetAttributes", impl_->objects, &pb::Namespace::Stub::SetAttributes, request,
                     &response, timeout);
}

Result<store::VersionPage> ControlClient::ListVersions(const std::string& bucket,
                                                       const store::VersionListOptions& options,
                                                       base::Duration timeout) {
  pb::ListVersionsRequest request;
  request.set_bucket(bucket);
  request.set_prefix(options.prefix);
  request.set_after_key(options.after_key);
  request.set_after_version(options.after_version);
  request.set_limit(options.limit);
  pb::ListVersionsResponse response;
  FB_TRY(impl_->Call("Namespace/ListVersions", impl_->objects, &pb::Namespace::Stub::ListVersions, request,
                     &response, timeout));
  store::VersionPage page{.truncated = response.truncated()};
  for (pb::ObjectVersion& version : *response.mutable_versions())
    page.versions.push_back(FromMessage(std::move(version)));
  return page;
}

Result<store::VersionInfo> ControlClient::StatVersion(const std::string& bucket, const std::string& key,
                                                      uint64_t version, base::Duration timeout) {
  pb::StatVersionRequest request;
  request.set_bucket(bucket);
  request.set_key(key);
  request.set_version(version);
  pb::StatVersionResponse response;
  FB_TRY(impl_->Call("Namespace/StatVersion", impl_->objects, &pb::Namespace::Stub::StatVersion, request, &response,
                     timeout));
  return FromMessage(std::move(*response.mutable_version()));
}

Status ControlClient::Pin(const std::string& bucket, const std::string& key, std::chrono::milliseconds time,
                          base::Duration timeout) {
  pb::PinRequest request;
  request.set_bucket(bucket);
  request.set_key(key);
  request.set_time_ms(static_cast<uint64_t>(std::max<int64_t>(time.count(), 0)));
  pb::PinResponse response;
  return impl_->Call("Namespace/Pin", impl_->objects, &pb::Namespace::Stub::Pin, request, &response, timeout);
}

Status ControlClient::DeleteVersion(const std::string& bucket, const std::string& key, uint64_t version,
                                    const OperationId& operation, base::Duration timeout) {
  pb::DeleteVersionRequest request;
  request.set_bucket(bucket);
  request.set_key(key);
  request.set_version(version);
  request.set_operation_id(ToBytes(operation));
  pb::DeleteVersionResponse response;
  return impl_->Call("Namespace/DeleteVersion", impl_->objects, &pb::Namespace::Stub::DeleteVersion, request,
                     &response, timeout);
}

namespace {

template <typename Request>
Request RequestAbout(const store::UploadName& upload) {
  Request request;
  request.set_bucket(upload.bucket);
  request.set_key(upload.key);
  request.set_upload(upload.id);
  return request;
}

}  // namespace

Result<store::UploadInfo> ControlClient::CreateUpload(const std::string& bucket, const std::string& key,
                                                      const store::UserMetadata& metadata,
                                                      const OperationId& operation, base::Duration timeout) {
  pb::CreateUploadRequest request;
  request.set_bucket(bucket);
  request.set_key(key);
  request.mutable_metadata()->insert(metadata.begin(), metadata.end());
  request.set_operation_id(ToBytes(operation));
  pb::CreateUploadResponse response;
  FB_TRY(impl_->Call("Uploads/Create", impl_->uploads, &pb::Uploads::Stub::Create, request, &response, timeout));
  return FromMessage(std::move(*response.mutable_upload()));
}

Result<store::ObjectInfo> ControlClient::CopyPart(const store::UploadName& upload, uint32_t number,
                                                  const store::Source& source, const OperationId& operation,
                                                  base::Duration timeout) {
  auto request = RequestAbout<pb::CopyPartRequest>(upload);
  request.set_number(number);
  ToMessage(source, request.mutable_source());
  request.set_operation_id(ToBytes(operation));
  pb::CopyPartResponse response;
  FB_TRY(impl_->Call("Uploads/CopyPart", impl_->uploads, &pb::Uploads::Stub::CopyPart, request, &response, timeout));
  return FromMessage(std::move(*response.mutable_part()));
}

Result<store::PartPage> ControlClient::ListParts(const store::UploadName& upload, uint32_t start_after,
                                                 uint32_t limit, base::Duration timeout) {
  auto request = RequestAbout<pb::ListPartsRequest>(upload);
  request.set_start_after(start_after);
  request.set_limit(limit);
  pb::ListPartsResponse response;
  FB_TRY(
      impl_->Call("Uploads/ListParts", impl_->uploads, &pb::Uploads::Stub::ListParts, request, &response, timeout));
  store::PartPage page{.truncated = response.truncated()};
  for (pb::Part& part : *response.mutable_parts()) page.parts.push_back(FromMessage(std::move(part)));
  return page;
}

Result<store::UploadPage> ControlClient::ListUploads(const std::string& bucket,
                                                     const store::UploadListOptions& options,
                                                     base::Duration timeout) {
  pb::ListUploadsRequest request;
  request.set_bucket(bucket);
  request.set_prefix(options.prefix);
  request.set_after_key(options.after_key);
  request.set_after_upload(options.after_id);
  request.set_limit(options.limit);
  pb::ListUploadsResponse response;
  FB_TRY(impl_->Call("Uploads/List", impl_->uploads, &pb::Uploads::Stub::List, request, &response, timeout));
  store::UploadPage page{.truncated = response.truncated()};
  for (pb::Upload& upload : *response.mutable_uploads()) page.uploads.push_back(FromMessage(std::move(upload)));
  return page;
}

Result<store::ObjectInfo> ControlClient::CompleteUpload(const store::UploadName& upload,
                                                        const std::vector<store::PartRef>& parts,
                                                        const store::CompleteOptions& options,
                                                        const OperationId& operation, base::Duration timeout) {
  auto request = RequestAbout<pb::CompleteUploadRequest>(upload);
  for (const store::PartRef& part : parts) {
    pb::PartRef& added = *request.add_parts();
    added.set_number(part.number);
    added.set_etag(part.etag);
  }
  request.set_if_match(options.condition.etag);
  request.set_if_absent(options.condition.kind == store::Condition::Kind::kIfAbsent);
  request.set_etag(options.etag);
  if (options.crc32c) request.set_crc32c(*options.crc32c);
  request.set_operation_id(ToBytes(operation));
  pb::CompleteUploadResponse response;
  FB_TRY(impl_->Call("Uploads/Complete", impl_->uploads, &pb::Uploads::Stub::Complete, request, &response, timeout));
  return FromMessage(std::move(*response.mutable_object()));
}

Status ControlClient::AbortUpload(const store::UploadName& upload, const OperationId& operation,
                                  base::Duration timeout) {
  auto request = RequestAbout<pb::AbortUploadRequest>(upload);
  request.set_operation_id(ToBytes(operation));
  pb::AbortUploadResponse response;
  return impl_->Call("Uploads/Abort", impl_->uploads, &pb::Uploads::Stub::Abort, request, &response, timeout);
}

}  // namespace forebay::control
