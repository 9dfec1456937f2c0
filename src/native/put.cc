// SPDX-License-Identifier: Apache-2.0
// Put: a batch of whole objects, each fetched from the client in chunks, written and committed on its own.
// Items run concurrently, so that their commits share the store's flushes; their chunks share the request's
// window of bytes. The store compares the content's checksum with the client's at Commit: a pass over the
// bytes that it makes anyway.
#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "native/connection.h"
#include "native/payload.h"
#include "rt/forked.h"

namespace forebay::native {
namespace {

/// Chunks of one item that are fetched ahead of the store's writing.
constexpr size_t kChunksAhead = 4;

struct Chunk {
  uint64_t offset;
  uint64_t size;
  bool ready = false;
  Admission::Place place{};  // while its data is held, unless the whole request has one
  Result<std::vector<base::Buffer>> data = std::vector<base::Buffer>();
};

class PutRun {
 public:
  /// `place` is for the whole payload, or, with `in_chunks`, for none of it: then each chunk asks for its own.
  PutRun(Connection& connection, Request& request, wire::PutRequest ask, uint64_t window_bytes, Admission::Place place,
         bool in_chunks)
      : connection_(connection),
        request_(request),
        ask_(std::move(ask)),
        results_(ask_.items.size(), Status::Internal("not begun")),
        place_(std::move(place)),
        in_chunks_(in_chunks),
        running_(request.context.reactor),
        window_(request.context.reactor, window_bytes),
        order_(request.context.reactor) {}

  rt::Task<void> Run();

 private:
  rt::Forked RunItem(size_t index);
  rt::Task<Result<store::ObjectInfo>> StoreItem(const wire::PutItem& item);
  rt::Task<Status> Move(const wire::PutItem& item, const store::Context& context,
                        store::ObjectWriter& writer);
  rt::Forked FetchChunk(const wire::PutItem& item, store::ObjectWriter& writer, Chunk& chunk,
                        rt::Event& progress);
  rt::Task<Status> TakeRoom(Chunk& chunk);
  PayloadSource SourceOf(const wire::PutItem& item) const { return {item.source, ask_.region}; }

  Connection& connection_;
  Request& request_;
  const wire::PutRequest ask_;
  std::vector<Result<store::ObjectInfo>> results_;
  const Admission::Place place_;
  const bool in_chunks_;
  rt::WaitGroup running_;
  rt::Semaphore window_;  // bytes
  rt::Mutex order_;       // chunks take their room one after the other: none waits for one that comes after it
};

rt::Task<void> PutRun::Run() {
  running_.Add(ask_.items.size());
  for (size_t i = 0; i < ask_.items.size(); ++i) RunItem(i);
  co_await running_.Wait();

  wire::StoredListReply reply;
  reply.items.reserve(results_.size());
  for (const Result<store::ObjectInfo>& result : results_) {
    if (result.ok()) {
      reply.items.push_back({.size = result->size_bytes,
                             .version = result->version,
                             .crc32c = result->crc32c,
                             .etag = result->etag});
    } else {
      reply.items.push_back({.code = result.error().code(), .message = result.error().message()});
    }
  }
  (void)co_await connection_.Reply(request_, reply);
}

rt::Forked PutRun::RunItem(size_t index) {
  results_[index] = co_await StoreItem(ask_.items[index]);
  running_.Done();
}

store::PutOptions OptionsOf(const wire::PutItem& item) {
  store::PutOptions options;
  options.condition = ToCondition(item.condition, item.etag);
  options.size_bytes = item.size;
  for (const auto& [name, value] : item.metadata) options.metadata.emplace(name, value);
  return options;
}

rt::Task<Result<store::ObjectInfo>> PutRun::StoreItem(const wire::PutItem& item) {
  FB_CO_TRY(connection_.CheckAllowed(request_.header.type, item.bucket, item.key));
  FB_CO_TRY(CheckSource(request_, SourceOf(item), item.source_offset, item.size));
  const store::Context context{.reactor = request_.context.reactor,
                               .tenant = request_.context.tenant,
                               .operation = item.operation,
                               .deadline = request_.context.deadline};
  FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
               co_await connection_.services().store.Put(context, std::string(item.bucket),
                                                         std::string(item.key), OptionsOf(item)));
  if (!writer->replays()) {
    FB_CO_TRY(co_await Move(item, context, *writer));
  }
  FB_CO_TRY(request_.Stopped());
  co_return co_await writer->Commit(context, item.crc32c);
}

/// Fetches a few chunks ahead and writes them in order. Every fetch has ended when this returns.
rt::Task<Status> PutRun::Move(const wire::PutItem& item, const store::Context& context,
                              store::ObjectWriter& writer) {
  std::deque<Chunk> chunks;
  rt::Event progress(context.reactor);
  uint64_t planned = 0;
  Status status;
  while (!chunks.empty() || (status.ok() && planned < item.size)) {
    while (status.ok() && planned < item.size && chunks.size() < kChunksAhead) {
      const uint64_t size = std::min<uint64_t>(item.size - planned, connection_.allowance().chunk_bytes());
      Chunk& chunk = chunks.emplace_back(planned, size);
      planned += size;
      FetchChunk(item, writer, chunk, progress);
    }
    Chunk& front = chunks.front();
    while (!front.ready) {
      co_await progress.Wait();
      progress.Reset();
    }
    if (status.ok()) status = front.data.status();
    if (front.data.ok()) {
      for (base::Buffer& buffer : *front.data) {
        if (status.ok()) status = co_await writer.Write(context, std::move(buffer));
      }
      window_.Release(front.size);
    }
    chunks.pop_front();
  }
  co_return status;
}

/// Of the request's window, and of the reactor's. The window's is given back when this fails.
rt::Task<Status> PutRun::TakeRoom(Chunk& chunk) {
  const rt::Units turn = co_await order_.Lock();
  if (!co_await window_.Acquire(chunk.size,
                                {.token = &request_.cancel, .deadline = request_.context.deadline})) {
    FB_CO_TRY(request_.Stopped());
    co_return Status::DeadlineExceeded("the server had no memory for a chunk in time");
  }
  if (!in_chunks_) co_return Status();
  Result<Admission::Place> place = co_await connection_.allowance().Admit(request_, {.bytes = chunk.size}, chunk.size);
  if (!place.ok()) {
    window_.Release(chunk.size);
    co_return place.status();
  }
  chunk.place = *std::move(place);
  co_return Status();
}

/// A chunk that is ready with data holds its size of the window.
rt::Forked PutRun::FetchChunk(const wire::PutItem& item, store::ObjectWriter& writer, Chunk& chunk,
                              rt::Event& progress) {
  if (const Status room = co_await TakeRoom(chunk); !room.ok()) {
    chunk.data = room;
  } else {
    chunk.data = co_await Fetch(connection_, request_, writer, SourceOf(item),
                                item.source_offset + chunk.offset, chunk.size);
    if (!chunk.data.ok()) window_.Release(chunk.size);
  }
  chunk.ready = true;
  progress.Set();
}

}  // namespace

rt::Task<void> HandlePut(Connection& connection, Request& request) {
  Result<wire::PutRequest> ask = wire::DecodeBody<wire::PutRequest>(request.body);
  if (!ask.ok()) {
    (void)co_await connection.ReplyError(request.header, ask.status());
    co_return;
  }
  // Sizes that lie beyond the source are refused item by item; here they only must not wrap.
  uint64_t total = 0;
  const size_t limit = connection.services().request_window_bytes;
  for (const wire::PutItem& item : ask->items) total += std::min<uint64_t>(item.size, limit);
  const size_t window = std::min<uint64_t>(total, limit);
  Allowance& allowance = connection.allowance();
  const Result<Allowance::TransferPlace> transfer = co_await allowance.BeginTransfer(request);
  if (!transfer.ok()) {
    (void)co_await connection.ReplyError(request.header, transfer.status());
    co_return;
  }
  const bool in_chunks = window > allowance.chunk_bytes();
  const size_t at_once = in_chunks ? 0 : window;
  Result<Admission::Place> place = 
      co_await allowance.Admit(request, {.operations = ask->items.size(), .bytes = at_once}, at_once);
  if (!place.ok()) {
    (void)co_await connection.ReplyError(request.header, place.status());
    co_return;
  }
  PutRun run(connection, request, *std::move(ask), window, *std::move(place), in_chunks);
  co_await run.Run();
}

}  // namespace forebay::native
