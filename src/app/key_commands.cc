// SPDX-License-Identifier: Apache-2.0
// key create, ls, rm: the access keys of tenants.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/control_connection.h"
#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"

namespace forebay::app {
namespace {

using control::AccessKey;

JsonFields FieldsOf(const AccessKey& key) {
  return {{"id", key.id},
          {"tenant", static_cast<uint64_t>(key.tenant)},
          {"created", FormatWallTime(key.created)}};
}

int RunCreate(const std::string& tenant, const Invocation& invocation) {
  const auto connection = ControlConnection::Open(invocation);
  if (!connection.ok()) return Fail(connection.status().message());
  const auto made = (*connection)->client().CreateKey(tenant);
  if (!made.ok()) return Fail(made.status().message());
  if (invocation.json) {
    JsonFields fields = FieldsOf(made->key);
    fields.emplace_back("secret", made->secret);
    fmt::print("{}\n", ToJson(fields));
  } else {
    fmt::print("id     {}\nsecret {}\n", made->key.id, made->secret);
    fmt::print(stderr, "forebay: keep the secret: it is not shown again\n");
  }
  return kDone;
}

int RunList(const std::string& tenant, const Invocation& invocation) {
  const auto connection = ControlConnection::Open(invocation);
  if (!connection.ok()) return Fail(connection.status().message());
  const auto keys = (*connection)->client().ListKeys(tenant);
  if (!keys.ok()) return Fail(keys.status().message());
  for (const AccessKey& key : *keys) {
    if (invocation.json)
      fmt::print("{}\n", ToJson(FieldsOf(key)));
    else
      fmt::print("{} tenant {} created {}\n", key.id, static_cast<uint64_t>(key.tenant),
                 FormatWallTime(key.created));
  }
  return kDone;
}

int RunRemove(const std::string& id, const Invocation& invocation) {
  const auto connection = ControlConnection::Open(invocation);
  if (!connection.ok()) return Fail(connection.status().message());
  const Status removed = (*connection)->client().DeleteKey(id);
  return removed.ok() ? kDone : Fail(removed.message());
}

}  // namespace

void AddKeyCommands(CLI::App& root, Invocation& invocation) {
  CLI::App* key = root.add_subcommand("key", "Create, list and remove access keys of tenants");
  key->require_subcommand(1);
  auto name = std::make_shared<std::string>();
  const auto add = [&](const char* command_name, const char* description,
                       int (*run)(const std::string&, const Invocation&)) {
    CLI::App* command = key->add_subcommand(command_name, description);
    command->callback([name, run, &invocation] {
      invocation.run = [name, run, &invocation] { return run(*name, invocation); };
    });
    return command;
  };
  add("create", "Create a key; its secret is shown this once", RunCreate)
      ->add_option("tenant", *name, "Whose: a name or a number")
      ->required();
  add("ls", "List keys, without their secrets", RunList)
      ->add_option("tenant", *name, "Whose (default: of all tenants)");
  add("rm", "Remove a key; it is good for nothing from then on", RunRemove)
      ->add_option("id", *name, "The key's id")
      ->required();
}

}  // namespace forebay::app
