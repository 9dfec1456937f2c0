// SPDX-License-Identifier: Apache-2.0
// UcxChannel: one UCX endpoint on a worker of its own, from dialing to closing: frames both ways as active
// messages, and one-sided transfers. It knows what a frame looks like and not what it means. Frames go out
// one after the other, so that they arrive in order although UCX promises none. Reactor-local; may change its
// reactor between Pause and Resume. Destroyed after Close was awaited.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/status.h"
#include "fabric/ucx_frames.h"
#include "fabric/ucx_worker.h"
#include "rt/address.h"
#include "rt/operation.h"
#include "rt/sync.h"

namespace forebay::fabric {

/// Told what comes; inside of UCX's progress, where nothing may be closed or awaited.
class UcxSink {
 public:
  virtual void OnFrame(ByteView header, ByteView payload) = 0;
  /// The connection is no more. Once.
  virtual void OnBroken(Status why) = 0;

 protected:
  ~UcxSink() = default;
};

/// Told the end of a transfer that was started; once, inside of UCX's progress.
class UcxCompletion {
 public:
  virtual void OnDone(ucs_status_t status) = 0;

 protected:
  ~UcxCompletion() = default;
};

class UcxChannel {
 public:
  struct Received {
    Bytes header, payload;
  };

  /// Starts to connect; whether that worked is told by the first frame. Runs on `reactor`.
  static Result<std::unique_ptr<UcxChannel>> Dial(std::shared_ptr<UcxContext> context, rt::Reactor& reactor,
                                                  const rt::SocketAddress& address);
  /// Accepts, on a worker made for it. The request is used up, whatever the result.
  static Result<std::unique_ptr<UcxChannel>> Take(std::unique_ptr<UcxWorker> worker, rt::Reactor& reactor,
                                                  ucp_conn_request_h request, std::string peer);
  ~UcxChannel();

  /// While there is no sink: the next frame. Unavailable when the connection broke, DeadlineExceeded,
  /// Cancelled.
  rt::Task<Result<Received>> Next(rt::OpOptions until);
  /// Suspends until UCX took everything queued. False at the deadline, or when the connection broke before.
  rt::Task<bool> Drain(rt::OpOptions until);
  /// Suspends until the peer's device has everything queued and put. False as above; Close is then the only
  /// call to follow.
  rt::Task<bool> Settle(rt::OpOptions until);
  /// Lets nothing more come until Resume.
  rt::Task<void> Pause();
  /// Goes on, on `reactor`; `sink` gets what came meanwhile before this returns. Borrowed until Close has
  /// returned.
  void Resume(rt::Reactor& reactor, UcxSink& sink);

  /// Queues a frame; its sequence and length are filled in. `sent`, when not null, is set once UCX took it or
  /// never will.
  void Send(UcxFrame frame, Bytes head, std::vector<base::Buffer> payload, rt::Event* sent);
  size_t queued() const { return queue_.size(); }
  /// Of those, answers to frames of the peer's.
  size_t owed() const { return owed_; }
  /// Frames that UCX took so far.
  uint64_t frames_sent() const { return next_sequence_ - queue_.size(); }

  // One-sided. UCS_INPROGRESS: `completion`, borrowed, is told the end, unless Close comes first. Anything
  // else is the end.
  ucs_status_t Put(ByteView data, uint64_t remote, ucp_rkey_h key, UcxCompletion& completion);
  ucs_status_t Get(MutableByteView data, uint64_t remote, ucp_rkey_h key, UcxCompletion& completion);
  /// Ends when everything put so far has been acknowledged by the peer's device.
  ucs_status_t Flush(UcxCompletion& completion);
  /// `packed` has passed CheckUcxRkey.
  Result<ucp_rkey_h> Unpack(ByteView packed);

  /// Which transports carry the connection; PermissionDenied when one of them checks no key.
  Result<std::string> Verify() const { return VerifyUcxLanes(endpoint_); }
  const std::string& peer() const { return peer_; }

  /// Ends the connection without asking the peer. When it has returned, nothing of the peer's comes in by
  /// this connection, no operation of ours goes on, and no completion will be told. `before_worker_ends`,
  /// which may be null, is for what else belongs to the worker: keys that were unpacked.
  rt::Task<void> Close(rt::MoveOnlyFunction before_worker_ends);

 private:
  struct Outgoing {
    UcxHeaderBytes header;
    Bytes head;
    std::vector<base::Buffer> payload;
    std::vector<ucp_dt_iov_t> pieces;
    rt::Event* sent;
    bool answer;
  };
  struct SentCompletion final : UcxCompletion {
    explicit SentCompletion(UcxChannel& owner) : channel(owner) {}
    void OnDone(ucs_status_t status) override { channel.OnSent(status); }
    UcxChannel& channel;
  };
  struct EndCompletion final : UcxCompletion {
    explicit EndCompletion(rt::Reactor& reactor) : ended(reactor) {}
    void OnDone(ucs_status_t) override { ended.Set(); }
    rt::Event ended;
  };

  UcxChannel(std::unique_ptr<UcxWorker> worker, std::string peer);
  static Result<std::unique_ptr<UcxChannel>> Make(std::unique_ptr<UcxWorker> worker, rt::Reactor& reactor,
                                                  ucp_ep_params_t params, std::string peer);
  void Run(rt::Reactor& reactor);

  static ucs_status_t OnMessage(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                                const ucp_am_recv_param_t* param);
  static void OnError(void* self, ucp_ep_h endpoint, ucs_status_t status);
  static void OnOperation(void* request, ucs_status_t status, void* completion);

  void OnFrame(ByteView header, ByteView payload);
  void Broke(Status why);
  void Pump();
  ucs_status_t SendFront();
  void OnSent(ucs_status_t status);
  void PopFront();
  ucs_status_t Started(ucs_status_ptr_t request);

  std::unique_ptr<UcxWorker> worker_;
  const std::string peer_;
  ucp_ep_h endpoint_ = nullptr;
  UcxSink* sink_ = nullptr;  // borrowed from whoever resumed
  Status state_;
  std::deque<Outgoing> queue_;
  uint64_t next_sequence_ = 0;
  size_t owed_ = 0;
  bool sending_ = false;  // UCX has the front of the queue
  SentCompletion sent_{*this};
  std::unique_ptr<EndCompletion> flushed_;  // of Settle; stays until nothing can be told any more
  std::deque<Received> early_;              // came while there was no sink
  size_t early_bytes_ = 0;
  rt::CancelToken* waiting_ = nullptr;  // of whoever waits in Next or Drain; in that frame
};

}  // namespace forebay::fabric
