// SPDX-License-Identifier: Apache-2.0
#include "fabric/memory_fabric.h"

#include <deque>
#include <utility>

#include "fabric/limits.h"
#include "fabric/memory_endpoint.h"
#include "rt/gate.h"
#include "rt/sync.h"

namespace forebay::fabric {

/// Shared by the listener and those who connect to it, since either may be the last to look.
struct MemoryListenerState {
  MemoryListenerState(rt::Reactor& on, EndpointOptions with) : reactor(on), options(with), changed(on) {}

  rt::Reactor& reactor;
  const EndpointOptions options;
  rt::Event changed;  // reactor-local: connectors set it by Post
  base::Mutex mutex;
  std::deque<std::shared_ptr<MemoryLink>> waiting FB_GUARDED_BY(mutex);
  bool closed FB_GUARDED_BY(mutex) = false;
};

namespace {
/// Connections that nobody has accepted yet.
constexpr size_t kMaxWaiting = 256;
}  // namespace

class MemoryListener final : public Listener {
 public:
  MemoryListener(MemoryFabric& fabric, std::string address, std::shared_ptr<MemoryListenerState> state)
      : fabric_(fabric), address_(std::move(address)), state_(std::move(state)), gate_(state_->reactor) {}
  ~MemoryListener() override { Shut(); }

  std::string address() const override { return address_; }

  rt::Task<Result<std::unique_ptr<Endpoint>>> Accept(rt::Reactor& home) override {
    const auto holder = gate_.Enter();
    while (holder.ok()) {
      std::shared_ptr<MemoryLink> link;
      {
        base::MutexLock lock(state_->mutex);
        if (state_->closed) break;
        if (!state_->waiting.empty()) {
          link = std::move(state_->waiting.front());
          state_->waiting.pop_front();
        }
      }
      if (link != nullptr) co_return Make(home, std::move(link));
      state_->changed.Reset();
      co_await state_->changed.Wait();
    }
    co_return Status::Cancelled("the listener on {} was closed", address_);
  }

  rt::Task<void> Close() override {
    Shut();
    co_await gate_.Close();
  }

 private:
  std::unique_ptr<Endpoint> Make(rt::Reactor& home, std::shared_ptr<MemoryLink> link) {
    auto endpoint = std::make_unique<MemoryEndpoint>(home, link, MemoryLink::kListener, "a connector to " + address_,
                                                     state_->options, fabric_.random_);
    link->Attach(MemoryLink::kListener, home, endpoint.get());
    link->Post(MemoryLink::kListener, [](MemoryEndpoint& self) { self.ArmLiveness(self.liveness_.first()); });
    return endpoint;
  }

  void Shut() {
    std::deque<std::shared_ptr<MemoryLink>> refused;
    {
      base::MutexLock lock(state_->mutex);
      if (state_->closed) return;
      state_->closed = true;
      refused.swap(state_->waiting);
    }
    fabric_.Remove(address_);
    for (auto& link : refused) {
      link->Detach(MemoryLink::kListener);
      link->Post(MemoryLink::kConnector,
                 [](MemoryEndpoint& self) { self.OnGone(Status::Unavailable("the listener was closed")); });
    }
    state_->changed.Set();
  }

  MemoryFabric& fabric_;
  const std::string address_;
  const std::shared_ptr<MemoryListenerState> state_;
  rt::Gate gate_;
};

Result<std::unique_ptr<Listener>> MemoryFabric::Listen(rt::Reactor& reactor, const std::string& address,
                                                       EndpointOptions options) {
  FB_TRY(CheckOptions(options));
  base::MutexLock lock(mutex_);
  std::string taken = address;
  if (address.ends_with(":0")) {
    const std::string host = address.substr(0, address.size() - 1);
    do {
      taken = host + std::to_string(next_port_++);
    } while (listeners_.contains(taken));
  }
  if (listeners_.contains(taken)) {
    return Status::FailedPrecondition("somebody listens on {} already: choose another address", taken);
  }
  auto state = std::make_shared<MemoryListenerState>(reactor, options);
  listeners_.emplace(taken, state);
  return std::unique_ptr<Listener>(std::make_unique<MemoryListener>(*this, taken, std::move(state)));
}

rt::Task<Result<std::unique_ptr<Endpoint>>> MemoryFabric::Connect(rt::Reactor& reactor, std::string address,
                                                                  EndpointOptions options, base::TimePoint deadline) {
  FB_CO_TRY(CheckOptions(options));
  if (reactor.Now() >= deadline) co_return Status::DeadlineExceeded("the deadline passed while connecting to {}", address);
  std::shared_ptr<MemoryListenerState> state;
  {
    base::MutexLock lock(mutex_);
    const auto found = listeners_.find(address);
    if (found != listeners_.end()) state = found->second;
  }
  if (state == nullptr) co_return Status::Unavailable("connect to {}: nobody listens there", address);
  auto link = std::make_shared<MemoryLink>(options, state->options);
  auto endpoint =
      std::make_unique<MemoryEndpoint>(reactor, link, MemoryLink::kConnector, address, options, random_);
  link->Attach(MemoryLink::kConnector, reactor, endpoint.get());
  endpoint->ArmLiveness(endpoint->liveness_.first());
  {
    base::MutexLock lock(state->mutex);
    if (state->closed) co_return Status::Unavailable("connect to {}: nobody listens there", address);
    if (state->waiting.size() >= kMaxWaiting) {
      co_return Status::Unavailable("connect to {}: {} connections wait there to be accepted", address, kMaxWaiting);
    }
    state->waiting.push_back(std::move(link));
    // Under the lock: once it is closed its reactor may go.
    state->reactor.Post([state] { state->changed.Set(); });
  }
  co_return std::unique_ptr<Endpoint>(std::move(endpoint));
}

void MemoryFabric::Remove(const std::string& address) {
  base::MutexLock lock(mutex_);
  listeners_.erase(address);
}

}  // namespace forebay::fabric
