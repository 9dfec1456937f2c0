// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_listener.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "fabric/connection_endpoint.h"
#include "fabric/ofi_connection.h"

namespace forebay::fabric {

namespace {

/// When the process is out of something, there may be some after this.
constexpr base::Duration kPause = std::chrono::milliseconds(20);
/// Longest private data that a provider hands over.
constexpr size_t kMaxEventData = 256;

}  // namespace

Result<std::unique_ptr<Listener>> OfiListener::Open(rt::Reactor& reactor, const rt::SocketAddress& address,
                                                    EndpointOptions options, OfiDomains& domains,
                                                    base::Random& random) {
  std::unique_ptr<OfiListener> listener(new OfiListener(reactor, options, domains, random));
  if (const Status status = listener->Listen(address); !status.ok()) {
    return status.WithContext("listen on " + address.ToString());
  }
  reactor.Spawn(listener->gate_, listener->RequestLoop());
  return std::unique_ptr<Listener>(std::move(listener));
}

OfiListener::OfiListener(rt::Reactor& reactor, EndpointOptions options, OfiDomains& domains,
                         base::Random& random)
    : reactor_(reactor),
      options_(options),
      domains_(domains),
      random_(random),
      places_(reactor, kMaxWaiting),
      greeted_(reactor, kMaxWaiting),
      accepting_(reactor),
      gate_(reactor) {}

OfiListener::~OfiListener() = default;

Status OfiListener::Listen(const rt::SocketAddress& address) {
  const auto check = [](int result, std::string_view what) {
    return result == 0 ? Status() : FromOfiError(-result, what);
  };
  FB_ASSIGN(const InfoHandle info, domains_.library()->ForListen(address));
  FB_ASSIGN(fabric_, domains_.library()->FabricOf(*info));
  fi_eq_attr attributes{};
  attributes.size = kMaxWaiting;
  attributes.wait_obj = FI_WAIT_FD;
  fid_eq* events = nullptr;
  FB_TRY(check(fi_eq_open(fabric_, &attributes, &events, nullptr), "open an event queue"));
  events_.reset(events);
  FB_TRY(check(fi_control(&events->fid, FI_GETWAIT, &events_fd_), "ask for a descriptor"));
  fid_pep* endpoint = nullptr;
  FB_TRY(check(fi_passive_ep(fabric_, info.get(), &endpoint, nullptr), "bind"));
  endpoint_.reset(endpoint);
  FB_TRY(check(fi_pep_bind(endpoint, &events->fid, 0), "bind the event queue"));
  FB_TRY(check(fi_listen(endpoint), "listen"));
  sockaddr_storage storage{};
  size_t size = sizeof(storage);
  FB_TRY(check(fi_getname(&endpoint->fid, &storage, &size), "ask for the address"));
  address_ =
      rt::SocketAddress(reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(size)).ToString();
  return Status();
}

rt::Task<Result<std::unique_ptr<Endpoint>>> OfiListener::Accept(rt::Reactor& home) {
  const auto holder = accepting_.Enter();
  std::optional<OfiGreeted> greeted;
  if (holder.ok()) greeted = co_await greeted_.Pop({.token = &life_});
  if (!greeted.has_value()) co_return Status::Cancelled("the listener on {} was closed", address_);
  places_.Release();
  auto connection = std::make_unique<OfiConnection>(home, *std::move(greeted), options_, random_);
  if (&home == &reactor_) {
    connection->Start();
  } else {
    // Whatever the new owner posts comes after this.
    home.Post([started = connection.get()] { started->Start(); });
  }
  co_return std::unique_ptr<Endpoint>(
      std::make_unique<ConnectionEndpoint<OfiConnection>>(std::move(connection)));
}

rt::Task<void> OfiListener::Close() {
  life_.Cancel();
  for (rt::CancelToken& token : greeting_) token.Cancel();  // each takes itself out when it ends
  co_await gate_.Close();
  // Requests that nobody took are refused; from here on nobody can connect.
  if (endpoint_ != nullptr) {
    while (std::optional<Request> request = NextRequest()) {
      if (request->info != nullptr) Refuse(*request->info);
    }
  }
  endpoint_.reset();
  greeted_.Close();
  co_await accepting_.Close();
  while (greeted_.TryPop().has_value()) {
  }
  events_.reset();
}

rt::Task<void> OfiListener::RequestLoop() {
  while (!life_.cancelled()) {
    if (std::optional<Request> request = NextRequest()) {
      if (request->info != nullptr) co_await Take(*std::move(request));
      continue;
    }
    fid* queue = &events_->fid;
    if (fi_trywait(fabric_, &queue, 1) != FI_SUCCESS) {
      co_await reactor_.Yield();
      continue;
    }
    const int ready = co_await reactor_.Poll(events_fd_, POLLIN, {.token = &life_});
    if (ready < 0 && ready != -ECANCELED) co_await reactor_.Sleep(kPause, &life_);
  }
}

std::optional<OfiListener::Request> OfiListener::NextRequest() {
  alignas(fi_eq_cm_entry) std::byte space[sizeof(fi_eq_cm_entry) + kMaxEventData];
  uint32_t kind = 0;
  const ssize_t size = fi_eq_read(events_.get(), &kind, space, sizeof(space), 0);
  if (size == -FI_EAVAIL) {
    // The failure of one attempt never ends the listener.
    fi_eq_err_entry entry{};
    if (fi_eq_readerr(events_.get(), &entry, 0) < 0) return std::nullopt;
    return Request{};
  }
  if (size <= 0) return std::nullopt;
  if (kind != FI_CONNREQ) return Request{};
  const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(space);
  Request request{domains_.library()->calls().Own(entry->info), {}};
  const size_t used = std::min(static_cast<size_t>(size), sizeof(space));
  request.hello.assign(space + sizeof(fi_eq_cm_entry), space + std::max(used, sizeof(fi_eq_cm_entry)));
  return request;
}

rt::Task<void> OfiListener::Take(Request request) {
  const auto preamble = DecodeOfiPreamble(request.hello, Role::kConnector);
  if (!preamble.ok()) {
    Refuse(*request.info);
    co_return;
  }
  if (!places_.TryAcquire()) {
    if (!greeting_.empty()) greeting_.front().Cancel();
    if (!co_await places_.Acquire(1, {.token = &life_})) {
      Refuse(*request.info);
      co_return;
    }
  }
  reactor_.Spawn(gate_, Greet(std::move(request.info), *preamble));
}

// Says our version to the one who asked, whoever it is: the answer to a stranger is as long as the question.
void OfiListener::Refuse(const fi_info& info) {
  const OfiPreambleBytes hello = EncodeOfiPreamble(OfiPreambleOf(options_, Role::kListener));
  fi_reject(endpoint_.get(), info.handle, hello.data(), hello.size());
}

rt::Task<void> OfiListener::Greet(InfoHandle info, OfiPreamble theirs) {
  const auto token = greeting_.emplace(greeting_.end());
  if (life_.cancelled()) token->Cancel();
  Result<OfiGreeted> greeted = Status::Cancelled("the listener was closed");
  if (auto link = AcceptOfi(domains_, *info, options_); link.ok()) {
    greeted = co_await FinishAccept(
        reactor_, *std::move(link), theirs, options_, !domains_.shared(),
        {.token = &*token, .deadline = base::DeadlineAfter(reactor_.Now(), options_.dead_after)});
  } else {
    Refuse(*info);
  }
  greeting_.erase(token);
  // There is room: the queue has as many as there are places.
  if (!greeted.ok() || life_.cancelled() || !greeted_.TryPush(*std::move(greeted))) places_.Release();
}

}  // namespace forebay::fabric
