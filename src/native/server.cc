// SPDX-License-Identifier: Apache-2.0
#include "native/server.h"

#include <algorithm>
#include <utility>

#include "native/connection.h"
#include "rt/call_on.h"
#include "rt/when_all.h"
#include "wire/message.h"

namespace forebay::native {
namespace {

fabric::EndpointOptions EndpointOptionsOf() {
  fabric::EndpointOptions options;
  options.max_message_bytes = base::kMaxMessageBytes;
  options.max_transfer_bytes = base::kMaxChunkBytes;
  return options;
}

}  // namespace

/// The connections of one reactor.
class Server::Shard {
 public:
  Shard(rt::Reactor& home, store::ObjectStore& store, auth::SessionTable& sessions,
        const ServerOptions& options, size_t window_bytes, base::Log& log, std::atomic<size_t>& connections)
      : reactor(home),
        payload_(home, window_bytes),
        busy_(home),
        gate_(home),
        services_{.reactor = home,
                  .store = store,
                  .sessions = sessions,
                  .options = options,
                  .log = log,
                  .payload = payload_,
                  .request_window_bytes = std::min(options.request_window_bytes, window_bytes),
                  .busy = busy_},
        connections_count_(connections) {}

  /// Serves the endpoint on this reactor until it ends. The connection has been counted.
  void Serve(std::unique_ptr<fabric::Endpoint> endpoint) {
    reactor.Spawn(gate_, ServeOne(std::make_unique<Connection>(services_, std::move(endpoint))));
  }

  void Refuse(std::unique_ptr<fabric::Endpoint> endpoint) {
    reactor.Spawn(gate_, [endpoint = std::move(endpoint)]() -> rt::Task<void> {
      co_await endpoint->Fence(Status::Unavailable("the server has as many connections as it takes"));
    });
  }

  rt::Task<void> Stop(base::Duration grace) {
    for (const auto& connection : live_) connection->Drain();
    draining_ = true;
    (void)co_await busy_.Wait({.deadline = base::DeadlineAfter(reactor.Now(), grace)});
    for (const auto& connection : live_) connection->Fence(Status::Unavailable("the server has stopped"));
    stopped_ = true;
    co_await gate_.Close();
  }

  rt::Reactor& reactor;

 private:
  rt::Task<void> ServeOne(std::unique_ptr<Connection> connection) {
    live_.push_back(connection.get());
    if (draining_) connection->Drain();
    if (stopped_) connection->Fence(Status::Unavailable("the server has stopped"));
    co_await connection->Run();
    std::erase(live_, connection.get());
    connections_count_.fetch_sub(1, std::memory_order_relaxed);
  }

  rt::Semaphore payload_;
  rt::WaitGroup busy_;
  rt::Gate gate_;
  Services services_;
  std::vector<Connection*> live_;  // owned by their coroutines
  bool draining_ = false;
  bool stopped_ = false;
  std::atomic<size_t>& connections_count_;
};

Server::Server(ServerOptions options, fabric::Fabric& fabric, store::ObjectStore& store,
               auth::SessionTable& sessions, std::vector<rt::Reactor*> reactors, base::Log& log)
    : options_(std::move(options)), fabric_(fabric), log_(log), home_(*reactors.front()), accepting_(home_) {
  const size_t share = options_.window_bytes / reactors.size();
  for (rt::Reactor* reactor : reactors)
    shards_.push_back(
        std::make_unique<Shard>(*reactor, store, sessions, options_, share, log_, connections_));
}

Server::~Server() = default;

rt::Task<Status> Server::Start() {
  if (options_.request_window_bytes < base::kMaxChunkBytes ||
      options_.window_bytes / shards_.size() < base::kMaxChunkBytes)
    co_return Status::InvalidArgument(
        "payload windows of {} for a request and {} for {} reactors: each request and reactor needs {}",
        base::FormatSize(options_.request_window_bytes), base::FormatSize(options_.window_bytes),
        shards_.size(), base::FormatSize(base::kMaxChunkBytes));
  if (options_.name.size() > wire::kMaxPeerNameBytes)
    co_return Status::InvalidArgument("the server's name has {} bytes; at most {} are allowed",
                                      options_.name.size(), wire::kMaxPeerNameBytes);
  FB_CO_ASSIGN(listener_, fabric_.Listen(home_, options_.listen, EndpointOptionsOf()));
  address_ = listener_->address();
  home_.Spawn(accepting_, AcceptLoop());
  co_return Status();
}

rt::Task<void> Server::AcceptLoop() {
  for (size_t turn = 0; !stopping_.cancelled(); ++turn) {
    Shard& shard = *shards_[turn % shards_.size()];
    Result<std::unique_ptr<fabric::Endpoint>> endpoint = co_await listener_->Accept(shard.reactor);
    if (endpoint.ok()) {
      Adopt(shard, *std::move(endpoint));
    } else if (endpoint.error().code() != Code::kCancelled) {
      log_.Warning("a data connection was not accepted: {}", endpoint.error().message());
      co_await home_.Sleep(std::chrono::milliseconds(10), &stopping_);  // such as when out of descriptors
    }
  }
}

void Server::Adopt(Shard& shard, std::unique_ptr<fabric::Endpoint> endpoint) {
  if (connections_.fetch_add(1, std::memory_order_relaxed) >= options_.max_connections) {
    connections_.fetch_sub(1, std::memory_order_relaxed);
    log_.Warning("a data connection was refused: {} are open", options_.max_connections);
    shard.reactor.Post(
        [&shard, refused = std::move(endpoint)]() mutable { shard.Refuse(std::move(refused)); });
    return;
  }
  shard.reactor.Post([&shard, adopted = std::move(endpoint)]() mutable { shard.Serve(std::move(adopted)); });
}

rt::Task<void> Server::Stop(base::Duration grace) {
  stopping_.Cancel();
  if (listener_ != nullptr) co_await listener_->Close();
  co_await accepting_.Close();
  // What Adopt posted runs before what is posted from here.
  std::vector<rt::Task<void>> stops;
  stops.reserve(shards_.size());
  for (const auto& shard : shards_)
    stops.push_back(rt::CallOn(home_, shard->reactor, [&shard, grace] { return shard->Stop(grace); }));
  co_await rt::WhenAll(std::move(stops));
}

}  // namespace forebay::native
