// SPDX-License-Identifier: Apache-2.0
#include "client/operations.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/checksum.h"
#include "base/limits.h"

namespace forebay::client {
namespace {

/// The smallest range that holds all items' ranges, and how many bytes they ask for together.
struct Hull {
  uint64_t start = 0;
  uint64_t size = 0;
  uint64_t total = 0;
};

template <typename Item>
Result<Hull> HullOf(std::span<const Item> items, uint64_t memory_bytes) {
  uint64_t start = UINT64_MAX;
  uint64_t end = 0;
  uint64_t total = 0;
  for (const Item& item : items) {
    if (!base::RangeFits(item.region_offset, item.length, memory_bytes))
      return Status::InvalidArgument("{} bytes at {} for `{}/{}` lie outside of the memory of {}",
                                     item.length, item.region_offset, item.bucket, item.key, memory_bytes);
    if (item.length == 0) continue;
    start = std::min(start, item.region_offset);
    end = std::max(end, item.region_offset + item.length);
    total += item.length;  // at most 256 times the memory's size
  }
  return total == 0 ? Hull{} : Hull{.start = start, .size = end - start, .total = total};
}

Status CheckCount(size_t items) {
  if (items != 0 && items <= base::kMaxBatchItems) return {};
  return Status::InvalidArgument("a batch of {} items: 1 to {} are allowed", items, base::kMaxBatchItems);
}

/// Longer strings would be cut to their 16-bit length on the wire.
Status CheckName(std::string_view bucket, std::string_view key, std::string_view etag = {}) {
  FB_TRY(base::CheckBucketName(bucket));
  FB_TRY(base::CheckKey(key));
  if (etag.size() <= base::kMaxETagBytes) return {};
  return Status::InvalidArgument("an etag of {} bytes; at most {} are allowed", etag.size(),
                                 base::kMaxETagBytes);
}

wire::RegionRef RefOf(const fabric::RegionToken& region) {
  return {.key = region.key,
          .length = region.length,
          .writable = region.key != 0 && region.direction == fabric::Direction::kPeerWrites};
}

std::unexpected<Error> ItemError(Code code, std::string_view message) {
  return std::unexpected(Error{code, std::string(message)});
}

// ---- get ----

/// Moves inline bytes to their places and checks what the reply says against what was asked and what is
/// there.
Status CheckGet(std::span<const GetItem> items, MutableByteView memory, const wire::GetReply& reply,
                ByteView payload, bool region_offered) {
  if (reply.items.size() != items.size())
    return Status::Internal("{} results for {} items", reply.items.size(), items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const wire::GetItemReply& got = reply.items[i];
    if (got.code != Code::kOk) continue;
    if (got.size > items[i].length)
      return Status::Internal("{} bytes for an item of {}", got.size, items[i].length);
    if (got.size == 0) continue;
    if (reply.inlined) {
      if (got.size > payload.size()) return Status::Internal("the payload is shorter than the results");
      std::memcpy(memory.data() + items[i].region_offset, payload.data(), got.size);
      payload = payload.subspan(got.size);
    } else if (!region_offered) {
      return Status::Internal("{} bytes went nowhere", got.size);
    }
  }
  return payload.empty() ? Status()
                         : Status::Internal("{} bytes of payload belong to no result", payload.size());
}

std::expected<GetResult, Error> ResultOf(const GetItem& item, ByteView memory,
                                         const wire::GetItemReply& got) {
  if (got.code != Code::kOk) return ItemError(got.code, got.message);
  const uint32_t actual = base::Crc32c(memory.subspan(item.region_offset, got.size));
  if (actual != got.crc32c)
    return ItemError(Code::kDataLoss,
                     fmt::format("{} bytes of `{}/{}` at {} arrived with checksum {:08x} instead of {:08x}",
                                 got.size, item.bucket, item.key, item.offset, actual, got.crc32c));
  return GetResult{.size = got.size,
                   .total_size = got.total_size,
                   .version = got.version,
                   .etag = std::string(got.etag),
                   .crc32c = got.crc32c};
}

// ---- put ----

wire::MetadataView ViewOf(const std::map<std::string, std::string>& metadata) {
  return {metadata.begin(), metadata.end()};
}

template <typename Options>
wire::Condition ConditionOf(const Options& options) {
  if (options.if_absent) return wire::Condition::kIfAbsent;
  return options.if_match.empty() ? wire::Condition::kNone : wire::Condition::kIfMatch;
}

template <typename Options>
Status CheckOptions(const Options& options) {
  if (options.if_absent && !options.if_match.empty())
    return Status::InvalidArgument("a put is either if_absent or if_match, not both");
  size_t total = 0;
  for (const auto& [name, value] : options.metadata) total += name.size() + value.size();
  if (total <= base::kMaxUserMetadataBytes) return {};
  return Status::InvalidArgument("the metadata has {} bytes; at most {} are allowed", total,
                                 base::kMaxUserMetadataBytes);
}

std::expected<PutResult, Error> ResultOf(const wire::StoredReply& stored) {
  if (stored.code != Code::kOk) return ItemError(stored.code, stored.message);
  return PutResult{.size = stored.size,
                   .version = stored.version,
                   .etag = std::string(stored.etag),
                   .crc32c = stored.crc32c};
}

/// The server says what it stored; it must be what was sent.
std::expected<PutResult, Error> ResultOf(const wire::StoredReply& stored, uint64_t size, uint32_t crc32c) {
  auto result = ResultOf(stored);
  if (result && (result->size != size || result->crc32c != crc32c))
    return ItemError(Code::kDataLoss,
                     fmt::format("the server stored {} bytes with checksum {:08x} instead of {} with {:08x}",
                                 result->size, result->crc32c, size, crc32c));
  return result;
}

}  // namespace

Error ToError(const Status& status) { return {status.code(), std::string(status.message())}; }
Status ToStatus(const Error& error) { return Status(error.code, error.message); }

rt::Task<Result<BatchResult<GetResult>>> GetItems(DataSession& session, std::span<const GetItem> items,
                                                  MutableByteView memory, base::TimePoint deadline) {
  FB_CO_TRY(CheckCount(items.size()));
  FB_CO_ASSIGN(const Hull hull, HullOf(items, memory.size()));
  // What fits a reply for certain needs no region; with one, small objects may still come inline.
  const bool offer = hull.total > session.max_inline_bytes();
  wire::GetRequest ask;
  ask.inline_allowed = true;
  ask.items.reserve(items.size());
  for (const GetItem& item : items) {
    FB_CO_TRY(CheckName(item.bucket, item.key, item.if_match));
    ask.items.push_back({.bucket = item.bucket,
                         .key = item.key,
                         .offset = item.offset,
                         .length = item.length,
                         .region_offset = offer && item.length != 0 ? item.region_offset - hull.start : 0,
                         .if_match = item.if_match,
                         .version = item.version});
  }
  const bool versions = std::ranges::any_of(items, [](const GetItem& item) { return item.version != 0; });
  fabric::RegionToken region;
  if (offer) {
    FB_CO_ASSIGN(region, session.Offer(memory.subspan(hull.start, hull.size), fabric::Direction::kPeerWrites,
                                       deadline));
  }
  ask.region = RefOf(region);
  const CallTerms terms{.deadline = deadline, .operation = {}, .region = region};
  Result<Reply> answer = Status::Internal("not asked");
  if (versions)
    answer = co_await session.Call(wire::Type::kGetVersion, wire::GetVersionRequest{std::move(ask)}, {}, terms);
  else
    answer = co_await session.Call(wire::Type::kGet, ask, {}, terms);
  FB_CO_ASSIGN(const Reply reply, std::move(answer));
  FB_CO_ASSIGN(const wire::GetReply body, Decode<wire::GetReply>(session, reply));
  const Status sane = CheckGet(items, memory, body, reply.payload, offer);
  if (!sane.ok()) co_return session.Distrust(sane);
  BatchResult<GetResult> results;
  results.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) results.push_back(ResultOf(items[i], memory, body.items[i]));
  co_return results;
}

Result<std::vector<PutTicket>> TicketsFor(std::span<const PutItem> items, ByteView memory,
                                          const OperationIds& ids) {
  FB_TRY(CheckCount(items.size()));
  FB_TRY(HullOf(items, memory.size()));
  std::vector<PutTicket> tickets(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    FB_ASSIGN(tickets[i].operation, ids.Parse(items[i].operation));
    tickets[i].crc32c = base::Crc32c(memory.subspan(items[i].region_offset, items[i].length));
  }
  return tickets;
}

rt::Task<Result<BatchResult<PutResult>>> PutItems(DataSession& session, std::span<const PutItem> items,
                                                  std::span<const PutTicket> tickets, ByteView memory,
                                                  base::TimePoint deadline) {
  FB_CO_TRY(CheckCount(items.size()));
  FB_CO_ASSIGN(const Hull hull, HullOf(items, memory.size()));
  const bool offer = hull.total > session.max_inline_bytes();
  wire::PutRequest ask;
  ask.items.reserve(items.size());
  Bytes payload;
  for (size_t i = 0; i < items.size(); ++i) {
    const PutItem& item = items[i];
    FB_CO_TRY(CheckName(item.bucket, item.key, item.if_match));
    FB_CO_TRY(CheckOptions(item));
    const uint64_t in_region = item.length != 0 ? item.region_offset - hull.start : 0;
    ask.items.push_back({.bucket = item.bucket,
                         .key = item.key,
                         .operation = tickets[i].operation,
                         .size = item.length,
                         .crc32c = tickets[i].crc32c,
                         .condition = ConditionOf(item),
                         .etag = item.if_match,
                         .source = offer ? wire::Source::kRegion : wire::Source::kPayload,
                         .source_offset = offer ? in_region : payload.size(),
                         .metadata = ViewOf(item.metadata)});
    const ByteView content = memory.subspan(item.region_offset, item.length);
    if (!offer) payload.insert(payload.end(), content.begin(), content.end());
  }
  fabric::RegionToken region;
  if (offer) {
    // The peer may only read it: nothing writes through this pointer.
    const MutableByteView source(const_cast<std::byte*>(memory.data()) + hull.start, hull.size);
    FB_CO_ASSIGN(region, session.Offer(source, fabric::Direction::kPeerReads, deadline));
  }
  ask.region = RefOf(region);
  FB_CO_ASSIGN(const Reply reply,
               co_await session.Call(wire::Type::kPut, ask, payload,
                                     {.deadline = deadline, .operation = {}, .region = region}));
  FB_CO_ASSIGN(const auto body, Decode<wire::StoredListReply>(session, reply));
  if (body.items.size() != items.size())
    co_return session.Distrust(Status::Internal("{} results for {} items", body.items.size(), items.size()));
  BatchResult<PutResult> results;
  results.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    results.push_back(ResultOf(body.items[i], items[i].length, tickets[i].crc32c));
  co_return results;
}

rt::Task<Result<BatchResult<ExistsResult>>> ExistsItems(DataSession& session,
                                                        std::span<const ObjectName> items,
                                                        base::TimePoint deadline) {
  FB_CO_TRY(CheckCount(items.size()));
  wire::ExistsRequest ask;
  for (const ObjectName& item : items) {
    FB_CO_TRY(CheckName(item.bucket, item.key));
    ask.items.push_back({item.bucket, item.key});
  }
  FB_CO_ASSIGN(const Reply reply,
               co_await session.Call(wire::Type::kExists, ask, {}, {.deadline = deadline}));
  FB_CO_ASSIGN(const auto body, Decode<wire::StoredListReply>(session, reply));
  if (body.items.size() != items.size())
    co_return session.Distrust(Status::Internal("{} results for {} items", body.items.size(), items.size()));
  BatchResult<ExistsResult> results;
  for (const wire::StoredReply& item : body.items) {
    if (item.code == Code::kOk) {
      results.push_back(ExistsResult{.found = true,
                                     .size = item.size,
                                     .version = item.version,
                                     .etag = std::string(item.etag),
                                     .crc32c = item.crc32c});
    } else if (item.code == Code::kNotFound) {
      results.push_back(ExistsResult{});
    } else {
      results.push_back(ItemError(item.code, item.message));
    }
  }
  co_return results;
}

// ---- a put of unknown size ----

rt::Task<Result<uint64_t>> BeginStream(DataSession& session, const ObjectName& name,
                                       const PutOptions& options, OperationId operation,
                                       base::TimePoint deadline) {
  FB_CO_TRY(CheckName(name.bucket, name.key, options.if_match));
  FB_CO_TRY(CheckOptions(options));
  const wire::PutBeginRequest ask{.bucket = name.bucket,
                                  .key = name.key,
                                  .condition = ConditionOf(options),
                                  .etag = options.if_match,
                                  .size = {},
                                  .metadata = ViewOf(options.metadata)};
  FB_CO_ASSIGN(const Reply reply,
               co_await session.Call(wire::Type::kPutBegin, ask, {},
                                     {.deadline = deadline, .operation = operation, .region = {}}));
  FB_CO_ASSIGN(const auto body, Decode<wire::PutBeginReply>(session, reply));
  co_return body.handle;
}

rt::Task<Status> SendPiece(DataSession& session, uint64_t handle, uint64_t offset, ByteView piece,
                           uint32_t crc32c, base::TimePoint deadline) {
  wire::PutDataRequest ask{.handle = handle,
                           .offset = offset,
                           .size = static_cast<uint32_t>(piece.size()),
                           .crc32c = crc32c,
                           .source = wire::Source::kPayload,
                           .region = {},
                           .region_offset = 0};
  fabric::RegionToken region;
  if (piece.size() > session.max_inline_bytes()) {
    const MutableByteView source(const_cast<std::byte*>(piece.data()), piece.size());  // the peer only reads
    FB_CO_ASSIGN(region, session.Offer(source, fabric::Direction::kPeerReads, deadline));
    ask.source = wire::Source::kRegion;
    ask.region = RefOf(region);
    piece = {};
  }
  FB_CO_ASSIGN(const Reply reply,
               co_await session.Call(wire::Type::kPutData, ask, piece,
                                     {.deadline = deadline, .operation = {}, .region = region}));
  const auto body = Decode<wire::PutDataReply>(session, reply);
  co_return body.status();
}

rt::Task<Result<PutResult>> CommitStream(DataSession& session, uint64_t handle, uint64_t size,
                                         uint32_t crc32c, OperationId operation, base::TimePoint deadline) {
  const wire::PutCommitRequest ask{.handle = handle, .size = size, .crc32c = crc32c};
  FB_CO_ASSIGN(const Reply reply,
               co_await session.Call(wire::Type::kPutCommit, ask, {},
                                     {.deadline = deadline, .operation = operation, .region = {}}));
  FB_CO_ASSIGN(const auto body, Decode<wire::StoredReply>(session, reply));
  auto result = ResultOf(body, size, crc32c);
  if (!result) co_return ToStatus(result.error());
  co_return *std::move(result);
}

rt::Task<Status> AbortStream(DataSession& session, uint64_t handle, base::TimePoint deadline) {
  const Result<Reply> reply =
      co_await session.Call(wire::Type::kPutAbort, wire::PutAbortRequest{handle}, {}, {.deadline = deadline});
  co_return reply.status();
}

}  // namespace forebay::client
