// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the tcp fabric's decoders: the input is cut into receives of odd sizes and goes through FrameReader as the
// bytes of a connection would, as they are and once more with checksums that fit, since no mutation gets past those by
// itself; the first 40 also go through DecodePreamble. tcp_frames_test runs it over its corpus.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "fabric/frame_reader.h"

namespace forebay::fabric {
namespace {

// Of a stream of shm, which understands more than one of tcp.
constexpr FrameLimits kLimits{
    .max_message_bytes = 4096, .max_transfer_bytes = 65536, .borrows = true, .keeps = 7, .lends = true};

/// Takes what it is given and checks that each frame keeps to the limits and lands whole.
class CheckingSink final : public FrameSink {
 public:
  Status OnHeader(const FrameHeader& header, MutableByteView* target) override {
    FB_CHECK(header.length <= 65536 * 4);
    const auto again = DecodeHeader(EncodeHeader(header), kLimits);
    FB_CHECK(again.ok() && *again == header);
    payload_.assign(header.length, std::byte{0});
    // Some payload is wanted, some is not.
    if (header.id % 2 == 0) *target = payload_;
    ++open_;
    return Status();
  }
  Status OnFrame(const FrameHeader&) override {
    FB_CHECK(open_ == 1);
    --open_;
    return Status();
  }

 private:
  Bytes payload_;
  int open_ = 0;
};

constexpr size_t kChecksumAt = 36;

void Seal(MutableByteView block) {
  const uint32_t crc = base::Crc32c(block.first(kChecksumAt));
  for (size_t i = 0; i < 4; ++i) block[kChecksumAt + i] = static_cast<std::byte>(crc >> (8 * i));
}

/// The input with each header's checksum put right, for as long as the lengths in them lead to a next one.
Bytes Sealed(ByteView input) {
  Bytes sealed(input.begin(), input.end());
  MutableByteView rest(sealed);
  while (rest.size() >= kHeaderBytes) {
    Seal(rest.first(kHeaderBytes));
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length |= static_cast<size_t>(rest[4 + i]) << (8 * i);
    if (length > rest.size() - kHeaderBytes) break;
    rest = rest.subspan(kHeaderBytes + length);
  }
  return sealed;
}

void ReadPreamble(ByteView input) {
  if (input.size() < kPreambleBytes) return;
  const auto preamble = DecodePreamble(input.first(kPreambleBytes), Role::kConnector);
  if (preamble.ok()) FB_CHECK(std::ranges::equal(EncodePreamble(*preamble), input.first(kPreambleBytes)));
}

void ReadStream(ByteView input) {
  CheckingSink sink;
  FrameReader reader(kLimits, sink);
  size_t step = 1;
  while (!input.empty()) {
    iovec places[2];
    const size_t count = reader.Buffers(places);
    size_t room = std::min(step, input.size());
    size_t taken = 0;
    for (size_t i = 0; i < count && room != 0; ++i) {
      const size_t part = std::min(room, places[i].iov_len);
      std::memcpy(places[i].iov_base, input.data() + taken, part);
      taken += part;
      room -= part;
    }
    input = input.subspan(taken);
    if (step % 7 == 0) reader.Divert();  // as a withdraw would
    if (!reader.Received(taken).ok()) return;
    step = step * 3 % 1021 + 1;
  }
}

}  // namespace
}  // namespace forebay::fabric

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace forebay::fabric;
  const auto input = std::as_bytes(std::span(data, size));
  const forebay::Bytes sealed = Sealed(input);
  for (forebay::ByteView bytes : {forebay::ByteView(input), forebay::ByteView(sealed)}) {
    ReadPreamble(bytes);
    ReadStream(bytes);
  }
  return 0;
}
