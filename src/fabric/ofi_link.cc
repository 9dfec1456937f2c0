// SPDX-License-Identifier: Apache-2.0
// Opening, connecting and posting; what comes back is in ofi_link_queues.cc.
#include "fabric/ofi_link.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <utility>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/check.h"
#include "rt/address.h"

namespace forebay::fabric {

namespace {

constexpr size_t kSlotCount = size_t{kReceiveSlots} + kSendSlots;

Status Check(int result, std::string_view what) {
  return result == 0 ? Status() : FromOfiError(-result, what);
}

template <typename T>
Result<int> WaitDescriptor(T* queue) {
  int fd = -1;
  FB_TRY(Check(fi_control(&queue->fid, FI_GETWAIT, &fd), "ask libfabric for a descriptor to wait on"));
  return fd;
}

}  // namespace

Result<std::unique_ptr<OfiLink>> OfiLink::Open(std::shared_ptr<OfiDomain> domain, const fi_info& info) {
  std::unique_ptr<OfiLink> link(new OfiLink(std::move(domain)));
  FB_TRY(link->OpenQueues(info));
  FB_TRY(link->OpenBuffers());
  if (info.dest_addr != nullptr)
    link->destination_.assign(static_cast<const char*>(info.dest_addr), info.dest_addrlen);
  return link;
}

Status OfiLink::OpenQueues(const fi_info& info) {
  fi_eq_attr event_attributes{};
  event_attributes.size = 16;
  event_attributes.wait_obj = FI_WAIT_FD;
  fid_eq* events = nullptr;
  FB_TRY(Check(fi_eq_open(domain_->fabric(), &event_attributes, &events, nullptr), "open an event queue"));
  events_.reset(events);
  FB_ASSIGN(events_fd_, WaitDescriptor(events));

  fi_cq_attr completion_attributes{};
  completion_attributes.size = kTransferOps + kSlotCount;
  completion_attributes.wait_obj = FI_WAIT_FD;
  completion_attributes.format = FI_CQ_FORMAT_MSG;
  fid_cq* completions = nullptr;
  FB_TRY(Check(fi_cq_open(domain_->get(), &completion_attributes, &completions, nullptr),
               "open a completion queue"));
  completions_.reset(completions);
  FB_ASSIGN(completions_fd_, WaitDescriptor(completions));

  fid_ep* endpoint = nullptr;
  FB_TRY(Check(fi_endpoint(domain_->get(), const_cast<fi_info*>(&info), &endpoint, nullptr),
               "open an endpoint"));
  endpoint_.reset(endpoint);
  FB_TRY(Check(fi_ep_bind(endpoint, &events->fid, 0), "bind the event queue"));
  FB_TRY(Check(fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV), "bind the completion queue"));
  return Check(fi_enable(endpoint), "enable the endpoint");
}

Status OfiLink::OpenBuffers() {
  void* const memory =
      mmap(nullptr, kSlotCount * kSlotBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Status::ResourceExhausted("no memory for the buffers of an endpoint");
  buffers_ = static_cast<std::byte*>(memory);
  if (traits().local_registration) {
    FB_ASSIGN(buffers_registration_, domain_->RegisterForUs({buffers_, kSlotCount * kSlotBytes}));
  }
  for (uint16_t i = 0; i < kReceiveSlots; ++i) ops_.push_back({OfiOp::Kind::kReceive, i});
  for (uint16_t i = 0; i < kSendSlots; ++i) ops_.push_back({OfiOp::Kind::kSend, i});
  for (uint16_t i = 0; i < kTransferOps; ++i) ops_.push_back({OfiOp::Kind::kTransfer, i});
  for (uint16_t i = kSendSlots; i > 0; --i) free_slots_.push_back(static_cast<uint16_t>(i - 1));
  for (uint16_t i = kTransferOps; i > 0; --i) free_ops_.push_back(static_cast<uint16_t>(i - 1));
  for (uint16_t i = 0; i < kReceiveSlots; ++i) FB_TRY(PostReceive(i));
  return Status();
}

OfiLink::~OfiLink() {
  Close();
  buffers_registration_.reset();
  completions_.reset();
  events_.reset();
  if (buffers_ != nullptr) munmap(buffers_, kSlotCount * kSlotBytes);
}

Status OfiLink::Connect(ByteView hello) {
  return Check(fi_connect(endpoint_.get(), destination_.data(), hello.data(), hello.size()), "connect");
}

Status OfiLink::Accept(ByteView hello) {
  return Check(fi_accept(endpoint_.get(), hello.data(), hello.size()), "accept a connection");
}

rt::Task<Result<Bytes>> OfiLink::AwaitConnected(rt::Reactor& reactor, rt::OpOptions until) {
  while (true) {
    while (std::optional<Event> event = NextEvent()) {
      FB_CO_TRY(event->ended);
      if (!event->connected) continue;
      connected_ = true;
      co_return std::move(event->data);
    }
    if (!MaySleep(&events_->fid)) {
      co_await reactor.Yield();
      continue;
    }
    const int ready = co_await reactor.Poll(events_fd_, POLLIN, until);
    if (ready == -ETIMEDOUT)
      co_return Status::DeadlineExceeded("the deadline passed before the connection was there");
    if (ready < 0) co_return Status::FromErrno(-ready, "wait for the connection");
  }
}

std::string OfiLink::PeerAddress() const {
  sockaddr_storage storage{};
  size_t size = sizeof(storage);
  if (fi_getpeer(endpoint_.get(), &storage, &size) != 0) return "a peer that is gone";
  return rt::SocketAddress(reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(size))
      .ToString();
}

std::optional<uint16_t> OfiLink::TakeSlot() {
  if (free_slots_.empty()) return std::nullopt;
  const uint16_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

MutableByteView OfiLink::slot(uint16_t index) { return Slot(size_t{kReceiveSlots} + index); }

std::optional<uint16_t> OfiLink::TakeOp() {
  if (free_ops_.empty()) return std::nullopt;
  const uint16_t op = free_ops_.back();
  free_ops_.pop_back();
  return op;
}

Status OfiLink::PostReceive(uint16_t slot) {
  const MutableByteView memory = Slot(slot);
  const ssize_t result = fi_recv(endpoint_.get(), memory.data(), memory.size(),
                                 DescriptorOf(buffers_registration_), 0, &ops_[slot]);
  return Check(static_cast<int>(result), "post a receive buffer");
}

// The queues have room for everything that may be posted, so FI_EAGAIN is as much a failure as any other
// error.
Status OfiLink::Send(uint16_t slot, size_t size, const Pieces& more) {
  Pieces pieces;
  pieces.Add(ByteView(this->slot(slot)).first(size), DescriptorOf(buffers_registration_));
  for (size_t i = 0; i < more.count; ++i) {
    pieces.Add({static_cast<const std::byte*>(more.memory[i].iov_base), more.memory[i].iov_len},
               more.descriptors[i]);
  }
  FB_CHECK(pieces.count <= traits().pieces);
  fi_msg message{};
  message.msg_iov = pieces.memory;
  message.desc = pieces.descriptors;
  message.iov_count = pieces.count;
  message.context = &ops_[size_t{kReceiveSlots} + slot];
  return Check(static_cast<int>(fi_sendmsg(endpoint_.get(), &message, FI_COMPLETION)), "send");
}

Status OfiLink::Write(uint16_t op, const Pieces& local, Target remote) {
  const fi_rma_iov target{.addr = remote.address, .len = local.bytes, .key = remote.key};
  fi_msg_rma message{};
  message.msg_iov = local.memory;
  message.desc = const_cast<void**>(local.descriptors);
  message.iov_count = local.count;
  message.rma_iov = &target;
  message.rma_iov_count = 1;
  message.context = &ops_[kSlotCount + op];
  const uint64_t flags = FI_COMPLETION | (traits().ask_delivery ? FI_DELIVERY_COMPLETE : 0);
  return Check(static_cast<int>(fi_writemsg(endpoint_.get(), &message, flags)), "write");
}

Status OfiLink::Read(uint16_t op, const Pieces& local, Target remote) {
  const fi_rma_iov source{.addr = remote.address, .len = local.bytes, .key = remote.key};
  fi_msg_rma message{};
  message.msg_iov = local.memory;
  message.desc = const_cast<void**>(local.descriptors);
  message.iov_count = local.count;
  message.rma_iov = &source;
  message.rma_iov_count = 1;
  message.context = &ops_[kSlotCount + op];
  return Check(static_cast<int>(fi_readmsg(endpoint_.get(), &message, FI_COMPLETION)), "read");
}

void OfiLink::Close() {
  if (endpoint_ == nullptr) return;
  // A sent message may still wait in a buffer of the provider's; this hands it to the kernel.
  if (connected_) fi_shutdown(endpoint_.get(), 0);
  endpoint_.reset();
}

}  // namespace forebay::fabric
