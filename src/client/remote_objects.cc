// SPDX-License-Identifier: Apache-2.0
#include "client/remote_objects.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "client/operations.h"
#include "rt/forked.h"
#include "store/checks.h"
#include "store/memory_wait.h"

namespace forebay::client {
namespace {

/// Of one writer.
constexpr size_t kPiecesInFlight = 4;
constexpr base::Duration kAbortWithin = std::chrono::seconds(1);

void Pulse(rt::Event& event) {
  event.Set();
  event.Reset();
}

rt::Forked SendOne(std::shared_ptr<OpenStream> stream, base::Buffer data, uint64_t offset, uint32_t crc32c,
                   base::TimePoint deadline) {
  const Status sent =
      co_await SendPiece(*stream->session, stream->stream.handle, offset, data.view(), crc32c, deadline);
  data = {};
  if (stream->status.ok()) stream->status = sent;
  --stream->in_flight;
  Pulse(stream->progress);
}

rt::Task<void> Settle(OpenStream& stream) {
  while (stream.in_flight != 0) co_await stream.progress.Wait();
}

/// A server that does not hear of it gives the stream up by itself.
rt::Forked GiveUp(std::shared_ptr<OpenStream> stream) {
  co_await Settle(*stream);
  const base::TimePoint until = base::DeadlineAfter(stream->session->reactor().Now(), kAbortWithin);
  (void)co_await AbortStream(*stream->session, stream->stream.handle, until);
}

/// One that does not hear of it lets it go by itself.
rt::Forked CloseHeld(std::shared_ptr<HeldObject> held) {
  const base::TimePoint until = base::DeadlineAfter(held->session->reactor().Now(), kAbortWithin);
  (void)co_await CloseObject(*held->session, held->opened.handle, until);
}

}  // namespace

rt::Task<Result<store::ReadData>> RemoteReader::Read(const store::Context& context, uint64_t offset,
                                                     uint64_t length) {
  FB_CO_TRY(store::CheckRead(bucket_, info_, offset, length));
  if (length == 0) {
    FB_CO_TRY(link_.Admit(context, "read"));
    co_return store::ReadData{.crc32c = base::kCrc32cEmpty};
  }
  FB_CO_ASSIGN(base::Buffer buffer, co_await store::AllocateOrWait(arena_, context, length));
  store::ReadData data{.size_bytes = length};
  FB_CO_ASSIGN(data.crc32c, co_await Fill(context, offset, buffer.writable().first(length)));
  data.buffers.push_back(buffer.Slice(0, length));
  co_return data;
}

rt::Task<Result<uint32_t>> RemoteReader::Fill(const store::Context& context, uint64_t offset, MutableByteView memory) {
  FB_CO_TRY(link_.Admit(context, "read"));
  if (const std::shared_ptr<HeldObject> held = held_; held != nullptr) {
    Result<uint32_t> crc32c =
        co_await ReadObject(*held->session, held->opened, offset, memory, link_.DeadlineOf(context));
    const bool lost = crc32c.status().code() == Code::kNotFound || crc32c.status().code() == Code::kUnavailable;
    if (!lost) co_return crc32c;
    if (held_ == held) held_ = nullptr;  // its connection was lost, or the server let it go
  }
  co_return co_await FillByNumber(context, offset, memory);
}

rt::Task<Result<uint32_t>> RemoteReader::FillByNumber(const store::Context& context, uint64_t offset,
                                                      MutableByteView memory) {
  const GetItem item{.bucket = bucket_,
                     .key = info_.key,
                     .length = memory.size(),
                     .offset = offset,
                     .if_match = info_.etag,
                     .version = info_.version};
  auto results = co_await link_.Data(context, "read", true, [&](DataSession& session, base::TimePoint deadline) {
    return GetItems(session, {&item, 1}, memory, deadline);
  });
  FB_CO_TRY(results.status());
  const auto& result = results->front();
  if (!result) {
    if (result.error().code == Code::kNotFound)
      co_return Status::Aborted("version {} of `{}/{}` was replaced or deleted while it was being read: open it again",
                                info_.version, bucket_, info_.key);
    co_return ToStatus(result.error());
  }
  if (result->size != memory.size())
    co_return Status::DataLoss("{} bytes of `{}/{}` at {} came instead of {}", result->size, bucket_, info_.key, offset,
                               memory.size());
  co_return result->crc32c;
}

RemoteReader::~RemoteReader() {
  if (held_ != nullptr) CloseHeld(std::move(held_));
}

RemoteWriter::~RemoteWriter() {
  if (stream_ != nullptr) GiveUp(std::move(stream_));
}

rt::Task<Result<base::Buffer>> RemoteWriter::Allocate(const store::Context& context, size_t size) {
  FB_CO_TRY(link_.Admit(context, "write"));
  co_return co_await store::AllocateOrWait(arena_, context, std::min(size, base::Arena::kMaxAllocation));
}

rt::Task<Status> RemoteWriter::Write(const store::Context& context, base::Buffer data) {
  FB_CO_TRY(link_.Admit(context, "write"));
  if (stream_ == nullptr) co_return Status::FailedPrecondition("the put has ended: begin another one");
  if (data.empty()) co_return stream_->status;
  if (ragged_)
    co_return Status::InvalidArgument("a buffer follows one whose size is not a multiple of {}", base::Arena::kPage);
  FB_CO_TRY(store::CheckObjectSize(size_, data.size()));
  const base::TimePoint deadline = link_.DeadlineOf(context);
  while (stream_->status.ok() && stream_->in_flight >= kPiecesInFlight)
    if (!co_await stream_->progress.Wait({.deadline = deadline}))
      co_return Status::DeadlineExceeded("the pieces before one at {} were not sent in time", size_);
  FB_CO_TRY(stream_->status);
  const uint64_t offset = size_;
  const uint32_t crc32c = base::Crc32c(data.view());
  crc32c_ = base::Crc32cCombine(crc32c_, crc32c, data.size());
  size_ += data.size();
  ragged_ = data.size() % base::Arena::kPage != 0;
  ++stream_->in_flight;
  SendOne(stream_, std::move(data), offset, crc32c, deadline);
  co_return stream_->status;
}

rt::Task<Result<store::ObjectInfo>> RemoteWriter::Commit(const store::Context& context,
                                                         std::optional<uint32_t> crc32c) {
  FB_CO_TRY(link_.Admit(context, "commit"));
  if (stream_ == nullptr) co_return Status::FailedPrecondition("the put has ended: begin another one");
  const std::shared_ptr<OpenStream> stream = std::exchange(stream_, nullptr);
  co_await Settle(*stream);
  if (!stream->status.ok()) {
    const Status status = stream->status;
    GiveUp(stream);
    co_return status;
  }
  const bool sent_nothing = replays_ && size_ == 0;
  if (!crc32c && !sent_nothing) crc32c = crc32c_;
  FB_CO_ASSIGN(store::ObjectInfo object,
               co_await FinishStream(*stream->session, stream->stream.handle, size_, crc32c, context.operation,
                                     link_.DeadlineOf(context)));
  object.key = key_;
  co_return object;
}

}  // namespace forebay::client
