// SPDX-License-Identifier: Apache-2.0
// StreamConnection: a greeted connection over a ByteStream at work: the whole of `tcp` and of `shm` above
// their transport. One coroutine receives, one sends; FrameReader and SendQueue hold what is known of the
// bytes, RegionTable judges the peer's transfers, TransferTable keeps ours, Liveness watches the peer. The
// memory rule: a region, or the target of a read, is touched only inside of an operation of the stream that
// this class can cancel and whose end it awaits, or in a turn of the reactor: so Withdraw, Fence and a read's
// deadline are final when they return. Reactor-local. Destroyed after Fence was awaited.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/borrower.h"
#include "fabric/byte_stream.h"
#include "fabric/fabric.h"
#include "fabric/frame_reader.h"
#include "fabric/kept_descriptors.h"
#include "fabric/lent_blocks.h"
#include "fabric/liveness.h"
#include "fabric/region_table.h"
#include "fabric/send_queue.h"
#include "fabric/transfer_table.h"
#include "rt/cancel.h"
#include "rt/gate.h"
#include "rt/sync.h"
#include "rt/timer.h"

namespace forebay::fabric {

class StreamConnection final : private FrameSink, private ServedSink, private BorrowSink {
 public:
  /// May be made on another thread than the reactor's; `own` are the options of this side.
  StreamConnection(rt::Reactor& reactor, Greeted greeted, const EndpointOptions& own, base::Random& random);
  ~StreamConnection() override;
  /// On the reactor, before anything else: starts the two coroutines.
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
  void Break(Status reason);
  bool ended() const { return gate_.closed() && gate_.count() == 0; }
  const Status& state() const { return state_; }
  const std::string& peer() const { return peer_; }
  rt::Reactor& reactor() const { return reactor_; }
  EndpointStats stats() const;

 private:
  /// What the payload that is being received belongs to.
  struct Incoming {
    uint64_t region_key = 0;   // WRITE: the region, while it is there
    uint64_t transfer_id = 0;  // READ_DATA: the transfer
    Refusal refusal = Refusal::kNone;
    Bytes bytes;  // MESSAGE, GOODBYE
  };

  /// A write whose payload we lend: what it takes to send it after all.
  struct Lent {
    uint64_t key = 0;
    uint64_t offset = 0;
    std::vector<base::Buffer> data;
    bool copied = false;  // for this write, into the block that is lent
  };

  rt::Task<void> ReceiveLoop();
  rt::Task<void> SendLoop();
  rt::Task<void> BorrowLoop();

  /// The way of a write's payload: lent where that can be, else sent.
  void PushWrite(uint64_t id, const LentBlocks::Loan& loan, Lent write);
  /// Says in `header` how the block is lent. False, and nothing was done, when its descriptor cannot be passed now.
  bool Lend(const LentBlock& block, FrameHeader* header);

  // FrameSink
  Status OnHeader(const FrameHeader& header, MutableByteView* target) override;
  Status OnFrame(const FrameHeader& header) override;
  // ServedSink
  void OnServed(uint64_t id, uint64_t length, bool complete) override;
  // BorrowSink
  Status OnBorrowed(uint64_t id, uint64_t length, uint16_t code, bool hurry) override;

  Status OnWriteHeader(const FrameHeader& header, MutableByteView* target);
  Status OnReadDataHeader(const FrameHeader& header, MutableByteView* target);
  Status OnMessageHeader(const FrameHeader& header, MutableByteView* target);
  Status OnMessage();
  Status OnCredit(const FrameHeader& header);
  Status OnWritten(const FrameHeader& header);
  /// Not in a hurry: the answer goes with whatever is sent next.
  Status AnswerWrite(uint64_t id, uint64_t length, uint16_t code, bool hurry);
  Status OnLent(const FrameHeader& header);
  Status OnRead(const FrameHeader& header);
  Status OnWriteDone(const FrameHeader& header);
  void SendAfterAll(Transfer* transfer, Lent write);
  Status OnReadDone(const FrameHeader& header);
  /// Fails when the peer leaves more unanswered than it may, or breaks region rules too often.
  Status CheckConduct() const;

  /// Drops the rest of the payload under way and suspends until the stream no longer writes to where it went.
  rt::Task<void> StopLanding();
  rt::Task<bool> AcquireWindow(size_t cost);
  /// Something is queued: wakes the sender. `awaits`: the peer should react to it.
  void Kick(bool awaits);
  void OperationEnded();
  void SayGoodbye();
  void CheckLiveness();
  void ArmLiveness(base::TimePoint when);

  rt::Reactor& reactor_;
  const std::unique_ptr<ByteStream> stream_;
  const std::string peer_;
  const EndpointOptions limits_;  // of sizes and counts: both sides'; else ours
  const uint32_t own_max_transfers_;
  const size_t window_bytes_;
  const std::shared_ptr<LentBlocks> lent_blocks_;  // null: nothing is lent. Shared with other endpoints of its fabric

  Status state_;
  rt::CancelToken life_;  // cancelled by Break
  rt::Gate gate_;
  rt::CancelToken* receive_op_ = nullptr;  // of the operation under way; in the loop's frame
  rt::CancelToken* send_op_ = nullptr;
  uint64_t receives_ = 0;      // receive operations that ended
  rt::Event operation_ended_;  // set and reset at once: tells those who wait for the stream to let go

  RegionTable regions_;
  TransferTable transfers_;
  FrameReader reader_;
  Incoming incoming_;
  SendQueue queue_;
  Borrower borrower_;
  LentPlaces lent_places_;
  std::unordered_map<uint64_t, Lent> lent_;  // by transfer, until it is answered
  uint64_t uncopied_bytes_ = 0;              // of writes delivered
  rt::Event queued_;

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
  EndpointStats stats_;
};

}  // namespace forebay::fabric
