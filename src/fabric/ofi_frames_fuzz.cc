// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the ofi fabric's decoders: the input is one libfabric message, and once more a preamble, as
// it is and with a checksum that fits. What is accepted encodes to the same bytes. ofi_frames_test runs it
// over its corpus.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/checksum.h"
#include "fabric/ofi_frames.h"

namespace forebay::fabric {
namespace {

constexpr uint64_t kMaxMessage = 4096;
constexpr size_t kChecksumAt = 36;

void ReadFrame(ByteView input) {
  const auto received = DecodeOfiFrame(input, kMaxMessage);
  if (!received.ok()) return;
  FB_CHECK(std::ranges::equal(EncodeOfiFrame(received->frame), input.first(kOfiHeaderBytes)));
  FB_CHECK(received->payload.size() == input.size() - kOfiHeaderBytes);
  if (received->frame.type != OfiFrameType::kMessage) return;
  FB_CHECK(received->frame.length <= kMaxMessage);
  FB_CHECK(base::RangeFits(received->frame.offset, received->payload.size(), received->frame.length));
}

void ReadPreamble(ByteView input) {
  const auto preamble = DecodeOfiPreamble(input, Role::kConnector);
  if (preamble.ok())
    FB_CHECK(std::ranges::equal(EncodeOfiPreamble(*preamble), input.first(kOfiPreambleBytes)));
}

}  // namespace
}  // namespace forebay::fabric

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace forebay::fabric;
  const auto input = std::as_bytes(std::span(data, size));
  ReadFrame(input);
  ReadPreamble(input);
  if (size < kOfiPreambleBytes) return 0;
  forebay::Bytes sealed(input.begin(), input.end());
  const uint32_t crc = forebay::base::Crc32c(forebay::ByteView(sealed).first(kChecksumAt));
  for (size_t i = 0; i < 4; ++i) sealed[kChecksumAt + i] = static_cast<std::byte>(crc >> (8 * i));
  ReadPreamble(sealed);
  return 0;
}
