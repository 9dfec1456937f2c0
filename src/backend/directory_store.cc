// SPDX-License-Identifier: Apache-2.0
#include "backend/directory_store.h"

#include <algorithm>
#include <utility>

#include "backend/directory_payload.h"
#include "store/cache_class.h"
#include "store/checks.h"
#include "store/conditions.h"
#include "store/operations.h"
#include "store/quota.h"
#include "store/replayed_writer.h"
#include "store/tenancy.h"

namespace forebay::backend {

using namespace store;  // NOLINT(google-build-using-namespace): this file says ObjectStore's words only

namespace {

Status NoVersions(std::string_view bucket) {
  return Status::Unimplemented("a directory keeps one version of each object, so bucket `{}` cannot keep versions: use snapshots "
                               "of the file system, or a bucket on the embedded engine", bucket);
}

}  // namespace

Result<std::unique_ptr<DirectoryStore>> DirectoryStore::Open(std::string root, const Environment& environment) {
  FB_ASSIGN(std::unique_ptr<Tree> tree, Tree::Open(std::move(root), environment.clock, environment.log));
  return std::unique_ptr<DirectoryStore>(new DirectoryStore(environment, std::move(tree)));
}

rt::Task<Status> DirectoryStore::CreateBucket(const Context& context, BucketInfo bucket) {
  FB_CO_TRY(CheckDeadline(context, "create bucket"));
  FB_CO_TRY(CheckNewBucket(context.tenant, &bucket));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = CreateBucketOperation(context, bucket, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->CreateBucket(operation, bucket); });
}

rt::Task<Status> DirectoryStore::UpdateBucket(const Context& context, std::string name, BucketSettings settings) {
  FB_CO_TRY(CheckDeadline(context, "update bucket"));
  FB_CO_TRY(CheckOperationId(context.operation));
  FB_CO_TRY((co_await rt::Offload(context.reactor, pool_, [&] { return tree_->GetBucket(context.tenant, name); })));
  if (settings.ttl && settings.ttl->count() != 0) {
    BucketInfo wanted{.name = name};
    wanted.ttl = *settings.ttl;
    FB_CO_TRY(CheckClass(wanted));
  }
  if (!settings.versioning) co_return Status();
  FB_CO_TRY(CheckVersioning(name, Versioning::kOff, *settings.versioning));
  co_return *settings.versioning == Versioning::kOff ? Status() : NoVersions(name);
}

rt::Task<Status> DirectoryStore::DeleteBucket(const Context& context, std::string name) {
  FB_CO_TRY(CheckDeadline(context, "delete bucket"));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = DeleteBucketOperation(context, name, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->DeleteBucket(operation, name); });
}

rt::Task<Result<BucketInfo>> DirectoryStore::GetBucket(const Context& context, std::string name) {
  FB_CO_TRY(CheckDeadline(context, "get bucket"));
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->GetBucket(context.tenant, name); });
}

rt::Task<Result<std::vector<BucketInfo>>> DirectoryStore::ListBuckets(const Context& context) {
  FB_CO_TRY(CheckDeadline(context, "list buckets"));
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->ListBuckets(context.tenant); });
}

rt::Task<Result<std::unique_ptr<ObjectWriter>>> DirectoryStore::Put(const Context& context, std::string bucket, std::string key,
                                                                    PutOptions options) {
  FB_CO_TRY(CheckDeadline(context, "put"));
  FB_CO_TRY(CheckPut(key, options));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = PutOperation(context, bucket, key, options, operation_time_ms());
  FB_CO_ASSIGN(std::optional<OperationRecord> earlier,
               (co_await rt::Offload(context.reactor, pool_, [&] { return tree_->BeginPut(operation, bucket, key, options); })));
  std::unique_ptr<ObjectWriter> writer = std::make_unique<Writer>(*this, operation, bucket, key, options, Writer::Target{});
  if (!earlier) co_return writer;
  co_return std::make_unique<ReplayedWriter>(std::move(writer), *std::move(earlier), operation, std::move(bucket), std::move(key),
                                             std::move(options));
}

rt::Task<Result<std::unique_ptr<ObjectWriter>>> DirectoryStore::Overwrite(const Context& context, std::string bucket,
                                                                          std::string key, OverwriteOptions options) {
  FB_CO_TRY(CheckDeadline(context, "overwrite"));
  FB_CO_TRY(CheckOverwrite(key, options));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = OverwriteOperation(context, bucket, key, options, operation_time_ms());
  FB_CO_ASSIGN(std::optional<OperationRecord> earlier, (co_await rt::Offload(context.reactor, pool_, [&] {
                 return tree_->BeginOverwrite(operation, bucket, key, options.condition);
               })));
  const PutOptions put{.size_bytes = options.size_bytes};
  std::unique_ptr<ObjectWriter> writer =
      std::make_unique<Writer>(*this, operation, bucket, key, put, Writer::Target{.overwrite = std::move(options), .part = {}});
  if (!earlier) co_return writer;
  co_return std::make_unique<ReplayedWriter>(std::move(writer), *std::move(earlier), operation, std::move(bucket), std::move(key),
                                             put);
}

rt::Task<Result<ObjectInfo>> DirectoryStore::Truncate(const Context& context, std::string bucket, std::string key,
                                                      uint64_t size_bytes, Condition condition) {
  FB_CO_TRY(CheckDeadline(context, "truncate"));
  FB_CO_TRY(CheckTruncate(key, size_bytes, condition));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = TruncateOperation(context, bucket, key, size_bytes, condition, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_,
                                 [&] { return tree_->Truncate(operation, bucket, key, size_bytes, condition); });
}

rt::Task<Status> DirectoryStore::SetAttributes(const Context& context, std::string bucket, std::string key, uint64_t version,
                                               AttributeChange change) {
  FB_CO_TRY(CheckDeadline(context, "set attributes"));
  FB_CO_TRY(CheckAttributes(key, change));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = SetAttributesOperation(context, bucket, key, version, change, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_,
                                 [&] { return tree_->SetAttributes(operation, bucket, key, version, change); });
}

rt::Task<Result<ObjectInfo>> DirectoryStore::Compose(const Context& context, std::string bucket, std::string key,
                                                     std::vector<Source> sources, PutOptions options) {
  FB_CO_TRY(CheckDeadline(context, "compose"));
  FB_CO_TRY(CheckPut(key, options));
  FB_CO_TRY(CheckSources(sources));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = ComposeOperation(context, bucket, key, sources, options, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->Compose(operation, bucket, key, sources, options); });
}

rt::Task<Status> DirectoryStore::Rename(const Context& context, std::string bucket, std::string from, std::string to,
                                        RenameOptions options) {
  FB_CO_TRY(CheckDeadline(context, "rename"));
  FB_CO_TRY(CheckRename(from, to, options));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = RenameOperation(context, bucket, from, to, options, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->Rename(operation, bucket, from, to, options); });
}

rt::Task<Result<uint64_t>> DirectoryStore::RenamePrefix(const Context& context, std::string bucket, std::string from,
                                                        std::string to) {
  FB_CO_TRY(CheckDeadline(context, "rename"));
  FB_CO_TRY(CheckRenamePrefix(from, to));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = RenamePrefixOperation(context, bucket, from, to, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->RenamePrefix(operation, bucket, from, to); });
}

rt::Task<Result<Tree::Opened>> DirectoryStore::OpenNow(const Context& context, std::string bucket, std::string key) {
  co_return co_await rt::Offload(context.reactor, pool_,
                                 [&] { return tree_->OpenObject(context.tenant, bucket, key, context.deadline); });
}

rt::Task<Result<std::unique_ptr<ObjectReader>>> DirectoryStore::Open(const Context& context, std::string bucket, std::string key,
                                                                     Condition condition) {
  FB_CO_TRY(CheckDeadline(context, "open"));
  FB_CO_ASSIGN(Tree::Opened opened, co_await OpenNow(context, bucket, key));
  FB_CO_TRY(CheckCondition(condition, opened.info.etag, bucket, key));
  co_return std::make_unique<Reader>(*this, std::move(bucket), std::move(opened));
}

rt::Task<Result<ObjectInfo>> DirectoryStore::Stat(const Context& context, std::string bucket, std::string key) {
  FB_CO_TRY(CheckDeadline(context, "stat"));
  FB_CO_ASSIGN(Tree::Opened opened, co_await OpenNow(context, std::move(bucket), std::move(key)));
  co_return std::move(opened.info);
}

rt::Task<Result<ListPage>> DirectoryStore::List(const Context& context, std::string bucket, ListOptions options) {
  FB_CO_TRY(CheckDeadline(context, "list"));
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->List(context.tenant, bucket, options); });
}

rt::Task<Status> DirectoryStore::Delete(const Context& context, std::string bucket, std::string key, Condition condition) {
  FB_CO_TRY(CheckDeadline(context, "delete"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = DeleteOperation(context, bucket, key, condition, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->Delete(operation, bucket, key, condition, 0); });
}

// There is one version of each object: the current one, which is its null version.

rt::Task<Result<std::unique_ptr<ObjectReader>>> DirectoryStore::OpenVersion(const Context& context, std::string bucket,
                                                                            std::string key, uint64_t version) {
  FB_CO_TRY(CheckDeadline(context, "open"));
  Result<Tree::Opened> opened = co_await OpenNow(context, bucket, key);
  const bool no_object = opened.status().code() == Code::kNotFound;
  if (no_object) FB_CO_TRY((co_await rt::Offload(context.reactor, pool_, [&] { return tree_->GetBucket(context.tenant, bucket); })));
  if (no_object || (opened.ok() && opened->info.version != version)) co_return NoSuchVersion(bucket, key, version);
  FB_CO_TRY(opened);
  co_return std::make_unique<Reader>(*this, std::move(bucket), *std::move(opened));
}

rt::Task<Result<VersionInfo>> DirectoryStore::StatVersion(const Context& context, std::string bucket, std::string key,
                                                          uint64_t version) {
  FB_CO_ASSIGN(const std::unique_ptr<ObjectReader> reader,
               co_await OpenVersion(context, std::move(bucket), std::move(key), version));
  co_return VersionInfo{.object = reader->info(), .latest = true, .delete_marker = false, .null_version = true};
}

rt::Task<Result<VersionPage>> DirectoryStore::ListVersions(const Context& context, std::string bucket,
                                                           VersionListOptions options) {
  FB_CO_TRY(CheckDeadline(context, "list versions"));
  FB_CO_TRY(CheckVersionList(options));
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->ListVersions(context.tenant, bucket, options); });
}

rt::Task<Status> DirectoryStore::DeleteVersion(const Context& context, std::string bucket, std::string key, uint64_t version) {
  FB_CO_TRY(CheckDeadline(context, "delete version"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_TRY(CheckOperationId(context.operation));
  if (version == 0) co_return NoSuchVersion(bucket, key, version);
  const Operation operation = DeleteVersionOperation(context, bucket, key, version, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->Delete(operation, bucket, key, {}, version); });
}

// Every bucket is durable, so there is nothing to keep.
rt::Task<Status> DirectoryStore::Pin(const Context& context, std::string bucket, std::string key,
                                     std::chrono::milliseconds time) {
  FB_CO_TRY(CheckDeadline(context, "pin"));
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_TRY(CheckPinTime(time));
  co_return co_await Unpin(context, std::move(bucket), std::move(key));
}

rt::Task<Status> DirectoryStore::Unpin(const Context& context, std::string bucket, std::string key) {
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_ASSIGN(const BucketInfo info, co_await GetBucket(context, std::move(bucket)));
  co_return CheckCanPin(info);
}

rt::Task<Result<UploadInfo>> DirectoryStore::CreateUpload(const Context& context, std::string bucket, std::string key,
                                                          UserMetadata metadata) {
  FB_CO_TRY(CheckDeadline(context, "begin upload"));
  FB_CO_TRY(CheckUpload(key, metadata));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = CreateUploadOperation(context, bucket, key, metadata, operation_time_ms());
  FB_CO_ASSIGN(const ObjectInfo begun, (co_await rt::Offload(context.reactor, pool_, [&] {
                 return tree_->CreateUpload(operation, bucket, key, metadata);
               })));
  co_return UploadInfo{.id = begun.version, .key = key, .created = begun.modified, .metadata = std::move(metadata)};
}

rt::Task<Result<std::unique_ptr<ObjectWriter>>> DirectoryStore::PutPart(const Context& context, UploadName upload, uint32_t number,
                                                                        PutOptions options) {
  FB_CO_TRY(CheckDeadline(context, "put part"));
  FB_CO_TRY(CheckPart(upload, number, options));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = PutPartOperation(context, upload, number, options, operation_time_ms());
  options.condition = {};
  options.metadata.clear();
  options.attributes.clear();
  FB_CO_ASSIGN(std::optional<OperationRecord> earlier,
               (co_await rt::Offload(context.reactor, pool_, [&] { return tree_->BeginPart(operation, upload); })));
  std::unique_ptr<ObjectWriter> writer =
      std::make_unique<Writer>(*this, operation, upload.bucket, upload.key, options,
                               Writer::Target{.overwrite = {}, .part = std::pair(upload, number)});
  if (!earlier) co_return writer;
  co_return std::make_unique<ReplayedWriter>(std::move(writer), *std::move(earlier), operation, upload.bucket, upload.key,
                                             std::move(options));
}

rt::Task<Result<ObjectInfo>> DirectoryStore::CopyPart(const Context& context, UploadName upload, uint32_t number, Source source) {
  FB_CO_TRY(CheckDeadline(context, "copy part"));
  FB_CO_TRY(CheckPart(upload, number, {}));
  FB_CO_TRY(CheckSources({source}));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = CopyPartOperation(context, upload, number, source, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->CopyPart(operation, upload, number, source); });
}

rt::Task<Result<PartPage>> DirectoryStore::ListParts(const Context& context, UploadName upload, uint32_t start_after,
                                                     uint32_t limit) {
  FB_CO_TRY(CheckDeadline(context, "list parts"));
  FB_CO_TRY(CheckPageLimit(limit));
  co_return co_await rt::Offload(context.reactor, pool_,
                                 [&] { return tree_->ListParts(context.tenant, upload, start_after, limit); });
}

rt::Task<Result<UploadPage>> DirectoryStore::ListUploads(const Context& context, std::string bucket, UploadListOptions options) {
  FB_CO_TRY(CheckDeadline(context, "list uploads"));
  FB_CO_TRY(CheckUploadList(options));
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->ListUploads(context.tenant, bucket, options); });
}

rt::Task<Result<ObjectInfo>> DirectoryStore::CompleteUpload(const Context& context, UploadName upload, std::vector<PartRef> parts,
                                                            CompleteOptions options) {
  FB_CO_TRY(CheckDeadline(context, "complete upload"));
  FB_CO_TRY(CheckComplete(upload, parts, options));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = CompleteUploadOperation(context, upload, parts, options, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->CompleteUpload(operation, upload, parts, options); });
}

rt::Task<Status> DirectoryStore::AbortUpload(const Context& context, UploadName upload) {
  FB_CO_TRY(CheckDeadline(context, "abort upload"));
  FB_CO_TRY(CheckUpload(upload.key, {}));
  FB_CO_TRY(CheckOperationId(context.operation));
  const Operation operation = AbortUploadOperation(context, upload, operation_time_ms());
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->AbortUpload(operation, upload); });
}

rt::Task<Status> DirectoryStore::SetQuota(const Context& context, TenantId tenant, Quota quota) {
  FB_CO_TRY(CheckDeadline(context, "set quota"));
  FB_CO_TRY(CheckSetQuota(context, tenant, quota));
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->accounts().SetQuota(tenant, quota); });
}

rt::Task<Result<TenantUsage>> DirectoryStore::GetTenantUsage(const Context& context, TenantId tenant) {
  FB_CO_TRY(CheckDeadline(context, "get tenant usage"));
  FB_CO_TRY(CheckMayAskUsage(context, tenant));
  co_return tree_->accounts().Of(tenant);
}

rt::Task<Result<StoreSpace>> DirectoryStore::GetSpace(const Context& context) {
  FB_CO_TRY(CheckDeadline(context, "get space"));
  co_return co_await rt::Offload(context.reactor, pool_, [&] { return tree_->Space(); });
}

void DirectoryStore::Drop(std::shared_ptr<void> what) {
  // When the queue is full, here and now.
  (void)pool_.Submit([kept = std::move(what)]() mutable { kept.reset(); });
}

}  // namespace forebay::backend
