// SPDX-License-Identifier: Apache-2.0
// ProbeStore: a store for the tests of control that counts calls, shows the context of the last one, can hold
// calls back until it is told, and can say that it is read-only. Everything else is the memory twin's.
// Thread-safe as ObjectStore is; the functions of its own are for the test's thread. Calls come on one
// reactor.
#pragma once

#include <atomic>
#include <optional>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "rt/reactor.h"
#include "rt/sync.h"
#include "store/memory_store.h"

namespace forebay::control {

class ProbeStore final : public store::ObjectStore {
 public:
  ProbeStore(base::Arena& arena, const base::Clock& clock, rt::Reactor& reactor)
      : inner_(arena, clock), reactor_(reactor), go_on_(reactor) {
    go_on_.Set();
  }

  struct Seen {
    TenantId tenant = TenantId::kNone;
    OperationId operation;
    base::TimePoint deadline;
    store::Condition condition;
  };
  Seen last() {
    base::MutexLock lock(mutex_);
    return last_;
  }
  int calls() const { return calls_; }
  void ForgetCalls() {
    calls_ = 0;
    while (came_.try_acquire()) {
    }
  }

  /// From now on calls wait inside of the store until LetGo.
  void Hold() { go_on_.Reset(); }  // before the calls: the reactor is idle then
  void LetGo() {
    reactor_.Post([this] { go_on_.Set(); });
  }
  /// Until one more call came in.
  void AwaitCall() { came_.acquire(); }
  void SetHealth(Status health) {
    base::MutexLock lock(mutex_);
    health_ = std::move(health);
  }

  rt::Task<Status> CreateBucket(const store::Context& context, store::BucketInfo bucket) override {
    co_await Note(context);
    co_return co_await inner_.CreateBucket(context, std::move(bucket));
  }
  rt::Task<Status> DeleteBucket(const store::Context& context, std::string name) override {
    co_await Note(context);
    co_return co_await inner_.DeleteBucket(context, std::move(name));
  }
  rt::Task<Result<store::BucketInfo>> GetBucket(const store::Context& context, std::string name) override {
    co_await Note(context);
    co_return co_await inner_.GetBucket(context, std::move(name));
  }
  rt::Task<Result<std::vector<store::BucketInfo>>> ListBuckets(const store::Context& context) override {
    co_await Note(context);
    co_return co_await inner_.ListBuckets(context);
  }
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> Put(const store::Context& context,
                                                             std::string bucket, std::string key,
                                                             store::PutOptions options) override {
    return inner_.Put(context, std::move(bucket), std::move(key), std::move(options));
  }
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> Overwrite(const store::Context& context, std::string bucket,
                                                                   std::string key,
                                                                   store::OverwriteOptions options) override {
    return inner_.Overwrite(context, std::move(bucket), std::move(key), std::move(options));
  }
  rt::Task<Status> SetAttributes(const store::Context& context, std::string bucket, std::string key, uint64_t version,
                                 store::AttributeChange change) override {
    co_await Note(context, change.condition);
    co_return co_await inner_.SetAttributes(context, std::move(bucket), std::move(key), version, std::move(change));
  }
  rt::Task<Result<store::ObjectInfo>> Truncate(const store::Context& context, std::string bucket, std::string key,
                                               uint64_t size_bytes, store::Condition condition) override {
    co_await Note(context, condition);
    co_return co_await inner_.Truncate(context, std::move(bucket), std::move(key), size_bytes, std::move(condition));
  }
  rt::Task<Result<store::ObjectInfo>> Compose(const store::Context& context, std::string bucket, std::string key,
                                              std::vector<store::Source> sources,
                                              store::PutOptions options) override {
    co_await Note(context, options.condition);
    co_return co_await inner_.Compose(context, std::move(bucket), std::move(key), std::move(sources), std::move(options));
  }
  rt::Task<Status> Rename(const store::Context& context, std::string bucket, std::string from, std::string to,
                          store::RenameOptions options) override {
    co_await Note(context, options.source);
    co_return co_await inner_.Rename(context, std::move(bucket), std::move(from), std::move(to), std::move(options));
  }
  rt::Task<Result<uint64_t>> RenamePrefix(const store::Context& context, std::string bucket, std::string from,
                                          std::string to) override {
    co_await Note(context);
    co_return co_await inner_.RenamePrefix(context, std::move(bucket), std::move(from), std::move(to));
  }
  rt::Task<Result<std::unique_ptr<store::ObjectReader>>> Open(const store::Context& context,
                                                              std::string bucket, std::string key,
                                                              store::Condition condition) override {
    return inner_.Open(context, std::move(bucket), std::move(key), std::move(condition));
  }
  rt::Task<Result<store::ObjectInfo>> Stat(const store::Context& context, std::string bucket,
                                           std::string key) override {
    co_await Note(context);
    co_return co_await inner_.Stat(context, std::move(bucket), std::move(key));
  }
  rt::Task<Result<store::ListPage>> List(const store::Context& context, std::string bucket,
                                         store::ListOptions options) override {
    co_await Note(context);
    co_return co_await inner_.List(context, std::move(bucket), std::move(options));
  }
  rt::Task<Status> Delete(const store::Context& context, std::string bucket, std::string key,
                          store::Condition condition) override {
    co_await Note(context, condition);
    co_return co_await inner_.Delete(context, std::move(bucket), std::move(key), std::move(condition));
  }
  rt::Task<Result<store::UploadInfo>> CreateUpload(const store::Context& context, std::string bucket, std::string key,
                                                   store::UserMetadata metadata) override {
    co_await Note(context);
    co_return co_await inner_.CreateUpload(context, std::move(bucket), std::move(key), std::move(metadata));
  }
  rt::Task<Result<std::unique_ptr<store::ObjectWriter>>> PutPart(const store::Context& context,
                                                                 store::UploadName upload, uint32_t number,
                                                                 store::PutOptions options) override {
    return inner_.PutPart(context, std::move(upload), number, std::move(options));
  }
  rt::Task<Result<store::ObjectInfo>> CopyPart(const store::Context& context, store::UploadName upload,
                                               uint32_t number, store::Source source) override {
    co_await Note(context, source.condition);
    co_return co_await inner_.CopyPart(context, std::move(upload), number, std::move(source));
  }
  rt::Task<Result<store::PartPage>> ListParts(const store::Context& context, store::UploadName upload,
                                              uint32_t start_after, uint32_t limit) override {
    co_await Note(context);
    co_return co_await inner_.ListParts(context, std::move(upload), start_after, limit);
  }
  rt::Task<Status> UpdateBucket(const store::Context& context, std::string name,
                                store::BucketSettings settings) override {
    co_await Note(context);
    co_return co_await inner_.UpdateBucket(context, std::move(name), settings);
  }
  rt::Task<Result<std::unique_ptr<store::ObjectReader>>> OpenVersion(const store::Context& context, std::string bucket,
                                                                     std::string key, uint64_t version) override {
    return inner_.OpenVersion(context, std::move(bucket), std::move(key), version);
  }
  rt::Task<Result<store::VersionInfo>> StatVersion(const store::Context& context, std::string bucket, std::string key,
                                                   uint64_t version) override {
    co_await Note(context);
    co_return co_await inner_.StatVersion(context, std::move(bucket), std::move(key), version);
  }
  rt::Task<Result<store::VersionPage>> ListVersions(const store::Context& context, std::string bucket,
                                                    store::VersionListOptions options) override {
    co_await Note(context);
    co_return co_await inner_.ListVersions(context, std::move(bucket), std::move(options));
  }
  rt::Task<Status> DeleteVersion(const store::Context& context, std::string bucket, std::string key,
                                 uint64_t version) override {
    co_await Note(context);
    co_return co_await inner_.DeleteVersion(context, std::move(bucket), std::move(key), version);
  }
  rt::Task<Result<store::UploadPage>> ListUploads(const store::Context& context, std::string bucket,
                                                  store::UploadListOptions options) override {
    co_await Note(context);
    co_return co_await inner_.ListUploads(context, std::move(bucket), std::move(options));
  }
  rt::Task<Result<store::ObjectInfo>> CompleteUpload(const store::Context& context, store::UploadName upload,
                                                     std::vector<store::PartRef> parts,
                                                     store::CompleteOptions options) override {
    co_await Note(context, options.condition);
    co_return co_await inner_.CompleteUpload(context, std::move(upload), std::move(parts), std::move(options));
  }
  rt::Task<Status> AbortUpload(const store::Context& context, store::UploadName upload) override {
    co_await Note(context);
    co_return co_await inner_.AbortUpload(context, std::move(upload));
  }
  rt::Task<Status> Pin(const store::Context& context, std::string bucket, std::string key,
                       std::chrono::milliseconds time) override {
    co_await Note(context);
    co_return co_await inner_.Pin(context, std::move(bucket), std::move(key), time);
  }
  rt::Task<Status> Unpin(const store::Context& context, std::string bucket, std::string key) override {
    co_await Note(context);
    co_return co_await inner_.Unpin(context, std::move(bucket), std::move(key));
  }
  rt::Task<Status> SetQuota(const store::Context& context, TenantId tenant, store::Quota quota) override {
    co_await Note(context);
    co_return co_await inner_.SetQuota(context, tenant, quota);
  }
  rt::Task<Result<store::TenantUsage>> GetTenantUsage(const store::Context& context,
                                                      TenantId tenant) override {
    co_await Note(context);
    co_return co_await inner_.GetTenantUsage(context, tenant);
  }
  rt::Task<Result<store::StoreSpace>> GetSpace(const store::Context& context) override {
    co_await Note(context);
    co_return store::StoreSpace{
        .devices = {{.name = "/dev/one", .capacity_bytes = 600, .used_bytes = 150},
                    {.name = "/dev/two", .capacity_bytes = 400, .used_bytes = 100}},
        .metadata = {.path = "/store/meta", .used_bytes = 44, .free_bytes = 55, .reserve_bytes = 66},
        .objects = 7,
        .object_bytes = 777};
  }
  store::StoreUsage usage() const override {
    return {.capacity_bytes = 1000,
            .used_bytes = 250,
            .device_bytes_read = 11,
            .device_bytes_written = 22,
            .device_flushes = 33};
  }
  uint64_t operation_time_ms() const override { return inner_.operation_time_ms(); }
  Status health() const override {
    base::MutexLock lock(mutex_);
    return health_;
  }

 private:
  rt::Task<void> Note(const store::Context& context, store::Condition condition = {}) {
    {
      base::MutexLock lock(mutex_);
      last_ = {context.tenant, context.operation, context.deadline, std::move(condition)};
    }
    ++calls_;
    came_.release();
    co_await go_on_.Wait();
  }

  store::MemoryStore inner_;
  rt::Reactor& reactor_;
  rt::Event go_on_;
  std::atomic<int> calls_ = 0;
  std::counting_semaphore<> came_{0};
  mutable base::Mutex mutex_;
  Seen last_ FB_GUARDED_BY(mutex_);
  Status health_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::control
