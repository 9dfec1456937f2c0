// SPDX-License-Identifier: Apache-2.0
// ObjectName: `bucket/key` as people write it on a command line. The first slash parts them; the key is taken
// as it is. Immutable.
#pragma once

#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/status.h"

namespace forebay::app {

struct ObjectName {
  std::string bucket;
  std::string key;  // may be empty where a prefix is meant

  /// BUCKET/KEY with both parts.
  static Result<ObjectName> Parse(std::string_view text) {
    FB_ASSIGN(ObjectName name, ParsePrefix(text));
    if (name.key.empty())
      return Status::InvalidArgument(
          "`{}` names no object: write BUCKET/KEY, for example models/llama.safetensors", text);
    FB_TRY(base::CheckKey(name.key));
    return name;
  }

  /// BUCKET or BUCKET/ or BUCKET/PREFIX.
  static Result<ObjectName> ParsePrefix(std::string_view text) {
    const size_t slash = text.find('/');
    ObjectName name;
    name.bucket = text.substr(0, slash);
    if (slash != std::string_view::npos) name.key = text.substr(slash + 1);
    FB_TRY(base::CheckBucketName(name.bucket));
    return name;
  }
};

}  // namespace forebay::app
