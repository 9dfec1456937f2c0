// SPDX-License-Identifier: Apache-2.0
// MemoryEndpoint: one end of an in-process connection, and MemoryLink, what both ends share. An end reaches the other only
// through MemoryLink::Post, which runs a function on the other end's reactor, in order, unless that end is gone.
// Reactor-local, except MemoryLink, which is thread-safe.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "fabric/fabric.h"
#include "fabric/liveness.h"
#include "fabric/region_table.h"
#include "fabric/transfer_table.h"
#include "rt/gate.h"
#include "rt/timer.h"

namespace forebay::fabric {

class MemoryEndpoint;

class MemoryLink : public std::enable_shared_from_this<MemoryLink> {
 public:
  using Function = std::move_only_function<void(MemoryEndpoint&)>;
  enum Side : int { kConnector = 0, kListener = 1 };

  MemoryLink(EndpointOptions connector, EndpointOptions listener);

  /// What both ends accept.
  const EndpointOptions& limits() const { return limits_; }
  /// From now on functions for `side` run on `reactor`, those posted earlier first.
  void Attach(Side side, rt::Reactor& reactor, MemoryEndpoint* endpoint);
  /// `side` gets nothing any more.
  void Detach(Side side);
  void Post(Side side, Function function);

 private:
  struct End {
    rt::Reactor* reactor = nullptr;  // borrowed; outlives the attached endpoint
    MemoryEndpoint* endpoint = nullptr;
    bool gone = false;
    std::vector<Function> early;  // before Attach; bounded by the window and the transfer limit of the other end
  };
  void PostLocked(Side side, Function function) FB_REQUIRES(mutex_);

  EndpointOptions limits_;
  base::Mutex mutex_;
  End ends_[2] FB_GUARDED_BY(mutex_);
};

class MemoryEndpoint final : public Endpoint {
 public:
  MemoryEndpoint(rt::Reactor& reactor, std::shared_ptr<MemoryLink> link, MemoryLink::Side side, std::string peer,
                 const EndpointOptions& own, base::Random& random);
  ~MemoryEndpoint() override;

  rt::Task<Status> Send(Bytes message) override;
  rt::Task<Status> SendWithPayload(Bytes head, std::vector<base::Buffer> payload) override;
  rt::Task<Result<Bytes>> Receive() override;
  Result<RegionToken> Offer(MutableByteView memory, Direction direction, base::TimePoint expiry) override;
  rt::Task<Status> Withdraw(RegionToken region) override;
  rt::Task<Status> Write(RegionToken remote, uint64_t offset, std::vector<base::Buffer> data,
                         base::TimePoint deadline) override;
  rt::Task<Status> Read(RegionToken remote, uint64_t offset, MutableByteView data, base::TimePoint deadline) override;
  rt::Task<void> Fence(Status reason) override;
  Status state() const override { return state_; }
  std::string peer() const override { return peer_; }
  rt::Reactor& reactor() const override { return reactor_; }
  EndpointStats stats() const override;

 private:
  friend class MemoryFabric;
  friend class MemoryListener;

  // What the other end does to this one; run on this one's reactor.
  void OnMessage(Bytes message);
  void OnRoom(size_t bytes);
  void OnWrite(uint64_t id, uint64_t key, uint64_t offset, const std::vector<base::Buffer>& data);
  void OnRead(uint64_t id, uint64_t key, uint64_t offset, uint64_t length);
  void OnAnswer(uint64_t id, Refusal refusal, const Bytes& data);
  void OnProbe();
  void OnGone(const Status& reason);
  void Arrived();

  /// For what the peer should react to.
  void PostToPeer(MemoryLink::Function function);
  void Answer(uint64_t id, Refusal refusal, Bytes data);
  void Break(Status reason);
  void CheckLiveness();
  void ArmLiveness(base::TimePoint when);
  MemoryLink::Side other() const;

  rt::Reactor& reactor_;
  const std::shared_ptr<MemoryLink> link_;  // shared by both ends, which go in any order
  const MemoryLink::Side side_;
  const std::string peer_;
  const EndpointOptions limits_;
  Status state_;
  rt::CancelToken life_;
  rt::Gate gate_;
  RegionTable regions_;
  TransferTable transfers_;
  rt::Semaphore window_;
  size_t window_waiters_ = 0;
  std::deque<Bytes> incoming_;
  rt::Event arrived_;
  bool receiving_ = false;
  Liveness liveness_;
  rt::Timer liveness_timer_;
  base::TimePoint next_check_ = base::kNever;
  EndpointStats stats_;
};

}  // namespace forebay::fabric
