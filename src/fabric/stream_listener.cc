// SPDX-License-Identifier: Apache-2.0
#include "fabric/stream_listener.h"

#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "fabric/connection_endpoint.h"
#include "fabric/stream_connection.h"

namespace forebay::fabric {

namespace {
/// When the process is out of descriptors, one may be free after this.
constexpr base::Duration kAcceptPause = std::chrono::milliseconds(20);
}  // namespace

StreamListener::StreamListener(rt::Reactor& reactor, std::unique_ptr<ListeningSocket> socket,
                               EndpointOptions options, base::Random& random)
    : reactor_(reactor),
      socket_(std::move(socket)),
      address_(socket_->address()),
      options_(options),
      random_(random),
      places_(reactor, kMaxWaiting),
      greeted_(reactor, kMaxWaiting),
      accepting_(reactor),
      gate_(reactor) {
  reactor_.Spawn(gate_, AcceptLoop());
}

StreamListener::~StreamListener() = default;

rt::Task<Result<std::unique_ptr<Endpoint>>> StreamListener::Accept(rt::Reactor& home) {
  const auto holder = accepting_.Enter();
  std::optional<Greeted> greeted;
  if (holder.ok()) greeted = co_await greeted_.Pop({.token = &life_});
  if (!greeted.has_value()) co_return Status::Cancelled("the listener on {} was closed", address_);
  places_.Release();
  auto connection = std::make_unique<StreamConnection>(home, *std::move(greeted), options_, random_);
  if (&home == &reactor_) {
    connection->Start();
  } else {
    // Whatever the new owner posts comes after this.
    home.Post([started = connection.get()] { started->Start(); });
  }
  co_return std::unique_ptr<Endpoint>(std::make_unique<ConnectionEndpoint<StreamConnection>>(std::move(connection)));
}

rt::Task<void> StreamListener::Close() {
  life_.Cancel();
  for (rt::CancelToken& token : greeting_) token.Cancel();  // each takes itself out when it ends
  co_await gate_.Close();
  socket_.reset();  // nobody can connect any more; who was not accepted is reset
  greeted_.Close();
  co_await accepting_.Close();
  while (greeted_.TryPop().has_value()) {
  }
}

rt::Task<void> StreamListener::AcceptLoop() {
  while (!life_.cancelled()) {
    if (!places_.TryAcquire()) {
      if (!greeting_.empty()) greeting_.front().Cancel();
      if (!co_await places_.Acquire(1, {.token = &life_})) break;
    }
    const int fd = co_await reactor_.Accept(socket_->fd(), {.token = &life_});
    if (fd >= 0) {
      reactor_.Spawn(gate_, Greet(Socket(fd)));
      continue;
    }
    places_.Release();
    // A connection that broke before it was accepted is no error of the listener's; being out of descriptors
    // passes.
    if (fd != -ECONNABORTED) co_await reactor_.Sleep(kAcceptPause, &life_);
  }
}

rt::Task<void> StreamListener::Greet(Socket socket) {
  const auto token = greeting_.emplace(greeting_.end());
  if (life_.cancelled()) token->Cancel();
  auto greeted = co_await socket_->Greet(
      reactor_, std::move(socket), options_,
      {.token = &*token, .deadline = base::DeadlineAfter(reactor_.Now(), options_.dead_after)});
  greeting_.erase(token);
  // There is room: the queue has as many as there are places.
  if (!greeted.ok() || life_.cancelled() || !greeted_.TryPush(*std::move(greeted))) places_.Release();
}

}  // namespace forebay::fabric
