// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_frames.h"

#include <bit>

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
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(at[i]) << (8 * i)));
  }
  return value;
}

/// Which fields a type uses; all others must be zero.
struct Shape {
  bool code = false, id = false, key = false, offset = false, count = false;
};

constexpr Shape ShapeOf(UcxFrameType type) {
  switch (type) {
    case UcxFrameType::kOffer:
    case UcxFrameType::kAsk:
      return {.code = true, .id = true, .key = true, .offset = true, .count = true};
    case UcxFrameType::kRevoke:
    case UcxFrameType::kRevoked:
      return {.key = true};
    case UcxFrameType::kAnswer:
      return {.code = true, .id = true};
    case UcxFrameType::kTally:
      return {.offset = true, .count = true};
    case UcxFrameType::kCredit:
      return {.count = true};
    case UcxFrameType::kHello:
    case UcxFrameType::kMessage:
    case UcxFrameType::kProbe:
    case UcxFrameType::kProbeAnswer:
    case UcxFrameType::kGoodbye:
      return {};
  }
  return {};
}

constexpr size_t LongestPayload(UcxFrameType type, size_t max_message_bytes) {
  switch (type) {
    case UcxFrameType::kHello:
      return kUcxHelloBytes;
    case UcxFrameType::kMessage:
      return max_message_bytes;
    case UcxFrameType::kOffer:
      return kMaxUcxRkeyBytes;
    case UcxFrameType::kGoodbye:
      return kMaxUcxGoodbyeBytes;
    default:
      return 0;
  }
}

constexpr bool CodeFits(const UcxFrame& frame) {
  if (frame.type == UcxFrameType::kAnswer) return frame.code <= kMaxRefusal;
  if (frame.type != UcxFrameType::kOffer && frame.type != UcxFrameType::kAsk) return true;
  return frame.code == static_cast<uint16_t>(Direction::kPeerReads) ||
         frame.code == static_cast<uint16_t>(Direction::kPeerWrites);
}

}  // namespace

UcxHelloBytes EncodeUcxHello(const UcxHello& hello) {
  UcxHelloBytes bytes{};
  Put<uint32_t>(&bytes[0], kUcxMagic);
  Put<uint16_t>(&bytes[4], hello.version);
  Put<uint8_t>(&bytes[6], static_cast<uint8_t>(hello.role));
  Put<uint32_t>(&bytes[8], hello.max_message_bytes);
  Put<uint32_t>(&bytes[12], hello.max_transfer_bytes);
  Put<uint32_t>(&bytes[16], hello.max_transfers);
  Put<uint32_t>(&bytes[20], hello.max_regions);
  return bytes;
}

Result<UcxHello> DecodeUcxHello(ByteView bytes, UcxRole expected) {
  if (bytes.size() != kUcxHelloBytes || Get<uint32_t>(&bytes[0]) != kUcxMagic) {
    return Status::InvalidArgument("the peer does not speak Forebay's ucx fabric protocol");
  }
  UcxHello hello;
  hello.version = Get<uint16_t>(&bytes[4]);
  if (hello.version != kUcxVersion) {
    return Status::FailedPrecondition(
        "the peer speaks version {} of the ucx fabric protocol, this program version {}: "
        "upgrade the older of the two",
        hello.version, kUcxVersion);
  }
  hello.role = static_cast<UcxRole>(bytes[6]);
  if (hello.role != expected || bytes[7] != std::byte{0}) {
    return Status::InvalidArgument("the peer's HELLO is not a {}'s",
                                   expected == UcxRole::kListener ? "listener" : "connector");
  }
  hello.max_message_bytes = Get<uint32_t>(&bytes[8]);
  hello.max_transfer_bytes = Get<uint32_t>(&bytes[12]);
  hello.max_transfers = Get<uint32_t>(&bytes[16]);
  hello.max_regions = Get<uint32_t>(&bytes[20]);
  if (hello.max_regions > kMaxUcxRegions) {
    return Status::InvalidArgument("the peer announces {} regions at once; ucx takes at most {}",
                                   hello.max_regions, kMaxUcxRegions);
  }
  return hello;
}

UcxHeaderBytes EncodeUcxFrame(const UcxFrame& frame) {
  UcxHeaderBytes bytes{};
  Put<uint8_t>(&bytes[0], static_cast<uint8_t>(frame.type));
  Put<uint16_t>(&bytes[2], frame.code);
  Put<uint32_t>(&bytes[4], frame.length);
  Put<uint64_t>(&bytes[8], frame.sequence);
  Put<uint64_t>(&bytes[16], frame.id);
  Put<uint64_t>(&bytes[24], frame.key);
  Put<uint64_t>(&bytes[32], frame.offset);
  Put<uint64_t>(&bytes[40], frame.count);
  return bytes;
}
static_assert(sizeof(UcxHeaderBytes) == kUcxHeaderBytes);

Result<UcxFrame> DecodeUcxFrame(ByteView header, size_t payload_bytes, size_t max_message_bytes) {
  if (header.size() != kUcxHeaderBytes) {
    return Status::InvalidArgument("a frame header has {} bytes, not {}", kUcxHeaderBytes, header.size());
  }
  const auto type = Get<uint8_t>(&header[0]);
  if (type < static_cast<uint8_t>(UcxFrameType::kHello) ||
      type > static_cast<uint8_t>(UcxFrameType::kGoodbye)) {
    return Status::InvalidArgument("frames of type {} do not exist in version {}", type, kUcxVersion);
  }
  UcxFrame frame;
  frame.type = static_cast<UcxFrameType>(type);
  frame.code = Get<uint16_t>(&header[2]);
  frame.length = Get<uint32_t>(&header[4]);
  frame.sequence = Get<uint64_t>(&header[8]);
  frame.id = Get<uint64_t>(&header[16]);
  frame.key = Get<uint64_t>(&header[24]);
  frame.offset = Get<uint64_t>(&header[32]);
  frame.count = Get<uint64_t>(&header[40]);

  const Shape shape = ShapeOf(frame.type);
  if (header[1] != std::byte{0} || (!shape.code && frame.code != 0) || (!shape.id && frame.id != 0) ||
      (!shape.key && frame.key != 0) || (!shape.offset && frame.offset != 0) ||
      (!shape.count && frame.count != 0)) {
    return Status::InvalidArgument("a frame of type {} uses fields that are reserved for it", type);
  }
  if (frame.length != payload_bytes) {
    return Status::InvalidArgument("a frame of type {} announces {} bytes and brings {}", type, frame.length,
                                   payload_bytes);
  }
  const size_t limit = LongestPayload(frame.type, max_message_bytes);
  if (frame.length > limit) {
    return Status::InvalidArgument("a frame of type {} brings {} bytes, its limit is {}", type, frame.length,
                                   limit);
  }
  if (!CodeFits(frame))
    return Status::InvalidArgument("a frame of type {} has the code {}", type, frame.code);
  return frame;
}

// As UCX 1.13 packs it: a map of memory domains (u64), the memory's type (u8, 0 = host), and for each domain
// in the map the size (u8) and the bytes of its key, which for InfiniBand hold at least a u64.
Status CheckUcxRkey(ByteView packed) {
  constexpr size_t kFixedBytes = 9;
  if (packed.size() < kFixedBytes || packed.size() > kMaxUcxRkeyBytes) {
    return Status::InvalidArgument("a remote key of {} bytes is none", packed.size());
  }
  const auto domains = Get<uint64_t>(packed.data());
  if (domains == 0) return Status::InvalidArgument("a remote key that names no registration");
  if (packed[8] != std::byte{0}) return Status::InvalidArgument("a remote key for other than host memory");
  size_t at = kFixedBytes;
  for (int domain = 0; domain < std::popcount(domains); ++domain) {
    if (at >= packed.size()) return Status::InvalidArgument("a remote key that is cut short");
    const auto size = static_cast<size_t>(packed[at]);
    if (size < sizeof(uint64_t) || size > packed.size() - at - 1) {
      return Status::InvalidArgument("a remote key whose parts do not fit");
    }
    at += 1 + size;
  }
  if (at != packed.size()) return Status::InvalidArgument("a remote key that is followed by something else");
  return Status();
}

}  // namespace forebay::fabric
