// SPDX-License-Identifier: Apache-2.0
// What libfabric's queues give back, and when the reactor may sleep.
#include <poll.h>

#include <algorithm>
#include <utility>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "fabric/ofi_link.h"

namespace forebay::fabric {

namespace {

constexpr size_t kBatch = 16;
/// Longest private data that a provider hands over.
constexpr size_t kMaxEventData = 256;
/// Of ibv_wc_status: what a device says of a write or read that the peer's device did not allow.
constexpr int kRemoteInvalidRequest = 9;
constexpr int kRemoteAccess = 10;

}  // namespace

void OfiLink::Start(rt::Reactor& reactor, rt::Gate& gate, rt::CancelToken& life, OfiLinkSink& sink) {
  sink_ = &sink;
  reactor.Spawn(gate, CollectLoop(reactor, life));
  reactor.Spawn(gate, EventLoop(reactor, life));
}

rt::Task<void> OfiLink::CollectLoop(rt::Reactor& reactor, rt::CancelToken& life) {
  while (!closed()) {
    const bool more = Collect();
    if (!closed()) sink_->OnCollected();
    if (closed()) break;
    if (more || !MaySleep(&completions_->fid)) {
      co_await reactor.Yield();
      continue;
    }
    co_await reactor.Poll(completions_fd_, POLLIN, {.token = &life});
  }
}

rt::Task<void> OfiLink::EventLoop(rt::Reactor& reactor, rt::CancelToken& life) {
  while (!closed()) {
    if (std::optional<Event> event = NextEvent()) {
      if (event->ended.ok()) continue;
      while (!closed() && Collect()) {
      }
      End(event->ended);
      continue;
    }
    if (!MaySleep(&events_->fid)) {
      co_await reactor.Yield();
      continue;
    }
    co_await reactor.Poll(events_fd_, POLLIN, {.token = &life});
  }
}

bool OfiLink::MaySleep(fid* queue) { return fi_trywait(domain_->fabric(), &queue, 1) == FI_SUCCESS; }

bool OfiLink::Collect() {
  fi_cq_msg_entry entries[kBatch];
  const ssize_t count = fi_cq_read(completions_.get(), entries, kBatch);
  if (count == -FI_EAVAIL) {
    CollectError();
    return true;
  }
  if (count == -FI_EAGAIN || count == 0) {
    if (!failure_.ok()) End(failure_);
    return false;
  }
  if (count < 0) {
    End(FromOfiError(static_cast<int>(-count), "collect completions"));
    return false;
  }
  for (ssize_t i = 0; i < count && !closed(); ++i) {
    OfiOp* op = OpAt(entries[i].op_context);
    if (op == nullptr) {  // remote completion data, which nobody rightful sends
      End(Status::InvalidArgument("the peer broke the protocol: a write that announces itself"));
    } else {
      Completed(*op, entries[i].len);
    }
  }
  return !closed();
}

void OfiLink::Completed(OfiOp& op, size_t length) {
  switch (op.kind) {
    case OfiOp::Kind::kReceive: {
      sink_->OnReceived(ByteView(Slot(op.index)).first(std::min<size_t>(length, kSlotBytes)));
      if (closed()) return;
      if (const Status posted = PostReceive(op.index); !posted.ok()) End(posted);
      return;
    }
    case OfiOp::Kind::kSend:
      ReturnSlot(op.index);
      sink_->OnSent(op.index);
      return;
    case OfiOp::Kind::kTransfer:
      sink_->OnTransferred(op.index, Status());
      return;
  }
}

void OfiLink::CollectError() {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(completions_.get(), &entry, 0) != 1) return;
  Status status = Status::Unavailable("the connection broke");
  const bool refused = traits().provider_keys &&
                       (entry.prov_errno == kRemoteAccess || entry.prov_errno == kRemoteInvalidRequest);
  if (refused) {
    status = Status::PermissionDenied(
        "the peer's device refused the transfer: key, range or direction is wrong, or the offer is over");
  } else if (entry.err != FI_ECANCELED) {
    char text[128] = "";
    const char* said =
        fi_cq_strerror(completions_.get(), entry.prov_errno, entry.err_data, text, sizeof(text));
    status = Status::Unavailable("the connection broke: {} ({})", OfiErrorText(entry.err),
                                 said == nullptr ? "" : said);
  }
  OfiOp* op = OpAt(entry.op_context);
  if (failure_.ok()) failure_ = Status::Unavailable("{}", status.message());
  // A buffer that is not sent or received any more needs no word: the connection is over.
  if (op != nullptr && op->kind == OfiOp::Kind::kTransfer) sink_->OnTransferred(op->index, status);
}

// The context of an operation that the peer started is none of ours, whatever stands in it.
OfiOp* OfiLink::OpAt(void* context) {
  const auto at = reinterpret_cast<uintptr_t>(context), first = reinterpret_cast<uintptr_t>(ops_.data());
  if (at < first || at >= first + ops_.size() * sizeof(OfiOp) || (at - first) % sizeof(OfiOp) != 0)
    return nullptr;
  return &ops_[(at - first) / sizeof(OfiOp)];
}

std::optional<OfiLink::Event> OfiLink::NextEvent() {
  alignas(fi_eq_cm_entry) std::byte space[sizeof(fi_eq_cm_entry) + kMaxEventData];
  uint32_t kind = 0;
  const ssize_t size = fi_eq_read(events_.get(), &kind, space, sizeof(space), 0);
  if (size == -FI_EAGAIN || size == 0) return std::nullopt;
  if (size == -FI_EAVAIL) return FailedEvent();
  Event event;
  if (size < 0) {
    event.ended = FromOfiError(static_cast<int>(-size), "read events");
  } else if (kind == FI_CONNECTED) {
    event.connected = true;
    const size_t length =
        static_cast<size_t>(size) - std::min(static_cast<size_t>(size), sizeof(fi_eq_cm_entry));
    event.data.assign(space + sizeof(fi_eq_cm_entry), space + sizeof(fi_eq_cm_entry) + length);
  } else if (kind == FI_SHUTDOWN) {
    event.ended = Status::Unavailable("the peer closed the connection");
  }
  return event;
}

OfiLink::Event OfiLink::FailedEvent() {
  fi_eq_err_entry entry{};
  std::byte data[kMaxEventData]{};
  entry.err_data = data;
  entry.err_data_size = sizeof(data);
  Event event;
  if (fi_eq_readerr(events_.get(), &entry, 0) < 0) {
    event.ended = Status::Unavailable("the connection broke");
    return event;
  }
  event.ended = entry.err == ETIMEDOUT ? Status::Unavailable("the peer does not answer")
                                       : FromOfiError(entry.err, "the peer");
  if (event.ended.code() != Code::kUnavailable)
    event.ended = Status::Unavailable("{}", event.ended.message());
  refusal_.assign(data, data + std::min(entry.err_data_size, sizeof(data)));
  return event;
}

void OfiLink::End(Status reason) {
  if (!closed()) sink_->OnLinkEnded(reason);
}

}  // namespace forebay::fabric
