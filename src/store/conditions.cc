// SPDX-License-Identifier: Apache-2.0
#include "store/conditions.h"

namespace forebay::store {

Status CheckCondition(const Condition& condition, std::optional<std::string_view> current_etag,
                      std::string_view bucket, std::string_view key) {
  switch (condition.kind) {
    case Condition::Kind::kNone:
      return {};
    case Condition::Kind::kIfAbsent:
      if (!current_etag) return {};
      return Status::AlreadyExists("object `{}/{}` exists already, with ETag {}", bucket, key, *current_etag);
    case Condition::Kind::kIfMatch:
      if (!current_etag) return NoSuchObject(bucket, key);
      if (*current_etag == condition.etag) return {};
      return Status::FailedPrecondition("object `{}/{}` has ETag {}, not {}: it was changed meanwhile",
                                        bucket, key, *current_etag, condition.etag);
  }
  return Status::InvalidArgument("condition kind {} is unknown", static_cast<unsigned>(condition.kind));
}

}  // namespace forebay::store
