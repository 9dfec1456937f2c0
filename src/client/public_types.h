// SPDX-License-Identifier: Apache-2.0
// From the types of the store to those of the installed API. Thread-safe: pure functions.
#pragma once

#include <chrono>
#include <utility>

#include "forebay/client.h"
#include "store/object_store.h"

namespace forebay::client {

inline std::chrono::system_clock::time_point ToPublic(base::WallTime time) {
  return std::chrono::time_point_cast<std::chrono::system_clock::duration>(time);
}

inline ObjectInfo ToPublic(store::ObjectInfo info) {
  return {.key = std::move(info.key),
          .version = info.version,
          .size = info.size_bytes,
          .etag = std::move(info.etag),
          .crc32c = info.crc32c,
          .modified = ToPublic(info.modified),
          .metadata = std::move(info.metadata),
          .attributes = std::move(info.attributes)};
}

static_assert(static_cast<int>(BucketClass::kDurable) == static_cast<int>(store::BucketClass::kDurable) &&
              static_cast<int>(BucketClass::kCache) == static_cast<int>(store::BucketClass::kCache));
static_assert(static_cast<int>(Versioning::kOff) == static_cast<int>(store::Versioning::kOff) &&
              static_cast<int>(Versioning::kOn) == static_cast<int>(store::Versioning::kOn) &&
              static_cast<int>(Versioning::kSuspended) == static_cast<int>(store::Versioning::kSuspended));

inline BucketInfo ToPublic(store::BucketInfo info) {
  return {.name = std::move(info.name),
          .bucket_class = static_cast<BucketClass>(info.bucket_class),
          .created = ToPublic(info.created),
          .versioning = static_cast<Versioning>(info.versioning)};
}

inline VersionInfo ToPublic(store::VersionInfo info) {
  return {.object = ToPublic(std::move(info.object)),
          .latest = info.latest,
          .delete_marker = info.delete_marker,
          .null_version = info.null_version};
}

inline UploadInfo ToPublic(store::UploadInfo info) {
  return {.id = info.id,
          .key = std::move(info.key),
          .created = ToPublic(info.created),
          .metadata = std::move(info.metadata)};
}

inline PartInfo ToPublic(store::PartInfo info) {
  return {.number = info.number,
          .size = info.size_bytes,
          .etag = std::move(info.etag),
          .crc32c = info.crc32c,
          .modified = ToPublic(info.modified)};
}

}  // namespace forebay::client
