// SPDX-License-Identifier: Apache-2.0
#include "forebay/client.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "client/core.h"
#include "client/public_types.h"

namespace forebay {
namespace {

GetItem ItemOf(std::string_view bucket, std::string_view key, size_t room, const GetOptions& options) {
  return {.bucket = std::string(bucket),
          .key = std::string(key),
          .region_offset = 0,
          .length = std::min<uint64_t>(options.length, room),
          .offset = options.offset,
          .if_match = options.if_match,
          .version = options.version};
}

PutItem ItemOf(std::string_view bucket, std::string_view key, size_t size, const PutOptions& options) {
  return {.bucket = std::string(bucket),
          .key = std::string(key),
          .region_offset = 0,
          .length = size,
          .if_absent = options.if_absent,
          .if_match = options.if_match,
          .metadata = options.metadata,
          .operation = options.operation};
}

template <typename T>
Callback<BatchResult<T>> SingleCallback(Callback<T> done) {
  return [done = std::move(done)](std::expected<BatchResult<T>, Error> results) mutable {
    done(Single<T>(std::move(results)));
  };
}

}  // namespace

std::expected<std::unique_ptr<Client>, Error> Client::Connect(ClientOptions options) {
  auto core = Core::Open(std::move(options));
  if (!core.ok()) return std::unexpected(client::ToError(core.status()));
  return std::unique_ptr<Client>(new Client(*std::move(core)));
}

Client::Client(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Client::~Client() = default;

std::string Client::path() const { return core_->path(); }
std::string Client::path_reason() const { return core_->path_reason(); }

// ---- objects ----

std::expected<GetResult, Error> Client::Get(std::string_view bucket, std::string_view key,
                                            std::span<std::byte> into, const GetOptions& options) {
  const GetItem item = ItemOf(bucket, key, into.size(), options);
  return Single<GetResult>(core_->Expected(core_->Block([&, deadline = core_->DeadlineFor(options.timeout)] {
    return core_->Get({&item, 1}, into, deadline);
  })));
}

std::expected<PutResult, Error> Client::Put(std::string_view bucket, std::string_view key,
                                            std::span<const std::byte> content, const PutOptions& options) {
  const base::TimePoint deadline = core_->DeadlineFor(options.timeout);
  const PutItem item = ItemOf(bucket, key, content.size(), options);
  const auto tickets = client::TicketsFor({&item, 1}, content, core_->ids());
  if (!tickets.ok()) return std::unexpected(core_->ErrorOf(tickets.status()));
  return Single<PutResult>(
      core_->Expected(core_->Block([&] { return core_->Put({&item, 1}, *tickets, content, deadline); })));
}

std::expected<Region, Error> Client::RegisterRegion(std::span<std::byte> memory) {
  if (memory.empty()) return std::unexpected(Error{Code::kInvalidArgument, "a region of 0 bytes"});
  return Region(memory);
}

std::expected<BatchResult<GetResult>, Error> Client::GetBatch(const Region& region,
                                                              std::span<const GetItem> items,
                                                              const CallOptions& options) {
  return core_->Expected(core_->Block([&, deadline = core_->DeadlineFor(options.timeout)] {
    return core_->Get(items, region.memory(), deadline);
  }));
}

std::expected<BatchResult<PutResult>, Error> Client::PutBatch(const Region& region,
                                                              std::span<const PutItem> items,
                                                              const CallOptions& options) {
  const base::TimePoint deadline = core_->DeadlineFor(options.timeout);
  const auto tickets = client::TicketsFor(items, region.memory(), core_->ids());
  if (!tickets.ok()) return std::unexpected(core_->ErrorOf(tickets.status()));
  return core_->Expected(
      core_->Block([&] { return core_->Put(items, *tickets, region.memory(), deadline); }));
}

std::expected<BatchResult<ExistsResult>, Error> Client::ExistsBatch(std::span<const ObjectName> items,
                                                                    const CallOptions& options) {
  return core_->Expected(core_->Block([&, deadline = core_->DeadlineFor(options.timeout)] {
    return core_->pool().With(deadline, true, [items, deadline](client::DataSession& session) {
      return client::ExistsItems(session, items, deadline);
    });
  }));
}

// ---- asynchronous forms ----

void Client::GetBatchAsync(const Region& region, std::vector<GetItem> items, const CallOptions& options,
                           Callback<BatchResult<GetResult>> done) {
  // Shared by the task and the refusal, of which one is destroyed unused.
  auto shared = std::make_shared<Callback<BatchResult<GetResult>>>(std::move(done));
  core_->Start(
      [core = core_.get(), items = std::move(items), memory = region.memory(),
       deadline = core_->DeadlineFor(options.timeout), shared]() -> rt::Task<void> {
        auto results = core->Expected(co_await core->Get(items, memory, deadline));
        (*shared)(std::move(results));
      },
      [shared] { (*shared)(std::unexpected(Error{Code::kCancelled, "the client is going away"})); });
}

void Client::PutBatchAsync(const Region& region, std::vector<PutItem> items, const CallOptions& options,
                           Callback<BatchResult<PutResult>> done) {
  auto shared = std::make_shared<Callback<BatchResult<PutResult>>>(std::move(done));
  // The checksums are made here, on the caller's thread.
  auto tickets = client::TicketsFor(items, region.memory(), core_->ids());
  core_->Start(
      [core = core_.get(), items = std::move(items), tickets = std::move(tickets), memory = region.memory(),
       deadline = core_->DeadlineFor(options.timeout), shared]() -> rt::Task<void> {
        if (!tickets.ok()) {
          (*shared)(std::unexpected(core->ErrorOf(tickets.status())));
          co_return;
        }
        auto results = core->Expected(co_await core->Put(items, *tickets, memory, deadline));
        (*shared)(std::move(results));
      },
      [shared] { (*shared)(std::unexpected(Error{Code::kCancelled, "the client is going away"})); });
}

void Client::GetAsync(std::string_view bucket, std::string_view key, std::span<std::byte> into,
                      const GetOptions& options, Callback<GetResult> done) {
  GetBatchAsync(Region(into), {ItemOf(bucket, key, into.size(), options)}, {.timeout = options.timeout},
                SingleCallback(std::move(done)));
}

void Client::PutAsync(std::string_view bucket, std::string_view key, std::span<const std::byte> content,
                      const PutOptions& options, Callback<PutResult> done) {
  // Nothing writes through a region that is the source of a put.
  const std::span<std::byte> source(const_cast<std::byte*>(content.data()), content.size());
  PutBatchAsync(Region(source), {ItemOf(bucket, key, content.size(), options)}, {.timeout = options.timeout},
                SingleCallback(std::move(done)));
}

// ---- the namespace, buckets and the server: control plane, on the caller's thread ----

std::expected<ObjectInfo, Error> Client::Stat(std::string_view bucket, std::string_view key,
                                              const CallOptions& options) {
  auto info = core_->Ask(options.timeout, true, [&](base::Duration left) {
    return core_->control().Stat(std::string(bucket), std::string(key), left);
  });
  if (!info.ok()) return std::unexpected(core_->ErrorOf(info.status()));
  return client::ToPublic(*std::move(info));
}

std::expected<ListPage, Error> Client::List(std::string_view bucket, const ListOptions& options) {
  const store::ListOptions ask{.prefix = options.prefix,
                               .delimiter = options.delimiter,
                               .start_after = options.start_after,
                               .limit = options.limit};
  auto page = core_->Ask(options.timeout, true, [&](base::Duration left) {
    return core_->control().List(std::string(bucket), ask, left);
  });
  if (!page.ok()) return std::unexpected(core_->ErrorOf(page.status()));
  ListPage result{.objects = {},
                  .common_prefixes = std::move(page->common_prefixes),
                  .truncated = page->truncated,
                  .next_start_after = std::move(page->next_start_after)};
  for (store::ObjectInfo& info : page->objects) result.objects.push_back(client::ToPublic(std::move(info)));
  return result;
}

std::expected<void, Error> Client::Remove(std::string_view bucket, std::string_view key,
                                          std::string_view if_match, const CallOptions& options) {
  const OperationId id = core_->ids().New();
  return core_->Expected(core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().Delete(std::string(bucket), std::string(key), std::string(if_match), id, left);
  }));
}

std::expected<ObjectInfo, Error> Client::Compose(std::string_view bucket, std::string_view key,
                                                 std::span<const Source> sources, const ComposeOptions& options) {
  if (options.if_absent && !options.if_match.empty())
    return std::unexpected(Error{Code::kInvalidArgument, "an object cannot be absent and have an etag"});
  store::PutOptions put{.metadata = options.metadata};
  if (options.if_absent) put.condition = store::Condition::IfAbsent();
  if (!options.if_match.empty()) put.condition = store::Condition::IfMatch(options.if_match);
  std::vector<store::Source> from;
  for (const Source& source : sources) {
    from.push_back({.bucket = source.bucket, .key = source.key, .offset = source.offset});
    if (!source.if_match.empty()) from.back().condition = store::Condition::IfMatch(source.if_match);
    if (source.length != UINT64_MAX) from.back().length = source.length;
  }
  const OperationId id = core_->ids().New();
  auto info = core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().Compose(std::string(bucket), std::string(key), from, put, id, left);
  });
  if (!info.ok()) return std::unexpected(core_->ErrorOf(info.status()));
  return client::ToPublic(*std::move(info));
}

std::expected<ObjectInfo, Error> Client::Copy(const ObjectName& from, const ObjectName& to,
                                              const ComposeOptions& options) {
  constexpr int kAttempts = 5;
  // The time is that of the whole call.
  const auto began = std::chrono::steady_clock::now();
  const auto left = [&] {
    if (options.timeout == kDefaultTimeout) return options.timeout;
    return std::max<std::chrono::nanoseconds>(options.timeout - (std::chrono::steady_clock::now() - began), std::chrono::nanoseconds(1));
  };
  for (int attempt = 1;; ++attempt) {
    const auto source = Stat(from.bucket, from.key, {.timeout = left()});
    if (!source) return std::unexpected(source.error());
    ComposeOptions merged = options;
    merged.timeout = left();
    merged.metadata.insert(source->metadata.begin(), source->metadata.end());
    const Source whole{.bucket = from.bucket, .key = from.key, .if_match = source->etag};
    auto copied = Compose(to.bucket, to.key, {&whole, 1}, merged);
    if (copied || copied.error().code != Code::kFailedPrecondition || attempt == kAttempts) return copied;
    // Metadata and content are of one version: it may have been replaced in between.
    const auto now = Stat(from.bucket, from.key, {.timeout = left()});
    if (now && now->etag == source->etag) return copied;  // another reason
  }
}

std::expected<void, Error> Client::Rename(std::string_view bucket, std::string_view from, std::string_view to,
                                          const RenameOptions& options) {
  store::RenameOptions ask;
  if (!options.if_match.empty()) ask.source = store::Condition::IfMatch(options.if_match);
  if (options.if_absent) ask.target = store::Condition::IfAbsent();
  const OperationId id = core_->ids().New();
  return core_->Expected(core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().Rename(std::string(bucket), std::string(from), std::string(to), ask, id, left);
  }));
}

std::expected<uint64_t, Error> Client::RenamePrefix(std::string_view bucket, std::string_view from,
                                                    std::string_view to, const CallOptions& options) {
  const OperationId id = core_->ids().New();
  const auto renamed = core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().RenamePrefix(std::string(bucket), std::string(from), std::string(to), id, left);
  });
  if (!renamed.ok()) return std::unexpected(core_->ErrorOf(renamed.status()));
  return *renamed;
}

std::expected<void, Error> Client::CreateBucket(std::string_view name, BucketClass bucket_class,
                                                const CallOptions& options) {
  const OperationId id = core_->ids().New();
  return core_->Expected(core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().CreateBucket(std::string(name), static_cast<store::BucketClass>(bucket_class), id,
                                         left);
  }));
}

std::expected<void, Error> Client::SetVersioning(std::string_view name, Versioning versioning,
                                                 const CallOptions& options) {
  const OperationId id = core_->ids().New();
  const store::BucketSettings settings{.versioning = static_cast<store::Versioning>(versioning)};
  return core_->Expected(core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().UpdateBucket(std::string(name), settings, id, left);
  }));
}

std::expected<void, Error> Client::DeleteBucket(std::string_view name, const CallOptions& options) {
  const OperationId id = core_->ids().New();
  return core_->Expected(core_->Ask(options.timeout, !id.IsNone(), [&](base::Duration left) {
    return core_->control().DeleteBucket(std::string(name), id, left);
  }));
}

std::expected<BucketInfo, Error> Client::GetBucket(std::string_view name, const CallOptions& options) {
  auto info = core_->Ask(options.timeout, true, [&](base::Duration left) {
    return core_->control().GetBucket(std::string(name), left);
  });
  if (!info.ok()) return std::unexpected(core_->ErrorOf(info.status()));
  return client::ToPublic(*std::move(info));
}

std::expected<std::vector<BucketInfo>, Error> Client::ListBuckets(const CallOptions& options) {
  std::vector<BucketInfo> buckets;
  for (bool more = true; more;) {
    auto page = core_->Ask(options.timeout, true, [&](base::Duration left) {
      return core_->control().ListBuckets(buckets.empty() ? std::string() : buckets.back().name, 0, left);
    });
    if (!page.ok()) return std::unexpected(core_->ErrorOf(page.status()));
    more = page->truncated && !page->buckets.empty();
    for (store::BucketInfo& info : page->buckets) buckets.push_back(client::ToPublic(std::move(info)));
  }
  return buckets;
}

std::expected<ServerHealth, Error> Client::Health(const CallOptions& options) {
  auto health = core_->control().Health(core_->TimeFor(options.timeout));
  if (!health.ok()) return std::unexpected(core_->ErrorOf(health.status()));
  auto stats = core_->control().Stats(core_->TimeFor(options.timeout));
  if (!stats.ok()) return std::unexpected(core_->ErrorOf(stats.status()));
  return ServerHealth{.serving = health->ready || health->read_only,
                      .writable = health->ready && !health->read_only,
                      .reason = std::move(health->reason),
                      .version = std::move(health->version),
                      .capacity_bytes = stats->capacity_bytes,
                      .used_bytes = stats->used_bytes};
}

std::expected<ServerStats, Error> Client::Stats(const CallOptions& options) {
  const auto stats = core_->control().Stats(core_->TimeFor(options.timeout));
  if (!stats.ok()) return std::unexpected(core_->ErrorOf(stats.status()));
  ServerStats result{.device_bytes_read = stats->device_bytes_read,
                     .device_bytes_written = stats->device_bytes_written,
                     .device_flushes = stats->device_flushes,
                     .cpu = std::chrono::microseconds(std::min<uint64_t>(stats->cpu_us, INT64_MAX)),
                     .sessions = stats->sessions,
                     .traffic = {}};
  for (const control::FabricTraffic& traffic : stats->traffic)
    result.traffic.push_back({.fabric = traffic.fabric,
                              .connections = traffic.connections,
                              .transfers_in = traffic.transfers_in,
                              .transfers_out = traffic.transfers_out,
                              .bytes_in = traffic.bytes_in,
                              .bytes_out = traffic.bytes_out,
                              .copied_bytes = traffic.copied_bytes});
  return result;
}

}  // namespace forebay
