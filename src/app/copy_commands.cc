// SPDX-License-Identifier: Apache-2.0
// cp, concat, mv: objects made of others and other keys for objects, by the server alone. No byte of them travels.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "app/object_name.h"
#include "base/bytes.h"

namespace forebay::app {
namespace {

struct CopyArguments {
  std::string source;
  std::vector<std::string> sources;  // of concat
  std::string target;
  std::optional<uint64_t> offset;
  std::optional<uint64_t> length;
  bool if_absent = false;
  bool recursive = false;
};

forebay::ObjectName PublicName(const ObjectName& name) { return {.bucket = name.bucket, .key = name.key}; }

/// What `text` names; a bucket or a prefix that ends in `/` takes the last part of the source's key, like a directory.
Result<ObjectName> ParseTarget(std::string_view text, const ObjectName& source) {
  FB_ASSIGN(ObjectName name, ObjectName::ParsePrefix(text));
  if (name.key.empty() || name.key.ends_with('/')) name.key += source.key.substr(source.key.rfind('/') + 1);
  FB_TRY(base::CheckKey(name.key));
  return name;
}

int Report(const Invocation& invocation, const ObjectName& target, const ObjectInfo& object, std::string_view what) {
  if (invocation.json) {
    fmt::print("{}\n", ToJson(object));
  } else {
    fmt::print("{} {}/{}: {} ({} bytes), nothing was sent\n", what, target.bucket, target.key,
               base::FormatSize(object.size), object.size);
  }
  return kDone;
}

int RunCopy(const CopyArguments& arguments, const Invocation& invocation) {
  const auto source = ObjectName::Parse(arguments.source);
  if (!source.ok()) return RefuseUsage(source.status().message());
  const auto target = ParseTarget(arguments.target, *source);
  if (!target.ok()) return RefuseUsage(target.status().message());
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const bool whole = !arguments.offset && !arguments.length;
  const Source part{.bucket = source->bucket, .key = source->key, .if_match = {}, .offset = arguments.offset.value_or(0),
                    .length = arguments.length.value_or(UINT64_MAX)};
  const auto copied = whole ? (*client)->Copy(PublicName(*source), PublicName(*target),
                                              {.if_absent = arguments.if_absent, .if_match = {}, .metadata = {}})
                            : (*client)->Compose(target->bucket, target->key, {&part, 1},
                                                 {.if_absent = arguments.if_absent, .if_match = {}, .metadata = {}});
  if (!copied) return Fail(copied.error());
  return Report(invocation, *target, *copied, "copied to");
}

int RunConcatenate(const CopyArguments& arguments, const Invocation& invocation) {
  std::vector<Source> sources;
  for (const std::string& text : arguments.sources) {
    const auto name = ObjectName::Parse(text);
    if (!name.ok()) return RefuseUsage(name.status().message());
    sources.push_back({.bucket = name->bucket, .key = name->key, .if_match = {}});
  }
  const auto target = ObjectName::Parse(arguments.target);
  if (!target.ok()) return RefuseUsage(target.status().message());
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto joined = (*client)->Compose(target->bucket, target->key, sources,
                                         {.if_absent = arguments.if_absent, .if_match = {}, .metadata = {}});
  if (!joined) return Fail(joined.error());
  return Report(invocation, *target, *joined, fmt::format("{} objects are now", sources.size()));
}

/// mv -r: prefixes are taken as they are written.
int RenameAll(const ObjectName& from, const ObjectName& to, const Invocation& invocation) {
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto renamed = (*client)->RenamePrefix(from.bucket, from.key, to.key);
  if (!renamed) return Fail(renamed.error());
  if (invocation.json) {
    fmt::print("{}\n", ToJson(JsonFields{{"renamed", *renamed}}));
  } else {
    fmt::print("renamed {} object{}: {}/{}* is now {}/{}*\n", *renamed, *renamed == 1 ? "" : "s", from.bucket, from.key,
               to.bucket, to.key);
  }
  return kDone;
}

int RenameOne(const ObjectName& from, const ObjectName& to, bool if_absent, const Invocation& invocation) {
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto renamed = (*client)->Rename(from.bucket, from.key, to.key, {.if_absent = if_absent, .if_match = {}});
  if (!renamed) return Fail(renamed.error());
  if (invocation.json) fmt::print("{}\n", ToJson(JsonFields{{"renamed", uint64_t{1}}}));
  return kDone;
}

int RunMove(const CopyArguments& arguments, const Invocation& invocation) {
  const std::string& text = arguments.source;
  const auto from = arguments.recursive ? ObjectName::ParsePrefix(text) : ObjectName::Parse(text);
  if (!from.ok()) return RefuseUsage(from.status().message());
  const auto to = arguments.recursive ? ObjectName::ParsePrefix(arguments.target) : ParseTarget(arguments.target, *from);
  if (!to.ok()) return RefuseUsage(to.status().message());
  if (from->bucket != to->bucket)
    return RefuseUsage(fmt::format("`{}` and `{}` are in different buckets: use forebay cp, then forebay rm", text,
                                   arguments.target));
  if (!arguments.recursive) return RenameOne(*from, *to, arguments.if_absent, invocation);
  if (arguments.if_absent) return RefuseUsage("--if-absent goes without saying with -r: nothing is ever replaced");
  return RenameAll(*from, *to, invocation);
}

}  // namespace

void AddCopyCommands(CLI::App& root, Invocation& invocation) {
  auto copy = std::make_shared<CopyArguments>();
  CLI::App* cp = root.add_subcommand("cp", "Copy an object on the server, without moving its bytes");
  cp->add_option("source", copy->source, "BUCKET/KEY")->required();
  cp->add_option("target", copy->target, "BUCKET/KEY; BUCKET or BUCKET/PREFIX/ keeps the last part of the key")
      ->required();
  cp->add_option("--offset", copy->offset, "Copy from this byte on, without the metadata");
  cp->add_option("--length", copy->length, "Copy exactly this many bytes, without the metadata");
  cp->add_flag("--if-absent", copy->if_absent, "Fail if the target exists");
  cp->callback(
      [copy, &invocation] { invocation.run = [copy, &invocation] { return RunCopy(*copy, invocation); }; });

  auto join = std::make_shared<CopyArguments>();
  CLI::App* concat = root.add_subcommand("concat", "Make one object of several, without moving their bytes");
  concat->add_option("target", join->target, "BUCKET/KEY, which may be one of the sources")->required();
  concat->add_option("sources", join->sources, "BUCKET/KEY ..., in their order")->required();
  concat->add_flag("--if-absent", join->if_absent, "Fail if the target exists");
  concat->callback(
      [join, &invocation] { invocation.run = [join, &invocation] { return RunConcatenate(*join, invocation); }; });

  auto move = std::make_shared<CopyArguments>();
  CLI::App* mv = root.add_subcommand("mv", "Rename an object, or all with a prefix at one moment");
  mv->add_option("from", move->source, "BUCKET/KEY; with -r BUCKET/PREFIX")->required();
  mv->add_option("to", move->target, "In the same bucket: BUCKET/KEY, which is replaced; with -r BUCKET/PREFIX")
      ->required();
  mv->add_flag("-r,--recursive", move->recursive,
               "Rename every key that begins with the prefix, exactly as it is written, slash or not");
  mv->add_flag("--if-absent", move->if_absent, "Fail if the new key is taken");
  mv->callback(
      [move, &invocation] { invocation.run = [move, &invocation] { return RunMove(*move, invocation); }; });
}

}  // namespace forebay::app
