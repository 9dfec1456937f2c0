// SPDX-License-Identifier: Apache-2.0
// ToReply: an object's description on the wire. Thread-safe: a pure function.
#pragma once

#include <chrono>

#include "store/object_store.h"
#include "wire/message.h"

namespace forebay::native {

/// Views of `object`.
inline wire::ObjectReply ToReply(const store::ObjectInfo& object) {
  const auto modified = std::chrono::floor<std::chrono::milliseconds>(object.modified.time_since_epoch());
  return {.size = object.size_bytes,
          .version = object.version,
          .crc32c = object.crc32c,
          .etag = object.etag,
          .modified_unix_ms = modified.count(),
          .metadata = {object.metadata.begin(), object.metadata.end()},
          .attributes = {object.attributes.begin(), object.attributes.end()}};
}

}  // namespace forebay::native
