// SPDX-License-Identifier: Apache-2.0
#include "app/space_report.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "app/json.h"
#include "base/bytes.h"

namespace forebay::app {
namespace {

constexpr uint64_t kNearlyFullPercent = 95;

std::string_view NameOf(Fullness fullness) {
  switch (fullness) {
    case Fullness::kOk:
      return "ok";
    case Fullness::kNearlyFull:
      return "nearly full";
    case Fullness::kFull:
      break;
  }
  return "full";
}

/// What a row says of itself; a store that takes no writes is that before all.
std::string StateOf(const control::ServerSpace& server, Fullness fullness) {
  return std::string(server.read_only_reason.empty() ? NameOf(fullness) : "read-only");
}

/// To one decimal.
double PercentOf(uint64_t part, uint64_t whole) {
  if (whole == 0) return 0;
  return std::round(1000.0 * static_cast<double>(part) / static_cast<double>(whole)) / 10;
}

/// Of what comes from a server nothing is believed: no difference goes below 0.
uint64_t Minus(uint64_t left, uint64_t right) { return left > right ? left - right : 0; }

store::DeviceSpace Total(const store::StoreSpace& space) {
  const size_t count = space.devices.size();
  store::DeviceSpace total{.name = fmt::format("{} {}", count, count == 1 ? "device" : "devices")};
  for (const store::DeviceSpace& device : space.devices) {
    total.capacity_bytes += device.capacity_bytes;
    total.used_bytes += device.used_bytes;
    total.bytes_read += device.bytes_read;
    total.bytes_written += device.bytes_written;
    if (device.state == store::DeviceState::kDegraded || total.state == store::DeviceState::kOk)
      total.state = device.state;
  }
  return total;
}

/// What is used for good, caches being taken to be spread over the devices like everything: they make room, and fill no store.
uint64_t WithoutCaches(const store::StoreSpace& space, const store::DeviceSpace& data) {
  const uint64_t used = Total(space).used_bytes;
  if (used == 0) return 0;
  const double share = std::min(1.0, static_cast<double>(space.cache_bytes) / static_cast<double>(used));
  const double caches = std::min(static_cast<double>(data.used_bytes) * share, 0x1p63);
  return Minus(data.used_bytes, static_cast<uint64_t>(caches));
}

/// A mirror that is not whole says so, unless there is worse.
std::string StateOf(const control::ServerSpace& server, const store::DeviceSpace& data) {
  const Fullness fullness = FullnessOf(WithoutCaches(server.space, data), data.capacity_bytes);
  if (!server.read_only_reason.empty() || fullness == Fullness::kFull) return StateOf(server, fullness);
  switch (data.state) {
    case store::DeviceState::kDegraded:
      return "degraded";
    case store::DeviceState::kRebuilding:
      return "rebuilding";
    case store::DeviceState::kDraining:
      return "draining";
    case store::DeviceState::kOk:
      break;
  }
  return StateOf(server, fullness);
}

std::string Row(std::string_view what, std::string_view capacity, std::string_view used, std::string_view free,
                std::string_view percent, std::string_view state, std::string_view path) {
  return fmt::format("{:<8}  {:>10}  {:>10}  {:>10}  {:>6}  {:<11}  {}\n", what, capacity, used, free, percent, state,
                     path);
}

std::string DataRow(std::string_view what, const store::DeviceSpace& data, const std::string& state) {
  return Row(what, base::FormatSize(data.capacity_bytes), base::FormatSize(data.used_bytes),
             base::FormatSize(Minus(data.capacity_bytes, data.used_bytes)),
             fmt::format("{:.1f}%", PercentOf(data.used_bytes, data.capacity_bytes)), state, data.name);
}

/// Caches make room, so what they have does not fill a store.
std::string DataAdvice(const store::DeviceSpace& total, uint64_t cache_bytes) {
  const Fullness fullness = FullnessOf(Minus(total.used_bytes, cache_bytes), total.capacity_bytes);
  if (fullness == Fullness::kOk) return {};
  return fmt::format(
      "data is {}, and puts that do not fit are refused: delete objects (deletes always work), or add a device "
      "(forebay device add)",
      NameOf(fullness));
}

std::string MetadataAdvice(const store::MetadataSpace& metadata) {
  const Fullness fullness = FullnessOf(metadata);
  if (fullness == Fullness::kOk) return {};
  return fmt::format("metadata is {}{}: make room on the file system of {}, or delete objects", NameOf(fullness),
                     fullness == Fullness::kFull ? ", and only deletes are taken" : "", metadata.path);
}

}  // namespace

Fullness FullnessOf(uint64_t used_bytes, uint64_t capacity_bytes) {
  if (used_bytes >= capacity_bytes) return Fullness::kFull;
  const double limit = static_cast<double>(capacity_bytes) * kNearlyFullPercent / 100;
  return static_cast<double>(used_bytes) >= limit ? Fullness::kNearlyFull : Fullness::kOk;
}

Fullness FullnessOf(const store::MetadataSpace& metadata) {
  if (metadata.free_bytes < metadata.reserve_bytes) return Fullness::kFull;
  const uint64_t room = metadata.free_bytes - metadata.reserve_bytes;
  const uint64_t last_percents = metadata.used_bytes / kNearlyFullPercent * (100 - kNearlyFullPercent);
  return room < metadata.reserve_bytes || room <= last_percents ? Fullness::kNearlyFull : Fullness::kOk;
}

std::string SpaceAdvice(const store::StoreSpace& space) {
  const std::string data = DataAdvice(Total(space), space.cache_bytes);
  const std::string metadata = MetadataAdvice(space.metadata);
  return data.empty() || metadata.empty() ? data + metadata : data + "\n" + metadata;
}

std::string SpaceTable(const control::ServerSpace& server) {
  const store::StoreSpace& space = server.space;
  std::string out;
  if (!server.read_only_reason.empty()) out += server.read_only_reason + "\n";
  out += Row("", "capacity", "used", "free", "use%", "state", "path");
  for (const store::DeviceSpace& device : space.devices) out += DataRow("data", device, StateOf(server, device));
  if (space.devices.size() > 1) out += DataRow("total", Total(space), StateOf(server, Total(space)));
  const store::MetadataSpace& metadata = space.metadata;
  out += Row("metadata", "-", base::FormatSize(metadata.used_bytes), base::FormatSize(metadata.free_bytes), "-",
             StateOf(server, FullnessOf(metadata)), metadata.path);
  out += fmt::format("{} {} of {}; {} of the metadata's file system are kept for deletes\n", space.objects,
                     space.objects == 1 ? "object" : "objects", base::FormatSize(space.object_bytes),
                     base::FormatSize(metadata.reserve_bytes));
  if (space.cache_bytes != 0)
    out += fmt::format("{} of what is used are cache data, which makes room for what needs it\n", base::FormatSize(space.cache_bytes));
  for (const store::DeviceSpace& device : space.devices)
    if (!device.detail.empty()) out += device.detail + "\n";
  if (const std::string advice = SpaceAdvice(space); !advice.empty()) out += advice + "\n";
  return out;
}

std::string SpaceJson(const control::ServerSpace& server) {
  const store::StoreSpace& space = server.space;
  const auto data_fields = [&](const char* what, const store::DeviceSpace& data) -> JsonFields {
    return {{"what", std::string(what)},
            {"path", data.name},
            {"state", StateOf(server, data)},
            {"detail", data.detail},
            {"capacity_bytes", data.capacity_bytes},
            {"used_bytes", data.used_bytes},
            {"free_bytes", Minus(data.capacity_bytes, data.used_bytes)},
            {"used_percent", PercentOf(data.used_bytes, data.capacity_bytes)},
            {"bytes_read", data.bytes_read},
            {"bytes_written", data.bytes_written}};
  };
  std::string out;
  for (const store::DeviceSpace& device : space.devices) out += ToJson(data_fields("data", device)) + "\n";
  const store::MetadataSpace& metadata = space.metadata;
  out += ToJson({{"what", std::string("metadata")},
                 {"path", metadata.path},
                 {"state", StateOf(server, FullnessOf(metadata))},
                 {"used_bytes", metadata.used_bytes},
                 {"free_bytes", metadata.free_bytes},
                 {"reserve_bytes", metadata.reserve_bytes},
                 {"below_reserve", metadata.free_bytes < metadata.reserve_bytes}}) +
         "\n";
  JsonFields total = data_fields("total", Total(space));
  total.insert(total.end(), {{"objects", space.objects},
                             {"object_bytes", space.object_bytes},
                             {"cache_bytes", space.cache_bytes},
                             {"read_only_reason", server.read_only_reason},
                             {"advice", SpaceAdvice(space)}});
  return out + ToJson(total) + "\n";
}

}  // namespace forebay::app
