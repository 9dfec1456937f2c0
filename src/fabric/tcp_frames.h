// SPDX-License-Identifier: Apache-2.0
// The wire format of the tcp fabric, version 1: a preamble each way, then frames of a 40-byte header and a payload. Page
// with grammar and example: docs/formats/fabric-tcp.md. The decoders are made for hostile bytes: whatever a field that a
// type does not use may hold is refused, and no length goes past its limit.
// Thread-safe: pure functions and values.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/status.h"

namespace forebay::fabric {

constexpr size_t kPreambleBytes = 40;
constexpr size_t kHeaderBytes = 40;
constexpr uint32_t kPreambleMagic = 0x46594246;  // "FBYF", little-endian
constexpr uint16_t kTcpVersion = 1;
constexpr size_t kMaxGoodbyeBytes = 512;
/// READ_DATA goes out in pieces of at most this, so that a transfer whose region was withdrawn ends soon.
constexpr size_t kMaxPieceBytes = 256 * base::kKiB;

enum class Role : uint8_t { kConnector = 1, kListener = 2 };

/// What each side says first. Magic, version and checksum stay where they are in all versions to come.
struct Preamble {
  uint16_t version = kTcpVersion;
  Role role = Role::kConnector;
  uint32_t max_message_bytes = 0;   // that the sender takes
  uint32_t max_transfer_bytes = 0;  // of one READ or WRITE
  uint32_t max_transfers = 0;       // unanswered ones
};

using PreambleBytes = std::array<std::byte, kPreambleBytes>;
PreambleBytes EncodePreamble(const Preamble& preamble);
/// FailedPrecondition for another version, with both numbers; InvalidArgument for what is no preamble of the other role.
Result<Preamble> DecodePreamble(ByteView bytes, Role expected);

enum class FrameType : uint8_t {
  kMessage = 1,
  kCredit = 2,
  kWrite = 3,
  kWriteDone = 4,
  kRead = 5,
  kReadData = 6,
  kReadDone = 7,
  kProbe = 8,
  kProbeAnswer = 9,
  kGoodbye = 10,
  kLent = 11,       // these only where descriptors are passed (docs/formats/fabric-shm.md)
  kLentAgain = 12,
};

/// Code of the answer to a loan beside those of refusals: its memory was taken back before it was read.
constexpr uint16_t kTakenBack = 6;

struct FrameHeader {
  FrameType type = FrameType::kProbe;
  uint16_t code = 0;    // WRITE_DONE, READ_DONE: a Refusal; LENT, LENT_AGAIN: a place
  uint32_t length = 0;  // of the payload that follows
  uint64_t id = 0;      // of the transfer, counted by its initiator
  uint64_t key = 0;
  uint64_t offset = 0;  // WRITE, READ, LENT, LENT_AGAIN: in the region; READ_DATA: in the transfer
  uint32_t count = 0;   // READ: bytes asked for; CREDIT: bytes given back; LENT, LENT_AGAIN: bytes lent
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

struct FrameLimits {
  uint64_t max_message_bytes = 0;
  uint64_t max_transfer_bytes = 0;
  bool borrows = false;  // LENT is understood
  uint16_t keeps = 0;    // places that its descriptors are kept in
  bool lends = false;    // kTakenBack is understood
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;
HeaderBytes EncodeHeader(const FrameHeader& header);
/// `bytes` are kHeaderBytes. DataLoss for a wrong checksum (the stream is out of step or damaged), InvalidArgument for an
/// unknown type, a length over its limit, or a field that this type does not use.
Result<FrameHeader> DecodeHeader(ByteView bytes, const FrameLimits& limits);

}  // namespace forebay::fabric
