// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_frames.h"

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
  for (size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(at[i]) << (8 * i)));
  return value;
}

constexpr size_t kChecksumAt = 36;
static_assert(kChecksumAt + sizeof(uint32_t) == kOfiPreambleBytes);

/// Which fields a type uses; all others must be zero.
struct Shape {
  bool known, direction, code, id, key, offset, length, offer, payload;
};

constexpr Shape kShapes[] = {
    // known, direction, code, id, key, offset, length, offer, payload
    {false, false, false, false, false, false, false, false, false},
    {true, false, false, false, false, true, true, false, true},     // MESSAGE
    {true, false, false, false, false, false, true, false, false},   // CREDIT
    {true, false, false, false, false, false, false, false, false},  // SLOTS
    {true, true, false, false, true, true, true, true, false},       // OFFER
    {true, true, false, true, true, true, true, false, false},       // ASK
    {true, false, true, true, false, false, false, false, false},    // ANSWER
    {true, false, false, false, true, false, false, false, false},   // WITHDRAW
    {true, false, false, false, true, false, false, false, false},   // WITHDRAWN
    {true, false, false, true, false, false, false, false, false},   // PROBE
    {true, false, false, true, false, false, false, false, false},   // PROBE_ANSWER
};

Status Lie(std::string_view what) { return Status::InvalidArgument("a frame with {}", what); }

Status CheckShape(const OfiFrame& frame, const Shape& shape, size_t payload) {
  const bool unused = (!shape.direction && frame.direction != 0) || (!shape.code && frame.code != 0) ||
                      (!shape.id && frame.id != 0) || (!shape.key && frame.key != 0) ||
                      (!shape.offset && frame.offset != 0) || (!shape.length && frame.length != 0) ||
                      (!shape.offer && (frame.provider_key != 0 || frame.lifetime_ns != 0)) ||
                      (!shape.payload && payload != 0);
  if (unused) return Lie("a field that its type does not use");
  if (shape.direction && frame.direction != static_cast<uint8_t>(Direction::kPeerReads) &&
      frame.direction != static_cast<uint8_t>(Direction::kPeerWrites)) {
    return Lie("an unknown direction");
  }
  if (frame.code > kMaxRefusal) return Lie("an unknown code");
  return Status();
}

}  // namespace

OfiPreambleBytes EncodeOfiPreamble(const OfiPreamble& preamble) {
  OfiPreambleBytes bytes{};
  Put<uint32_t>(&bytes[0], kOfiPreambleMagic);
  Put<uint16_t>(&bytes[4], preamble.version);
  Put<uint8_t>(&bytes[6], static_cast<uint8_t>(preamble.role));
  Put<uint32_t>(&bytes[8], preamble.max_message_bytes);
  Put<uint32_t>(&bytes[12], preamble.max_transfer_bytes);
  Put<uint32_t>(&bytes[16], preamble.max_transfers);
  Put<uint32_t>(&bytes[20], preamble.slot_bytes);
  Put<uint16_t>(&bytes[24], preamble.slots);
  Put<uint32_t>(&bytes[kChecksumAt], base::Crc32c(ByteView(bytes).first(kChecksumAt)));
  return bytes;
}

Result<OfiPreamble> DecodeOfiPreamble(ByteView bytes, Role expected) {
  if (bytes.size() < kOfiPreambleBytes || Get<uint32_t>(bytes.data()) != kOfiPreambleMagic ||
      Get<uint32_t>(&bytes[kChecksumAt]) != base::Crc32c(bytes.first(kChecksumAt))) {
    return Status::InvalidArgument("the peer does not speak Forebay's ofi fabric");
  }
  OfiPreamble preamble;
  preamble.version = Get<uint16_t>(&bytes[4]);
  if (preamble.version != kOfiVersion) {
    return Status::FailedPrecondition(
        "the peer speaks version {} of the ofi fabric, this side version {}: use the same release",
        preamble.version, kOfiVersion);
  }
  const auto role = Get<uint8_t>(&bytes[6]);
  uint64_t reserved = Get<uint8_t>(&bytes[7]);
  for (size_t at = 26; at < kChecksumAt; ++at) reserved |= Get<uint8_t>(&bytes[at]);
  if (role != static_cast<uint8_t>(expected) || reserved != 0) {
    return Status::InvalidArgument("the peer's preamble has the wrong role or uses reserved bytes");
  }
  preamble.role = expected;
  preamble.max_message_bytes = Get<uint32_t>(&bytes[8]);
  preamble.max_transfer_bytes = Get<uint32_t>(&bytes[12]);
  preamble.max_transfers = Get<uint32_t>(&bytes[16]);
  preamble.slot_bytes = Get<uint32_t>(&bytes[20]);
  preamble.slots = Get<uint16_t>(&bytes[24]);
  if (preamble.max_transfers == 0 || preamble.slot_bytes < kMinSlotBytes || preamble.slots < kMinSlots) {
    return Status::InvalidArgument(
        "the peer's preamble has limits below the least: {} transfers, {} buffers of {} bytes",
        preamble.max_transfers, preamble.slots, preamble.slot_bytes);
  }
  return preamble;
}

OfiHeaderBytes EncodeOfiFrame(const OfiFrame& frame) {
  OfiHeaderBytes bytes{};
  Put<uint8_t>(&bytes[0], static_cast<uint8_t>(frame.type));
  Put<uint8_t>(&bytes[1], frame.direction);
  Put<uint16_t>(&bytes[2], frame.code);
  Put<uint16_t>(&bytes[4], frame.slots);
  const uint64_t words[] = {frame.id,           frame.key,         frame.offset,  frame.length,
                            frame.provider_key, frame.lifetime_ns, frame.written, frame.read};
  static_assert(8 + sizeof(words) == kOfiHeaderBytes);
  for (size_t i = 0; i < std::size(words); ++i) Put<uint64_t>(&bytes[8 + 8 * i], words[i]);
  return bytes;
}

Result<OfiReceived> DecodeOfiFrame(ByteView bytes, uint64_t max_message_bytes) {
  if (bytes.size() < kOfiHeaderBytes) return Lie("less than a header");
  const auto type = Get<uint8_t>(bytes.data());
  if (type >= std::size(kShapes) || !kShapes[type].known) return Lie("an unknown type");
  OfiReceived received;
  OfiFrame& frame = received.frame;
  frame.type = static_cast<OfiFrameType>(type);
  frame.direction = Get<uint8_t>(&bytes[1]);
  frame.code = Get<uint16_t>(&bytes[2]);
  frame.slots = Get<uint16_t>(&bytes[4]);
  if (Get<uint16_t>(&bytes[6]) != 0) return Lie("reserved bytes in use");
  uint64_t* const words[] = {&frame.id,           &frame.key,         &frame.offset,  &frame.length,
                             &frame.provider_key, &frame.lifetime_ns, &frame.written, &frame.read};
  for (size_t i = 0; i < std::size(words); ++i) *words[i] = Get<uint64_t>(&bytes[8 + 8 * i]);
  received.payload = bytes.subspan(kOfiHeaderBytes);
  FB_TRY(CheckShape(frame, kShapes[type], received.payload.size()));
  if (frame.type == OfiFrameType::kMessage) {
    if (frame.length > max_message_bytes) return Lie("a message over the limit");
    if (!base::RangeFits(frame.offset, received.payload.size(), frame.length))
      return Lie("bytes outside of its message");
    if (received.payload.empty() && frame.length != 0) return Lie("an empty piece of a message");
  }
  return received;
}

}  // namespace forebay::fabric
