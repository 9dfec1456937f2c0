// SPDX-License-Identifier: Apache-2.0
// The fixed header as it lies in memory and on the wire: every field is naturally aligned and little-endian.
// Private to wire; others use Header. Immutable: a layout.
#pragma once

#include <cstdint>

#include "wire/message.h"

namespace forebay::wire {

struct HeaderLayout {
  uint32_t magic = kMagic;
  uint8_t version = kVersion;
  uint8_t type = 0;
  uint16_t flags = 0;
  uint16_t header_bytes = kHeaderBytes;
  uint16_t reserved = 0;
  uint32_t body_bytes = 0;
  uint32_t payload_bytes = 0;
  uint32_t status = 0;
  uint64_t session = 0;
  uint64_t counter = 0;
  uint64_t tenant = 0;
  uint8_t operation[16] = {};
  uint64_t deadline_us = 0;
  uint64_t request = 0;
  uint8_t mac[kMacBytes] = {};
};

/// Writes the header, MAC zero, to the first kHeaderBytes of `out`.
void PutHeader(const Header& header, size_t body_bytes, size_t payload_bytes, MutableByteView out);

}  // namespace forebay::wire
