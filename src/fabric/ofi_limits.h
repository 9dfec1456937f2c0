// SPDX-License-Identifier: Apache-2.0
// Sizes of the ofi fabric's own buffers and tables, in one place, and the words for memory that cannot be
// registered. Thread-safe: constants and a pure function.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"

namespace forebay::fabric {

/// Receive buffers of an endpoint, posted for as long as it lives: an idle one costs 96 KiB with those to
/// send from.
constexpr uint16_t kReceiveSlots = 16;
constexpr uint16_t kSendSlots = 8;
constexpr uint32_t kSlotBytes = 4096;
/// One-sided operations given to the provider at once.
constexpr size_t kTransferOps = 64;
/// And their bytes: what is given cannot be taken back, so this is what a Withdraw may have to wait for.
constexpr size_t kPostedBytes = 8 * base::kMiB;
/// Of one operation, except that one piece of memory is never cut.
constexpr size_t kOpBytes = base::kMiB;
/// Pieces of memory in one operation; providers allow less.
constexpr size_t kMaxPieces = 8;
/// Regions that a peer may offer.
constexpr uint32_t kMaxPeerRegions = 16384;
/// Arenas whose registrations are kept.
constexpr size_t kMaxArenas = 64;
/// How long Withdraw waits for the peer to let go of a region before it fences the connection.
constexpr base::Duration kWithdrawPatience = std::chrono::seconds(1);

inline Status RegistrationFailed(int error, size_t bytes) {
  if (error == ENOMEM || error == EAGAIN || error == EPERM) {
    return Status::ResourceExhausted(
        "{} cannot be registered for RDMA: raise the limit of locked memory (`ulimit -l`, or "
        "LimitMEMLOCK= of the unit)",
        base::FormatSize(bytes));
  }
  return Status::FromErrno(error, "register memory for RDMA");
}

}  // namespace forebay::fabric
