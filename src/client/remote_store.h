// SPDX-License-Identifier: Apache-2.0
// RemoteStore: another Forebay server as a backend, by the native client. Whatever runs over an ObjectStore runs over this:
// a relay, an agent, a frontend on another machine. Names, versions, ETags, conditions and operations are the server's:
// an operation id passes through unchanged, so that a change takes place at most once from end to end; a result that was
// lost with its connection comes when the caller asks again with the id.
//
// What is other than ObjectStore says:
//  - One credential, so one tenant: contexts of others are refused (PermissionDenied).
//  - The server holds a version open for its reader as long as their connection lasts, it is read at least once a minute, and
//    there are not too many (256 a connection). Without that it is read by its number, and when that was deleted or
//    replaced, and is no version that its bucket keeps, Read is Aborted: open it again. It never gives bytes of another
//    version.
//  - Times are whole milliseconds, and a bucket's is the server's.
//  - Unavailable while no server answers, after as many attempts as the options say; a writer whose connection is lost fails.
// Thread-safe; each reactor that calls has connections of its own. Close has returned before it is destroyed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "client/remote_link.h"
#include "forebay/client.h"
#include "store/object_store.h"

namespace forebay::client {

class RemoteStore final : public store::ObjectStore {
 public:
  /// Connects, to see that the server is there; blocks. Contexts are of `tenant`, for whom the credential stands. Payload
  /// lives in `arena`, which is borrowed. Errors as Client::Connect.
  static Result<std::unique_ptr<RemoteStore>> Open(const ClientOptions& options, TenantId tenant, base::Arena& arena);
  ~RemoteStore() override;

  /// On `here`: ends all connections, once no call is in progress and no reader or writer is left.
  rt::Task<void> Close(rt::Reactor& here) { return link_->Close(here); }

  rt::Task<Status> CreateBucket(const store::Context& context, store::BucketInfo bucket) override;
  rt::Task<Status> UpdateBucket(const store::Context& context, std::string name,
                                store::BucketSettings settings) override;
  rt::Task<Status> DeleteBucket(const store::Context& context, std::string name) override;
  rt::Task<Result<store::BucketInfo>> GetBucket(const store::Context& context, std::string name) override;
  rt::Task<Result<std::vector<store::BucketInfo>>> ListBuckets(const store::Context& context) override;
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> Put(const store::Context& context, std::string bucket,
                                                             std::string key, store::PutOptions options) override;
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> Overwrite(const store::Context& context, std::string bucket,
                                                                   std::string key,
                                                                   store::OverwriteOptions options) override;
  rt::Task<Result<store::ObjectInfo>> Truncate(const store::Context& context, std::string bucket, std::string key,
                                               uint64_t size_bytes, store::Condition condition) override;
  rt::Task<Status> SetAttributes(const store::Context& context, std::string bucket, std::string key, uint64_t version,
                                 store::AttributeChange change) override;
  rt::Task<Result<store::ObjectInfo>> Compose(const store::Context& context, std::string bucket, std::string key,
                                              std::vector<store::Source> sources, store::PutOptions options) override;
  rt::Task<Status> Rename(const store::Context& context, std::string bucket, std::string from, std::string to,
                          store::RenameOptions options) override;
  rt::Task<Result<uint64_t>> RenamePrefix(const store::Context& context, std::string bucket, std::string from,
                                          std::string to) override;
  rt::Task<Result<std::unique_ptr<store::ObjectReader>>> Open(const store::Context& context, std::string bucket,
                                                              std::string key, store::Condition condition) override;
  rt::Task<Result<store::ObjectInfo>> Stat(const store::Context& context, std::string bucket,
                                           std::string key) override;
  rt::Task<Result<store::ListPage>> List(const store::Context& context, std::string bucket,
                                         store::ListOptions options) override;
  rt::Task<Status> Delete(const store::Context& context, std::string bucket, std::string key,
                          store::Condition condition) override;
  rt::Task<Result<std::unique_ptr<store::ObjectReader>>> OpenVersion(const store::Context& context, std::string bucket,
                                                                     std::string key, uint64_t version) override;
  rt::Task<Result<store::VersionInfo>> StatVersion(const store::Context& context, std::string bucket, std::string key,
                                                   uint64_t version) override;
  rt::Task<Result<store::VersionPage>> ListVersions(const store::Context& context, std::string bucket,
                                                    store::VersionListOptions options) override;
  rt::Task<Status> Pin(const store::Context& context, std::string bucket, std::string key,
                       std::chrono::milliseconds time) override;
  rt::Task<Status> Unpin(const store::Context& context, std::string bucket, std::string key) override;
  rt::Task<Status> DeleteVersion(const store::Context& context, std::string bucket, std::string key,
                                 uint64_t version) override;
  rt::Task<Result<store::UploadInfo>> CreateUpload(const store::Context& context, std::string bucket, std::string key,
                                                   store::UserMetadata metadata) override;
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> PutPart(const store::Context& context,
                                                                 store::UploadName upload, uint32_t number,
                                                                 store::PutOptions options) override;
  rt::Task<Result<store::ObjectInfo>> CopyPart(const store::Context& context, store::UploadName upload,
                                               uint32_t number, store::Source source) override;
  rt::Task<Result<store::PartPage>> ListParts(const store::Context& context, store::UploadName upload,
                                              uint32_t start_after, uint32_t limit) override;
  rt::Task<Result<store::UploadPage>> ListUploads(const store::Context& context, std::string bucket,
                                                  store::UploadListOptions options) override;
  rt::Task<Result<store::ObjectInfo>> CompleteUpload(const store::Context& context, store::UploadName upload,
                                                     std::vector<store::PartRef> parts,
                                                     store::CompleteOptions options) override;
  rt::Task<Status> AbortUpload(const store::Context& context, store::UploadName upload) override;
  /// PermissionDenied: quotas are the server's matter.
  rt::Task<Status> SetQuota(const store::Context& context, TenantId tenant, store::Quota quota) override;
  /// Of its own tenant.
  rt::Task<Result<store::TenantUsage>> GetTenantUsage(const store::Context& context, TenantId tenant) override;
  rt::Task<Result<store::StoreSpace>> GetSpace(const store::Context& context) override;
  /// All zero: it has no devices of its own.
  store::StoreUsage usage() const override { return {}; }
  uint64_t operation_time_ms() const override { return link_->operation_time_ms(); }
  /// Unavailable while the server does not answer.
  Status health() const override { return link_->health(); }

 private:
  RemoteStore(std::unique_ptr<RemoteLink> link, base::Arena& arena) : link_(std::move(link)), arena_(arena) {}
  rt::Task<Result<std::unique_ptr<store::ObjectReader>>> OpenReader(const store::Context& context, std::string bucket,
                                                                    std::string key, uint64_t version,
                                                                    std::string_view if_match);
  /// A change of the control plane, repeated when it has an id; `call` takes the time left.
  template <typename Call>
  auto Change(const store::Context& context, std::string_view what, Call call);
  /// A question to the control plane.
  template <typename Call>
  auto Question(const store::Context& context, std::string_view what, Call call);
  /// A writer on the stream that `begin` (a session, the deadline) opens.
  template <typename Begin>
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> OpenWriter(const store::Context& context,
                                                                    std::string_view what, std::string key,
                                                                    Begin begin);

  const std::unique_ptr<RemoteLink> link_;
  base::Arena& arena_;
};

}  // namespace forebay::client
