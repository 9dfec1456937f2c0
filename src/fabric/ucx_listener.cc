// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_listener.h"

#include "base/check.h"
#include "fabric/connection_endpoint.h"
#include "fabric/ucx_connection.h"
#include "fabric/ucx_greeting.h"

namespace forebay::fabric {

namespace {

std::string NameOf(ucp_conn_request_h request) {
  ucp_conn_request_attr_t attributes{};
  attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
  if (ucp_conn_request_query(request, &attributes) != UCS_OK) return "a peer without an address";
  return rt::SocketAddress(reinterpret_cast<const sockaddr*>(&attributes.client_address),
                           sizeof(attributes.client_address))
      .ToString();
}

}  // namespace

UcxListener::UcxListener(std::shared_ptr<UcxContext> context, rt::Reactor& reactor,
                         std::unique_ptr<UcxWorker> worker, const EndpointOptions& options,
                         base::Random& random)
    : context_(std::move(context)),
      reactor_(reactor),
      worker_(std::move(worker)),
      options_(options),
      random_(random),
      greeted_(reactor, kMaxWaiting),
      accepting_(reactor),
      gate_(reactor) {}

UcxListener::~UcxListener() { FB_CHECK(handle_ == nullptr); }

Result<std::unique_ptr<UcxListener>> UcxListener::Open(std::shared_ptr<UcxContext> context,
                                                       rt::Reactor& reactor, const rt::SocketAddress& address,
                                                       const EndpointOptions& options, base::Random& random) {
  FB_ASSIGN(auto worker, UcxWorker::Create(context));
  std::unique_ptr<UcxListener> listener(
      new UcxListener(std::move(context), reactor, std::move(worker), options, random));
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = address.get();
  params.sockaddr.addrlen = address.size();
  params.conn_handler = {.cb = &OnRequest, .arg = listener.get()};
  const ucs_status_t status = ucp_listener_create(listener->worker_->handle(), &params, &listener->handle_);
  if (status != UCS_OK) {
    return Status::FailedPrecondition(
        "listen on {}: {}; an RDMA device needs to have this address, and nobody else the port",
        address.ToString(), UcxError(status, "ucx").message());
  }
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  const ucs_status_t asked = ucp_listener_query(listener->handle_, &attributes);
  if (asked != UCS_OK) {
    ucp_listener_destroy(std::exchange(listener->handle_, nullptr));
    return UcxError(asked, "ask for the address of a listener");
  }
  listener->address_ =
      rt::SocketAddress(reinterpret_cast<const sockaddr*>(&attributes.sockaddr), address.size()).ToString();
  listener->worker_->Start(reactor, [self = listener.get()] { self->TakeRequests(); });
  return listener;
}

rt::Task<Result<std::unique_ptr<Endpoint>>> UcxListener::Accept(rt::Reactor& home) {
  const auto holder = accepting_.Enter();
  std::optional<UcxGreeted> greeted;
  if (holder.ok()) greeted = co_await greeted_.Pop({.token = &life_});
  if (!greeted.has_value()) co_return Status::Cancelled("the listener on {} was closed", address_);
  ++places_;
  if (worker_ != nullptr) worker_->Kick();  // for those who wait for a place
  auto connection = std::make_unique<UcxConnection>(home, *std::move(greeted), options_, random_);
  if (&home == &reactor_) {
    connection->Start();
  } else {
    // Whatever the new owner posts comes after this.
    home.Post([started = connection.get()] { started->Start(); });
  }
  co_return std::unique_ptr<Endpoint>(std::make_unique<ConnectionEndpoint<UcxConnection>>(std::move(connection)));
}

void UcxListener::OnRequest(ucp_conn_request_h request, void* self) {
  auto& listener = *static_cast<UcxListener*>(self);
  if (listener.requests_.size() < kMaxWaiting) {
    listener.requests_.push_back(request);
  } else {
    (void)ucp_listener_reject(listener.handle_, request);
  }
}

void UcxListener::TakeRequests() {
  while (!requests_.empty() && places_ > 0) {
    --places_;
    reactor_.Spawn(gate_, Greet(requests_.front()));
    requests_.pop_front();
  }
  // Gives its place back when it has ended, and then somebody else has a turn.
  if (!requests_.empty() && !greeting_.empty()) greeting_.front().Cancel();
}

rt::Task<void> UcxListener::Greet(ucp_conn_request_h request) {
  const auto token = greeting_.emplace(greeting_.end());
  if (life_.cancelled()) token->Cancel();
  Result<UcxGreeted> greeted = Status::Cancelled("the listener was closed");
  auto worker = UcxWorker::Create(context_);
  if (!worker.ok()) (void)ucp_listener_reject(handle_, request);
  Result<std::unique_ptr<UcxChannel>> channel = worker.status();
  if (worker.ok()) channel = UcxChannel::Take(*std::move(worker), reactor_, request, NameOf(request));
  if (channel.ok()) {
    const rt::OpOptions until{.token = &*token,
                              .deadline = base::DeadlineAfter(reactor_.Now(), options_.dead_after)};
    greeted = co_await GreetUcxConnector(*std::move(channel), context_, options_, until);
  }
  greeting_.erase(token);
  if (greeted.ok() && life_.cancelled()) {
    co_await greeted->channel->Close(nullptr);
    greeted = Status::Cancelled("the listener was closed");
  }
  // There is room: the queue has as many as there are places.
  if (!greeted.ok() || !greeted_.TryPush(*std::move(greeted))) {
    ++places_;
    worker_->Kick();
  }
}

rt::Task<void> UcxListener::Close() {
  life_.Cancel();
  for (rt::CancelToken& token : greeting_) token.Cancel();  // each takes itself out when it ends
  if (handle_ != nullptr) {
    for (ucp_conn_request_h request : std::exchange(requests_, {}))
      (void)ucp_listener_reject(handle_, request);
  }
  co_await gate_.Close();
  if (handle_ != nullptr) {
    co_await worker_->Stop();
    ucp_listener_destroy(std::exchange(handle_, nullptr));
    worker_.reset();
  }
  greeted_.Close();
  co_await accepting_.Close();
  while (auto greeted = greeted_.TryPop()) co_await greeted->channel->Close(nullptr);
}

}  // namespace forebay::fabric
