// SPDX-License-Identifier: Apache-2.0
#include "client/data_session.h"

#include <algorithm>
#include <array>
#include <utility>

namespace forebay::client {
namespace {

/// Time left, for the header: at least 1, because 0 means none.
uint64_t TimeLeftUs(base::TimePoint now, base::TimePoint deadline) {
  if (deadline == base::kNever) return 0;
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - now).count();
  return left < 1 ? 1 : static_cast<uint64_t>(left);
}

}  // namespace

DataSession::DataSession(std::unique_ptr<fabric::Endpoint> endpoint, SessionKey key)
    : endpoint_(std::move(endpoint)),
      id_(key.id),
      tenant_(key.tenant),
      mac_(key.key.view()),
      gate_(endpoint_->reactor()),
      slots_(endpoint_->reactor(), 1),
      streams_(endpoint_->reactor(), 0) {}

DataSession::~DataSession() = default;

rt::Task<Result<std::unique_ptr<DataSession>>> DataSession::Open(std::unique_ptr<fabric::Endpoint> endpoint,
                                                                 SessionKey key, base::TimePoint deadline) {
  std::unique_ptr<DataSession> session(new DataSession(std::move(endpoint), std::move(key)));
  session->reactor().Spawn(session->gate_, session->ReceiveLoop());
  const Status greeted = co_await session->Hello(deadline);
  if (greeted.ok()) co_return session;
  co_await session->Close(greeted);
  co_return greeted;
}

rt::Task<Status> DataSession::Hello(base::TimePoint deadline) {
  FB_CO_ASSIGN(const Reply reply, co_await Call(wire::Type::kHello, wire::HelloRequest{"forebay client"}, {},
                                                {.deadline = deadline}));
  const auto hello = wire::DecodeBody<wire::HelloReply>(reply.body);
  if (!hello.ok()) co_return hello.status();
  if (hello->max_requests == 0) co_return Status::Internal("the server takes no requests");
  max_inline_bytes_ = std::min<uint32_t>(hello->max_inline_bytes, base::kMaxInlineBytes);
  slots_.Release(std::min<uint32_t>(hello->max_requests, 4096) - 1);
  streams_.Release(std::min<uint32_t>(hello->max_streams, 4096));
  co_return Status();
}

// ---- the end ----

rt::Task<void> DataSession::Close(Status reason) {
  co_await End(Status::Unavailable("{}", reason.message()));
  co_await gate_.Close();
}

Result<rt::Gate::Holder> DataSession::Hold() {
  FB_TRY(state_);
  return gate_.Enter();
}

/// The first reason stays. After the fence nothing touches a caller's memory, so only then do the calls learn
/// of it.
rt::Task<void> DataSession::End(Status why) {
  if (state_.ok()) state_ = std::move(why);
  co_await endpoint_->Fence(state_);
  life_.Cancel();
  for (const auto& [request, pending] : std::exchange(pending_, {})) {
    pending->reply = state_;
    pending->done.Set();
  }
  abandoned_.clear();
}

Status DataSession::Distrust(const Status& why) {
  const Status error = Status::Internal("{} broke the protocol: {}", endpoint_->peer(), why.message());
  if (state_.ok()) state_ = Status::Unavailable("{}", error.message());
  if (auto holder = gate_.Enter(); holder.ok()) reactor().Spawn(gate_, End(state_));
  return error;
}

// ---- receiving ----

rt::Task<void> DataSession::ReceiveLoop() {
  for (;;) {
    Result<Bytes> message = co_await endpoint_->Receive();
    Status status = message.status();
    if (status.ok()) {
      status = Accept(*std::move(message));
      if (!status.ok())
        status = Status::Unavailable("{} broke the protocol: {}", endpoint_->peer(), status.message());
    }
    if (status.ok()) continue;
    co_await End(std::move(status));
    co_return;
  }
}

Status DataSession::Accept(Bytes message) {
  FB_ASSIGN(const wire::MessageView view, wire::DecodeMessage(message));
  std::array<std::byte, wire::kMacBytes> tag;
  const MutableByteView place = wire::MacOf(message);
  std::ranges::copy(place, tag.begin());
  std::ranges::fill(place, std::byte{0});
  if (!mac_.Verify(tag, wire::SignedPart(message, view.payload.size())))
    return Status::Unauthenticated("a reply with a wrong MAC");
  const wire::Header& header = view.header;
  if (!header.reply || header.session != id_)
    return Status::Unauthenticated("a message of another session or direction");
  if (header.counter != received_ + 1)
    return Status::Unauthenticated("a reply with counter {} after {}", header.counter, received_);
  ++received_;
  const auto found = pending_.find(header.request);
  if (found == pending_.end()) {
    if (abandoned_.erase(header.request) != 0) return {};
    return Status::Internal("a reply to request {}, which nobody made", header.request);
  }
  Pending& pending = *found->second;
  if (pending.type != header.type)
    return Status::Internal("a reply of type {} to a {}", static_cast<unsigned>(header.type),
                            wire::TypeName(pending.type));
  if (header.status == Code::kOk) {
    pending.reply = Reply{.message = std::move(message), .body = view.body, .payload = view.payload};
  } else {
    FB_ASSIGN(const wire::ErrorReply error, wire::DecodeBody<wire::ErrorReply>(view.body));
    pending.reply = Status(header.status, std::string(error.message));
  }
  pending_.erase(found);
  pending.done.Set();
  return {};
}

// ---- calling ----

rt::Task<Result<rt::Units>> DataSession::StreamPlace(base::TimePoint deadline) {
  FB_CO_ASSIGN(const rt::Gate::Holder holder, Hold());
  if (co_await streams_.Acquire(1, {.token = &life_, .deadline = deadline})) co_return rt::Units(streams_, 1);
  FB_CO_TRY(state_);
  co_return Status::DeadlineExceeded("all streams of this connection to {} were in use", endpoint_->peer());
}

Result<fabric::RegionToken> DataSession::Offer(MutableByteView memory, fabric::Direction direction,
                                               base::TimePoint deadline) {
  FB_TRY(state_);
  if (memory.empty()) return fabric::RegionToken{};
  return endpoint_->Offer(memory, direction, deadline);
}

template <typename Body>
Result<Bytes> DataSession::Encode(wire::Type type, uint64_t request, const Body& body, ByteView payload,
                                  const CallTerms& terms) {
  const wire::Header header{.type = type,
                            .session = id_,
                            .counter = sent_ + 1,
                            .tenant = tenant_,
                            .operation = terms.operation,
                            .deadline_us = TimeLeftUs(reactor().Now(), terms.deadline),
                            .request = request};
  Bytes message = wire::EncodeMessage(header, body, payload);
  if (message.size() > base::kMaxMessageBytes)
    return Status::InvalidArgument("a {} of {} bytes is over the limit of {} for a message: split the batch",
                                   wire::TypeName(type), message.size(), base::kMaxMessageBytes);
  const auth::MessageMac::Tag tag = mac_.Compute(wire::SignedPart(message, payload.size()));
  std::copy_n(tag.begin(), wire::kMacBytes, wire::MacOf(message).begin());
  ++sent_;
  return message;
}

/// Forked, so that a peer that takes nothing cannot hold a call beyond its deadline.
rt::Forked DataSession::Transmit(Bytes message) {
  const Result<rt::Gate::Holder> holder = gate_.Enter();
  if (!holder.ok()) co_return;
  (void)co_await endpoint_->Send(std::move(message));  // the receive loop notices what ends the connection
}

template <typename Body>
rt::Task<Result<Reply>> DataSession::Call(wire::Type type, const Body& body, ByteView payload,
                                          CallTerms terms) {
  FB_CO_ASSIGN(const rt::Gate::Holder holder, Hold());
  Result<Reply> reply = Status::Internal("not sent");
  if (!co_await slots_.Acquire(1, {.token = &life_, .deadline = terms.deadline})) {
    reply = state_.ok() ? Status::DeadlineExceeded("{} requests of this connection were in the way of a {}",
                                                   pending_.size(), wire::TypeName(type))
                        : state_;
  } else {
    rt::Units slot(slots_, 1);
    const uint64_t request = ++last_request_;
    Result<Bytes> message = state_.ok() ? Encode(type, request, body, payload, terms) : Result<Bytes>(state_);
    if (message.ok()) {
      Pending pending(reactor(), type);
      pending_.emplace(request, &pending);
      Transmit(*std::move(message));
      reply = co_await Await(pending, request, std::move(slot), terms);
    } else {
      reply = message.status();
    }
  }
  co_await Withdraw(terms);
  co_return reply;
}

rt::Task<Result<Reply>> DataSession::Await(Pending& pending, uint64_t request, rt::Units slot,
                                           CallTerms& terms) {
  if (co_await pending.done.Wait({.deadline = terms.deadline})) co_return std::move(pending.reply);
  pending_.erase(request);
  abandoned_.emplace(request, std::move(slot));
  co_await Withdraw(terms);
  co_await CancelRemote(request);
  co_return Status::DeadlineExceeded("no answer to a {} came in time from {}", wire::TypeName(pending.type),
                                     endpoint_->peer());
}

/// From here on the memory is the caller's alone.
rt::Task<void> DataSession::Withdraw(CallTerms& terms) {
  if (!terms.region.has_value() || terms.region->key == 0) co_return;
  const Status withdrawn = co_await endpoint_->Withdraw(*terms.region);
  if (!withdrawn.ok()) co_await endpoint_->Fence(withdrawn);
  terms.region.reset();
}

/// Asks the server to stop working on `request`; no answer in time: fences.
rt::Task<void> DataSession::CancelRemote(uint64_t request) {
  const base::TimePoint until = base::DeadlineAfter(reactor().Now(), kCancelWithin);
  const uint64_t number = ++last_request_;
  if (!state_.ok()) {  // ended meanwhile, or ending: gone for good once the fence is up
    co_await endpoint_->Fence(state_);
    co_return;
  }
  Result<Bytes> message = Encode(wire::Type::kCancel, number, wire::CancelRequest{request}, {}, {});
  if (!message.ok()) co_return;
  Pending pending(reactor(), wire::Type::kCancel);
  pending_.emplace(number, &pending);
  Transmit(*std::move(message));
  if (co_await pending.done.Wait({.deadline = until})) co_return;
  pending_.erase(number);
  co_await End(Status::Unavailable("{} did not confirm within {} s that it stopped", endpoint_->peer(),
                                   std::chrono::duration_cast<std::chrono::seconds>(kCancelWithin).count()));
}

#define FB_CLIENT_CALL(Body) \
  template rt::Task<Result<Reply>> DataSession::Call(wire::Type, const Body&, ByteView, CallTerms);
FB_CLIENT_CALL(wire::HelloRequest)
FB_CLIENT_CALL(wire::GetRequest)
FB_CLIENT_CALL(wire::GetVersionRequest)
FB_CLIENT_CALL(wire::StatRequest)
FB_CLIENT_CALL(wire::OpenRequest)
FB_CLIENT_CALL(wire::ReadRequest)
FB_CLIENT_CALL(wire::CloseRequest)
FB_CLIENT_CALL(wire::PutRequest)
FB_CLIENT_CALL(wire::ExistsRequest)
FB_CLIENT_CALL(wire::PutBeginRequest)
FB_CLIENT_CALL(wire::OverwriteBeginRequest)
FB_CLIENT_CALL(wire::PartBeginRequest)
FB_CLIENT_CALL(wire::PutDataRequest)
FB_CLIENT_CALL(wire::PutCommitRequest)
FB_CLIENT_CALL(wire::PutAbortRequest)
#undef FB_CLIENT_CALL

}  // namespace forebay::client
