// SPDX-License-Identifier: Apache-2.0
// What the two ends of a ucx connection say to each other, version 1: each frame is one active message, a
// header of 48 bytes and a payload. Page with table and example: docs/formats/fabric-ucx.md. The decoders are
// made for hostile bytes: a field that a type does not use must be zero, no length goes past its limit, and a
// remote key is taken apart here before UCX, which asks for no length, sees it. Thread-safe: pure functions
// and values.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/status.h"
#include "fabric/fabric.h"

namespace forebay::fabric {

constexpr size_t kUcxHeaderBytes = 48;
constexpr size_t kUcxHelloBytes = 24;
constexpr uint32_t kUcxMagic = 0x58554246;  // "FBUX", little-endian
constexpr uint16_t kUcxVersion = 1;
constexpr size_t kMaxUcxGoodbyeBytes = 512;
constexpr size_t kMaxUcxRkeyBytes = 512;
/// The most regions that a side may announce: what its peer keeps of them is bounded.
constexpr uint32_t kMaxUcxRegions = 65'536;
/// A lifetime in an OFFER that does not end.
constexpr uint64_t kUcxNoEnd = UINT64_MAX;

enum class UcxRole : uint8_t { kConnector = 1, kListener = 2 };

/// The payload of HELLO, what each side says first. Magic and version stay where they are in all versions to
/// come.
struct UcxHello {
  uint16_t version = kUcxVersion;
  UcxRole role = UcxRole::kConnector;
  uint32_t max_message_bytes = 0;   // that the sender takes
  uint32_t max_transfer_bytes = 0;  // of one transfer to or from its regions
  uint32_t max_transfers = 0;       // unanswered ASKs that it takes
  uint32_t max_regions = 0;         // that it offers at once
};

using UcxHelloBytes = std::array<std::byte, kUcxHelloBytes>;
UcxHelloBytes EncodeUcxHello(const UcxHello& hello);
/// FailedPrecondition for another version, with both numbers; InvalidArgument for what is no HELLO of the
/// other role.
Result<UcxHello> DecodeUcxHello(ByteView bytes, UcxRole expected);

enum class UcxFrameType : uint8_t {
  kHello = 1,
  kMessage = 2,
  kCredit = 3,
  kOffer = 4,
  kRevoke = 5,
  kRevoked = 6,
  kAsk = 7,
  kAnswer = 8,
  kTally = 9,
  kProbe = 10,
  kProbeAnswer = 11,
  kGoodbye = 12,
};

struct UcxFrame {
  UcxFrameType type = UcxFrameType::kProbe;
  uint16_t code = 0;      // ANSWER: a Refusal; OFFER, ASK: a Direction
  uint32_t length = 0;    // of the payload
  uint64_t sequence = 0;  // of the frame, each way from 0
  uint64_t id = 0;        // ASK, ANSWER: of the transfer, counted by its initiator; OFFER: lifetime in ns
  uint64_t key = 0;
  uint64_t offset = 0;  // ASK: in the region; OFFER: where the region begins; TALLY: bytes written
  uint64_t count =
      0;  // ASK: bytes of the transfer; OFFER: of the region; CREDIT: given back; TALLY: bytes read
  friend bool operator==(const UcxFrame&, const UcxFrame&) = default;
};

using UcxHeaderBytes = std::array<std::byte, kUcxHeaderBytes>;
UcxHeaderBytes EncodeUcxFrame(const UcxFrame& frame);
/// `payload_bytes` is how much came with the header. InvalidArgument for an unknown type, a length that is
/// not that or over its limit, a used reserved field, an unknown refusal or direction.
Result<UcxFrame> DecodeUcxFrame(ByteView header, size_t payload_bytes, size_t max_message_bytes);

/// Ok for bytes that UCX can unpack without reading past their end, and that name a registration: without one
/// UCX would carry a transfer out by messages, which nobody checks.
Status CheckUcxRkey(ByteView packed);

}  // namespace forebay::fabric
