// SPDX-License-Identifier: Apache-2.0
#include "app/json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace forebay::app {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  // Keys are UTF-8 by rule; a server that breaks it must not break us.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string ToJson(const JsonFields& fields) {
  Json json;
  for (const auto& [name, value] : fields) std::visit([&](const auto& v) { json[name] = v; }, value);
  return Dump(json);
}

namespace {

Json Fields(const ObjectInfo& object) {
  Json json;
  json["key"] = object.key;
  json["size_bytes"] = object.size;
  json["version"] = object.version;
  json["etag"] = object.etag;
  json["crc32c"] = FormatChecksum(object.crc32c);
  json["modified"] = FormatTime(object.modified);
  json["metadata"] = object.metadata;
  json["attributes"] = object.attributes;
  return json;
}

}  // namespace

std::string ToJson(const ObjectInfo& object) { return Dump(Fields(object)); }

std::string ToJson(const VersionInfo& version) {
  Json json = Fields(version.object);
  json["latest"] = version.latest;
  json["delete_marker"] = version.delete_marker;
  json["null_version"] = version.null_version;
  return Dump(json);
}

std::string_view VersioningName(Versioning versioning) {
  switch (versioning) {
    case Versioning::kOff:
      return "off";
    case Versioning::kOn:
      return "on";
    case Versioning::kSuspended:
      return "suspended";
  }
  return "unknown";
}

std::string ToJson(const BucketInfo& bucket) {
  Json json;
  json["name"] = bucket.name;
  json["class"] = bucket.bucket_class == BucketClass::kCache ? "cache" : "durable";
  json["created"] = FormatTime(bucket.created);
  json["versioning"] = VersioningName(bucket.versioning);
  return Dump(json);
}

std::string FormatTime(std::chrono::system_clock::time_point time) {
  return fmt::format(
      "{:%Y-%m-%dT%H:%M:%S}Z",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(time))));
}

std::string FormatChecksum(uint32_t crc32c) { return fmt::format("{:08x}", crc32c); }

}  // namespace forebay::app
