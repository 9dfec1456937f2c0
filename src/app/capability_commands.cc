// SPDX-License-Identifier: Apache-2.0
// cap issue, narrow, show, ls, revoke, rotate: who may do what, for how long.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/control_connection.h"
#include "app/duration.h"
#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "app/rates.h"
#include "auth/capability.h"
#include "base/clock.h"
#include "base/random.h"
#include "control/client.h"

namespace forebay::app {
namespace {

struct CapabilityArguments {
  std::string file;  // or an id, for revoke
  std::optional<std::string> bucket;
  std::optional<std::string> prefix;
  std::string rights;
  std::string ttl;
  RateOptions rates;
  std::string tenant;  // a name or a number
  bool drop_old = false;
};

Error ErrorOf(const Status& status) { return {status.code(), std::string(status.message())}; }

JsonFields FieldsOf(const auth::CapabilityBlock& block) {
  JsonFields fields = {{"id", base::ToHex(block.id)},
                       {"tenant", static_cast<uint64_t>(block.tenant)},
                       {"bucket", block.bucket},
                       {"prefix", block.prefix},
                       {"rights", block.rights.ToString()},
                       {"issued", FormatWallTime(block.issued)},
                       {"expires", FormatWallTime(block.expires)}};
  AppendRates(&fields, block.rates);
  return fields;
}

void Print(const auth::CapabilityBlock& block, std::string_view note) {
  fmt::print("{} tenant {} {} expires {}{}{}\n", base::ToHex(block.id), static_cast<uint64_t>(block.tenant),
             auth::Grant{.rights = block.rights, .bucket = block.bucket, .prefix = block.prefix}.Allows(),
             FormatWallTime(block.expires), note, DescribeRates(block.rates));
}

/// To standard output. A file that the shell made of it is closed to other users first: whoever reads it holds it.
int PrintHeld(const auth::HeldCapability& held) {
  struct stat info{};
  if (fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
      fchmod(STDOUT_FILENO, info.st_mode & 0700) != 0)
    fmt::print(stderr, "forebay: the file could not be closed to other users: {}\n", std::strerror(errno));
  auth::SecretText text;
  held.AppendTo(&text);
  for (std::string_view rest = text.view(); !rest.empty();) {
    const ssize_t count = write(STDOUT_FILENO, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(ErrorOf(Status::FromErrno(errno, "write the capability")));
    rest.remove_prefix(static_cast<size_t>(count));
  }
  return kDone;
}

/// Names are the root tenant's to look up; others know their number.
Result<TenantId> TenantOf(const std::string& text, control::ControlClient& client) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || (error == std::errc() && end == text.data() + text.size())) return TenantId{number};
  if (text == control::kRootName) return TenantId::kRoot;
  FB_ASSIGN(const control::Tenant tenant, client.GetTenant(text));
  return tenant.record.id;
}

int RunIssue(const CapabilityArguments& arguments, const Invocation& invocation) {
  const auto rights = auth::RightSet::Parse(arguments.rights);
  if (!rights.ok()) return RefuseUsage(fmt::format("--rights {}: {}", arguments.rights, rights.status().message()));
  const auto ttl = ParseDuration(arguments.ttl);
  if (!ttl) return RefuseUsage(fmt::format("--ttl {}: a number and a unit, such as 60s, 15m, 24h, 7d", arguments.ttl));
  const auto rates = arguments.rates.ToGrant();
  if (!rates.ok()) return RefuseUsage(rates.status().message());
  const auto control = ControlConnection::Open(invocation);
  if (!control.ok()) return Fail(ErrorOf(control.status()));
  const auto tenant = TenantOf(arguments.tenant, (*control)->client());
  if (!tenant.ok()) return Fail(ErrorOf(tenant.status()));
  auth::Secret seed = auth::Secret::Generate((*control)->random());
  const auto made = (*control)->client().IssueCapability({.holder = auth::SigningKeyOf(seed),
                                                          .tenant = *tenant,
                                                          .bucket = arguments.bucket.value_or(""),
                                                          .prefix = arguments.prefix.value_or(""),
                                                          .rights = *rights,
                                                          .ttl = *ttl,
                                                          .rates = *rates});
  if (!made.ok()) return Fail(ErrorOf(made.status()));
  return PrintHeld(auth::HeldCapability(*made, std::move(seed)));
}

int RunNarrow(const CapabilityArguments& arguments) {
  const auto parent = auth::HeldCapability::Load(arguments.file);
  if (!parent.ok()) return Fail(ErrorOf(parent.status()));
  const base::SystemClock clock;
  base::SecureRandom random;
  auth::Narrowing narrowing{.bucket = arguments.bucket, .prefix = arguments.prefix};
  if (!arguments.rights.empty()) {
    const auto rights = auth::RightSet::Parse(arguments.rights);
    if (!rights.ok()) return RefuseUsage(fmt::format("--rights {}: {}", arguments.rights, rights.status().message()));
    narrowing.rights = *rights;
  }
  if (!arguments.ttl.empty()) {
    const auto ttl = ParseDuration(arguments.ttl);
    if (!ttl || *ttl > auth::kMaxCapabilityLifetime)
      return RefuseUsage(fmt::format("--ttl {}: a number and a unit, such as 60s, 15m, 24h, 7d, of at most 90 days",
                                     arguments.ttl));
    narrowing.expires = clock.WallNow() + *ttl;
  }
  const auto rates = arguments.rates.ToGrant();
  if (!rates.ok()) return RefuseUsage(rates.status().message());
  narrowing.rates = *rates;
  const auto child = parent->Narrow(narrowing, clock.WallNow(), random);
  if (!child.ok()) return Fail(ErrorOf(child.status()));
  return PrintHeld(*child);
}

int RunShow(const CapabilityArguments& arguments, const Invocation& invocation) {
  const auto held = auth::HeldCapability::Load(arguments.file);
  if (!held.ok()) return Fail(ErrorOf(held.status()));
  const std::vector<auth::CapabilityBlock>& blocks = held->capability().blocks();
  if (invocation.json) {
    JsonFields fields = FieldsOf(blocks.back());
    fields.emplace_back("narrowed_times", uint64_t{blocks.size() - 1});
    fmt::print("{}\n", ToJson(fields));
    return kDone;
  }
  for (const auth::CapabilityBlock& block : blocks) Print(block, &block == &blocks.back() ? "" : " (narrowed below)");
  return kDone;
}

int RunList(const Invocation& invocation) {
  const auto control = ControlConnection::Open(invocation);
  if (!control.ok()) return Fail(ErrorOf(control.status()));
  const auto listed = (*control)->client().ListCapabilities();
  if (!listed.ok()) return Fail(ErrorOf(listed.status()));
  for (const control::IssuedCapability& one : *listed) {
    if (invocation.json) {
      JsonFields fields = FieldsOf(one.block);
      fields.emplace_back("revoked", one.revoked);
      fmt::print("{}\n", ToJson(fields));
    } else {
      Print(one.block, one.revoked ? " revoked" : "");
    }
  }
  return kDone;
}

/// The id itself, or that of the capability in a file.
Result<auth::CapabilityId> IdOf(const std::string& text) {
  auth::CapabilityId id;
  if (base::FromHex(text, id)) return id;
  const auto held = auth::HeldCapability::Load(text);
  if (!held.ok())
    return held.status().WithContext(fmt::format("`{}` is no id of 32 hex digits, and as a file", text));
  return held->capability().blocks().back().id;
}

int ReportEnded(const Result<uint64_t>& ended, std::string_view what, const Invocation& invocation) {
  if (!ended.ok()) return Fail(ErrorOf(ended.status()));
  if (invocation.json)
    fmt::print("{}\n", ToJson(JsonFields{{"sessions_ended", *ended}}));
  else
    fmt::print("{}; {} open session{} ended\n", what, *ended, *ended == 1 ? "" : "s");
  return kDone;
}

int RunRevoke(const CapabilityArguments& arguments, const Invocation& invocation) {
  if (arguments.file.empty() == arguments.tenant.empty())
    return RefuseUsage("cap revoke takes an id or file of one capability, or --tenant T for all of a tenant");
  auth::CapabilityId id{};
  if (!arguments.file.empty()) {
    const auto found = IdOf(arguments.file);
    if (!found.ok()) return Fail(ErrorOf(found.status()));
    id = *found;
  }
  const auto control = ControlConnection::Open(invocation);
  if (!control.ok()) return Fail(ErrorOf(control.status()));
  if (!arguments.tenant.empty()) {
    const auto tenant = TenantOf(arguments.tenant, (*control)->client());
    if (!tenant.ok()) return Fail(ErrorOf(tenant.status()));
    return ReportEnded((*control)->client().RevokeTenant(*tenant),
                       fmt::format("revoked all capabilities of tenant {}", arguments.tenant), invocation);
  }
  return ReportEnded((*control)->client().RevokeCapability(id),
                     fmt::format("revoked {} and what was narrowed from it", base::ToHex(id)), invocation);
}

int RunRotate(const CapabilityArguments& arguments, const Invocation& invocation) {
  const auto control = ControlConnection::Open(invocation);
  if (!control.ok()) return Fail(ErrorOf(control.status()));
  return ReportEnded((*control)->client().RotateKey(arguments.drop_old),
                     arguments.drop_old ? "a new signing key; what older keys signed is void"
                                        : "a new signing key; what older keys signed stays good until it expires",
                     invocation);
}

void AddTerms(CLI::App* command, const std::shared_ptr<CapabilityArguments>& arguments) {
  command->add_option("--bucket", arguments->bucket, "One bucket (default: all of the tenant's)");
  command->add_option("--prefix", arguments->prefix, "Only keys that start with it");
  command->add_option("--rights", arguments->rights, "Of get,put,list,delete,admin, or `all`");
  command->add_option("--ttl", arguments->ttl, "Until it expires: 60s, 15m, 24h, 7d; at most 90d");
}

}  // namespace

void AddCapabilityCommands(CLI::App& root, Invocation& invocation) {
  CLI::App* cap = root.add_subcommand("cap", "Issue, narrow, list and revoke capabilities");
  cap->require_subcommand(1);
  auto arguments = std::make_shared<CapabilityArguments>();

  CLI::App* issue = cap->add_subcommand(
      "issue", "Print a capability: what its holder may do, and the key that proves it. Keep it like a password");
  AddTerms(issue, arguments);
  arguments->rates.AddTo(issue, "0: as much as who issues it has (default)");
  issue->get_option("--rights")->required();
  issue->get_option("--ttl")->required();
  issue->add_option("--tenant", arguments->tenant, "Whose, by name or number (default: the owner of the bucket)");
  issue->callback([arguments, &invocation] {
    invocation.run = [arguments, &invocation] { return RunIssue(*arguments, invocation); };
  });

  CLI::App* narrow =
      cap->add_subcommand("narrow", "Print a capability that allows less than the one in FILE; needs no server");
  narrow->add_option("FILE", arguments->file, "As `cap issue` printed it")->required();
  AddTerms(narrow, arguments);
  arguments->rates.AddTo(narrow, "0: as much as it had (default)");
  narrow->callback([arguments, &invocation] {
    invocation.run = [arguments] { return RunNarrow(*arguments); };
  });

  CLI::App* show = cap->add_subcommand("show", "Say what the capability in FILE allows; needs no server");
  show->add_option("FILE", arguments->file, "As `cap issue` printed it")->required();
  show->callback([arguments, &invocation] {
    invocation.run = [arguments, &invocation] { return RunShow(*arguments, invocation); };
  });

  CLI::App* ls = cap->add_subcommand("ls", "List what was issued and has not expired");
  ls->callback([&invocation] { invocation.run = [&invocation] { return RunList(invocation); }; });

  CLI::App* revoke = cap->add_subcommand("revoke", "Revoke a capability, or all of a tenant, and end their sessions");
  revoke->add_option("WHAT", arguments->file, "An id, or a capability file");
  revoke->add_option("--tenant", arguments->tenant, "All that were issued for this tenant");
  revoke->callback([arguments, &invocation] {
    invocation.run = [arguments, &invocation] { return RunRevoke(*arguments, invocation); };
  });

  CLI::App* rotate = cap->add_subcommand("rotate", "Make a new signing key");
  rotate->add_flag("--drop-old", arguments->drop_old, "Void everything that older keys signed, at once");
  rotate->callback([arguments, &invocation] {
    invocation.run = [arguments, &invocation] { return RunRotate(*arguments, invocation); };
  });
}

}  // namespace forebay::app
