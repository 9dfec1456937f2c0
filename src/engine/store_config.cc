// SPDX-License-Identifier: Apache-2.0
#include "engine/store_config.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "engine/devices.h"
#include "engine/superblock.h"

namespace forebay::engine {
namespace {

/// The format of a store.toml with mirrors or removed devices, which programs before them must not open.
constexpr uint32_t kMirrorFormat = 2;

/// A line's value: text in quotes, or digits.
struct Value {
  bool quoted = false;
  std::string text;
  size_t line = 0;
};
using Values = std::map<std::string, Value, std::less<>>;

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out + "\"";
}

/// `text` begins with a quote. False when it is not one string in quotes, with at most a comment behind it.
bool Unquote(std::string_view text, std::string* out) {
  bool escaped = false;
  for (size_t i = 1; i < text.size(); ++i) {
    const char c = text[i];
    if (escaped) {
      if (c != '"' && c != '\\') return false;
      escaped = false;
      out->push_back(c);
      continue;
    }
    if (c == '"') {
      const std::string_view rest = Trim(text.substr(i + 1));
      return rest.empty() || rest.front() == '#';
    }
    if (static_cast<unsigned char>(c) < 0x20) return false;
    escaped = c == '\\';
    if (!escaped) out->push_back(c);
  }
  return false;
}

bool ParseValue(std::string_view text, Value* value) {
  if (text.starts_with('"')) {
    value->quoted = true;
    return Unquote(text, &value->text);
  }
  value->text = Trim(text.substr(0, text.find('#')));
  return !value->text.empty() && value->text.find_first_not_of("0123456789") == std::string::npos;
}

Result<Values> ParseLines(std::string_view text, std::string_view path) {
  Values values;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = Trim(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    const size_t equals = line.find('=');
    Value value{.quoted = false, .text = {}, .line = number};
    if (equals == std::string_view::npos || !ParseValue(Trim(line.substr(equals + 1)), &value))
      return Status::InvalidArgument("{}:{}: expected `name = \"text\"` or `name = number`", path, number);
    std::string name(Trim(line.substr(0, equals)));
    if (!values.emplace(name, std::move(value)).second)
      return Status::InvalidArgument("{}:{}: `{}` is there twice", path, number, name);
  }
  return values;
}

/// Takes a value out, so that what is left at the end is unknown.
Result<Value> Take(Values& values, const std::string& name, bool quoted, std::string_view path) {
  const auto found = values.find(name);
  if (found == values.end()) return Status::InvalidArgument("{}: `{}` is missing", path, name);
  Value value = std::move(found->second);
  values.erase(found);
  if (value.quoted != quoted)
    return Status::InvalidArgument("{}:{}: `{}` wants {}", path, value.line, name,
                                   quoted ? "text in quotes" : "a number");
  return value;
}

Result<std::string> TakePath(Values& values, const std::string& name, std::string_view path) {
  FB_ASSIGN(Value device, Take(values, name, true, path));
  if (device.text.empty()) return Status::InvalidArgument("{}:{}: a device without a path", path, device.line);
  return std::move(device.text);
}

}  // namespace

std::string FormatStoreConfig(const StoreConfig& config) {
  std::string out =
      "# A Forebay store; see docs/formats/store-directory.md.\n"
      "# Paths of devices may be changed while no server runs, their order may not.\n";
  const bool mirrors = std::ranges::any_of(
      config.devices, [](const DeviceConfig& one) { return !one.mirror.empty() || one.removed; });
  out += fmt::format("format = {}\nstore = \"{}\"\n", mirrors ? kMirrorFormat : kFormatVersion,
                     config.store.ToString());
  for (size_t i = 0; i < config.devices.size(); ++i) {
    out += fmt::format("{}{} = {}\n", config.devices[i].removed ? "removed" : "device", i, Quote(config.devices[i].path));
    if (!config.devices[i].mirror.empty()) out += fmt::format("mirror{} = {}\n", i, Quote(config.devices[i].mirror));
  }
  return out;
}

Result<StoreConfig> ParseStoreConfig(std::string_view text, std::string_view path) {
  FB_ASSIGN(Values values, ParseLines(text, path));
  FB_ASSIGN(const Value format, Take(values, "format", false, path));
  uint32_t version = UINT32_MAX;
  std::from_chars(format.text.data(), format.text.data() + format.text.size(), version);
  if (version > kMirrorFormat)
    return Status::FailedPrecondition(
        "{} has store format {}, this program knows formats up to {}: use a newer forebay", path, format.text,
        kMirrorFormat);
  if (version == 0) return Status::InvalidArgument("{}:{}: there is no format 0", path, format.line);
  StoreConfig config;
  FB_ASSIGN(const Value store, Take(values, "store", true, path));
  if (!Uuid::Parse(store.text, &config.store))
    return Status::InvalidArgument("{}:{}: `{}` is not the id of a store", path, store.line, store.text);
  while (config.devices.size() < Devices::kMaxDevices) {
    const size_t id = config.devices.size();
    const std::string removed = fmt::format("removed{}", id);
    DeviceConfig device;
    device.removed = version >= kMirrorFormat && values.contains(removed);
    const std::string name = device.removed ? removed : fmt::format("device{}", id);
    if (!values.contains(name)) break;
    FB_ASSIGN(device.path, TakePath(values, name, path));
    const std::string mirror = fmt::format("mirror{}", id);
    if (version >= kMirrorFormat && !device.removed && values.contains(mirror)) {
      FB_ASSIGN(device.mirror, TakePath(values, mirror, path));
    }
    config.devices.push_back(std::move(device));
  }
  if (config.devices.empty()) return Status::InvalidArgument("{}: `device0` is missing", path);
  if (std::ranges::all_of(config.devices, [](const DeviceConfig& one) { return one.removed; }))
    return Status::InvalidArgument("{}: all devices are removed", path);
  if (!values.empty())
    return Status::InvalidArgument("{}:{}: `{}` is not known", path, values.begin()->second.line,
                                   values.begin()->first);
  return config;
}

}  // namespace forebay::engine
