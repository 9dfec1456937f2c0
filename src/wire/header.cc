// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstddef>
#include <cstring>

#include "wire/header_layout.h"
#include "wire/message.h"

namespace forebay::wire {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian and headers are copied as they are");
static_assert(sizeof(HeaderLayout) == kHeaderBytes);
static_assert(offsetof(HeaderLayout, magic) == 0 && offsetof(HeaderLayout, version) == 4 &&
              offsetof(HeaderLayout, type) == 5 && offsetof(HeaderLayout, flags) == 6 &&
              offsetof(HeaderLayout, header_bytes) == 8 && offsetof(HeaderLayout, reserved) == 10 &&
              offsetof(HeaderLayout, body_bytes) == 12 && offsetof(HeaderLayout, payload_bytes) == 16 &&
              offsetof(HeaderLayout, status) == 20 && offsetof(HeaderLayout, session) == 24 &&
              offsetof(HeaderLayout, counter) == 32 && offsetof(HeaderLayout, tenant) == 40 &&
              offsetof(HeaderLayout, operation) == 48 && offsetof(HeaderLayout, deadline_us) == 64 &&
              offsetof(HeaderLayout, request) == 72 && offsetof(HeaderLayout, mac) == kMacOffset);

MutableByteView MacOf(MutableByteView message) { return message.subspan(kMacOffset, kMacBytes); }

Result<MessageView> DecodeMessage(ByteView message) {
  HeaderLayout raw;
  if (message.size() < sizeof(raw))
    return Status::InvalidArgument("a message of {} bytes is shorter than a header of {}", message.size(),
                                   sizeof(raw));
  std::memcpy(&raw, message.data(), sizeof(raw));
  if (raw.magic != kMagic)
    return Status::InvalidArgument("a message starts with {:#010x} instead of FBY1", raw.magic);
  if (raw.version != kVersion)
    return Status::InvalidArgument("a message has wire version {}; this side speaks {}", raw.version,
                                   kVersion);
  if (raw.header_bytes != kHeaderBytes || raw.reserved != 0 || (raw.flags & ~kFlagReply) != 0)
    return Status::InvalidArgument("a message header of version 1 has {} bytes, flags {:#x}, reserved {:#x}",
                                   raw.header_bytes, raw.flags, raw.reserved);
  // 64-bit arithmetic: the sum of two 32-bit lengths cannot wrap.
  const uint64_t expected = uint64_t{kHeaderBytes} + raw.body_bytes + raw.payload_bytes;
  if (expected != message.size() || expected > base::kMaxMessageBytes ||
      raw.payload_bytes > base::kMaxInlineBytes)
    return Status::InvalidArgument("a message of {} bytes announces {} of body and {} of payload",
                                   message.size(), raw.body_bytes, raw.payload_bytes);
  const bool reply = (raw.flags & kFlagReply) != 0;
  if (raw.status > static_cast<uint32_t>(Code::kUnauthenticated) || (raw.status != 0 && !reply))
    return Status::InvalidArgument("a {} carries status {}", reply ? "reply" : "request", raw.status);
  MessageView view;
  view.header = {.type = static_cast<Type>(raw.type),
                 .reply = reply,
                 .status = static_cast<Code>(raw.status),
                 .session = raw.session,
                 .counter = raw.counter,
                 .tenant = static_cast<TenantId>(raw.tenant),
                 .operation = {},
                 .deadline_us = raw.deadline_us,
                 .request = raw.request};
  std::memcpy(view.header.operation.bytes.data(), raw.operation, sizeof(raw.operation));
  view.body = message.subspan(kHeaderBytes, raw.body_bytes);
  view.payload = message.subspan(kHeaderBytes + raw.body_bytes, raw.payload_bytes);
  return view;
}

void PutHeader(const Header& header, size_t body_bytes, size_t payload_bytes, MutableByteView out) {
  HeaderLayout raw;
  raw.type = static_cast<uint8_t>(header.type);
  raw.flags = header.reply ? kFlagReply : 0;
  raw.body_bytes = static_cast<uint32_t>(body_bytes);
  raw.payload_bytes = static_cast<uint32_t>(payload_bytes);
  raw.status = static_cast<uint32_t>(header.status);
  raw.session = header.session;
  raw.counter = header.counter;
  raw.tenant = static_cast<uint64_t>(header.tenant);
  std::memcpy(raw.operation, header.operation.bytes.data(), sizeof(raw.operation));
  raw.deadline_us = header.deadline_us;
  raw.request = header.request;
  std::memcpy(out.data(), &raw, sizeof(raw));
}

}  // namespace forebay::wire
