// SPDX-License-Identifier: Apache-2.0
// ConnectionEndpoint: the Endpoint over a mover's connection (StreamConnection, OfiConnection,
// UcxConnection), and what lets its owner destroy it unfenced: the connection then ends by itself before it
// is freed. Reactor-local.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/fabric.h"
#include "rt/call_on.h"

namespace forebay::fabric {

template <typename Connection>
class ConnectionEndpoint final : public Endpoint {
 public:
  explicit ConnectionEndpoint(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~ConnectionEndpoint() override {
    if (connection_->ended()) return;
    rt::Reactor& reactor = connection_->reactor();
    // Nobody waits for it: the task keeps the connection until its operations have ended.
    (void)rt::StartOn(reactor, [connection = std::move(connection_)]() -> rt::Task<void> {
      return connection->Fence(Status::Unavailable("the endpoint was destroyed"));
    });
  }

  rt::Task<Status> Send(Bytes message) override { return connection_->Send(std::move(message), {}); }
  rt::Task<Status> SendWithPayload(Bytes head, std::vector<base::Buffer> payload) override {
    return connection_->Send(std::move(head), std::move(payload));
  }
  rt::Task<Result<Bytes>> Receive() override { return connection_->Receive(); }
  Result<RegionToken> Offer(MutableByteView memory, Direction direction, base::TimePoint expiry) override {
    return connection_->Offer(memory, direction, expiry);
  }
  rt::Task<Status> Withdraw(RegionToken region) override { return connection_->Withdraw(region); }
  rt::Task<Status> Write(RegionToken remote, uint64_t offset, std::vector<base::Buffer> data,
                         base::TimePoint deadline) override {
    return connection_->Write(remote, offset, std::move(data), deadline);
  }
  rt::Task<Status> Read(RegionToken remote, uint64_t offset, MutableByteView data,
                        base::TimePoint deadline) override {
    return connection_->Read(remote, offset, data, deadline);
  }
  rt::Task<void> Fence(Status reason) override { return connection_->Fence(std::move(reason)); }
  Status state() const override { return connection_->state(); }
  std::string peer() const override { return connection_->peer(); }
  rt::Reactor& reactor() const override { return connection_->reactor(); }
  EndpointStats stats() const override { return connection_->stats(); }

 private:
  std::unique_ptr<Connection> connection_;
};

}  // namespace forebay::fabric
