// SPDX-License-Identifier: Apache-2.0
#include "client/object_requests.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/checksum.h"
#include "base/limits.h"
#include "client/operations.h"

namespace forebay::client {
namespace {

/// Longer strings would be cut to their 16-bit length on the wire.
Status CheckFits(std::string_view bucket, std::string_view key, std::string_view etag) {
  if (bucket.size() > base::kMaxBucketNameBytes) return store::NoSuchBucket(bucket);
  FB_TRY(base::CheckKey(key));
  if (etag.size() <= base::kMaxETagBytes) return {};
  return Status::InvalidArgument("an ETag of {} bytes; at most {} are allowed", etag.size(), base::kMaxETagBytes);
}

Status CheckFits(const store::UserMetadata& metadata) {
  size_t total = 0;
  for (const auto& [name, value] : metadata) total += name.size() + value.size();
  if (total <= base::kMaxUserMetadataBytes) return {};
  return Status::InvalidArgument("metadata or attributes of {} bytes; at most {} are allowed", total,
                                 base::kMaxUserMetadataBytes);
}

wire::Condition ToWire(store::Condition::Kind kind) {
  switch (kind) {
    case store::Condition::Kind::kIfAbsent:
      return wire::Condition::kIfAbsent;
    case store::Condition::Kind::kIfMatch:
      return wire::Condition::kIfMatch;
    case store::Condition::Kind::kNone:
      break;
  }
  return wire::Condition::kNone;
}

wire::MetadataView ViewOf(const store::UserMetadata& metadata) { return {metadata.begin(), metadata.end()}; }

store::ObjectInfo InfoOf(const wire::ObjectReply& reply, std::string_view key) {
  constexpr int64_t kMostMs = std::chrono::duration_cast<std::chrono::milliseconds>(base::Duration::max()).count();
  const int64_t modified = std::clamp(reply.modified_unix_ms, -kMostMs, kMostMs);
  return {.key = std::string(key),
          .version = reply.version,
          .size_bytes = reply.size,
          .etag = std::string(reply.etag),
          .crc32c = reply.crc32c,
          .modified = base::WallTime(std::chrono::milliseconds(modified)),
          .metadata = {reply.metadata.begin(), reply.metadata.end()},
          .attributes = {reply.attributes.begin(), reply.attributes.end()}};
}

template <typename Body>
rt::Task<Result<Stream>> Begin(DataSession& session, wire::Type type, const Body& ask, OperationId operation,
                               base::TimePoint deadline) {
  FB_CO_ASSIGN(const Reply reply,
               co_await session.Call(type, ask, {}, {.deadline = deadline, .operation = operation, .region = {}}));
  FB_CO_ASSIGN(const auto body, Decode<wire::PutBeginReply>(session, reply));
  if (!body.replays) co_return session.Distrust(Status::Internal("a {} was answered as a plain put", TypeName(type)));
  co_return Stream{.handle = body.handle, .replays = *body.replays};
}

}  // namespace

rt::Task<Result<store::ObjectInfo>> StatObject(DataSession& session, ObjectRef object, base::TimePoint deadline) {
  FB_CO_TRY(CheckFits(object.bucket, object.key, object.if_match));
  const wire::StatRequest ask{
      .bucket = object.bucket, .key = object.key, .version = object.version, .if_match = object.if_match};
  FB_CO_ASSIGN(const Reply reply, co_await session.Call(wire::Type::kStat, ask, {}, {.deadline = deadline}));
  FB_CO_ASSIGN(const auto body, Decode<wire::ObjectReply>(session, reply));
  co_return InfoOf(body, object.key);
}

rt::Task<Result<OpenedObject>> OpenObject(DataSession& session, ObjectRef object, base::TimePoint deadline) {
  FB_CO_TRY(CheckFits(object.bucket, object.key, object.if_match));
  wire::OpenRequest ask;
  ask.bucket = object.bucket;
  ask.key = object.key;
  ask.version = object.version;
  ask.if_match = object.if_match;
  FB_CO_ASSIGN(const Reply reply, co_await session.Call(wire::Type::kOpen, ask, {}, {.deadline = deadline}));
  FB_CO_ASSIGN(const auto body, Decode<wire::OpenReply>(session, reply));
  co_return OpenedObject{.handle = body.handle, .info = InfoOf(body.object, object.key)};
}

rt::Task<Result<uint32_t>> ReadObject(DataSession& session, const OpenedObject& object, uint64_t offset,
                                      MutableByteView memory, base::TimePoint deadline) {
  wire::ReadRequest ask{
      .handle = object.handle, .offset = offset, .length = memory.size(), .inline_allowed = true, .region = {}};
  fabric::RegionToken region;
  if (memory.size() > session.max_inline_bytes()) {
    FB_CO_ASSIGN(region, session.Offer(memory, fabric::Direction::kPeerWrites, deadline));
    ask.region = {.key = region.key, .length = region.length, .writable = true};
  }
  FB_CO_ASSIGN(const Reply reply,
               co_await session.Call(wire::Type::kRead, ask, {},
                                     {.deadline = deadline, .operation = {}, .region = region}));
  FB_CO_ASSIGN(const auto body, Decode<wire::GetReply>(session, reply));
  const wire::GetItemReply& got = body.items.front();
  if (body.items.size() != 1) co_return session.Distrust(Status::Internal("{} results for a read", body.items.size()));
  if (got.code != Code::kOk) co_return Status(got.code, std::string(got.message));
  if (got.size > memory.size() || reply.payload.size() != (body.inlined ? got.size : 0) ||
      (!body.inlined && !ask.region.present() && got.size != 0))
    co_return session.Distrust(Status::Internal("{} bytes for a read of {}", got.size, memory.size()));
  if (body.inlined) std::ranges::copy(reply.payload, memory.begin());
  const uint32_t actual = base::Crc32c(memory.first(got.size));
  if (got.size != memory.size() || actual != got.crc32c)
    co_return Status::DataLoss("{} bytes of `{}` at {} arrived with checksum {:08x} instead of {} with {:08x}", got.size,
                               object.info.key, offset, actual, memory.size(), got.crc32c);
  co_return actual;
}

rt::Task<Status> CloseObject(DataSession& session, uint64_t handle, base::TimePoint deadline) {
  const auto reply =
      co_await session.Call(wire::Type::kClose, wire::CloseRequest{handle}, {}, {.deadline = deadline});
  co_return reply.status();
}

rt::Task<Result<Stream>> BeginPut(DataSession& session, ObjectRef object, const store::PutOptions& options,
                                  OperationId operation, base::TimePoint deadline) {
  FB_CO_TRY(CheckFits(object.bucket, object.key, options.condition.etag));
  FB_CO_TRY(CheckFits(object.bucket, object.key, options.etag));
  FB_CO_TRY(CheckFits(options.metadata));
  FB_CO_TRY(CheckFits(options.attributes));
  const wire::PutBeginRequest ask{
      .bucket = object.bucket,
      .key = object.key,
      .condition = ToWire(options.condition.kind),
      .etag = options.condition.etag,
      .size = options.size_bytes,
      .metadata = ViewOf(options.metadata),
      .chosen = wire::ChosenView{.attributes = ViewOf(options.attributes), .etag = options.etag}};
  co_return co_await Begin(session, wire::Type::kPutBegin, ask, operation, deadline);
}

rt::Task<Result<Stream>> BeginOverwrite(DataSession& session, ObjectRef object,
                                        const store::OverwriteOptions& options, OperationId operation,
                                        base::TimePoint deadline) {
  FB_CO_TRY(CheckFits(object.bucket, object.key, options.condition.etag));
  const wire::OverwriteBeginRequest ask{.bucket = object.bucket,
                                        .key = object.key,
                                        .condition = ToWire(options.condition.kind),
                                        .etag = options.condition.etag,
                                        .offset = options.offset,
                                        .size = options.size_bytes};
  co_return co_await Begin(session, wire::Type::kOverwriteBegin, ask, operation, deadline);
}

rt::Task<Result<Stream>> BeginPart(DataSession& session, const store::UploadName& upload, uint32_t number,
                                   const store::PutOptions& options, OperationId operation,
                                   base::TimePoint deadline) {
  FB_CO_TRY(CheckFits(upload.bucket, upload.key, options.etag));
  const wire::PartBeginRequest ask{.bucket = upload.bucket,
                                   .key = upload.key,
                                   .upload = upload.id,
                                   .number = number,
                                   .etag = options.etag,
                                   .size = options.size_bytes};
  co_return co_await Begin(session, wire::Type::kPartBegin, ask, operation, deadline);
}

rt::Task<Result<store::ObjectInfo>> FinishStream(DataSession& session, uint64_t handle, uint64_t size,
                                                 std::optional<uint32_t> crc32c, OperationId operation,
                                                 base::TimePoint deadline) {
  const wire::PutCommitRequest ask{
      .handle = handle, .size = size, .crc32c = crc32c.value_or(0), .unchecked = !crc32c.has_value()};
  FB_CO_ASSIGN(const Reply reply,
               co_await session.Call(wire::Type::kPutCommit, ask, {},
                                     {.deadline = deadline, .operation = operation, .region = {}}));
  FB_CO_ASSIGN(const auto body, Decode<wire::ObjectReply>(session, reply));
  co_return InfoOf(body, {});
}

}  // namespace forebay::client
