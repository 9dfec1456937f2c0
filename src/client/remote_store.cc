// SPDX-License-Identifier: Apache-2.0
// What can be refused without the server is refused here, in the words of every backend (store/checks.h).
#include "client/remote_store.h"

#include <utility>

#include "client/object_requests.h"
#include "client/remote_objects.h"
#include "store/cache_class.h"
#include "store/checks.h"
#include "store/conditions.h"
#include "store/tenancy.h"

namespace forebay::client {
namespace {

/// Which version is asked for when a condition names one; an object that is to be absent is looked at all the same.
std::string_view IfMatchOf(const store::Condition& condition) {
  return condition.kind == store::Condition::Kind::kIfMatch ? std::string_view(condition.etag) : std::string_view();
}

}  // namespace

Result<std::unique_ptr<RemoteStore>> RemoteStore::Open(const ClientOptions& options, TenantId tenant,
                                                       base::Arena& arena) {
  FB_ASSIGN(std::unique_ptr<RemoteLink> link, RemoteLink::Open(options, tenant));
  return std::unique_ptr<RemoteStore>(new RemoteStore(std::move(link), arena));
}

RemoteStore::~RemoteStore() = default;

template <typename Call>
auto RemoteStore::Change(const store::Context& context, std::string_view what, Call call) {
  return link_->Ask(context, what, !context.operation.IsNone(), std::move(call));
}

template <typename Call>
auto RemoteStore::Question(const store::Context& context, std::string_view what, Call call) {
  return link_->Ask(context, what, true, std::move(call));
}

template <typename Begin>
rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> RemoteStore::OpenWriter(const store::Context& context,
                                                                               std::string_view what, std::string key,
                                                                               Begin begin) {
  const auto open = std::make_shared<OpenStream>(context.reactor);
  FB_CO_ASSIGN(open->stream,
               co_await link_->Data(context, what, true,
                                    [&](DataSession& session, base::TimePoint deadline) -> rt::Task<Result<Stream>> {
                                      FB_CO_ASSIGN(rt::Gate::Holder hold, session.Hold());
                                      FB_CO_ASSIGN(rt::Units place, co_await session.StreamPlace(deadline));
                                      FB_CO_ASSIGN(const Stream stream, co_await begin(session, deadline));
                                      open->session = &session;
                                      open->hold = std::move(hold);
                                      open->place = std::move(place);
                                      co_return stream;
                                    }));
  co_return std::make_unique<RemoteWriter>(*link_, arena_, std::move(key), open);
}

// ---- buckets ----

rt::Task<Status> RemoteStore::CreateBucket(const store::Context& context, store::BucketInfo bucket) {
  FB_CO_TRY(link_->Admit(context, "bucket create"));
  FB_CO_TRY(store::CheckNewBucket(context.tenant, &bucket));
  const std::string owner =
      bucket.owner == context.tenant ? std::string() : std::to_string(static_cast<uint64_t>(bucket.owner));
  co_return co_await Change(context, "bucket create", [&](base::Duration left) {
    return link_->control().CreateBucket(bucket.name, bucket.bucket_class, context.operation, left, owner,
                                         bucket.versioning, bucket.ttl);
  });
}

rt::Task<Status> RemoteStore::UpdateBucket(const store::Context& context, std::string name,
                                           store::BucketSettings settings) {
  co_return co_await Change(context, "bucket update", [&](base::Duration left) {
    return link_->control().UpdateBucket(name, settings, context.operation, left);
  });
}

rt::Task<Status> RemoteStore::DeleteBucket(const store::Context& context, std::string name) {
  co_return co_await Change(context, "bucket delete", [&](base::Duration left) {
    return link_->control().DeleteBucket(name, context.operation, left);
  });
}

rt::Task<Result<store::BucketInfo>> RemoteStore::GetBucket(const store::Context& context, std::string name) {
  FB_CO_ASSIGN(store::BucketInfo bucket,
               co_await Question(context, "bucket stat",
                                 [&](base::Duration left) { return link_->control().GetBucket(name, left); }));
  bucket.owner = link_->tenant();  // the numbers of the other server's tenants mean nothing here
  co_return bucket;
}

rt::Task<Result<std::vector<store::BucketInfo>>> RemoteStore::ListBuckets(const store::Context& context) {
  std::vector<store::BucketInfo> all;
  for (bool more = true; more;) {
    const std::string last = all.empty() ? std::string() : all.back().name;
    FB_CO_ASSIGN(control::BucketPage page, co_await Question(context, "list of buckets", [&](base::Duration left) {
                   return link_->control().ListBuckets(last, 0, left);
                 }));
    more = page.truncated && !page.buckets.empty();
    for (store::BucketInfo& bucket : page.buckets) bucket.owner = link_->tenant();
    std::ranges::move(page.buckets, std::back_inserter(all));
  }
  co_return all;
}

// ---- objects ----

rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> RemoteStore::Put(const store::Context& context,
                                                                        std::string bucket, std::string key,
                                                                        store::PutOptions options) {
  FB_CO_TRY(store::CheckPut(key, options));
  co_return co_await OpenWriter(context, "put", key, [&](DataSession& session, base::TimePoint deadline) {
    return BeginPut(session, {bucket, key}, options, context.operation, deadline);
  });
}

rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> RemoteStore::Overwrite(const store::Context& context,
                                                                              std::string bucket, std::string key,
                                                                              store::OverwriteOptions options) {
  FB_CO_TRY(store::CheckOverwrite(key, options));
  co_return co_await OpenWriter(context, "overwrite", key, [&](DataSession& session, base::TimePoint deadline) {
    return BeginOverwrite(session, {bucket, key}, options, context.operation, deadline);
  });
}

rt::Task<Result<store::ObjectInfo>> RemoteStore::Truncate(const store::Context& context, std::string bucket,
                                                          std::string key, uint64_t size_bytes,
                                                          store::Condition condition) {
  FB_CO_TRY(store::CheckTruncate(key, size_bytes, condition));
  co_return co_await Change(context, "truncate", [&](base::Duration left) {
    return link_->control().Truncate(bucket, key, size_bytes, condition.etag, context.operation, left);
  });
}

rt::Task<Status> RemoteStore::SetAttributes(const store::Context& context, std::string bucket, std::string key,
                                            uint64_t version, store::AttributeChange change) {
  FB_CO_TRY(store::CheckAttributes(key, change));
  co_return co_await Change(context, "change of attributes", [&](base::Duration left) {
    return link_->control().SetAttributes(bucket, key, version, change, context.operation, left);
  });
}

rt::Task<Result<store::ObjectInfo>> RemoteStore::Compose(const store::Context& context, std::string bucket,
                                                         std::string key, std::vector<store::Source> sources,
                                                         store::PutOptions options) {
  FB_CO_TRY(store::CheckPut(key, options));
  FB_CO_TRY(store::CheckSources(sources));
  co_return co_await Change(context, "compose", [&](base::Duration left) {
    return link_->control().Compose(bucket, key, sources, options, context.operation, left);
  });
}

rt::Task<Status> RemoteStore::Rename(const store::Context& context, std::string bucket, std::string from,
                                     std::string to, store::RenameOptions options) {
  FB_CO_TRY(store::CheckRename(from, to, options));
  co_return co_await Change(context, "rename", [&](base::Duration left) {
    return link_->control().Rename(bucket, from, to, options, context.operation, left);
  });
}

rt::Task<Result<uint64_t>> RemoteStore::RenamePrefix(const store::Context& context, std::string bucket,
                                                     std::string from, std::string to) {
  FB_CO_TRY(store::CheckRenamePrefix(from, to));
  co_return co_await Change(context, "rename", [&](base::Duration left) {
    return link_->control().RenamePrefix(bucket, from, to, context.operation, left);
  });
}

rt::Task<Result<std::unique_ptr<store::ObjectReader>>> RemoteStore::OpenReader(const store::Context& context,
                                                                               std::string bucket, std::string key,
                                                                               uint64_t version,
                                                                               std::string_view if_match) {
  const auto held = std::make_shared<HeldObject>();
  FB_CO_ASSIGN(held->opened,
               co_await link_->Data(context, "open", true,
                                    [&](DataSession& session, base::TimePoint deadline) -> rt::Task<Result<OpenedObject>> {
                                      FB_CO_ASSIGN(rt::Gate::Holder hold, session.Hold());
                                      FB_CO_ASSIGN(OpenedObject opened,
                                                   co_await OpenObject(session, {bucket, key, version, if_match}, deadline));
                                      held->session = &session;
                                      held->hold = std::move(hold);
                                      co_return opened;
                                    }));
  co_return std::make_unique<RemoteReader>(*link_, arena_, std::move(bucket), held);
}

rt::Task<Result<std::unique_ptr<store::ObjectReader>>> RemoteStore::Open(const store::Context& context,
                                                                         std::string bucket, std::string key,
                                                                         store::Condition condition) {
  FB_CO_ASSIGN(auto reader, co_await OpenReader(context, bucket, key, 0, IfMatchOf(condition)));
  FB_CO_TRY(store::CheckCondition(condition, reader->info().etag, bucket, key));
  co_return reader;
}

rt::Task<Result<store::ObjectInfo>> RemoteStore::Stat(const store::Context& context, std::string bucket,
                                                      std::string key) {
  co_return co_await link_->Data(context, "stat", true, [&](DataSession& session, base::TimePoint deadline) {
    return StatObject(session, {bucket, key}, deadline);
  });
}

rt::Task<Result<store::ListPage>> RemoteStore::List(const store::Context& context, std::string bucket,
                                                    store::ListOptions options) {
  FB_CO_TRY(store::CheckListOptions(options));
  co_return co_await Question(context, "list", [&](base::Duration left) {
    return link_->control().List(bucket, options, left);
  });
}

rt::Task<Status> RemoteStore::Delete(const store::Context& context, std::string bucket, std::string key,
                                     store::Condition condition) {
  FB_CO_TRY(base::CheckKey(key));
  if (condition.kind == store::Condition::Kind::kIfAbsent) {  // there is nothing to delete, or it is in the way
    FB_CO_ASSIGN(const store::ObjectInfo found, co_await Stat(context, bucket, key));
    co_return store::CheckCondition(condition, found.etag, bucket, key);
  }
  co_return co_await Change(context, "delete", [&](base::Duration left) {
    return link_->control().Delete(bucket, key, condition.etag, context.operation, left);
  });
}

// ---- versions ----

rt::Task<Result<std::unique_ptr<store::ObjectReader>>> RemoteStore::OpenVersion(const store::Context& context,
                                                                                std::string bucket, std::string key,
                                                                                uint64_t version) {
  if (version == 0) co_return store::NoSuchVersion(bucket, key, version);
  co_return co_await OpenReader(context, std::move(bucket), std::move(key), version, {});
}

rt::Task<Result<store::VersionInfo>> RemoteStore::StatVersion(const store::Context& context, std::string bucket,
                                                              std::string key, uint64_t version) {
  FB_CO_TRY(base::CheckKey(key));
  co_return co_await Question(context, "stat of a version", [&](base::Duration left) {
    return link_->control().StatVersion(bucket, key, version, left);
  });
}

rt::Task<Result<store::VersionPage>> RemoteStore::ListVersions(const store::Context& context, std::string bucket,
                                                               store::VersionListOptions options) {
  FB_CO_TRY(store::CheckVersionList(options));
  co_return co_await Question(context, "list of versions", [&](base::Duration left) {
    return link_->control().ListVersions(bucket, options, left);
  });
}

rt::Task<Status> RemoteStore::DeleteVersion(const store::Context& context, std::string bucket, std::string key,
                                            uint64_t version) {
  FB_CO_TRY(base::CheckKey(key));
  co_return co_await Change(context, "delete of a version", [&](base::Duration left) {
    return link_->control().DeleteVersion(bucket, key, version, context.operation, left);
  });
}

rt::Task<Status> RemoteStore::Pin(const store::Context& context, std::string bucket, std::string key,
                                  std::chrono::milliseconds time) {
  FB_CO_TRY(base::CheckKey(key));
  FB_CO_TRY(store::CheckPinTime(time));  // over the wire no time ends a pin
  co_return co_await Change(context, "pin", [&](base::Duration left) {
    return link_->control().Pin(bucket, key, time, left);
  });
}

rt::Task<Status> RemoteStore::Unpin(const store::Context& context, std::string bucket, std::string key) {
  FB_CO_TRY(base::CheckKey(key));
  co_return co_await Change(context, "unpin", [&](base::Duration left) {
    return link_->control().Pin(bucket, key, std::chrono::milliseconds(0), left);
  });
}

// ---- uploads ----

rt::Task<Result<store::UploadInfo>> RemoteStore::CreateUpload(const store::Context& context, std::string bucket,
                                                              std::string key, store::UserMetadata metadata) {
  FB_CO_TRY(store::CheckUpload(key, metadata));
  co_return co_await Change(context, "upload", [&](base::Duration left) {
    return link_->control().CreateUpload(bucket, key, metadata, context.operation, left);
  });
}

rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> RemoteStore::PutPart(const store::Context& context,
                                                                            store::UploadName upload, uint32_t number,
                                                                            store::PutOptions options) {
  FB_CO_TRY(store::CheckPart(upload, number, options));
  co_return co_await OpenWriter(context, "part", upload.key, [&](DataSession& session, base::TimePoint deadline) {
    return BeginPart(session, upload, number, options, context.operation, deadline);
  });
}

rt::Task<Result<store::ObjectInfo>> RemoteStore::CopyPart(const store::Context& context, store::UploadName upload,
                                                          uint32_t number, store::Source source) {
  FB_CO_TRY(store::CheckPart(upload, number, {}));
  FB_CO_TRY(store::CheckSources({source}));
  co_return co_await Change(context, "copy of a part", [&](base::Duration left) {
    return link_->control().CopyPart(upload, number, source, context.operation, left);
  });
}

rt::Task<Result<store::PartPage>> RemoteStore::ListParts(const store::Context& context, store::UploadName upload,
                                                         uint32_t start_after, uint32_t limit) {
  FB_CO_TRY(store::CheckPageLimit(limit));
  FB_CO_TRY(base::CheckKey(upload.key));
  co_return co_await Question(context, "list of parts", [&](base::Duration left) {
    return link_->control().ListParts(upload, start_after, limit, left);
  });
}

rt::Task<Result<store::UploadPage>> RemoteStore::ListUploads(const store::Context& context, std::string bucket,
                                                             store::UploadListOptions options) {
  FB_CO_TRY(store::CheckUploadList(options));
  co_return co_await Question(context, "list of uploads", [&](base::Duration left) {
    return link_->control().ListUploads(bucket, options, left);
  });
}

rt::Task<Result<store::ObjectInfo>> RemoteStore::CompleteUpload(const store::Context& context,
                                                                store::UploadName upload,
                                                                std::vector<store::PartRef> parts,
                                                                store::CompleteOptions options) {
  FB_CO_TRY(store::CheckComplete(upload, parts, options));
  co_return co_await Change(context, "completion", [&](base::Duration left) {
    return link_->control().CompleteUpload(upload, parts, options, context.operation, left);
  });
}

rt::Task<Status> RemoteStore::AbortUpload(const store::Context& context, store::UploadName upload) {
  FB_CO_TRY(base::CheckKey(upload.key));
  co_return co_await Change(context, "abort", [&](base::Duration left) {
    return link_->control().AbortUpload(upload, context.operation, left);
  });
}

// ---- accounts ----

rt::Task<Status> RemoteStore::SetQuota(const store::Context&, TenantId, store::Quota) {
  co_return link_->NotOurs("tenants and their quotas");
}

rt::Task<Result<store::TenantUsage>> RemoteStore::GetTenantUsage(const store::Context& context, TenantId tenant) {
  if (tenant != link_->tenant()) co_return link_->NotOurs("other tenants");
  const std::string there = std::to_string(static_cast<uint64_t>(link_->tenant_there()));
  FB_CO_ASSIGN(const control::Tenant found, co_await Question(context, "usage", [&](base::Duration left) {
                 return link_->control().GetTenant(there, left);
               }));
  co_return found.usage;
}

rt::Task<Result<store::StoreSpace>> RemoteStore::GetSpace(const store::Context& context) {
  FB_CO_ASSIGN(control::ServerSpace space, co_await Question(context, "space", [&](base::Duration left) {
                 return link_->control().Space(left);
               }));
  co_return std::move(space.space);
}

}  // namespace forebay::client
