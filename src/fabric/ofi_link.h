// SPDX-License-Identifier: Apache-2.0
// OfiLink: one connected endpoint of libfabric with its queues and buffers, and the reactor's wait for them:
// libfabric's descriptors are polled through the ring, after fi_trywait has said that nothing is left to
// collect. It knows no protocol: bytes come and go in slots, one-sided operations are carried out, whoever
// uses it is told. Made on any thread; Reactor-local from Start on. Destroyed after the gate given to Start
// was closed. Invariant: after Close returned, the provider touches no memory of ours any more.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "fabric/ofi_domain.h"
#include "fabric/ofi_library.h"
#include "fabric/ofi_limits.h"
#include "rt/gate.h"
#include "rt/operation.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

/// A place for one operation given to the provider; it finds its way back by its address.
struct OfiOp {
  enum class Kind : uint8_t { kReceive, kSend, kTransfer };
  Kind kind = Kind::kReceive;
  uint16_t index = 0;  // among those of its kind
};

class OfiLinkSink {
 public:
  virtual ~OfiLinkSink() = default;
  /// One message of the peer's; the slot is posted anew afterwards.
  virtual void OnReceived(ByteView bytes) = 0;
  virtual void OnSent(uint16_t slot) = 0;
  /// PermissionDenied when the peer's provider said that the key does not allow it, where the provider can
  /// tell.
  virtual void OnTransferred(uint16_t op, const Status& status) = 0;
  /// What there was has been collected, for now.
  virtual void OnCollected() = 0;
  /// The connection is gone; what arrived before has been given.
  virtual void OnLinkEnded(const Status& reason) = 0;
};

class OfiLink {
 public:
  /// For `info` of a connection request, or of OfiLibrary::ForConnect: then it blocks for as long as the
  /// provider looks for a route.
  static Result<std::unique_ptr<OfiLink>> Open(std::shared_ptr<OfiDomain> domain, const fi_info& info);
  ~OfiLink();

  // ---- getting connected ----

  /// `hello` travels with the request.
  Status Connect(ByteView hello);
  /// For a link whose info came with a connection request.
  Status Accept(ByteView hello);
  /// Waits until connected; gives the bytes that came with the peer's answer. Unavailable when it refused:
  /// see refusal().
  rt::Task<Result<Bytes>> AwaitConnected(rt::Reactor& reactor, rt::OpOptions until);
  /// What the peer sent along when it refused the connection; may be followed by padding.
  const Bytes& refusal() const { return refusal_; }
  std::string PeerAddress() const;

  // ---- at work ----

  /// `gate` holds the two coroutines; they end after Close. `sink` and `life` are borrowed until then; `life`
  /// is cancelled by Close's caller.
  void Start(rt::Reactor& reactor, rt::Gate& gate, rt::CancelToken& life, OfiLinkSink& sink);

  const OfiTraits& traits() const { return domain_->traits(); }
  OfiDomain& domain() { return *domain_; }

  std::optional<uint16_t> TakeSlot();
  void ReturnSlot(uint16_t slot) { free_slots_.push_back(slot); }
  MutableByteView slot(uint16_t index);

  /// Memory of one operation: pieces with the descriptors of their registrations.
  struct Pieces {
    iovec memory[kMaxPieces];
    void* descriptors[kMaxPieces] = {};
    size_t count = 0;
    size_t bytes = 0;
    void Add(ByteView view, void* descriptor) {
      memory[count] = {const_cast<std::byte*>(view.data()), view.size()};
      descriptors[count++] = descriptor;
      bytes += view.size();
    }
  };
  /// Sends the first `size` bytes of the slot, then `more`, which stays until OnSent; at most traits().pieces
  /// in all.
  Status Send(uint16_t slot, size_t size, const Pieces& more);

  std::optional<uint16_t> TakeOp();
  void ReturnOp(uint16_t op) { free_ops_.push_back(op); }
  struct Target {
    uint64_t address = 0;  // by the provider's rules: OfiTraits::virtual_addresses
    uint64_t key = 0;
  };
  /// `local` stays until OnTransferred.
  Status Write(uint16_t op, const Pieces& local, Target remote);
  Status Read(uint16_t op, const Pieces& local, Target remote);

  /// Ends the connection, without waiting for anybody. No further call of the sink.
  void Close();
  bool closed() const { return endpoint_ == nullptr; }

 private:
  explicit OfiLink(std::shared_ptr<OfiDomain> domain) : domain_(std::move(domain)) {}
  Status OpenQueues(const fi_info& info);
  Status OpenBuffers();
  Status PostReceive(uint16_t slot);
  MutableByteView Slot(size_t index) { return {buffers_ + index * kSlotBytes, kSlotBytes}; }

  rt::Task<void> CollectLoop(rt::Reactor& reactor, rt::CancelToken& life);
  rt::Task<void> EventLoop(rt::Reactor& reactor, rt::CancelToken& life);
  /// True when there may be more.
  bool Collect();
  void Completed(OfiOp& op, size_t length);
  /// Takes a failed operation off the queue.
  void CollectError();
  OfiOp* OpAt(void* context);
  struct Event {
    bool connected = false;
    Status ended;  // not ok: the connection is over, or was refused
    Bytes data;
  };
  std::optional<Event> NextEvent();
  Event FailedEvent();
  bool MaySleep(fid* queue);
  void End(Status reason);

  // Shared by the endpoints of a server that offers nothing; otherwise ours alone.
  const std::shared_ptr<OfiDomain> domain_;
  FidHandle<fid_eq> events_;
  FidHandle<fid_cq> completions_;
  FidHandle<fid_ep> endpoint_;  // closed before the queues
  int events_fd_ = -1;          // of libfabric's
  int completions_fd_ = -1;
  bool connected_ = false;
  Bytes refusal_;
  std::string destination_;  // the address to connect to, as libfabric has it

  std::byte* buffers_ = nullptr;  // mapped; receive slots, then send slots
  FidHandle<fid_mr> buffers_registration_;
  std::vector<OfiOp> ops_;  // never resized: the provider has their addresses
  std::vector<uint16_t> free_slots_;
  std::vector<uint16_t> free_ops_;
  OfiLinkSink* sink_ = nullptr;  // from Start on
  Status failure_;               // of an operation; told when all before it has been given
};

}  // namespace forebay::fabric
