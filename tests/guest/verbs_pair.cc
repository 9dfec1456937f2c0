// SPDX-License-Identifier: Apache-2.0
#include "verbs_pair.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace forebay::guest {
namespace {

constexpr uint8_t kPort = 1;
constexpr int kCompletions = 16;
// An emulated processor that shares a busy machine: waiting longer than this is a hang.
constexpr int kWaitMs = 30'000;
// Timeouts of the protocol, as exponents: 4.096 us * 2^17 is half a second, and three tries.
constexpr uint8_t kTimeout = 17;
constexpr uint8_t kTries = 3;

}  // namespace

std::unique_ptr<VerbsPair> VerbsPair::Open(std::string* why_not) {
  std::unique_ptr<VerbsPair> pair(new VerbsPair);
  if (!pair->OpenDevice(why_not) || !pair->FindAddress(why_not)) return nullptr;
  if (!pair->Connect()) {
    *why_not = fmt::format("no two connected queue pairs: {}", std::strerror(errno));
    return nullptr;
  }
  return pair;
}

bool VerbsPair::OpenDevice(std::string* why_not) {
  const char* wanted = std::getenv("GUEST_DEVICE");
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  for (int i = 0; i < count && !context_; ++i) {
    if (wanted == nullptr || std::strcmp(wanted, ibv_get_device_name(devices[i])) == 0) {
      context_.reset(ibv_open_device(devices[i]));
    }
  }
  if (devices != nullptr) ibv_free_device_list(devices);
  if (!context_) {
    *why_not = fmt::format("no RDMA device{}{} among {}; `scripts/guest` has one", wanted ? " " : "",
                           wanted ? wanted : "", count);
    return false;
  }
  elsewhere_.reset(ibv_alloc_pd(context_.get()));
  return elsewhere_ != nullptr;
}

bool VerbsPair::FindAddress(std::string* why_not) {
  constexpr uint8_t kAddresses = 16;
  constexpr uint8_t kIpv4Mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  for (uint8_t index = 0; index < kAddresses; ++index) {
    if (ibv_query_gid(context_.get(), kPort, index, &address_) == 0 &&
        std::equal(std::begin(kIpv4Mapped), std::end(kIpv4Mapped), address_.raw)) {
      address_index_ = index;
      return true;
    }
  }
  *why_not = "the RDMA device has no IPv4 address";
  return false;
}

bool VerbsPair::Connect() {
  return Create(initiator_) && Create(owner_) && ToReady(initiator_, owner_) && ToReady(owner_, initiator_);
}

bool VerbsPair::Create(VerbsEnd& end) {
  if (!end.domain) {
    end.domain.reset(ibv_alloc_pd(context_.get()));
    end.channel.reset(ibv_create_comp_channel(context_.get()));
    if (!end.domain || !end.channel) return false;
  }
  end.queue_pair.reset();
  end.completions.reset(ibv_create_cq(context_.get(), kCompletions, nullptr, end.channel.get(), 0));
  if (!end.completions) return false;
  ibv_qp_init_attr attributes{};
  attributes.send_cq = end.completions.get();
  attributes.recv_cq = end.completions.get();
  attributes.cap = {
      .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  end.queue_pair.reset(ibv_create_qp(end.domain.get(), &attributes));
  return end.queue_pair != nullptr;
}

bool VerbsPair::ToReady(VerbsEnd& end, const VerbsEnd& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  errno = ibv_modify_qp(end.queue_pair.get(), &attributes,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (errno != 0) return false;

  attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer.queue_pair->qp_num;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = kPort;
  attributes.ah_attr.grh.dgid = address_;
  attributes.ah_attr.grh.sgid_index = address_index_;
  attributes.ah_attr.grh.hop_limit = 1;
  errno = ibv_modify_qp(end.queue_pair.get(), &attributes,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (errno != 0) return false;

  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = kTimeout;
  attributes.retry_cnt = kTries;
  attributes.rnr_retry = kTries;
  attributes.max_rd_atomic = 1;
  errno = ibv_modify_qp(end.queue_pair.get(), &attributes,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC);
  return errno == 0;
}

Region VerbsPair::Register(std::span<std::byte> memory, int access) {
  return Region(ibv_reg_mr(owner_.domain.get(), memory.data(), memory.size(), access));
}

Region VerbsPair::RegisterElsewhere(std::span<std::byte> memory, int access) {
  return Region(ibv_reg_mr(elsewhere_.get(), memory.data(), memory.size(), access));
}

ibv_wc_status VerbsPair::Write(std::span<const std::byte> source, uint64_t address, uint32_t key) {
  // Verbs take sources as mutable pointers, and write nothing to them.
  std::span<std::byte> local(const_cast<std::byte*>(source.data()), source.size());
  return Transfer(IBV_WR_RDMA_WRITE, local, address, key);
}

ibv_wc_status VerbsPair::Read(std::span<std::byte> target, uint64_t address, uint32_t key) {
  return Transfer(IBV_WR_RDMA_READ, target, address, key);
}

ibv_wc_status VerbsPair::Transfer(ibv_wr_opcode opcode, std::span<std::byte> local, uint64_t address,
                                  uint32_t key) {
  const int access = IBV_ACCESS_LOCAL_WRITE;
  const Region region(ibv_reg_mr(initiator_.domain.get(), local.data(), local.size(), access));
  if (!region || ibv_req_notify_cq(initiator_.completions.get(), 0) != 0) return IBV_WC_GENERAL_ERR;
  ibv_sge piece{.addr = reinterpret_cast<uintptr_t>(local.data()),
                .length = static_cast<uint32_t>(local.size()),
                .lkey = region->lkey};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = opcode;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(initiator_.queue_pair.get(), &request, &refused) != 0) return IBV_WC_GENERAL_ERR;

  // As a reactor does: asleep until the channel's descriptor says that there is a completion.
  pollfd wait{.fd = initiator_.channel->fd, .events = POLLIN, .revents = 0};
  if (::poll(&wait, 1, kWaitMs) != 1) return IBV_WC_GENERAL_ERR;
  ibv_cq* woken = nullptr;
  void* unused = nullptr;
  if (ibv_get_cq_event(initiator_.channel.get(), &woken, &unused) != 0) return IBV_WC_GENERAL_ERR;
  ibv_ack_cq_events(woken, 1);
  ibv_wc completion{};
  return ibv_poll_cq(woken, 1, &completion) == 1 ? completion.status : IBV_WC_GENERAL_ERR;
}

ibv_qp_state VerbsPair::InitiatorState() {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr unused{};
  const int error = ibv_query_qp(initiator_.queue_pair.get(), &attributes, IBV_QP_STATE, &unused);
  return error == 0 ? attributes.qp_state : IBV_QPS_UNKNOWN;
}

}  // namespace forebay::guest
