// SPDX-License-Identifier: Apache-2.0
#include "native/connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include "auth/policy.h"
#include "rt/timer.h"

namespace forebay::native {
namespace {

base::Duration TimeLeft(const wire::Header& header, base::Duration cap) {
  const auto asked = std::chrono::microseconds(std::min<uint64_t>(header.deadline_us, INT64_MAX / 1000));
  return header.deadline_us == 0 ? cap : std::min<base::Duration>(asked, cap);
}

/// The policy's row of each type; the build has made sure that there is one (auth/policy.cc).
const auth::PolicyRow& RowOf(wire::Type type) {
  static const auto kRows = [] {
    std::array<auth::PolicyRow, 32> rows{};
    for (uint8_t number = 1; wire::IsKnown(static_cast<wire::Type>(number)); ++number)
      rows[number] = *auth::FindPolicy(fmt::format("data/{}", wire::TypeName(static_cast<wire::Type>(number))));
    return rows;
  }();
  return kRows[static_cast<size_t>(type)];
}

}  // namespace

struct Connection::Watch {
  Connection* connection;  // null once it is gone; touched on its reactor only
};

Connection::Connection(Services services, std::unique_ptr<fabric::Endpoint> endpoint)
    : services_(services),
      endpoint_(std::move(endpoint)),
      expiry_(services_.reactor),
      gate_(services_.reactor),
      streams_(services_.reactor, services_.busy, services_.options.stream_idle,
               services_.options.max_streams),
      readers_(services_.reactor, services_.options.stream_idle, services_.options.max_request_time,
               services_.options.max_readers) {}

Connection::~Connection() {
  if (watch_ != nullptr) watch_->connection = nullptr;
}

rt::Task<void> Connection::Run() {
  const Status end = co_await Serve();
  // Unavailable is how connections end every day; anything else is a peer that broke the rules.
  if (end.code() == Code::kUnavailable) {
    services_.log.Debug("data connection of {} ended: {}", endpoint_->peer(), end.message());
  } else {
    services_.log.Warning("data connection of {} was fenced: {}", endpoint_->peer(), end.ToString());
  }
  for (const auto& [number, request] : running_) request->cancel.Cancel();
  streams_.FailAll(Status::Unavailable("the connection ended"));
  gate_.Shut();
  co_await endpoint_->Fence(end);
  co_await gate_.Close();
  streams_.Clear();
  readers_.Clear();
  if (grant_.has_value()) services_.sessions.Release(grant_->id);
}

void Connection::Fence(Status reason) {
  services_.reactor.Spawn(
      gate_, [this, reason = std::move(reason)]() -> rt::Task<void> { co_await endpoint_->Fence(reason); });
}

rt::Task<Status> Connection::Serve() {
  {
    rt::Timer timer(services_.reactor);
    timer.Arm(base::DeadlineAfter(services_.reactor.Now(), services_.options.hello_within),
              [this] { Fence(Status::Unavailable("no Hello came in time")); });
    FB_CO_TRY(co_await Greet());
  }
  for (;;) {
    Result<Bytes> message = co_await endpoint_->Receive();
    if (!message.ok()) co_return message.status();
    FB_CO_TRY(grant_->state());
    FB_CO_ASSIGN(const wire::MessageView view, Verify(*message, *mac_, grant_->id));
    Status refused = CheckAdmissible(view.header);
    if (refused.ok()) refused = Start(std::move(*message), view);
    // Sent from here, so that a peer that floods us and takes no replies is not read from either.
    if (!refused.ok()) (void)co_await ReplyError(view.header, refused);
  }
}

rt::Task<Status> Connection::Greet() {
  Result<Bytes> message = co_await endpoint_->Receive();
  if (!message.ok()) co_return message.status();
  FB_CO_ASSIGN(const wire::MessageView peek, wire::DecodeMessage(*message));
  const uint64_t session = peek.header.session;
  FB_CO_ASSIGN(const auth::SessionGrant found, services_.sessions.Find(session));
  const auth::MessageMac mac(found.key.view());
  FB_CO_ASSIGN(const wire::MessageView view, Verify(*message, mac, session));
  if (view.header.type != wire::Type::kHello)
    co_return Status::Unauthenticated("a {} came before Hello", wire::TypeName(view.header.type));
  if (view.header.tenant != found.grant->tenant)
    co_return Status::Unauthenticated("a Hello for a session of another tenant");
  FB_CO_ASSIGN(const wire::HelloRequest hello, wire::DecodeBody<wire::HelloRequest>(view.body));
  FB_CO_TRY(WatchSession(session));
  mac_.emplace(grant_->key.view());
  allowance_.emplace(services_.reactor, services_.admission, grant_->grant->tenant,
                     services_.rates.Open(*grant_->grant, services_.reactor.Now()));
  services_.log.Debug("session {:016x} of tenant {} bound to {} ({})", session,
                      static_cast<uint64_t>(grant_->grant->tenant), endpoint_->peer(), hello.client);
  const wire::HelloReply reply{.max_requests = services_.options.max_requests,
                               .max_streams = services_.options.max_streams,
                               .max_inline_bytes = base::kMaxInlineBytes,
                               .max_chunk_bytes = base::kMaxChunkBytes,
                               .server = services_.options.name};
  co_return co_await Transmit(wire::EncodeMessage(ReplyTo(view.header, Code::kOk), reply), {});
}

Result<wire::MessageView> Connection::Verify(Bytes& message, const auth::MessageMac& mac, uint64_t session) {
  FB_ASSIGN(const wire::MessageView view, wire::DecodeMessage(message));
  std::array<std::byte, wire::kMacBytes> tag;
  const MutableByteView place = wire::MacOf(message);
  std::ranges::copy(place, tag.begin());
  std::ranges::fill(place, std::byte{0});
  if (!mac.Verify(tag, wire::SignedPart(message, view.payload.size())))
    return Status::Unauthenticated("a message with a wrong MAC");
  if (view.header.session != session || view.header.reply)
    return Status::Unauthenticated("a message of another session or direction");
  if (view.header.counter != received_ + 1)
    return Status::Unauthenticated("a message with counter {} after {}", view.header.counter, received_);
  ++received_;
  return view;
}

Status Connection::WatchSession(uint64_t session) {
  watch_ = std::make_shared<Watch>(this);
  FB_ASSIGN(grant_, services_.sessions.Bind(session, [&reactor = services_.reactor, watch = watch_] {
    reactor.Post([watch] {
      if (watch->connection != nullptr) watch->connection->Fence(watch->connection->grant_->state());
    });
  }));
  if (grant_->expiry != base::kNever)
    expiry_.Arm(grant_->expiry, [this] { Fence(Status::Unauthenticated("{} expired", grant_->grant->name)); });
  return {};
}

Status Connection::CheckAllowed(wire::Type type, std::string_view bucket, std::string_view key) {
  const auth::PolicyRow& row = RowOf(type);
  const auth::Target target{.bucket = bucket, .key = key};
  Status allowed = auth::CheckGrant(*grant_->grant, row, target);
  if (!allowed.ok())
    services_.audit.Denied({.operation = row.operation,
                            .grant = grant_->grant.get(),
                            .target = target,
                            .peer = endpoint_->peer()},
                           allowed);
  return allowed;
}

/// What can be said of a request before its body is read.
Status Connection::CheckAdmissible(const wire::Header& header) {
  if (!wire::IsKnown(header.type) || header.type == wire::Type::kHello)
    return Status::Unimplemented("no request of type {} is known here", static_cast<unsigned>(header.type));
  if (header.tenant != grant_->grant->tenant)
    return Status::PermissionDenied("the session belongs to tenant {}, not {}",
                                    static_cast<uint64_t>(grant_->grant->tenant),
                                    static_cast<uint64_t>(header.tenant));
  if (RowOf(header.type).scope == auth::Scope::kNothing) FB_TRY(CheckAllowed(header.type, {}, {}));
  // A Cancel frees what it names, so it has room of its own.
  const bool cancel = header.type == wire::Type::kCancel;
  if (gate_.count() >= services_.options.max_requests * (cancel ? 2 : 1))
    return Status::ResourceExhausted(
        "{} requests are in flight on this connection; wait for one, or open another", gate_.count());
  const bool finishing = cancel || header.type == wire::Type::kPutData ||
                         header.type == wire::Type::kPutCommit || header.type == wire::Type::kPutAbort ||
                         header.type == wire::Type::kRead || header.type == wire::Type::kClose;
  if (draining_ && !finishing) return Status::Unavailable("the server is stopping and takes no new requests");
  if (running_.contains(header.request))
    return Status::InvalidArgument("request number {} is in flight already", header.request);
  return {};
}

Status Connection::Start(Bytes message, const wire::MessageView& view) {
  const base::TimePoint deadline =
      base::DeadlineAfter(services_.reactor.Now(), TimeLeft(view.header, services_.options.max_request_time));
  auto request =
      std::make_unique<Request>(services_.reactor, std::move(message), view, grant_->grant->tenant, deadline);
  running_.emplace(view.header.request, request.get());
  services_.busy.Add();
  services_.reactor.Spawn(gate_, Handle(std::move(request)));  // the gate is open as long as Serve runs
  return {};
}

rt::Task<void> Connection::Handle(std::unique_ptr<Request> request) {
  switch (request->header.type) {
    case wire::Type::kGet:
    case wire::Type::kGetVersion:
      co_await HandleGet(*this, *request);
      break;
    case wire::Type::kPut:
      co_await HandlePut(*this, *request);
      break;
    case wire::Type::kExists:
      co_await HandleExists(*this, *request);
      break;
    case wire::Type::kCancel:
      co_await HandleCancel(*request);
      break;
    case wire::Type::kPutBegin:
      co_await HandlePutBegin(*this, *request);
      break;
    case wire::Type::kOverwriteBegin:
      co_await HandleOverwriteBegin(*this, *request);
      break;
    case wire::Type::kPartBegin:
      co_await HandlePartBegin(*this, *request);
      break;
    case wire::Type::kStat:
      co_await HandleStat(*this, *request);
      break;
    case wire::Type::kOpen:
      co_await HandleOpen(*this, *request);
      break;
    case wire::Type::kRead:
      co_await HandleRead(*this, *request);
      break;
    case wire::Type::kClose:
      co_await HandleClose(*this, *request);
      break;
    case wire::Type::kPutData:
      co_await HandlePutData(*this, *request);
      break;
    case wire::Type::kPutCommit:
      co_await HandlePutCommit(*this, *request);
      break;
    case wire::Type::kPutAbort:
      co_await HandlePutAbort(*this, *request);
      break;
    case wire::Type::kHello:
      break;  // refused by CheckAllowed
  }
  running_.erase(request->header.request);
  co_await request->cancels.Wait();
  services_.busy.Done();
}

rt::Task<void> Connection::HandleCancel(Request& request) {
  const Result<wire::CancelRequest> cancel = wire::DecodeBody<wire::CancelRequest>(request.body);
  if (!cancel.ok()) {
    (void)co_await ReplyError(request.header, cancel.status());
    co_return;
  }
  const auto target = running_.find(cancel->request);
  const bool running = target != running_.end() && target->second->header.type != wire::Type::kCancel;
  if (running) {
    Request& stopped = *target->second;
    stopped.cancel.Cancel();
    stopped.cancels.Add();  // keeps it until we are through
    co_await stopped.transfers.Wait();
    stopped.cancels.Done();
  }
  (void)co_await Reply(request, wire::CancelReply{.was_running = running});
}

wire::Header Connection::ReplyTo(const wire::Header& request, Code status) {
  return {.type = request.type,
          .reply = true,
          .status = status,
          .session = grant_->id,
          .counter = ++sent_,
          .tenant = grant_->grant->tenant,
          .operation = request.operation,
          .deadline_us = 0,
          .request = request.request};
}

rt::Task<Status> Connection::ReplyError(const wire::Header& request, const Status& error) {
  return Transmit(wire::EncodeMessage(ReplyTo(request, error.code()), wire::ErrorReply{error.message()}), {});
}

rt::Task<Status> Connection::Transmit(Bytes head, std::vector<base::Buffer> payload) {
  const auth::MessageMac::Tag tag = mac_->Compute(head);
  std::copy_n(tag.begin(), wire::kMacBytes, wire::MacOf(head).begin());
  return payload.empty() ? endpoint_->Send(std::move(head))
                         : endpoint_->SendWithPayload(std::move(head), std::move(payload));
}

}  // namespace forebay::native
