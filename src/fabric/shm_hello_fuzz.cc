// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what an shm peer can say outside of the frames: the first 40 bytes of the input go through
// DecodeShmHello, as they are and with a checksum that fits; the whole drives a ring reader and a ring
// writer, as a neighbour would who writes what it likes to its memory between our looks at it. shm_parts_test
// runs it over its corpus.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/checksum.h"
#include "base/codec.h"
#include "fabric/shm_hello.h"
#include "fabric/shm_ring.h"

namespace forebay::fabric {
namespace {

void ReadHello(ByteView input) {
  if (input.size() < kShmHelloBytes) return;
  Bytes sealed(input.begin(), input.begin() + kShmHelloBytes);
  const uint32_t crc = base::Crc32c(ByteView(sealed).first(36));
  for (size_t i = 0; i < 4; ++i) sealed[36 + i] = static_cast<std::byte>(crc >> (8 * i));
  for (ByteView bytes : {input.first(kShmHelloBytes), ByteView(sealed)}) {
    const auto hello = DecodeShmHello(bytes, Role::kConnector);
    if (hello.ok()) FB_CHECK(std::ranges::equal(EncodeShmHello(*hello), bytes));
  }
}

constexpr size_t kRing = kMinShmRingBytes;
constexpr size_t kMemory = kShmControlBytes + kRing;

struct alignas(4096) Memory {
  std::byte bytes[kMemory] = {};
};

/// Nine bytes of the input are a turn: what the peer does to its control, or how much we take or put.
void DriveRings(ByteView input) {
  const auto own = std::make_unique<Memory>(), peer = std::make_unique<Memory>();
  auto& control = *reinterpret_cast<ShmControl*>(peer->bytes);
  ShmRingReader reader(own->bytes, peer->bytes);
  ShmRingWriter writer(own->bytes, peer->bytes);
  Bytes ours(kRing * 2 + 64, std::byte{0x5A});
  base::Decoder decoder(input);
  while (decoder.remaining() >= 9) {
    const uint8_t action = decoder.U8();
    const uint64_t value = decoder.U64();
    const size_t length = value % (kRing * 2);
    const iovec pieces[] = {{ours.data() + 32, length / 3},
                            {ours.data() + 32 + length / 3, length - length / 3}};
    switch (action % 8) {
      case 0:
        control.written = value;
        break;
      case 1:
        control.written += value % 8192;
        break;
      case 2:
        control.taken = value;
        break;
      case 3:
        control.taken += value % 8192;
        break;
      case 4:
        control.data_wait = control.room_wait = value;
        break;
      case 5: {
        const auto available = reader.Available();
        if (!available.ok()) return;
        FB_CHECK(*available <= kRing);
        FB_CHECK(reader.Take(pieces, 0, *available) == std::min({length, *available, kShmStepBytes}));
        (void)reader.PeerAwaitsRoom();
        break;
      }
      case 6: {
        const auto room = writer.Room();
        if (!room.ok()) return;
        FB_CHECK(*room <= kRing);
        FB_CHECK(writer.Put(pieces, 0, *room) == std::min({length, *room, kShmStepBytes}));
        (void)writer.PeerAwaitsData();
        break;
      }
      case 7:
        reader.Freeze();
        break;
    }
    // Nothing beside the pieces.
    FB_CHECK(std::all_of(ours.begin(), ours.begin() + 32, [](std::byte b) { return b == std::byte{0x5A}; }));
    FB_CHECK(std::all_of(ours.end() - 32, ours.end(), [](std::byte b) { return b == std::byte{0x5A}; }));
  }
}

}  // namespace
}  // namespace forebay::fabric

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  forebay::fabric::ReadHello(input);
  forebay::fabric::DriveRings(input);
  return 0;
}
