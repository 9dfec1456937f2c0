// SPDX-License-Identifier: Apache-2.0
// What every fabric checks and says in the same way: sizes against limits, and the words of the refusals.
// Thread-safe: pure functions.
#pragma once

#include <algorithm>
#include <chrono>
#include <span>
#include <string_view>

#include "base/arena.h"
#include "base/status.h"
#include "fabric/fabric.h"
#include "fabric/liveness.h"

namespace forebay::fabric {

/// What a waiting message costs of the window beside its own bytes, so that empty ones are bounded too.
constexpr size_t kMessageOverheadBytes = 64;

/// Bytes of messages that may be on their way or waiting to be received, on one side. Two of the largest fit.
constexpr size_t MessageWindow(size_t max_message_bytes) { return 2 * (max_message_bytes + kMessageOverheadBytes); }

inline uint64_t TotalSize(std::span<const base::Buffer> buffers) {
  uint64_t total = 0;
  for (const base::Buffer& buffer : buffers) total += buffer.size();
  return total;
}

/// The limits of sizes and counts that both ends accept; times are the first one's.
inline EndpointOptions CommonLimits(const EndpointOptions& own, const EndpointOptions& peer) {
  EndpointOptions common = own;
  common.max_message_bytes = std::min(own.max_message_bytes, peer.max_message_bytes);
  common.max_transfers = std::min(own.max_transfers, peer.max_transfers);
  common.max_transfer_bytes = std::min(own.max_transfer_bytes, peer.max_transfer_bytes);
  return common;
}

/// Room for every sum and every 32-bit field that these go into.
constexpr size_t kMaxConfigurableBytes = base::kGiB;

inline Status CheckOptions(const EndpointOptions& options) {
  if (options.max_message_bytes > kMaxConfigurableBytes || options.max_transfer_bytes > kMaxConfigurableBytes) {
    return Status::InvalidArgument("an endpoint's largest message ({}) and transfer ({}) are at most {} bytes",
                                   options.max_message_bytes, options.max_transfer_bytes, kMaxConfigurableBytes);
  }
  if (options.max_transfers == 0 || options.dead_after <= base::Duration::zero() ||
      options.idle_dead_after <= base::Duration::zero()) {
    return Status::InvalidArgument("an endpoint needs at least one transfer and times above zero");
  }
  return Status();
}

inline Status CheckMessageSize(uint64_t size, const EndpointOptions& limits) {
  if (size <= limits.max_message_bytes) return Status();
  return Status::InvalidArgument("a message of {} bytes is over the connection's limit of {}", size,
                                 limits.max_message_bytes);
}

inline Status CheckTransferSize(uint64_t size, const EndpointOptions& limits) {
  if (size <= limits.max_transfer_bytes) return Status();
  return Status::InvalidArgument("a transfer of {} bytes is over the connection's limit of {}: split it", size,
                                 limits.max_transfer_bytes);
}

/// What outstanding calls end with when the owner fences for `reason`.
inline Status FenceStatus(const Status& reason) {
  if (reason.ok()) return Status::Unavailable("the connection was closed");
  return Status::Unavailable("{}", reason.message());
}

inline Status DeadPeerStatus(Liveness::Verdict verdict, base::Duration silence, std::string_view peer) {
  if (verdict == Liveness::Verdict::kStuck) {
    return Status::Unavailable("{} is connected but takes nothing any more: it is given up", peer);
  }
  return Status::Unavailable("{} has been silent for {} ms: it is given up", peer,
                             std::chrono::duration_cast<std::chrono::milliseconds>(silence).count());
}

}  // namespace forebay::fabric
