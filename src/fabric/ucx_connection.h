// SPDX-License-Identifier: Apache-2.0
// UcxConnection: a greeted ucx connection at work. Transfers go straight to the peer's memory by its device;
// the peer's program has no part in them and learns of them by a tally. Messages and all else go as frames by
// UcxChannel. The memory rule: a region is reachable while its registration lives, and ends with it; the peer
// is asked first to stop using it, because a transfer that meets a dead registration ends the connection, but
// the end never depends on its answer. The target of a read is reachable while the transfer is under way,
// which is awaited, or ended by closing the connection. Reactor-local. Destroyed after Fence was awaited.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "fabric/fabric.h"
#include "fabric/liveness.h"
#include "fabric/region_table.h"
#include "fabric/transfer_table.h"
#include "fabric/ucx_channel.h"
#include "fabric/ucx_regions.h"
#include "rt/cancel.h"
#include "rt/gate.h"
#include "rt/sync.h"
#include "rt/timer.h"

namespace forebay::fabric {

/// What one connection gives to the device at a time of its transfers. Frames go in order with them, an
/// answer to a probe too: what is before it must be moved well within `dead_after`, over slow devices as
/// well.
constexpr size_t kUcxDeviceBytes = 4 * base::kMiB;

/// A connection whose HELLOs are exchanged, on no reactor.
struct UcxGreeted {
  std::unique_ptr<UcxChannel> channel;
  std::shared_ptr<UcxContext> context;
  EndpointOptions limits;  // our times and max_regions; of sizes and counts, what both sides accept
  uint32_t peer_max_regions = 0;
};

class UcxConnection final : private UcxSink {
 public:
  /// May be made on another thread than the reactor's; `own` are the options of this side.
  UcxConnection(rt::Reactor& reactor, UcxGreeted greeted, const EndpointOptions& own, base::Random& random);
  ~UcxConnection();
  /// On the reactor, before anything else.
  void Start();

  // As in Endpoint.
  rt::Task<Status> Send(Bytes head, std::vector<base::Buffer> payload);
  rt::Task<Result<Bytes>> Receive();
  Result<RegionToken> Offer(MutableByteView memory, Direction direction, base::TimePoint expiry);
  rt::Task<Status> Withdraw(RegionToken region);
  rt::Task<Status> Write(RegionToken remote, uint64_t offset, std::vector<base::Buffer> data,
                         base::TimePoint deadline);
  rt::Task<Status> Read(RegionToken remote, uint64_t offset, MutableByteView data, base::TimePoint deadline);
  rt::Task<void> Fence(Status reason);

  /// The part of Fence that does not wait.
  void Break(Status reason) { Break(std::move(reason), true); }
  bool ended() const { return gate_.closed() && gate_.count() == 0; }
  const Status& state() const { return state_; }
  const std::string& peer() const { return peer_; }
  rt::Reactor& reactor() const { return reactor_; }
  EndpointStats stats() const;

 private:
  /// A transfer of ours that is under way at the device. Its memory stays until the last part has ended.
  struct Flight final : UcxCompletion {
    Flight(UcxConnection& owner, uint64_t transfer, uint64_t key)
        : connection(owner), id(transfer), region(key) {}
    void OnDone(ucs_status_t result) override { connection.OnPart(*this, result); }
    UcxConnection& connection;
    const uint64_t id;
    const uint64_t region;
    rt::Units room;                    // of device_room_
    std::vector<base::Buffer> source;  // of a write
    uint64_t length = 0;
    bool read = false;
    uint32_t parts = 1;  // under way; one for whoever starts them
    ucs_status_t status = UCS_OK;
  };

  // UcxSink
  void OnFrame(ByteView header, ByteView payload) override;
  void OnBroken(Status why) override;

  Status Act(const UcxFrame& frame, ByteView payload);
  Status OnMessage(const UcxFrame& frame, ByteView payload);
  Status OnCredit(const UcxFrame& frame);
  Status OnOffer(const UcxFrame& frame, ByteView payload);
  Status OnRevoke(const UcxFrame& frame);
  Status OnAsk(const UcxFrame& frame);
  Status OnAnswer(const UcxFrame& frame);
  /// The peer may end its region: no transfer of ours uses it any more.
  void GiveUp(uint64_t key);
  /// Fails when the peer leaves more unanswered than it may, or breaks region rules too often.
  Status CheckConduct() const;

  /// Waits until the device may be given that much more.
  rt::Task<Result<rt::Units>> Room(uint64_t length, base::TimePoint deadline);
  /// A transfer that this side may not start, or need not: the owner judges it.
  void Ask(const Transfer& transfer, uint64_t key);
  /// The region, when the device can be let loose on it.
  PeerRegions::Region* Usable(const Transfer& transfer, uint64_t key);
  /// Ends a transfer whose owner allowed it while this side holds the offer to be over.
  Status Untold(Transfer* transfer);
  void LaunchWrite(const Transfer& transfer, uint64_t key, PeerRegions::Region& region, rt::Units room,
                   std::vector<base::Buffer> data);
  void LaunchRead(const Transfer& transfer, uint64_t key, PeerRegions::Region& region, rt::Units room);
  Flight& Launch(const Transfer& transfer, uint64_t key, PeerRegions::Region& region, rt::Units room);
  void OnPart(Flight& flight, ucs_status_t result);
  void OnLanded(const Flight& flight);
  /// Suspends until the device has let go of the transfer's memory; closes the connection if that takes too
  /// long.
  rt::Task<void> AwaitLanding(uint64_t id);
  /// Tells the peer what was moved since the last time; `at_once`: also when the last tally waits to be sent.
  void SendTally(bool at_once);

  /// Asks the peer to give a region up, and ends its registration whatever comes of that.
  rt::Task<void> Revoke(uint64_t key);
  void ArmExpiry(base::TimePoint when);
  void Break(Status reason, bool say_goodbye);
  rt::Task<void> TearDown(bool say_goodbye);
  rt::Task<bool> AcquireWindow(size_t cost);
  void Post(UcxFrame frame, Bytes payload = {});
  /// Something went out that the peer should react to.
  void Awaited();
  void CheckLiveness();
  void ArmLiveness(base::TimePoint when);

  rt::Reactor& reactor_;
  std::shared_ptr<UcxContext> context_;
  std::unique_ptr<UcxChannel> channel_;
  const std::string peer_;
  const EndpointOptions limits_;  // of sizes and counts: both sides'; else ours
  const uint32_t own_max_transfers_;
  const size_t window_bytes_;

  Status state_;
  rt::CancelToken life_;  // cancelled by Break
  rt::Gate gate_;
  uint64_t next_sequence_ = 1;  // of the peer's frames; HELLO was 0

  RegionTable regions_;
  OfferedRegions offered_;
  rt::Timer expiry_timer_;
  base::TimePoint next_expiry_ = base::kNever;  // what the timer is armed for
  PeerRegions peer_regions_;
  TransferTable transfers_;
  rt::Semaphore device_room_;
  std::unordered_map<uint64_t, Flight> flights_;
  rt::Event landed_;            // set and reset at once: some flight ended
  uint64_t tally_written_ = 0;  // of ours, not yet told
  uint64_t tally_read_ = 0;
  rt::Event tally_sent_;  // not set while one waits to be sent

  rt::Semaphore window_;  // what we may send of messages
  size_t window_waiters_ = 0;
  size_t window_used_ = 0;
  std::deque<Bytes> messages_;  // received, not yet taken
  size_t unreturned_ = 0;       // window that the peer has used and not got back
  size_t returnable_ = 0;       // of that, taken by Receive
  rt::Event message_came_;
  bool receiving_ = false;

  Liveness liveness_;
  rt::Timer liveness_timer_;
  base::TimePoint next_check_ = base::kNever;
  uint64_t sent_at_check_ = 0;  // frames that had gone out at the last check
  EndpointStats stats_;
};

}  // namespace forebay::fabric
