// SPDX-License-Identifier: Apache-2.0
#include "fabric/shm_hello.h"

#include <algorithm>
#include <string>

#include "base/checksum.h"
#include "base/codec.h"
#include "fabric/kept_descriptors.h"
#include "fabric/shm_ring.h"

namespace forebay::fabric {

namespace {
constexpr uint8_t kBorrows = 1;  // of the flags
constexpr size_t kReservedBytes = 10;
constexpr size_t kChecksumAt = 36;
static_assert(kChecksumAt + sizeof(uint32_t) == kShmHelloBytes);
}  // namespace

ShmHelloBytes EncodeShmHello(const ShmHello& hello) {
  std::string text;
  base::Encoder encoder(&text);
  encoder.U32(kShmMagic);
  encoder.U16(hello.version);
  encoder.U8(static_cast<uint8_t>(hello.role));
  encoder.U8(hello.borrows ? kBorrows : 0);
  encoder.U32(hello.max_message_bytes);
  encoder.U32(hello.max_transfer_bytes);
  encoder.U32(hello.max_transfers);
  encoder.U32(hello.ring_bytes);
  encoder.U16(hello.keeps);
  encoder.Raw(std::string(kReservedBytes, '\0'));
  encoder.U32(base::Crc32c(AsBytes(text)));
  ShmHelloBytes bytes;
  std::ranges::copy(AsBytes(text), bytes.begin());
  return bytes;
}

Result<ShmHello> DecodeShmHello(ByteView bytes, Role expected) {
  base::Decoder decoder(bytes);
  if (bytes.size() != kShmHelloBytes || decoder.U32() != kShmMagic) {
    return Status::InvalidArgument("the peer does not speak Forebay's shared-memory protocol");
  }
  ShmHello hello;
  hello.version = decoder.U16();
  const uint8_t role = decoder.U8();
  const uint8_t flags = decoder.U8();
  hello.borrows = (flags & kBorrows) != 0;
  hello.max_message_bytes = decoder.U32();
  hello.max_transfer_bytes = decoder.U32();
  hello.max_transfers = decoder.U32();
  hello.ring_bytes = decoder.U32();
  hello.keeps = decoder.U16();
  const std::string_view rest = decoder.Raw(kReservedBytes);
  if (decoder.U32() != base::Crc32c(bytes.first(kChecksumAt))) {
    return Status::DataLoss("the peer's hello is damaged: its checksum is wrong");
  }
  if (hello.version != kShmVersion) {
    return Status::FailedPrecondition(
        "the peer speaks version {} of the shared-memory protocol, this program version {}: "
        "upgrade the older of the two",
        hello.version, kShmVersion);
  }
  hello.role = static_cast<Role>(role);
  if (hello.role != expected) {
    return Status::InvalidArgument("the peer is not a {}: a connection to oneself?",
                                   expected == Role::kListener ? "listener" : "connector");
  }
  if (!ShmRingSizeIsGood(hello.ring_bytes)) {
    return Status::InvalidArgument("the peer's ring of {} bytes is no power of two from {} to {}",
                                   hello.ring_bytes, kMinShmRingBytes, kMaxShmRingBytes);
  }
  if (hello.keeps > (hello.borrows ? KeptDescriptors::kMaxPlaces : 0)) {
    return Status::InvalidArgument("the peer keeps {} descriptors; there may be {}, of a side that borrows",
                                   hello.keeps, KeptDescriptors::kMaxPlaces);
  }
  if ((flags & ~kBorrows) != 0 || std::ranges::any_of(rest, [](char c) { return c != '\0'; })) {
    return Status::InvalidArgument("the peer's hello uses fields that version {} reserves", kShmVersion);
  }
  return hello;
}

}  // namespace forebay::fabric
