// SPDX-License-Identifier: Apache-2.0
// What each side of an shm connection says first, beside the descriptor of its shared memory. Page with
// example: docs/formats/fabric-shm.md. Made for hostile bytes. Thread-safe: pure functions and values.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/status.h"
#include "fabric/tcp_frames.h"

namespace forebay::fabric {

constexpr size_t kShmHelloBytes = 40;
constexpr uint32_t kShmMagic = 0x53594246;  // "FBYS", little-endian
constexpr uint16_t kShmVersion = 3;

/// Magic, version and checksum stay where they are in all versions to come.
struct ShmHello {
  uint16_t version = kShmVersion;
  Role role = Role::kConnector;
  uint32_t max_message_bytes = 0;   // that the sender takes
  uint32_t max_transfer_bytes = 0;  // of one READ or WRITE
  uint32_t max_transfers = 0;       // unanswered ones
  uint32_t ring_bytes = 0;          // of the sender's ring
  bool borrows = false;             // it takes loans: LENT instead of WRITE
  uint16_t keeps = 0;               // places that it keeps descriptors of loans in
  friend bool operator==(const ShmHello&, const ShmHello&) = default;
};

using ShmHelloBytes = std::array<std::byte, kShmHelloBytes>;
ShmHelloBytes EncodeShmHello(const ShmHello& hello);
/// `bytes` are kShmHelloBytes. FailedPrecondition for another version, with both numbers; InvalidArgument for
/// what is no hello of the other role, has a ring size that no version allows, or keeps more than there may be.
Result<ShmHello> DecodeShmHello(ByteView bytes, Role expected);

}  // namespace forebay::fabric
