// SPDX-License-Identifier: Apache-2.0
// Two connected reliable queue pairs of one RDMA device, for tests that look at what verbs themselves do: an
// initiator, and an owner of memory in a protection domain of its own. Posts one operation at a time and
// waits for its completion, on real time, because the device has no other. Used by verbs_test.cc.
// Reactor-local: one thread. Its invariant: regions outlive no pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

namespace forebay::guest {

// Frees with the function that verbs have for it.
template <auto Free>
struct VerbsDeleter {
  void operator()(auto* object) const { Free(object); }
};
using Context = std::unique_ptr<ibv_context, VerbsDeleter<ibv_close_device>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, VerbsDeleter<ibv_dealloc_pd>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, VerbsDeleter<ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, VerbsDeleter<ibv_destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, VerbsDeleter<ibv_destroy_qp>>;
using Region = std::unique_ptr<ibv_mr, VerbsDeleter<ibv_dereg_mr>>;

// One end: its own protection domain, completion queue and queue pair.
struct VerbsEnd {
  ProtectionDomain domain;
  CompletionChannel channel;
  CompletionQueue completions;
  QueuePair queue_pair;
};

class VerbsPair {
 public:
  // The device that $GUEST_DEVICE names, or the first. Null and a reason when there is none, or when it
  // cannot be opened.
  static std::unique_ptr<VerbsPair> Open(std::string* why_not);

  // Memory that the owner gives to its peers with the rights `access`; null on failure, with errno.
  Region Register(std::span<std::byte> memory, int access);
  // The same in a protection domain that belongs to no connection.
  Region RegisterElsewhere(std::span<std::byte> memory, int access);

  // The initiator writes `source` to, or reads `target` from, the owner's `address` under `key`; how it
  // ended.
  ibv_wc_status Write(std::span<const std::byte> source, uint64_t address, uint32_t key);
  ibv_wc_status Read(std::span<std::byte> target, uint64_t address, uint32_t key);

  // Two new queue pairs, connected: what a session does after one of its pair failed.
  bool Connect();

  ibv_qp_state InitiatorState();
  VerbsEnd& initiator() { return initiator_; }

 private:
  VerbsPair() = default;
  bool OpenDevice(std::string* why_not);
  bool FindAddress(std::string* why_not);
  bool Create(VerbsEnd& end);
  bool ToReady(VerbsEnd& end, const VerbsEnd& peer);
  ibv_wc_status Transfer(ibv_wr_opcode opcode, std::span<std::byte> local, uint64_t address, uint32_t key);

  Context context_;
  ProtectionDomain elsewhere_;
  ibv_gid address_{};
  uint8_t address_index_ = 0;
  VerbsEnd initiator_;
  VerbsEnd owner_;
};

}  // namespace forebay::guest
