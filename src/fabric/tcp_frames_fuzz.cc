// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the tcp fabric's decoders: the input is cut into receives of odd sizes and goes through FrameReader as the
// bytes of a connection would; the first 40 also through DecodePreamble. tcp_frames_test runs it over its corpus.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "fabric/frame_reader.h"

namespace forebay::fabric {
namespace {

constexpr FrameLimits kLimits{.max_message_bytes = 4096, .max_transfer_bytes = 65536};

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

void Run(ByteView input) {
  if (input.size() >= kPreambleBytes) {
    const auto preamble = DecodePreamble(input.first(kPreambleBytes), Role::kConnector);
    if (preamble.ok()) FB_CHECK(std::ranges::equal(EncodePreamble(*preamble), input.first(kPreambleBytes)));
  }
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
  forebay::fabric::Run(std::as_bytes(std::span(data, size)));
  return 0;
}
