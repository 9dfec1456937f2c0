// SPDX-License-Identifier: Apache-2.0
#include "engine/object_state.h"

namespace forebay::engine {

uint64_t ObjectState::footprint() const {
  constexpr uint64_t kNodes = 256;  // list and hash nodes, control block
  uint64_t bytes = kNodes + sizeof(ObjectState) + info.key.size() + info.etag.size() + inline_content.size() +
                   pieces.size() * sizeof(MappedPiece);
  for (const auto* entries : {&info.metadata, &info.attributes})
    for (const auto& [name, value] : *entries) bytes += 100 + name.size() + value.size();
  for (const MappedExtent& extent : extents)
    bytes += sizeof(MappedExtent) + extent.record.checksums.size() * sizeof(uint32_t);
  return bytes;
}

store::ObjectInfo InfoOf(std::string_view key, uint64_t version, const ObjectRecord& record) {
  return {.key = std::string(key),
          .version = version,
          .size_bytes = record.size_bytes,
          .etag = record.etag,
          .crc32c = record.crc32c,
          .modified = base::WallTime(base::Duration(record.modified_ns)),
          .metadata = record.metadata,
          .attributes = record.attributes};
}

}  // namespace forebay::engine
