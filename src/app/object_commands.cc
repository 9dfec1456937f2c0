// SPDX-License-Identifier: Apache-2.0
// truncate, attr: what changes of an object without its bytes being sent.
#include <memory>
#include <string>
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

struct TruncateArguments {
  std::string name;
  std::string size;
  TruncateOptions options;
};

struct AttributeArguments {
  std::string name;
  std::vector<std::string> entries;  // NAME=VALUE, or names
  AttributeChange change;
};

int RunTruncate(const TruncateArguments& arguments, const Invocation& invocation) {
  const auto name = ObjectName::Parse(arguments.name);
  if (!name.ok()) return RefuseUsage(name.status().message());
  uint64_t size = 0;
  if (!base::ParseSize(arguments.size, &size))
    return RefuseUsage("SIZE is a number of bytes, or one with K, M, G or T, for example 64MiB");
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto object = (*client)->Truncate(name->bucket, name->key, size, arguments.options);
  if (!object) return Fail(object.error());
  if (invocation.json)
    fmt::print("{}\n", ToJson(*object));
  else
    fmt::print("{} has {} bytes\n", arguments.name, object->size);
  return kDone;
}

/// The attributes of the object or version, one a line.
int Show(Client& client, const ObjectName& name, uint64_t version, bool json) {
  ObjectInfo object;
  if (version == 0) {
    auto found = client.Stat(name.bucket, name.key);
    if (!found) return Fail(found.error());
    object = *std::move(found);
  } else {
    auto found = client.StatVersion(name.bucket, name.key, version);
    if (!found) return Fail(found.error());
    object = std::move(found->object);
  }
  if (json) {
    fmt::print("{}\n", ToJson(object));
    return kDone;
  }
  for (const auto& [attribute, value] : object.attributes) fmt::print("{}={}\n", attribute, value);
  return kDone;
}

int RunShow(const AttributeArguments& arguments, const Invocation& invocation) {
  const auto name = ObjectName::Parse(arguments.name);
  if (!name.ok()) return RefuseUsage(name.status().message());
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  return Show(**client, *name, arguments.change.version, invocation.json);
}

int RunChange(const AttributeArguments& arguments, const Invocation& invocation) {
  const auto name = ObjectName::Parse(arguments.name);
  if (!name.ok()) return RefuseUsage(name.status().message());
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto changed = (*client)->SetAttributes(name->bucket, name->key, arguments.change);
  if (!changed) return Fail(changed.error());
  return invocation.json ? Show(**client, *name, arguments.change.version, true) : kDone;
}

int RunSet(AttributeArguments arguments, const Invocation& invocation) {
  for (const std::string& entry : arguments.entries) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) return RefuseUsage("write NAME=VALUE");
    arguments.change.set[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return RunChange(arguments, invocation);
}

int RunRemove(AttributeArguments arguments, const Invocation& invocation) {
  arguments.change.remove = std::move(arguments.entries);
  return RunChange(arguments, invocation);
}

/// One of the subcommands of attr; `entries` says what follows the name, if anything does.
void AddAttribute(CLI::App& attr, Invocation& invocation, const char* verb, const char* what, const char* entries,
                  int (*run)(AttributeArguments, const Invocation&)) {
  auto arguments = std::make_shared<AttributeArguments>();
  CLI::App* command = attr.add_subcommand(verb, what);
  command->add_option("name", arguments->name, "BUCKET/KEY")->required();
  if (entries != nullptr) command->add_option("attributes", arguments->entries, entries)->required();
  command->add_option("--version", arguments->change.version, "Of this version (default: the current one)");
  if (entries != nullptr)
    command->add_option("--if-match", arguments->change.if_match, "Refuse unless the object has this ETag");
  command->callback([arguments, run, &invocation] {
    invocation.run = [arguments, run, &invocation] { return run(*arguments, invocation); };
  });
}

}  // namespace

void AddObjectCommands(CLI::App& root, Invocation& invocation) {
  auto truncate = std::make_shared<TruncateArguments>();
  CLI::App* command = root.add_subcommand("truncate", "Cut an object off, or lengthen it with zeros");
  command->add_option("name", truncate->name, "BUCKET/KEY")->required();
  command->add_option("size", truncate->size, "Its size from now on: bytes, or a number with K, M, G or T")->required();
  command->add_option("--if-match", truncate->options.if_match, "Refuse unless the object has this ETag");
  command->callback([truncate, &invocation] {
    invocation.run = [truncate, &invocation] { return RunTruncate(*truncate, invocation); };
  });

  CLI::App* attr = root.add_subcommand(
      "attr", "Show, set and remove attributes: names and values beside an object that change while its version stays");
  attr->require_subcommand(1);
  AddAttribute(*attr, invocation, "show", "Show the attributes of an object", nullptr,
               [](AttributeArguments arguments, const Invocation& with) { return RunShow(arguments, with); });
  AddAttribute(*attr, invocation, "set", "Add attributes, or give them other values", "NAME=VALUE ...", RunSet);
  AddAttribute(*attr, invocation, "rm", "Remove attributes; those that are not there are fine", "NAME ...", RunRemove);
}

}  // namespace forebay::app
