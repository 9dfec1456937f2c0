// SPDX-License-Identifier: Apache-2.0
// doctor: what this machine has, which way payload takes to the server, why, and how to get a better one.
#include <algorithm>
#include <chrono>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "app/machine.h"
#include "auth/tls_context.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/random.h"
#include "fabric/movers.h"

namespace forebay::app {
namespace {

/// A server that does not answer must not hold up the rest for long.
constexpr auto kServerTimeout = std::chrono::seconds(5);

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "good";
    case Verdict::kBetter:
      return "could be better";
    case Verdict::kMissing:
      break;
  }
  return "missing";
}

/// Null where no certificates are named, or they are not good: then `path` says why.
std::unique_ptr<auth::TlsContext> TlsOf(const Invocation& invocation) {
  const auto profile = ResolveProfile(invocation.flags, ProcessEnvironment());
  if (!profile.ok() || profile->tls.empty()) return nullptr;
  const auto files =
      auth::TlsFiles::Load(profile->tls, auth::CertificateUse::kClient, base::SystemClock().WallNow());
  if (!files.ok()) return nullptr;
  auto context = auth::TlsContext::ForClient(*files, auth::kDataProtocol, profile->server);
  return context.ok() ? *std::move(context) : nullptr;
}

std::vector<Finding> LookAtMovers(const Invocation& invocation) {
  base::SecureRandom random;
  const auto tls = TlsOf(invocation);
  const fabric::Movers movers(random, fabric::Side::kClient, tls.get());
  std::vector<Finding> findings;
  for (const fabric::MoverReport& report : movers.reports())
    findings.push_back({.what = report.name,
                        .verdict = report.usable ? Verdict::kGood : Verdict::kMissing,
                        .found = fmt::format("{} ({})", report.found, report.what),
                        .remedy = report.remedy});
  return findings;
}

/// What the server has moved so far over one fabric.
Finding TrafficFinding(const FabricTraffic& traffic) {
  return {.what = "moved by " + traffic.fabric,
          .verdict = Verdict::kGood,
          .found = fmt::format("in {} ({} transfers), out {} ({} transfers), of that copied by the server {}",
                               base::FormatSize(traffic.bytes_in), traffic.transfers_in,
                               base::FormatSize(traffic.bytes_out), traffic.transfers_out,
                               base::FormatSize(traffic.copied_bytes)),
          .remedy = {}};
}

/// The way to the server that the other commands would talk to, and what went over its ways.
std::vector<Finding> LookAtServer(const Invocation& invocation) {
  const auto client = invocation.Connect(1, kServerTimeout);
  if (!client)
    return {{.what = "path",
             .verdict = Verdict::kMissing,
             .found = "no server is reached",
             .remedy = std::string(client.error().message)}};
  std::vector<Finding> findings = {{.what = "path",
                                    .verdict = Verdict::kGood,
                                    .found = (*client)->path(),
                                    .remedy = (*client)->path_reason()}};
  const auto stats = (*client)->Stats();
  if (!stats) return findings;
  for (const FabricTraffic& traffic : stats->traffic) findings.push_back(TrafficFinding(traffic));
  return findings;
}

void Print(std::string_view title, const std::vector<Finding>& findings, bool json) {
  if (!json) fmt::print("{}\n", title);
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.what.size());
  for (const Finding& finding : findings) {
    if (json) {
      fmt::print("{}\n", ToJson({{"about", std::string(title)},
                                 {"what", finding.what},
                                 {"verdict", std::string(VerdictName(finding.verdict))},
                                 {"found", finding.found},
                                 {"remedy", finding.remedy}}));
      continue;
    }
    fmt::print("  {:<{}}  {}\n", finding.what, width, finding.found);
    if (!finding.remedy.empty()) fmt::print("  {:<{}}  -> {}\n", "", width, finding.remedy);
  }
}

int RunDoctor(const Invocation& invocation) {
  const std::vector<Finding> machine = LookAtMachine("/");
  Print("machine", machine, invocation.json);
  Print("movers, best first", LookAtMovers(invocation), invocation.json);
  Print("server", LookAtServer(invocation), invocation.json);
  const bool works = std::ranges::none_of(
      machine, [](const Finding& finding) { return finding.verdict == Verdict::kMissing; });
  return works ? kDone : kFailed;
}

}  // namespace

void AddDoctorCommand(CLI::App& root, Invocation& invocation) {
  CLI::App* command = root.add_subcommand(
      "doctor", "What this machine has, which way payload takes, why, and how to get a better one");
  command->callback([&invocation] { invocation.run = [&invocation] { return RunDoctor(invocation); }; });
}

}  // namespace forebay::app
