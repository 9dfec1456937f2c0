// SPDX-License-Identifier: Apache-2.0
// OfiConnection: a greeted ofi connection at work. OfiLink moves bytes, OfiSendQueue knows what to say,
// OfiOffers and OfiPeerRegions know the regions of both sides, TransferTable our transfers, Liveness watches
// the peer. The memory rule: an offer ends by asking the peer to finish what it has under way and closing the
// registration then; a peer that does not answer in kWithdrawPatience is fenced, which closes the endpoint. A
// read that is under way cannot be taken back, so its deadline closes the endpoint as well. Reactor-local.
// Destroyed after Fence was awaited.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/liveness.h"
#include "fabric/ofi_link.h"
#include "fabric/ofi_regions.h"
#include "fabric/ofi_send_queue.h"
#include "fabric/transfer_table.h"
#include "rt/cancel.h"
#include "rt/gate.h"
#include "rt/sync.h"
#include "rt/timer.h"

namespace forebay::fabric {

/// A connection whose preambles are exchanged.
struct OfiGreeted {
  std::unique_ptr<OfiLink> link;
  std::string peer;        // "host:port"
  EndpointOptions limits;  // our times and max_regions; of sizes and counts, what both sides accept
  OfiPreamble preamble;    // the peer's
  bool offers = true;      // false: its protection domain is shared, so it must not
};

class OfiConnection final : private OfiLinkSink {
 public:
  /// May be made on another thread than the reactor's; `own` are the options of this side.
  OfiConnection(rt::Reactor& reactor, OfiGreeted greeted, const EndpointOptions& own, base::Random& random);
  ~OfiConnection() override;
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

  /// The part of Fence that does not wait. The endpoint is closed when it returns: the provider touches
  /// nothing any more.
  void Break(Status reason);
  bool ended() const { return gate_.closed() && gate_.count() == 0; }
  const Status& state() const { return state_; }
  const std::string& peer() const { return peer_; }
  rt::Reactor& reactor() const { return reactor_; }
  EndpointStats stats() const;

 private:
  /// A transfer of ours on its way through the provider, in one or more operations.
  struct Job {
    RegionToken remote;
    uint64_t offset = 0;
    uint64_t length = 0;
    Direction direction = Direction::kPeerWrites;
    std::vector<base::Buffer> data;  // of a write
    MutableByteView target;          // of a read; borrowed from the caller
    uint64_t posted = 0;
    size_t buffer = 0;       // the first of data that is not all posted
    uint32_t under_way = 0;  // operations
    bool asked = false;      // the owner's answer is awaited
    Status failure;
  };
  struct OpState {
    uint64_t job = 0;
    size_t bytes = 0;
    std::vector<FidHandle<fid_mr>> registrations;  // of memory outside of all arenas
  };

  // OfiLinkSink
  void OnReceived(ByteView bytes) override;
  void OnSent(uint16_t slot) override { queue_.Sent(slot); }
  void OnTransferred(uint16_t op, const Status& status) override;
  void OnCollected() override { Pump(); }
  void OnLinkEnded(const Status& reason) override;

  // ofi_connection_frames.cc: what the peer's frames do. An error is a lie and ends the connection.
  Status OnFrame(const OfiFrame& frame, ByteView payload);
  Status OnMessage(const OfiFrame& frame, ByteView payload);
  Status OnCredit(const OfiFrame& frame);
  Status OnAsk(const OfiFrame& frame);
  Status OnAnswer(const OfiFrame& frame);
  Status OnWithdraw(const OfiFrame& frame);
  Status OnWithdrawn(const OfiFrame& frame);
  Status OnProbeAnswer(const OfiFrame& frame);
  Status CheckConduct() const;

  // ofi_connection_transfers.cc: ours.
  rt::Task<Status> Transmit(Transfer::Kind kind, Job job, base::TimePoint deadline);
  void BeginJob(uint64_t id, Job job);
  void AfterDeadline(uint64_t id);
  void StartJob(uint64_t id, Job& job);
  void PumpJobs();
  /// Posts operations until the job is all posted, has failed, or none is free. True when the job needs no
  /// further call.
  bool PostJob(uint64_t id, Job& job);
  Status PostPiece(Job& job, OfiPeerRegion& region, uint16_t op);
  Status GatherPiece(Job& job, OfiLink::Pieces& pieces, OpState& op);
  void FinishJobIfDone(uint64_t id);
  void LetGoIfIdle(uint64_t key);

  /// Ends an offer: returns when the registration is closed.
  rt::Task<void> EndOffer(OfiOffered& offered);
  /// Waits until whatever the peer had begun before this call is over, by a round trip through the ordered
  /// stream.
  rt::Task<void> PassBarrier(base::TimePoint deadline);
  void ArmExpiry();
  void ExpireOffers();

  rt::Task<bool> AcquireWindow(size_t cost);
  void PushControl(const OfiFrame& frame, bool awaits);
  /// `awaits`: the peer should react to what was queued.
  void Kick(bool awaits);
  void Pump();
  bool SendNext();
  void CheckLiveness();
  void ArmLiveness(base::TimePoint when);

  rt::Reactor& reactor_;
  const std::unique_ptr<OfiLink> link_;
  const std::string peer_;
  const EndpointOptions limits_;  // of sizes and counts: both sides'; else ours
  const uint32_t own_max_transfers_;
  const bool may_offer_;
  const size_t window_bytes_;
  const uint16_t peer_slots_;   // receive buffers that the peer has
  const uint32_t frame_bytes_;  // that fit into both its buffers and ours
  base::Random& random_;

  Status state_;
  rt::CancelToken life_;  // cancelled by Break
  rt::Gate gate_;

  OfiOffers offers_;
  rt::Timer expiry_timer_;
  std::map<uint64_t, rt::Event*> barriers_;  // by the number of the probe; in the waiting frames
  OfiPeerRegions peer_regions_;

  TransferTable transfers_;
  std::unordered_map<uint64_t, Job> jobs_;  // by the transfer's id
  std::deque<uint64_t> ready_jobs_;         // those that have something to post
  std::vector<OpState> ops_;
  size_t posted_bytes_ = 0;  // of operations under way

  OfiSendQueue queue_;
  uint16_t slots_left_;      // receive buffers of the peer's that are free
  uint16_t slots_owed_ = 0;  // of ours that the peer does not know to be free again

  rt::Semaphore window_;  // what we may send of messages
  size_t window_waiters_ = 0;
  size_t window_used_ = 0;
  Bytes incoming_;  // a message whose last piece has not come
  bool in_message_ = false;
  size_t incoming_length_ = 0;
  std::deque<Bytes> messages_;  // received, not yet taken
  size_t unreturned_ = 0;       // window that the peer has used and not got back
  size_t returnable_ = 0;       // of that, taken by Receive
  rt::Event message_came_;
  bool receiving_ = false;

  Liveness liveness_;
  rt::Timer liveness_timer_;
  base::TimePoint next_check_ = base::kNever;
  EndpointStats stats_;
};

}  // namespace forebay::fabric
