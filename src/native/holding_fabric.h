// SPDX-License-Identifier: Apache-2.0
// HoldingFabric: wraps a fabric, counts the one-sided transfers of the endpoints it accepted, and can hold
// them back. For tests of what happens while a transfer is under way. Reactor-local: one reactor for all of
// it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/fabric.h"
#include "rt/sync.h"

namespace forebay::native {

class HoldingFabric final : public fabric::Fabric {
 public:
  HoldingFabric(fabric::Fabric& inner, rt::Reactor& reactor) : inner_(inner), go_(reactor), began_(reactor) {
    go_.Set();
  }

  /// From now on transfers wait, before they move a byte, until Release.
  void Hold() { go_.Reset(); }
  void Release() { go_.Set(); }
  bool holding() const { return !go_.is_set(); }
  size_t writes() const { return writes_; }
  size_t reads() const { return reads_; }
  /// Suspends until that many transfers have begun, held ones included.
  rt::Task<void> Began(size_t count) {
    while (writes_ + reads_ < count) {
      co_await began_.Wait();
      began_.Reset();
    }
  }

  std::string_view name() const override { return inner_.name(); }
  Result<std::unique_ptr<fabric::Listener>> Listen(rt::Reactor& reactor, const std::string& address,
                                                   fabric::EndpointOptions options) override {
    FB_ASSIGN(auto listener, inner_.Listen(reactor, address, options));
    return std::make_unique<HoldingListener>(*this, std::move(listener));
  }
  rt::Task<Result<std::unique_ptr<fabric::Endpoint>>> Connect(rt::Reactor& reactor, std::string address,
                                                              fabric::EndpointOptions options,
                                                              base::TimePoint deadline) override {
    return inner_.Connect(reactor, std::move(address), options, deadline);
  }

 private:
  class HoldingEndpoint final : public fabric::Endpoint {
   public:
    HoldingEndpoint(HoldingFabric& owner, std::unique_ptr<fabric::Endpoint> inner)
        : owner_(owner), inner_(std::move(inner)) {}
    rt::Task<Status> Send(Bytes message) override { return inner_->Send(std::move(message)); }
    rt::Task<Status> SendWithPayload(Bytes head, std::vector<base::Buffer> payload) override {
      return inner_->SendWithPayload(std::move(head), std::move(payload));
    }
    rt::Task<Result<Bytes>> Receive() override { return inner_->Receive(); }
    Result<fabric::RegionToken> Offer(MutableByteView memory, fabric::Direction direction,
                                      base::TimePoint expiry) override {
      return inner_->Offer(memory, direction, expiry);
    }
    rt::Task<Status> Withdraw(fabric::RegionToken region) override { return inner_->Withdraw(region); }
    rt::Task<Status> Write(fabric::RegionToken remote, uint64_t offset, std::vector<base::Buffer> data,
                           base::TimePoint deadline) override {
      ++owner_.writes_;
      owner_.began_.Set();
      co_await owner_.go_.Wait();
      co_return co_await inner_->Write(remote, offset, std::move(data), deadline);
    }
    rt::Task<Status> Read(fabric::RegionToken remote, uint64_t offset, MutableByteView data,
                          base::TimePoint deadline) override {
      ++owner_.reads_;
      owner_.began_.Set();
      co_await owner_.go_.Wait();
      co_return co_await inner_->Read(remote, offset, data, deadline);
    }
    rt::Task<void> Fence(Status reason) override { return inner_->Fence(std::move(reason)); }
    Status state() const override { return inner_->state(); }
    std::string peer() const override { return inner_->peer(); }
    rt::Reactor& reactor() const override { return inner_->reactor(); }
    fabric::EndpointStats stats() const override { return inner_->stats(); }

   private:
    HoldingFabric& owner_;
    const std::unique_ptr<fabric::Endpoint> inner_;
  };

  class HoldingListener final : public fabric::Listener {
   public:
    HoldingListener(HoldingFabric& owner, std::unique_ptr<fabric::Listener> inner)
        : owner_(owner), inner_(std::move(inner)) {}
    std::string address() const override { return inner_->address(); }
    rt::Task<Result<std::unique_ptr<fabric::Endpoint>>> Accept(rt::Reactor& home) override {
      FB_CO_ASSIGN(auto endpoint, co_await inner_->Accept(home));
      co_return std::make_unique<HoldingEndpoint>(owner_, std::move(endpoint));
    }
    rt::Task<void> Close() override { return inner_->Close(); }

   private:
    HoldingFabric& owner_;
    const std::unique_ptr<fabric::Listener> inner_;
  };

  fabric::Fabric& inner_;  // borrowed
  rt::Event go_;
  rt::Event began_;
  size_t writes_ = 0;
  size_t reads_ = 0;
};

}  // namespace forebay::native
