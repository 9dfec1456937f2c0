// SPDX-License-Identifier: Apache-2.0
// What the ofi fabric says to its peer, version 1: a preamble each way inside of the connection request and
// its answer, then one frame in each libfabric message. One-sided transfers do not appear: they are the
// provider's own. Page with grammar and example: docs/formats/fabric-ofi.md. The decoders are made for
// hostile bytes. Thread-safe: pure functions and values.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/status.h"
#include "fabric/fabric.h"
#include "fabric/tcp_frames.h"  // Role

namespace forebay::fabric {

/// Fits into the private data of a verbs connection request, which has room for 55 bytes.
constexpr size_t kOfiPreambleBytes = 40;
constexpr size_t kOfiHeaderBytes = 72;
constexpr uint32_t kOfiPreambleMagic = 0x4f594246;  // "FBYO", little-endian
constexpr uint16_t kOfiVersion = 1;
/// The smallest receive buffers that a peer may have.
constexpr uint32_t kMinSlotBytes = 1024;
constexpr uint16_t kMinSlots = 4;

/// What each side says first. Magic, version and checksum stay where they are in all versions to come.
struct OfiPreamble {
  uint16_t version = kOfiVersion;
  Role role = Role::kConnector;
  uint32_t max_message_bytes = 0;   // that the sender takes
  uint32_t max_transfer_bytes = 0;  // of one read or write
  uint32_t max_transfers = 0;       // of the other side, at once
  uint32_t slot_bytes = 0;          // of each receive buffer; a frame is no longer
  uint16_t slots = 0;               // receive buffers
};

using OfiPreambleBytes = std::array<std::byte, kOfiPreambleBytes>;
OfiPreambleBytes EncodeOfiPreamble(const OfiPreamble& preamble);
/// Bytes beyond the preamble are padding of the provider's. FailedPrecondition for another version, with both
/// numbers; InvalidArgument for what is no preamble of the other role.
Result<OfiPreamble> DecodeOfiPreamble(ByteView bytes, Role expected);

enum class OfiFrameType : uint8_t {
  kMessage = 1,    // payload: a piece of a message
  kCredit = 2,     // bytes of the message window given back
  kSlots = 3,      // only gives back receive buffers, as every frame may
  kOffer = 4,      // a region: where it is, until when, and the provider's key
  kAsk = 5,        // would this transfer be allowed?
  kAnswer = 6,     // of the region's owner
  kWithdraw = 7,   // let go of this region: start nothing new, finish what is under way
  kWithdrawn = 8,  // that is done
  kProbe = 9,      // wants an answer with the same number
  kProbeAnswer = 10,
};

struct OfiFrame {
  OfiFrameType type = OfiFrameType::kProbe;
  uint8_t direction = 0;  // OFFER, ASK
  uint16_t code = 0;      // ANSWER: a Refusal
  uint16_t slots = 0;     // receive buffers given back
  uint64_t id = 0;        // ASK, ANSWER: of the transfer; PROBE, PROBE_ANSWER: any number
  uint64_t key = 0;       // of the region
  uint64_t offset = 0;    // MESSAGE: of the piece; OFFER: the region's base address; ASK: in the region
  uint64_t length =
      0;  // MESSAGE: of the whole message; CREDIT: given back; OFFER: of the region; ASK: of the transfer
  uint64_t provider_key = 0;  // OFFER
  uint64_t lifetime_ns = 0;   // OFFER: what is left of it; UINT64_MAX for ever
  uint64_t written = 0;       // by the sender, one-sided, since the connection is there
  uint64_t read = 0;
  friend bool operator==(const OfiFrame&, const OfiFrame&) = default;
};

using OfiHeaderBytes = std::array<std::byte, kOfiHeaderBytes>;
OfiHeaderBytes EncodeOfiFrame(const OfiFrame& frame);

struct OfiReceived {
  OfiFrame frame;
  ByteView payload;  // of a MESSAGE: of the bytes given
};
/// `bytes` are one libfabric message. InvalidArgument for an unknown type, a field out of range or one that
/// the type does not use, and for a piece of a message that does not lie inside of it.
Result<OfiReceived> DecodeOfiFrame(ByteView bytes, uint64_t max_message_bytes);

}  // namespace forebay::fabric
