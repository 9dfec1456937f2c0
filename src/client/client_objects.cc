// SPDX-License-Identifier: Apache-2.0
// The installed API's calls about sizes, attributes, versions and uploads: control plane, on the caller's thread.
#include <string>
#include <utility>
#include <vector>

#include "client/core.h"
#include "client/public_types.h"

namespace forebay {
namespace {

store::UploadName NameOf(const UploadName& upload) { return {upload.bucket, upload.key, upload.id}; }

store::Condition IfMatch(const std::string& etag) {
  return etag.empty() ? store::Condition::None() : store::Condition::IfMatch(etag);
}

/// What the caller sees of a page or an object.
template <typename T>
auto Public(const Client::Core& core, Result<T> result) -> std::expected<decltype(client::ToPublic(*std::move(result))), Error> {
  if (!result.ok()) return std::unexpected(core.ErrorOf(result.status()));
  return client::ToPublic(*std::move(result));
}

}  // namespace

std::expected<ObjectInfo, Error> Client::Truncate(std::string_view bucket, std::string_view key, uint64_t size,
                                                  const TruncateOptions& options) {
  const OperationId id = core_->ids().New();
  return Public(*core_, core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().Truncate(std::string(bucket), std::string(key), size, options.if_match, id, left);
  }));
}

std::expected<void, Error> Client::SetAttributes(std::string_view bucket, std::string_view key,
                                                 const AttributeChange& change) {
  const OperationId id = core_->ids().New();
  const store::AttributeChange ask{
      .condition = IfMatch(change.if_match), .set = change.set, .remove = change.remove};
  return core_->Expected(core_->Ask(change.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().SetAttributes(std::string(bucket), std::string(key), change.version, ask, id, left);
  }));
}

// ---- versions ----

std::expected<VersionInfo, Error> Client::StatVersion(std::string_view bucket, std::string_view key, uint64_t version,
                                                      const CallOptions& options) {
  return Public(*core_, core_->Ask(options.timeout, true, [&](base::Duration left) {
    return core_->control().StatVersion(std::string(bucket), std::string(key), version, left);
  }));
}

std::expected<VersionPage, Error> Client::ListVersions(std::string_view bucket, const VersionListOptions& options) {
  const store::VersionListOptions ask{.prefix = options.prefix,
                                      .after_key = options.after_key,
                                      .after_version = options.after_version,
                                      .limit = options.limit};
  auto page = core_->Ask(options.timeout, true, [&](base::Duration left) {
    return core_->control().ListVersions(std::string(bucket), ask, left);
  });
  if (!page.ok()) return std::unexpected(core_->ErrorOf(page.status()));
  VersionPage result{.truncated = page->truncated};
  for (store::VersionInfo& version : page->versions) result.versions.push_back(client::ToPublic(std::move(version)));
  return result;
}

std::expected<void, Error> Client::RemoveVersion(std::string_view bucket, std::string_view key, uint64_t version,
                                                 const CallOptions& options) {
  const OperationId id = core_->ids().New();
  return core_->Expected(core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().DeleteVersion(std::string(bucket), std::string(key), version, id, left);
  }));
}

// ---- uploads ----

std::expected<UploadInfo, Error> Client::CreateUpload(std::string_view bucket, std::string_view key,
                                                      const std::map<std::string, std::string>& metadata,
                                                      const CallOptions& options) {
  const OperationId id = core_->ids().New();
  return Public(*core_, core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().CreateUpload(std::string(bucket), std::string(key), metadata, id, left);
  }));
}

std::expected<PutResult, Error> Client::CopyPart(const UploadName& upload, uint32_t number, const Source& source,
                                                 const CallOptions& options) {
  const OperationId id = core_->ids().New();
  store::Source from{.bucket = source.bucket,
                     .key = source.key,
                     .condition = IfMatch(source.if_match),
                     .offset = source.offset};
  if (source.length != UINT64_MAX) from.length = source.length;
  auto part = core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().CopyPart(NameOf(upload), number, from, id, left);
  });
  if (!part.ok()) return std::unexpected(core_->ErrorOf(part.status()));
  return PutResult{.size = part->size_bytes,
                   .version = part->version,
                   .etag = std::move(part->etag),
                   .crc32c = part->crc32c};
}

std::expected<PartPage, Error> Client::ListParts(const UploadName& upload, uint32_t start_after,
                                                 const CallOptions& options) {
  auto page = core_->Ask(options.timeout, true, [&](base::Duration left) {
    return core_->control().ListParts(NameOf(upload), start_after, 0, left);
  });
  if (!page.ok()) return std::unexpected(core_->ErrorOf(page.status()));
  PartPage result{.truncated = page->truncated};
  for (store::PartInfo& part : page->parts) result.parts.push_back(client::ToPublic(std::move(part)));
  return result;
}

std::expected<UploadPage, Error> Client::ListUploads(std::string_view bucket, const UploadListOptions& options) {
  const store::UploadListOptions ask{.prefix = options.prefix,
                                     .after_key = options.after_key,
                                     .after_id = options.after_id,
                                     .limit = options.limit};
  auto page = core_->Ask(options.timeout, true, [&](base::Duration left) {
    return core_->control().ListUploads(std::string(bucket), ask, left);
  });
  if (!page.ok()) return std::unexpected(core_->ErrorOf(page.status()));
  UploadPage result{.truncated = page->truncated};
  for (store::UploadInfo& upload : page->uploads) result.uploads.push_back(client::ToPublic(std::move(upload)));
  return result;
}

std::expected<ObjectInfo, Error> Client::CompleteUpload(const UploadName& upload, std::span<const PartRef> parts,
                                                        const CompleteOptions& options) {
  if (options.if_absent && !options.if_match.empty())
    return std::unexpected(Error{Code::kInvalidArgument, "an object cannot be absent and have an etag"});
  const OperationId id = core_->ids().New();
  store::CompleteOptions ask{.condition = IfMatch(options.if_match), .crc32c = options.crc32c};
  if (options.if_absent) ask.condition = store::Condition::IfAbsent();
  std::vector<store::PartRef> named;
  named.reserve(parts.size());
  for (const PartRef& part : parts) named.push_back({.number = part.number, .etag = part.etag});
  return Public(*core_, core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().CompleteUpload(NameOf(upload), named, ask, id, left);
  }));
}

std::expected<void, Error> Client::AbortUpload(const UploadName& upload, const CallOptions& options) {
  const OperationId id = core_->ids().New();
  return core_->Expected(core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().AbortUpload(NameOf(upload), id, left);
  }));
}

}  // namespace forebay
