// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the ucx fabric's decoders: the input is taken as a frame header with the rest as its
// payload, as a HELLO and as a remote key. What is accepted must encode to the same bytes again.
// ucx_frames_test runs it over its corpus.
#include <algorithm>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "fabric/region_table.h"
#include "fabric/ucx_frames.h"

namespace forebay::fabric {
namespace {

constexpr size_t kMaxMessageBytes = 4096;

void ReadFrame(ByteView input) {
  if (input.size() < kUcxHeaderBytes) return;
  const ByteView header = input.first(kUcxHeaderBytes);
  const ByteView payload = input.subspan(kUcxHeaderBytes);
  const auto frame = DecodeUcxFrame(header, payload.size(), kMaxMessageBytes);
  if (!frame.ok()) return;
  FB_CHECK(std::ranges::equal(EncodeUcxFrame(*frame), header));
  FB_CHECK(frame->length == payload.size() && payload.size() <= kMaxMessageBytes);
  FB_CHECK(frame->type != UcxFrameType::kAnswer || frame->code <= kMaxRefusal);
}

void ReadHello(ByteView input) {
  const auto hello = DecodeUcxHello(input, UcxRole::kConnector);
  if (hello.ok()) FB_CHECK(std::ranges::equal(EncodeUcxHello(*hello), input));
}

/// Walks an accepted key as UCX does, without asking for its length.
void ReadRkey(ByteView input) {
  if (!CheckUcxRkey(input).ok()) return;
  uint64_t domains = 0;
  for (size_t i = 0; i < sizeof(domains); ++i) domains |= static_cast<uint64_t>(input[i]) << (8 * i);
  size_t at = 9;
  for (; domains != 0; domains &= domains - 1) {
    FB_CHECK(at < input.size());
    at += 1 + static_cast<size_t>(input[at]);
    FB_CHECK(at <= input.size());
  }
  FB_CHECK(at == input.size());
}

}  // namespace
}  // namespace forebay::fabric

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  forebay::fabric::ReadFrame(input);
  forebay::fabric::ReadHello(input);
  forebay::fabric::ReadRkey(input);
  return 0;
}
