// SPDX-License-Identifier: Apache-2.0
#include "fabric/tcp_frames.h"


#include "base/checksum.h"
#include "fabric/region_table.h"

namespace forebay::fabric {

namespace {

template <typename T>
void Put(std::byte* at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

template <typename T>
T Get(const std::byte* at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | static_cast<T>(static_cast<T>(at[i]) << (8 * i)));
  return value;
}

constexpr size_t kChecksumAt = 36;  // in preamble and header alike
static_assert(kChecksumAt + sizeof(uint32_t) == kPreambleBytes && kPreambleBytes == kHeaderBytes);

void Seal(std::byte* bytes) { Put<uint32_t>(bytes + kChecksumAt, base::Crc32c({bytes, kChecksumAt})); }
bool Sealed(ByteView bytes) {
  return Get<uint32_t>(bytes.data() + kChecksumAt) == base::Crc32c(bytes.first(kChecksumAt));
}

/// Which fields a type uses; all others must be zero.
struct Shape {
  bool code, payload, id, key, offset, count;
};

constexpr Shape ShapeOf(FrameType type) {
  switch (type) {
    case FrameType::kMessage:
      return {.code = false, .payload = true, .id = false, .key = false, .offset = false, .count = false};
    case FrameType::kCredit:
      return {.code = false, .payload = false, .id = false, .key = false, .offset = false, .count = true};
    case FrameType::kWrite:
      return {.code = false, .payload = true, .id = true, .key = true, .offset = true, .count = false};
    case FrameType::kLent:
    case FrameType::kLentAgain:
      return {.code = true, .payload = false, .id = true, .key = true, .offset = true, .count = true};
    case FrameType::kRead:
      return {.code = false, .payload = false, .id = true, .key = true, .offset = true, .count = true};
    case FrameType::kReadData:
      return {.code = false, .payload = true, .id = true, .key = false, .offset = true, .count = false};
    case FrameType::kWriteDone:
    case FrameType::kReadDone:
      return {.code = true, .payload = false, .id = true, .key = false, .offset = false, .count = false};
    case FrameType::kProbe:
    case FrameType::kProbeAnswer:
      return {.code = false, .payload = false, .id = false, .key = false, .offset = false, .count = false};
    case FrameType::kGoodbye:
      return {.code = false, .payload = true, .id = false, .key = false, .offset = false, .count = false};
  }
  return {};
}

uint64_t LongestPayload(FrameType type, const FrameLimits& limits) {
  switch (type) {
    case FrameType::kMessage:
      return limits.max_message_bytes;
    case FrameType::kWrite:
      return limits.max_transfer_bytes;
    case FrameType::kReadData:
      return kMaxPieceBytes;
    case FrameType::kGoodbye:
      return kMaxGoodbyeBytes;
    default:
      return 0;
  }
}

}  // namespace

PreambleBytes EncodePreamble(const Preamble& preamble) {
  PreambleBytes bytes{};
  Put<uint32_t>(&bytes[0], kPreambleMagic);
  Put<uint16_t>(&bytes[4], preamble.version);
  Put<uint8_t>(&bytes[6], static_cast<uint8_t>(preamble.role));
  Put<uint32_t>(&bytes[8], preamble.max_message_bytes);
  Put<uint32_t>(&bytes[12], preamble.max_transfer_bytes);
  Put<uint32_t>(&bytes[16], preamble.max_transfers);
  Seal(bytes.data());
  return bytes;
}

Result<Preamble> DecodePreamble(ByteView bytes, Role expected) {
  if (bytes.size() != kPreambleBytes || Get<uint32_t>(&bytes[0]) != kPreambleMagic) {
    return Status::InvalidArgument("the peer does not speak Forebay's fabric protocol");
  }
  if (!Sealed(bytes)) return Status::DataLoss("the peer's preamble is damaged: its checksum is wrong");
  Preamble preamble;
  preamble.version = Get<uint16_t>(&bytes[4]);
  if (preamble.version != kTcpVersion) {
    return Status::FailedPrecondition("the peer speaks version {} of the fabric protocol, this program version {}: upgrade "
                                      "the older of the two",
                                      preamble.version, kTcpVersion);
  }
  preamble.role = static_cast<Role>(bytes[6]);
  if (preamble.role != expected) {
    return Status::InvalidArgument("the peer is not a {}: a connection to oneself?",
                                   expected == Role::kListener ? "listener" : "connector");
  }
  preamble.max_message_bytes = Get<uint32_t>(&bytes[8]);
  preamble.max_transfer_bytes = Get<uint32_t>(&bytes[12]);
  preamble.max_transfers = Get<uint32_t>(&bytes[16]);
  bool reserved_clear = bytes[7] == std::byte{0};
  for (size_t i = 20; i < kChecksumAt; ++i) reserved_clear &= bytes[i] == std::byte{0};
  if (!reserved_clear) return Status::InvalidArgument("the peer's preamble uses fields that version 1 reserves");
  return preamble;
}

HeaderBytes EncodeHeader(const FrameHeader& header) {
  HeaderBytes bytes{};
  Put<uint8_t>(&bytes[0], static_cast<uint8_t>(header.type));
  Put<uint16_t>(&bytes[2], header.code);
  Put<uint32_t>(&bytes[4], header.length);
  Put<uint64_t>(&bytes[8], header.id);
  Put<uint64_t>(&bytes[16], header.key);
  Put<uint64_t>(&bytes[24], header.offset);
  Put<uint32_t>(&bytes[32], header.count);
  Seal(bytes.data());
  return bytes;
}

Result<FrameHeader> DecodeHeader(ByteView bytes, const FrameLimits& limits) {
  if (bytes.size() != kHeaderBytes) return Status::InvalidArgument("a frame header has {} bytes", kHeaderBytes);
  if (!Sealed(bytes)) return Status::DataLoss("a frame header's checksum is wrong: the stream is damaged or out of step");
  const auto type = Get<uint8_t>(&bytes[0]);
  const FrameType last = limits.borrows ? FrameType::kLentAgain : FrameType::kGoodbye;
  if (type < static_cast<uint8_t>(FrameType::kMessage) || type > static_cast<uint8_t>(last)) {
    return Status::InvalidArgument("frames of type {} do not exist in version {}", type, kTcpVersion);
  }
  FrameHeader header;
  header.type = static_cast<FrameType>(type);
  header.code = Get<uint16_t>(&bytes[2]);
  header.length = Get<uint32_t>(&bytes[4]);
  header.id = Get<uint64_t>(&bytes[8]);
  header.key = Get<uint64_t>(&bytes[16]);
  header.offset = Get<uint64_t>(&bytes[24]);
  header.count = Get<uint32_t>(&bytes[32]);

  const Shape shape = ShapeOf(header.type);
  if (bytes[1] != std::byte{0} || (!shape.code && header.code != 0) || (!shape.id && header.id != 0) ||
      (!shape.key && header.key != 0) || (!shape.offset && header.offset != 0) || (!shape.count && header.count != 0)) {
    return Status::InvalidArgument("a frame of type {} uses fields that are reserved for it", type);
  }
  if (header.length > LongestPayload(header.type, limits)) {
    return Status::InvalidArgument("a frame of type {} announces {} bytes, its limit is {}", type, header.length,
                                   LongestPayload(header.type, limits));
  }
  if (header.type == FrameType::kRead && header.count > limits.max_transfer_bytes) {
    return Status::InvalidArgument("a read of {} bytes is asked for, the limit is {}", header.count,
                                   limits.max_transfer_bytes);
  }
  if (header.type == FrameType::kLent || header.type == FrameType::kLentAgain) {
    if (header.count > limits.max_transfer_bytes)
      return Status::InvalidArgument("a loan of {} bytes is announced, the limit is {}", header.count,
                                     limits.max_transfer_bytes);
    if (header.code > limits.keeps || (header.type == FrameType::kLentAgain && header.code == 0))
      return Status::InvalidArgument("a loan names place {}, of {}", header.code, limits.keeps);
    return header;
  }
  const bool taken_back = limits.lends && header.type == FrameType::kWriteDone && header.code == kTakenBack;
  if (header.code > kMaxRefusal && !taken_back)
    return Status::InvalidArgument("refusals with code {} do not exist", header.code);
  return header;
}

}  // namespace forebay::fabric
