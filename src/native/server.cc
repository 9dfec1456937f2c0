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
  options.max_transfer_bytes = base::kMaxTransferBytes;
  return options;
}

AdmissionOptions FairnessOf(const ServerOptions& options, size_t window_bytes) {
  AdmissionOptions fairness = options.fairness;
  fairness.window_bytes = window_bytes;
  return fairness;
}

}  // namespace

/// The connections of one reactor.
class Server::Shard {
 public:
  Shard(rt::Reactor& home, store::ObjectStore& store, auth::SessionTable& sessions, auth::RateLimits& rates,
        const ServerOptions& options, size_t window_bytes, size_t ways, base::Log& log,
        auth::Audit& audit, std::atomic<size_t>& connections)
      : reactor(home),
        admission_(home, FairnessOf(options, window_bytes)),
        busy_(home),
        gate_(home),
        services_{.reactor = home,
                  .store = store,
                  .sessions = sessions,
                  .options = options,
                  .log = log,
                  .audit = audit,
                  .rates = rates,
                  .admission = admission_,
                  .request_window_bytes = std::min(options.request_window_bytes, window_bytes),
                  .busy = busy_},
        ended_(ways),
        connections_count_(connections) {}

  /// Serves the endpoint on this reactor until it ends. The connection has been counted.
  void Serve(size_t way, std::unique_ptr<fabric::Endpoint> endpoint) {
    reactor.Spawn(gate_, ServeOne(way, std::make_unique<Connection>(services_, std::move(endpoint))));
  }

  void Refuse(std::unique_ptr<fabric::Endpoint> endpoint) {
    reactor.Spawn(gate_, [endpoint = std::move(endpoint)]() -> rt::Task<void> {
      co_await endpoint->Fence(Status::Unavailable("the server has as many connections as it takes"));
    });
  }

  rt::Task<void> Stop(base::Duration grace) {
    for (const Live& live : live_) live.connection->Drain();
    draining_ = true;
    (void)co_await busy_.Wait({.deadline = base::DeadlineAfter(reactor.Now(), grace)});
    for (const Live& live : live_) live.connection->Fence(Status::Unavailable("the server has stopped"));
    stopped_ = true;
    co_await gate_.Close();
    co_await reactor.Yield();  // what was to go on in this turn has done so: nothing of ours is armed any more
  }

  /// Adds what went over each way to `traffic`.
  void AddTraffic(std::vector<Traffic>& traffic) const {
    for (size_t way = 0; way < ended_.size(); ++way) traffic[way].stats += ended_[way];
    for (const Live& live : live_) {
      ++traffic[live.way].connections;
      traffic[live.way].stats += live.connection->endpoint().stats();
    }
  }

  rt::Reactor& reactor;

 private:
  struct Live {
    Connection* connection;  // owned by its coroutine
    size_t way;
  };

  rt::Task<void> ServeOne(size_t way, std::unique_ptr<Connection> connection) {
    live_.push_back({connection.get(), way});
    if (draining_) connection->Drain();
    if (stopped_) connection->Fence(Status::Unavailable("the server has stopped"));
    co_await connection->Run();
    ended_[way] += connection->endpoint().stats();
    std::erase_if(live_, [&](const Live& live) { return live.connection == connection.get(); });
    connections_count_.fetch_sub(1, std::memory_order_relaxed);
  }

  Admission admission_;
  rt::WaitGroup busy_;
  rt::Gate gate_;
  Services services_;
  std::vector<Live> live_;
  std::vector<fabric::EndpointStats> ended_;  // by way: of connections that are gone
  bool draining_ = false;
  bool stopped_ = false;
  std::atomic<size_t>& connections_count_;
};

Server::Server(ServerOptions options, std::vector<ListenOn> ways, store::ObjectStore& store,
               auth::SessionTable& sessions, auth::RateLimits& rates, std::vector<rt::Reactor*> reactors, base::Log& log,
               auth::Audit& audit)
    : options_(std::move(options)),
      ways_(std::move(ways)),
      log_(log),
      home_(*reactors.front()),
      accepting_(home_) {
  const size_t share = options_.window_bytes / reactors.size();
  for (rt::Reactor* reactor : reactors)
    shards_.push_back(std::make_unique<Shard>(*reactor, store, sessions, rates, options_, share, ways_.size(), log_, audit,
                                              connections_));
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
  for (const ListenOn& way : ways_) {
    auto listener = way.fabric.Listen(home_, way.address, EndpointOptionsOf());
    if (!listener.ok()) {
      for (const auto& listening : std::exchange(listeners_, {})) co_await listening->Close();
      co_return listener.status().WithContext(way.fabric.name());
    }
    listeners_.push_back(*std::move(listener));
  }
  for (size_t way = 0; way < ways_.size(); ++way) {
    addresses_.push_back(listeners_[way]->address());
    home_.Spawn(accepting_, AcceptLoop(way));
  }
  co_return Status();
}

rt::Task<void> Server::AcceptLoop(size_t way) {
  for (size_t turn = 0; !stopping_.cancelled(); ++turn) {
    Shard& shard = *shards_[turn % shards_.size()];
    Result<std::unique_ptr<fabric::Endpoint>> endpoint = co_await listeners_[way]->Accept(shard.reactor);
    if (endpoint.ok()) {
      Adopt(shard, way, *std::move(endpoint));
    } else if (endpoint.error().code() != Code::kCancelled) {
      log_.Warning("a data connection was not accepted: {}", endpoint.error().message());
      co_await home_.Sleep(std::chrono::milliseconds(10), &stopping_);  // such as when out of descriptors
    }
  }
}

void Server::Adopt(Shard& shard, size_t way, std::unique_ptr<fabric::Endpoint> endpoint) {
  if (connections_.fetch_add(1, std::memory_order_relaxed) >= options_.max_connections) {
    connections_.fetch_sub(1, std::memory_order_relaxed);
    log_.Warning("a data connection was refused: {} are open", options_.max_connections);
    shard.reactor.Post(
        [&shard, refused = std::move(endpoint)]() mutable { shard.Refuse(std::move(refused)); });
    return;
  }
  shard.reactor.Post(
      [&shard, way, adopted = std::move(endpoint)]() mutable { shard.Serve(way, std::move(adopted)); });
}

rt::Task<std::vector<Traffic>> Server::AskTraffic(rt::Reactor& here) {
  std::vector<Traffic> traffic(ways_.size());
  for (size_t way = 0; way < ways_.size(); ++way) traffic[way].fabric = ways_[way].fabric.name();
  for (const auto& shard : shards_) {
    co_await rt::CallOn(here, shard->reactor, [&shard, &traffic]() -> rt::Task<void> {
      shard->AddTraffic(traffic);
      co_return;
    });
  }
  co_return traffic;
}

rt::Task<void> Server::Stop(base::Duration grace) {
  stopping_.Cancel();
  for (const auto& listener : listeners_) co_await listener->Close();
  co_await accepting_.Close();
  // What Adopt posted runs before what is posted from here.
  std::vector<rt::Task<void>> stops;
  stops.reserve(shards_.size());
  for (const auto& shard : shards_)
    stops.push_back(rt::CallOn(home_, shard->reactor, [&shard, grace] { return shard->Stop(grace); }));
  co_await rt::WhenAll(std::move(stops));
}

}  // namespace forebay::native
