// SPDX-License-Identifier: Apache-2.0
// The requests of a stream: a put of unknown size, an overwrite, a part of an upload.
#include <optional>
#include <string>
#include <utility>

#include "base/checksum.h"
#include "native/connection.h"
#include "native/object_reply.h"
#include "native/payload.h"

namespace forebay::native {
namespace {

Status NoSuchStream(uint64_t handle) {
  return Status::NotFound(
      "there is no open put {} on this connection; it was finished, or given up for being idle", handle);
}

/// Makes a stream of the writer that `open(store)` gives, once the request may have one.
template <typename Open>
rt::Task<Result<wire::PutBeginReply>> BeginWith(Connection& connection, Request& request, std::string_view bucket,
                                                std::string_view key, bool tells_all, Open open) {
  FB_CO_TRY(connection.CheckAllowed(request.header.type, bucket, key));
  const auto full = [&connection] {
    return connection.streams().full()
               ? Status::ResourceExhausted("{} puts of unknown size are open on this connection",
                                           connection.services().options.max_streams)
               : Status();
  };
  FB_CO_TRY(full());
  FB_CO_TRY((co_await connection.allowance().Admit(request, {.operations = 1}, 0)).status());
  FB_CO_ASSIGN(std::unique_ptr<store::ObjectWriter> writer, co_await open(connection.services().store));
  FB_CO_TRY(full());  // others may have come while the store worked
  FB_CO_TRY(request.Stopped());
  wire::PutBeginReply reply;
  if (tells_all) reply.replays = writer->replays();
  reply.handle = connection.streams().Add(std::move(writer), tells_all);
  co_return reply;
}

store::UserMetadata ToMap(const wire::MetadataView& view) { return {view.begin(), view.end()}; }

rt::Task<Result<wire::PutBeginReply>> BeginPut(Connection& connection, Request& request) {
  FB_CO_ASSIGN(const wire::PutBeginRequest ask, wire::DecodeBody<wire::PutBeginRequest>(request.body));
  store::PutOptions options{.condition = ToCondition(ask.condition, ask.etag),
                            .size_bytes = ask.size,
                            .metadata = ToMap(ask.metadata)};
  if (ask.chosen) {
    options.attributes = ToMap(ask.chosen->attributes);
    options.etag = ask.chosen->etag;
  }
  co_return co_await BeginWith(connection, request, ask.bucket, ask.key, ask.chosen.has_value(),
                               [&](store::ObjectStore& store) {
                                 return store.Put(request.context, std::string(ask.bucket), std::string(ask.key),
                                                  std::move(options));
                               });
}

rt::Task<Result<wire::PutBeginReply>> BeginOverwrite(Connection& connection, Request& request) {
  FB_CO_ASSIGN(const wire::OverwriteBeginRequest ask, wire::DecodeBody<wire::OverwriteBeginRequest>(request.body));
  store::OverwriteOptions options{
      .condition = ToCondition(ask.condition, ask.etag), .offset = ask.offset, .size_bytes = ask.size};
  co_return co_await BeginWith(connection, request, ask.bucket, ask.key, true, [&](store::ObjectStore& store) {
    return store.Overwrite(request.context, std::string(ask.bucket), std::string(ask.key), std::move(options));
  });
}

rt::Task<Result<wire::PutBeginReply>> BeginPart(Connection& connection, Request& request) {
  FB_CO_ASSIGN(const wire::PartBeginRequest ask, wire::DecodeBody<wire::PartBeginRequest>(request.body));
  store::PutOptions options{.size_bytes = ask.size, .etag = std::string(ask.etag)};
  co_return co_await BeginWith(connection, request, ask.bucket, ask.key, true, [&](store::ObjectStore& store) {
    return store.PutPart(request.context,
                         {.bucket = std::string(ask.bucket), .key = std::string(ask.key), .id = ask.upload},
                         ask.number, std::move(options));
  });
}

/// Whether the piece may follow those before it.
Status CheckPiece(const PutStream& stream, const wire::PutDataRequest& ask) {
  FB_TRY(stream.status);
  if (ask.offset != stream.announced)
    return Status::InvalidArgument("a piece at {} follows {} bytes: pieces come in order", ask.offset,
                                   stream.announced);
  if (stream.ragged)
    return Status::InvalidArgument("a piece follows one whose size is not a multiple of {}",
                                   base::Arena::kPage);
  if (ask.size > base::kMaxObjectBytes - stream.announced)
    return Status::InvalidArgument("an object has at most {} bytes", base::kMaxObjectBytes);
  return {};
}

rt::Task<Status> CheckAndWrite(Request& request, PutStream& stream, const wire::PutDataRequest& ask,
                               std::vector<base::Buffer> data) {
  uint32_t crc32c = base::kCrc32cEmpty;
  for (const base::Buffer& buffer : data) crc32c = base::Crc32cExtend(crc32c, buffer.view());
  if (crc32c != ask.crc32c)
    co_return Status::DataLoss("a piece of {} bytes at {} arrived with checksum {:08x} instead of {:08x}",
                               ask.size, ask.offset, crc32c, ask.crc32c);
  while (stream.status.ok() && stream.written != ask.offset) co_await stream.progress.Wait();
  for (base::Buffer& buffer : data) {
    FB_CO_TRY(stream.status);
    FB_CO_TRY(co_await stream.writer->Write(request.context, std::move(buffer)));
  }
  stream.written += ask.size;
  co_return stream.status;
}

/// Has a turn among the transfers only while bytes move: what was fetched may have to wait for the pieces before it.
rt::Task<Result<std::vector<base::Buffer>>> FetchPiece(Connection& connection, Request& request, PutStream& stream,
                                                       const wire::PutDataRequest& ask, Admission::Place& place) {
  const Result<Allowance::TransferPlace> transfer = co_await connection.allowance().BeginTransfer(request);
  FB_CO_TRY(transfer.status());
  FB_CO_ASSIGN(place, co_await connection.allowance().Admit(request, {.bytes = ask.size}, ask.size));
  if (!stream.status.ok()) {
    connection.allowance().Refund(ask.size);
    co_return stream.status;
  }
  co_return co_await Fetch(connection, request, *stream.writer, {ask.source, ask.region}, ask.region_offset, ask.size);
}

rt::Task<Status> TakePiece(Connection& connection, Request& request, PutStream& stream,
                           const wire::PutDataRequest& ask) {
  if (stream.writer->replays()) {  // it took place before: its content is not needed again
    stream.written += ask.size;
    co_return Status();
  }
  Admission::Place place;
  FB_CO_ASSIGN(std::vector<base::Buffer> data, co_await FetchPiece(connection, request, stream, ask, place));
  co_return co_await CheckAndWrite(request, stream, ask, std::move(data));
}

rt::Task<Result<wire::PutDataReply>> Data(Connection& connection, Request& request) {
  FB_CO_ASSIGN(const wire::PutDataRequest ask, wire::DecodeBody<wire::PutDataRequest>(request.body));
  PutStream* const stream = connection.streams().Find(ask.handle);
  if (stream == nullptr) co_return NoSuchStream(ask.handle);
  Status status = CheckPiece(*stream, ask);
  if (status.ok()) status = CheckSource(request, {ask.source, ask.region}, ask.region_offset, ask.size);
  if (status.ok()) {
    stream->announced += ask.size;
    stream->ragged = ask.size % base::Arena::kPage != 0;
    ++stream->pieces;
    status = co_await TakePiece(connection, request, *stream, ask);
    --stream->pieces;
  }
  if (!status.ok()) stream->Fail(status.WithContext("an earlier piece failed"));
  const uint64_t received = stream->written;
  stream->Progress();  // from here on the stream may be gone
  if (!status.ok()) co_return status;
  co_return wire::PutDataReply{.received = received};
}

/// Waits until no piece of a stream that was taken out is in progress.
rt::Task<void> Settle(PutStream& stream) {
  while (stream.pieces != 0) co_await stream.progress.Wait();
}

struct Committed {
  store::ObjectInfo object;
  bool tells_all = false;
};

rt::Task<Result<Committed>> Commit(Connection& connection, Request& request) {
  FB_CO_ASSIGN(const wire::PutCommitRequest ask, wire::DecodeBody<wire::PutCommitRequest>(request.body));
  const std::unique_ptr<PutStream> stream = connection.streams().Take(ask.handle);
  if (stream == nullptr) co_return NoSuchStream(ask.handle);
  co_await Settle(*stream);
  FB_CO_TRY(stream->status);
  FB_CO_TRY(request.Stopped());
  if (ask.unchecked && (!stream->writer->replays() || ask.size != 0))
    co_return Status::InvalidArgument("a put is committed without its checksum only when nothing of it is needed");
  if (ask.size != stream->written)
    co_return Status::DataLoss("a put of {} bytes is to be committed, but {} came", ask.size,
                               stream->written);
  const std::optional<uint32_t> crc32c = ask.unchecked ? std::nullopt : std::optional(ask.crc32c);
  FB_CO_ASSIGN(store::ObjectInfo object, co_await stream->writer->Commit(request.context, crc32c));
  co_return Committed{.object = std::move(object), .tells_all = stream->tells_all};
}

rt::Task<Result<wire::EmptyReply>> Abort(Connection& connection, Request& request) {
  FB_CO_ASSIGN(const wire::PutAbortRequest ask, wire::DecodeBody<wire::PutAbortRequest>(request.body));
  const std::unique_ptr<PutStream> stream = connection.streams().Take(ask.handle);
  if (stream == nullptr) co_return NoSuchStream(ask.handle);
  stream->Fail(Status::Aborted("the put was aborted"));
  co_await Settle(*stream);
  co_return wire::EmptyReply{};
}

template <typename Body>
rt::Task<void> Answer(Connection& connection, Request& request, Result<Body> result) {
  if (result.ok())
    (void)co_await connection.Reply(request, *result);
  else
    (void)co_await connection.ReplyError(request.header, result.status());
}

}  // namespace

rt::Task<void> HandlePutBegin(Connection& connection, Request& request) {
  co_await Answer(connection, request, co_await BeginPut(connection, request));
}

rt::Task<void> HandleOverwriteBegin(Connection& connection, Request& request) {
  co_await Answer(connection, request, co_await BeginOverwrite(connection, request));
}

rt::Task<void> HandlePartBegin(Connection& connection, Request& request) {
  co_await Answer(connection, request, co_await BeginPart(connection, request));
}

rt::Task<void> HandlePutData(Connection& connection, Request& request) {
  co_await Answer(connection, request, co_await Data(connection, request));
}

rt::Task<void> HandlePutCommit(Connection& connection, Request& request) {
  const Result<Committed> committed = co_await Commit(connection, request);
  if (!committed.ok()) {
    (void)co_await connection.ReplyError(request.header, committed.status());
  } else if (committed->tells_all) {
    (void)co_await connection.Reply(request, ToReply(committed->object));
  } else {
    const store::ObjectInfo& object = committed->object;
    const wire::StoredReply reply{
        .size = object.size_bytes, .version = object.version, .crc32c = object.crc32c, .etag = object.etag};
    (void)co_await connection.Reply(request, reply);
  }
}

rt::Task<void> HandlePutAbort(Connection& connection, Request& request) {
  co_await Answer(connection, request, co_await Abort(connection, request));
}

}  // namespace forebay::native
