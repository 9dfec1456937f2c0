// SPDX-License-Identifier: Apache-2.0
// tenant create, ls, show, set, rm: who owns buckets, and how much each may store and use.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/control_connection.h"
#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "app/rates.h"
#include "base/bytes.h"

namespace forebay::app {
namespace {

using control::Tenant;
using control::TenantChange;

struct TenantArguments {
  std::string name;
  std::string max_bytes;
  std::optional<uint64_t> max_objects;
  RateOptions rates;
};

Status ParseSizeOption(const char* option, const std::string& text, std::optional<uint64_t>* out) {
  if (text.empty()) return {};
  uint64_t size = 0;
  if (!base::ParseSize(text, &size))
    return Status::InvalidArgument("{} {}: a size, such as 500GiB; 0 for no limit", option, text);
  *out = size;
  return {};
}

Result<TenantChange> ChangeOf(const TenantArguments& arguments) {
  TenantChange change{.max_objects = arguments.max_objects,
                      .operations_per_s = arguments.rates.operations,
                      .transfers = arguments.rates.transfers};
  FB_TRY(ParseSizeOption("--max-bytes", arguments.max_bytes, &change.max_bytes));
  FB_ASSIGN(change.bytes_per_s, arguments.rates.BytesPerSecond());
  return change;
}

/// "3 of at most 10", or just "3".
std::string OfLimit(const std::string& used, uint64_t limit, const std::string& limit_text) {
  return limit == 0 ? used : fmt::format("{} of at most {}", used, limit_text);
}

void PrintTenant(const Tenant& tenant, bool json) {
  const auto& [record, usage] = tenant;
  if (json) {
    JsonFields fields = {{"id", static_cast<uint64_t>(record.id)},
                         {"name", record.name},
                         {"created", FormatWallTime(record.created)},
                         {"buckets", usage.buckets},
                         {"objects", usage.objects},
                         {"bytes", usage.bytes},
                         {"max_objects", usage.quota.max_objects},
                         {"max_bytes", usage.quota.max_bytes}};
    AppendRates(&fields, record.rates);
    fmt::print("{}\n", ToJson(fields));
    return;
  }
  fmt::print(
      "{} {}: {} buckets, {} objects, {}{}\n", static_cast<uint64_t>(record.id), record.name, usage.buckets,
      OfLimit(fmt::format("{}", usage.objects), usage.quota.max_objects,
              fmt::format("{}", usage.quota.max_objects)),
      OfLimit(base::FormatSize(usage.bytes), usage.quota.max_bytes, base::FormatSize(usage.quota.max_bytes)),
      DescribeRates(record.rates));
}

/// Runs `act` with a client; prints the tenant that it gives.
template <typename Act>
int RunOnTenant(const Invocation& invocation, Act act) {
  const auto connection = ControlConnection::Open(invocation);
  if (!connection.ok()) return Fail(connection.status().message());
  const Result<Tenant> tenant = act((*connection)->client());
  if (!tenant.ok()) return Fail(tenant.status().message());
  PrintTenant(*tenant, invocation.json);
  return kDone;
}

int RunCreate(const TenantArguments& arguments, const Invocation& invocation) {
  if (const Status valid = control::CheckTenantName(arguments.name); !valid.ok())
    return RefuseUsage(valid.message());
  const Result<TenantChange> limits = ChangeOf(arguments);
  if (!limits.ok()) return RefuseUsage(limits.status().message());
  return RunOnTenant(invocation, [&](auto& client) { return client.CreateTenant(arguments.name, *limits); });
}

int RunSet(const TenantArguments& arguments, const Invocation& invocation) {
  const Result<TenantChange> limits = ChangeOf(arguments);
  if (!limits.ok()) return RefuseUsage(limits.status().message());
  return RunOnTenant(invocation, [&](auto& client) { return client.SetTenant(arguments.name, *limits); });
}

int RunShow(const TenantArguments& arguments, const Invocation& invocation) {
  return RunOnTenant(invocation, [&](auto& client) { return client.GetTenant(arguments.name); });
}

int RunList(const Invocation& invocation) {
  const auto connection = ControlConnection::Open(invocation);
  if (!connection.ok()) return Fail(connection.status().message());
  const Result<std::vector<Tenant>> tenants = (*connection)->client().ListTenants();
  if (!tenants.ok()) return Fail(tenants.status().message());
  for (const Tenant& tenant : *tenants) PrintTenant(tenant, invocation.json);
  return kDone;
}

int RunRemove(const TenantArguments& arguments, const Invocation& invocation) {
  const auto connection = ControlConnection::Open(invocation);
  if (!connection.ok()) return Fail(connection.status().message());
  const Status removed = (*connection)->client().DeleteTenant(arguments.name);
  return removed.ok() ? kDone : Fail(removed.message());
}

void AddLimits(CLI::App* command, TenantArguments& arguments) {
  command->add_option("--max-bytes", arguments.max_bytes, "Quota of stored bytes, such as 500GiB; 0: none");
  command->add_option("--max-objects", arguments.max_objects, "Quota of stored objects; 0: none");
  arguments.rates.AddTo(command, "0: no limit");
}

}  // namespace

void AddTenantCommands(CLI::App& root, Invocation& invocation) {
  CLI::App* tenant = root.add_subcommand("tenant", "Create, list, change and remove tenants");
  tenant->require_subcommand(1);
  auto arguments = std::make_shared<TenantArguments>();
  const auto add = [&](const char* name, const char* description,
                       int (*run)(const TenantArguments&, const Invocation&)) {
    CLI::App* command = tenant->add_subcommand(name, description);
    command->callback([arguments, run, &invocation] {
      invocation.run = [arguments, run, &invocation] { return run(*arguments, invocation); };
    });
    return command;
  };

  CLI::App* create =
      add("create", "Create a tenant; give it buckets with `bucket create --tenant`", RunCreate);
  create->add_option("name", arguments->name, "1 to 63 of a-z, 0-9, '-', starting with a letter")->required();
  AddLimits(create, *arguments);
  CLI::App* set =
      add("set", "Change quotas and rates, at once also for those at work; what is not named stays", RunSet);
  AddLimits(set, *arguments);
  CLI::App* show =
      add("show", "What a tenant stores, and its quotas and rates; `root` is one too, without any", RunShow);
  CLI::App* rm = add("rm", "Remove a tenant that owns no buckets, with its access keys", RunRemove);
  for (CLI::App* command : {set, show, rm})
    command->add_option("tenant", arguments->name, "A name or a number")->required();
  CLI::App* ls = tenant->add_subcommand("ls", "List the tenants");
  ls->callback([&invocation] { invocation.run = [&invocation] { return RunList(invocation); }; });
}

}  // namespace forebay::app
