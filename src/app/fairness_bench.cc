// SPDX-License-Identifier: Apache-2.0
#include "app/fairness_bench.h"

#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/control_connection.h"
#include "app/exit_status.h"
#include "app/json.h"
#include "auth/capability.h"
#include "auth/secret_file.h"
#include "base/bytes.h"
#include "bench/fairness.h"

namespace forebay::app {
namespace {

struct FairnessArguments {
  std::string size = "4KiB";
  double seconds = 5;
  bench::FairnessSpec spec;
};

/// A directory of this user's alone, gone at the end.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> Create() {
    std::string path = std::filesystem::temp_directory_path() / "forebay-fair-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return Status::FromErrno(errno, "make a directory in " + path);
    return ScratchDirectory(std::move(path));
  }
  ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// A tenant for the time of the run, and a capability for all that is its own.
class ScratchTenant {
 public:
  static Result<std::unique_ptr<ScratchTenant>> Create(ControlConnection& control, const std::string& kind,
                                                       const std::string& directory) {
    const std::string name = fmt::format("bench-{}-{:016x}", kind, control.random().Next64());
    FB_ASSIGN(const control::Tenant made, control.client().CreateTenant(name, {}));
    auto tenant = std::unique_ptr<ScratchTenant>(new ScratchTenant(control, name, directory + "/" + kind));
    auth::Secret seed = auth::Secret::Generate(control.random());
    FB_ASSIGN(auth::Capability capability, control.client().IssueCapability({.holder = auth::SigningKeyOf(seed),
                                                                             .tenant = made.record.id,
                                                                             .rights = auth::RightSet::All(),
                                                                             .ttl = std::chrono::hours(24)}));
    auth::SecretText text;
    auth::HeldCapability(std::move(capability), std::move(seed)).AppendTo(&text);
    FB_TRY(auth::WriteSecretFile(tenant->capability_, text, control.random()));
    return tenant;
  }
  ScratchTenant(const ScratchTenant&) = delete;
  ScratchTenant& operator=(const ScratchTenant&) = delete;
  /// What it stored, the load has removed; a tenant that still owns something stays, and `tenant ls` shows it.
  ~ScratchTenant() { (void)control_.client().DeleteTenant(name_); }

  bench::TenantConnector Connector(const Invocation& invocation) const {
    return [invocation, capability = capability_](unsigned connections) {
      Invocation ours = invocation;
      ours.flags.credentials.clear();
      ours.flags.capability = capability;
      return ours.Connect(connections);
    };
  }

 private:
  ScratchTenant(ControlConnection& control, std::string name, std::string capability)
      : control_(control), name_(std::move(name)), capability_(std::move(capability)) {}

  ControlConnection& control_;  // borrowed
  const std::string name_;
  const std::string capability_;  // a path
};

double Micros(const bench::LoadReport& load, double percent) {
  return static_cast<double>(load.latency.Percentile(percent)) / 1000;
}

void Print(const bench::FairnessSpec& spec, const bench::FairnessReport& report, bool json) {
  if (json) {
    fmt::print("{}\n", ToJson({{"path", report.modest.path},
                               {"object_bytes", spec.object_bytes},
                               {"greedy_connections", uint64_t{spec.greedy_connections}},
                               {"modest_connections", uint64_t{spec.modest_connections}},
                               {"both_operations_per_second", report.both_operations_per_second},
                               {"modest_alone_operations_per_second", report.modest_alone.operations_per_second()},
                               {"modest_alone_p50_us", Micros(report.modest_alone, 50)},
                               {"modest_alone_p99_us", Micros(report.modest_alone, 99)},
                               {"greedy_operations_per_second", report.greedy_operations_per_second},
                               {"modest_operations_per_second", report.modest.operations_per_second()},
                               {"modest_p50_us", Micros(report.modest, 50)},
                               {"modest_p99_us", Micros(report.modest, 99)},
                               {"modest_share", report.share()},
                               {"modest_p99_ratio", report.p99_ratio()}}));
    return;
  }
  const auto line = [](const char* what, double rate, const std::string& rest) {
    fmt::print("  {:<14} {:>9.0f} objects/s{}\n", what, rate, rest);
  };
  const auto latency = [](const bench::LoadReport& load) {
    return fmt::format("  p50 {:.0f} us  p99 {:.0f} us", Micros(load, 50), Micros(load, 99));
  };
  const std::string asks = spec.asks_for > 0 ? fmt::format("asks for {:.2f} of all", spec.asks_for)
                                             : fmt::format("has {} requests in flight", spec.modest_depth);
  fmt::print("get {} hot, a greedy tenant ({} connections) against one that {} ({} connections)\n  path      {}\n",
             base::FormatSize(spec.object_bytes), spec.greedy_connections, asks, spec.modest_connections, report.modest.path);
  line("all of both", report.both_operations_per_second, "");
  line("modest alone", report.modest_alone.operations_per_second(), latency(report.modest_alone));
  line("greedy", report.greedy_operations_per_second, "");
  line("modest", report.modest.operations_per_second(), latency(report.modest));
  fmt::print("  the modest one gets {:.2f} of all, and its p99 is {:.2f} x that alone\n", report.share(), report.p99_ratio());
}

int RunFair(const FairnessArguments& arguments, const Invocation& invocation) {
  bench::FairnessSpec spec = arguments.spec;
  if (!base::ParseSize(arguments.size, &spec.object_bytes))
    return RefuseUsage("--size takes a number of bytes, or one with K, M or G, for example 4KiB");
  if (!(arguments.seconds >= 0.1 && arguments.seconds <= 3600)) return RefuseUsage("--seconds is 0.1 to 3600");
  if (!(spec.asks_for >= 0 && spec.asks_for <= 1)) return RefuseUsage("--asks-for is 0 to 1");
  spec.duration = std::chrono::milliseconds(static_cast<int64_t>(arguments.seconds * 1000));
  const auto control = ControlConnection::Open(invocation);
  if (!control.ok()) return Fail(control.status().message());
  const auto directory = ScratchDirectory::Create();
  if (!directory.ok()) return Fail(directory.status().message());
  const auto greedy = ScratchTenant::Create(**control, "greedy", directory->path());
  if (!greedy.ok()) return Fail(greedy.status().message());
  const auto modest = ScratchTenant::Create(**control, "modest", directory->path());
  if (!modest.ok()) return Fail(modest.status().message());
  const auto report = bench::RunFairness(spec, (*greedy)->Connector(invocation), (*modest)->Connector(invocation));
  if (!report) return Fail(report.error());
  Print(spec, *report, invocation.json);
  return kDone;
}

}  // namespace

void AddFairnessBench(CLI::App& bench, Invocation& invocation) {
  auto arguments = std::make_shared<FairnessArguments>();
  CLI::App* command = bench.add_subcommand(
      "fair", "What a modest tenant gets beside a greedy one; needs the root credential, makes two tenants for the run");
  command->add_option("--seconds", arguments->seconds, "How long each of the three loads runs (default 5)");
  command->add_option("--size", arguments->size, "Object size (default 4KiB)");
  command->add_option("--greedy-connections", arguments->spec.greedy_connections, "Connections of the greedy tenant (default 64)");
  command->add_option("--greedy-depth", arguments->spec.greedy_depth, "Its requests in flight, over all of them (default 256)");
  command->add_option("--modest-connections", arguments->spec.modest_connections, "Connections of the modest one (default 8)");
  command->add_option("--modest-depth", arguments->spec.modest_depth, "Its requests in flight, at most (default 64)");
  command->add_option("--asks-for", arguments->spec.asks_for,
                      "How much the modest one asks for, of what both get when both take all they can (default 0.5); 0: one request after another");
  command->add_flag("--yield,!--no-yield", arguments->spec.greedy_yields,
                    "The greedy tenant's threads get only the processor time that nobody else wants (default), or compete for it");
  command->callback([arguments, &invocation] {
    invocation.run = [arguments, &invocation] { return RunFair(*arguments, invocation); };
  });
}

}  // namespace forebay::app
