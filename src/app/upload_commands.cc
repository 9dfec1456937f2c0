// SPDX-License-Identifier: Apache-2.0
// upload ls, upload abort: uploads by parts that were begun and neither completed nor given up.
#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "app/object_name.h"

namespace forebay::app {
namespace {

struct AbortArguments {
  std::string name;
  std::string id;
};

/// As errors name uploads: hexadecimal.
std::optional<uint64_t> ParseId(std::string_view text) {
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), id, 16);
  return error == std::errc() && end == text.end() ? std::optional(id) : std::nullopt;
}

int RunList(const std::string& text, const Invocation& invocation) {
  const auto name = ObjectName::ParsePrefix(text);
  if (!name.ok()) return RefuseUsage(name.status().message());
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  UploadListOptions options{.prefix = name->key};
  for (bool more = true; more;) {
    const auto page = (*client)->ListUploads(name->bucket, options);
    if (!page) return Fail(page.error());
    for (const UploadInfo& upload : page->uploads) {
      if (invocation.json)
        fmt::print("{}\n", ToJson({{"key", upload.key},
                                   {"upload", fmt::format("{:x}", upload.id)},
                                   {"created", FormatTime(upload.created)}}));
      else
        fmt::print("{}  {:x}  {}\n", FormatTime(upload.created), upload.id, upload.key);
    }
    more = page->truncated && !page->uploads.empty();
    if (!more) break;
    options.after_key = page->uploads.back().key;
    options.after_id = page->uploads.back().id;
  }
  return kDone;
}

int RunAbort(const AbortArguments& arguments, const Invocation& invocation) {
  const auto name = ObjectName::Parse(arguments.name);
  if (!name.ok()) return RefuseUsage(name.status().message());
  const auto id = ParseId(arguments.id);
  if (!id) return RefuseUsage("ID is what `forebay upload ls` shows: hexadecimal digits");
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto aborted = (*client)->AbortUpload({.bucket = name->bucket, .key = name->key, .id = *id});
  if (!aborted) return Fail(aborted.error());
  return kDone;
}

}  // namespace

void AddUploadCommands(CLI::App& root, Invocation& invocation) {
  CLI::App* upload = root.add_subcommand(
      "upload", "List and give up uploads by parts, which take room until they are completed (`forebay put --parts`)");
  upload->require_subcommand(1);

  auto name = std::make_shared<std::string>();
  CLI::App* ls = upload->add_subcommand("ls", "List the uploads of a bucket: when they began, id, key");
  ls->add_option("name", *name, "BUCKET or BUCKET/PREFIX")->required();
  ls->callback([name, &invocation] { invocation.run = [name, &invocation] { return RunList(*name, invocation); }; });

  auto arguments = std::make_shared<AbortArguments>();
  CLI::App* abort = upload->add_subcommand("abort", "Give an upload and its parts up");
  abort->add_option("name", arguments->name, "BUCKET/KEY")->required();
  abort->add_option("id", arguments->id, "As `forebay upload ls` shows it")->required();
  abort->callback([arguments, &invocation] {
    invocation.run = [arguments, &invocation] { return RunAbort(*arguments, invocation); };
  });
}

}  // namespace forebay::app
