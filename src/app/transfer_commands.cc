// SPDX-License-Identifier: Apache-2.0
// put, get, cat: bytes between files, pipes or memory and objects.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "app/object_name.h"
#include "app/parted_upload.h"
#include "app/transfer.h"
#include "base/bytes.h"
#include "base/limits.h"

namespace forebay::app {
namespace {

constexpr double kDefaultTimeoutSeconds = 3600;
constexpr double kMaxTimeoutSeconds = 7 * 24 * 3600;

struct PutArguments {
  std::string source;
  std::string name;
  PutOptions options;
  std::vector<std::string> metadata;
  std::optional<uint64_t> offset;
  bool append = false;
  uint32_t parts = 0;
  double timeout_seconds = kDefaultTimeoutSeconds;
};

struct GetArguments {
  std::string name;
  std::string target;
  std::string range;
  bool to_memory = false;
  GetOptions options;
  double timeout_seconds = kDefaultTimeoutSeconds;
};

/// Nothing when it is no time that a command may take; a NaN is none either.
std::optional<std::chrono::nanoseconds> TimeoutOf(double seconds) {
  if (!(seconds > 0 && seconds <= kMaxTimeoutSeconds)) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

int RefuseTimeout() { return RefuseUsage("--timeout takes seconds: more than 0, at most a week"); }

/// A client made in the command's time, of which `timeout` is left with what remains.
std::expected<std::unique_ptr<Client>, Error> ConnectWithin(const Invocation& invocation,
                                                            std::chrono::nanoseconds* timeout,
                                                            unsigned connections = 1) {
  const auto start = std::chrono::steady_clock::now();
  auto client = invocation.Connect(connections, std::min<std::chrono::nanoseconds>(*timeout, std::chrono::seconds(60)));
  *timeout = std::max<std::chrono::nanoseconds>(*timeout - (std::chrono::steady_clock::now() - start),
                                                std::chrono::milliseconds(1));
  return client;
}

/// A number that is all of `text`.
std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  return error == std::errc() && end == text.end() ? std::optional(number) : std::nullopt;
}

/// "FIRST-LAST", both included, or "FIRST-" for all from there. "-COUNT" is not taken: the size is not known here.
bool ParseRange(std::string_view text, GetOptions* options) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return false;
  const std::optional<uint64_t> first = ParseNumber(text.substr(0, dash));
  if (!first) return false;
  options->offset = *first;
  if (dash + 1 == text.size()) return true;
  const std::optional<uint64_t> last = ParseNumber(text.substr(dash + 1));
  if (!last || *last < *first || *last == UINT64_MAX) return false;
  options->length = *last - *first + 1;
  return true;
}

void PrintReport(const char* verb, const std::string& name, const TransferReport& report,
                 const std::string& path, bool json) {
  if (json) {
    JsonFields fields{{"object", name},
                      {"size_bytes", report.bytes},
                      {"seconds", report.seconds},
                      {"bytes_per_second", report.bytes_per_second()},
                      {"etag", report.etag},
                      {"path", path}};
    if (!report.sha256.empty()) fields.emplace_back("sha256", report.sha256);
    fmt::print("{}\n", ToJson(fields));
    return;
  }
  // Standard output may be the object itself: what is said about it goes to stderr.
  fmt::print(stderr, "{} {}  {} in {:.3f} s  {}/s  {}\n", verb, name, base::FormatSize(report.bytes),
             report.seconds, base::FormatSize(static_cast<uint64_t>(report.bytes_per_second())), path);
}

bool ParseMetadata(const std::vector<std::string>& entries, PutOptions* options) {
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) return false;
    options->metadata[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return true;
}

/// What cannot be asked for together; empty when all is well.
std::string_view Conflict(const PutArguments& arguments) {
  const bool part = arguments.append || arguments.offset.has_value();
  if (arguments.append && arguments.offset) return "--append and --offset are two places: give one";
  if (part && arguments.options.if_absent) return "--if-absent: only an object that is there is overwritten or appended to";
  if (part && !arguments.metadata.empty()) return "--metadata: an object keeps its own when it is overwritten or appended to";
  if (part && arguments.parts != 0) return "--parts is for whole objects";
  if (arguments.parts > base::kMaxParts) return "--parts takes 1 to 10000";
  return {};
}

std::expected<TransferReport, Error> Store(Client& client, const PutArguments& arguments, const ObjectName& name) {
  if (arguments.parts != 0)
    return UploadInParts(client, arguments.source, name.bucket, name.key, arguments.parts, arguments.options);
  if (arguments.append || arguments.offset)
    return UploadRange(client, arguments.source, name.bucket, name.key, arguments.offset, arguments.options);
  return Upload(client, arguments.source, name.bucket, name.key, arguments.options);
}

int RunPut(PutArguments arguments, const Invocation& invocation) {
  const auto name = ObjectName::Parse(arguments.name);
  if (!name.ok()) return RefuseUsage(name.status().message());
  if (const std::string_view conflict = Conflict(arguments); !conflict.empty()) return RefuseUsage(conflict);
  if (!ParseMetadata(arguments.metadata, &arguments.options))
    return RefuseUsage("write --metadata NAME=VALUE");
  const auto timeout = TimeoutOf(arguments.timeout_seconds);
  if (!timeout) return RefuseTimeout();
  arguments.options.timeout = *timeout;
  const unsigned connections = std::clamp(arguments.parts, 1U, kPartsAtOnce);
  const auto client = ConnectWithin(invocation, &arguments.options.timeout, connections);
  if (!client) return Fail(client.error());
  const auto report = Store(**client, arguments, *name);
  if (!report) return Fail(report.error());
  PrintReport("put", arguments.name, *report, (*client)->path(), invocation.json);
  return kDone;
}

int RunGet(GetArguments arguments, const Invocation& invocation) {
  const auto name = ObjectName::Parse(arguments.name);
  if (!name.ok()) return RefuseUsage(name.status().message());
  if (!arguments.range.empty() && !ParseRange(arguments.range, &arguments.options))
    return RefuseUsage("--range takes FIRST-LAST (both included, counted from 0) or FIRST-");
  if (arguments.to_memory != arguments.target.empty())
    return RefuseUsage("name the file to write (`-` is standard output), or give --to-memory");
  const auto timeout = TimeoutOf(arguments.timeout_seconds);
  if (!timeout) return RefuseTimeout();
  arguments.options.timeout = *timeout;
  const auto client = ConnectWithin(invocation, &arguments.options.timeout);
  if (!client) return Fail(client.error());
  const auto report = arguments.to_memory
                          ? DownloadToMemory(**client, name->bucket, name->key, arguments.options)
                          : Download(**client, name->bucket, name->key, arguments.target, arguments.options);
  if (!report) return Fail(report.error());
  const bool json = invocation.json && arguments.target != "-";
  PrintReport("got", arguments.name, *report, (*client)->path(), json);
  if (arguments.to_memory && !json) {
    fmt::print(stderr, "path: {}, because {}\n", (*client)->path(), (*client)->path_reason());
    fmt::print("sha256 {}\n", report->sha256);
  }
  return kDone;
}

struct CatArguments {
  std::vector<std::string> names;
  uint64_t version = 0;
};

int RunCat(const CatArguments& arguments, const Invocation& invocation) {
  const std::vector<std::string>& texts = arguments.names;
  if (arguments.version != 0 && texts.size() != 1) return RefuseUsage("--version is of one object: name one");
  std::vector<ObjectName> names;
  for (const std::string& text : texts) {
    auto name = ObjectName::Parse(text);
    if (!name.ok()) return RefuseUsage(name.status().message());
    names.push_back(*std::move(name));
  }
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  for (const ObjectName& name : names) {
    GetOptions options;
    options.version = arguments.version;
    options.timeout = std::chrono::seconds(static_cast<int64_t>(kDefaultTimeoutSeconds));
    const auto report = Download(**client, name.bucket, name.key, "-", options);
    if (!report) return Fail(report.error());
  }
  return kDone;
}

}  // namespace

void AddTransferCommands(CLI::App& root, Invocation& invocation) {
  auto put = std::make_shared<PutArguments>();
  CLI::App* put_command = root.add_subcommand("put", "Store a file or a pipe as an object");
  put_command->add_option("file", put->source, "The file; `-` is standard input")->required();
  put_command->add_option("name", put->name, "BUCKET/KEY")->required();
  put_command->add_flag("--if-absent", put->options.if_absent, "Refuse when there is an object of that name");
  put_command->add_option("--if-match", put->options.if_match, "Refuse unless the object has this ETag");
  put_command->add_option("--metadata", put->metadata, "NAME=VALUE, kept with the object; may be repeated")
      ->take_all();
  put_command->add_option("--offset", put->offset,
                          "Replace this object's bytes from here on, counted from 0; it grows when it ends before");
  put_command->add_flag("--append", put->append, "Add to the end of this object");
  put_command->add_option("--parts", put->parts,
                          "Send the file in so many parts, several at a time; what is left of an upload that was\n"
                          "interrupted: forebay upload ls");
  put_command->add_option("--timeout", put->timeout_seconds,
                          "Seconds until the command gives up (default 3600)");
  put_command->callback(
      [put, &invocation] { invocation.run = [put, &invocation] { return RunPut(*put, invocation); }; });

  auto get = std::make_shared<GetArguments>();
  CLI::App* get_command =
      root.add_subcommand("get", "Write an object to a file or a pipe, or move it into memory");
  get_command->add_option("name", get->name, "BUCKET/KEY")->required();
  get_command->add_option("file", get->target, "The file; `-` is standard output");
  get_command->add_option("--range", get->range, "FIRST-LAST or FIRST-: these bytes only, counted from 0");
  get_command->add_option("--if-match", get->options.if_match, "Refuse unless the object has this ETag");
  get_command->add_option("--version", get->options.version, "This version (default: the current one)");
  get_command->add_flag(
      "--to-memory", get->to_memory,
      "Write no file: offer memory as one region, have the server move the object into it, and print\n"
      "the SHA-256 of what arrived");
  get_command->add_option("--timeout", get->timeout_seconds,
                          "Seconds until the command gives up (default 3600)");
  get_command->callback(
      [get, &invocation] { invocation.run = [get, &invocation] { return RunGet(*get, invocation); }; });

  auto cat = std::make_shared<CatArguments>();
  CLI::App* cat_command = root.add_subcommand("cat", "Write objects to standard output, one after another");
  cat_command->add_option("names", cat->names, "BUCKET/KEY ...")->required();
  cat_command->add_option("--version", cat->version, "This version of the one object named");
  cat_command->callback(
      [cat, &invocation] { invocation.run = [cat, &invocation] { return RunCat(*cat, invocation); }; });
}

}  // namespace forebay::app
