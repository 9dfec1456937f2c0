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

double Micros(const bench::Histogram& times, double percent) { return static_cast<double>(times.Percentile(percent)) / 1000; }

void Append(JsonFields* fields, const std::string& load, const bench::ModestRun& run) {
  fields->emplace_back(load + "_operations_per_second", run.modest.operations_per_second());
  fields->emplace_back(load + "_greedy_operations_per_second", run.greedy_operations_per_second);
  fields->emplace_back(load + "_p50_us", Micros(run.modest.latency, 50));
  fields->emplace_back(load + "_p99_us", Micros(run.modest.latency, 99));
  fields->emplace_back(load + "_machine_late_p99_us", Micros(run.lateness, 99));
}

void PrintRun(const char* what, const bench::ModestRun& run) {
  fmt::print("  {:<24} {:>8.0f} {:>8.0f} {:>8.0f} {:>8.0f} {:>8.0f}\n", what, run.modest.operations_per_second(),
             run.greedy_operations_per_second, Micros(run.modest.latency, 50), Micros(run.modest.latency, 99),
             Micros(run.lateness, 99));
}

void Print(const bench::FairnessSpec& spec, const bench::FairnessReport& report, bool json) {
  if (json) {
    JsonFields fields{{"path", report.steady_beside.modest.path},
                      {"object_bytes", spec.object_bytes},
                      {"greedy_connections", uint64_t{spec.greedy_connections}},
                      {"modest_connections", uint64_t{spec.modest_connections}},
                      {"both_operations_per_second", report.both_operations_per_second}};
    Append(&fields, "single_alone", report.single_alone);
    Append(&fields, "single_beside", report.single_beside);
    Append(&fields, "steady_alone", report.steady_alone);
    Append(&fields, "steady_beside", report.steady_beside);
    fields.emplace_back("modest_share", report.steady_beside.share());
    fields.emplace_back("modest_p99_ratio", report.p99_ratio());
    fmt::print("{}\n", ToJson(fields));
    return;
  }
  fmt::print("get {} hot, a modest tenant beside a greedy one ({} connections, {} requests in flight)\n  path {}\n",
             base::FormatSize(spec.object_bytes), spec.greedy_connections, spec.greedy_depth,
             report.steady_beside.modest.path);
  fmt::print("  when both take all they can: {:.0f} objects/s\n", report.both_operations_per_second);
  fmt::print("  {:<24} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "", "modest", "greedy", "its p50", "its p99", "machine");
  fmt::print("  {:<24} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "", "gets/s", "gets/s", "us", "us", "late, us");
  PrintRun("one by one, alone", report.single_alone);
  PrintRun("one by one, beside", report.single_beside);
  PrintRun("at a steady rate, alone", report.steady_alone);
  PrintRun("at a steady rate, beside", report.steady_beside);
  fmt::print("  one by one, the modest one's p99 is {:.2f} x that alone; asking for {:.2f} of all, it gets {:.2f} of all\n",
             report.p99_ratio(), spec.asks_for, report.steady_beside.share());
}

int RunFair(const FairnessArguments& arguments, const Invocation& invocation) {
  bench::FairnessSpec spec = arguments.spec;
  if (!base::ParseSize(arguments.size, &spec.object_bytes))
    return RefuseUsage("--size takes a number of bytes, or one with K, M or G, for example 4KiB");
  if (!(arguments.seconds >= 0.1 && arguments.seconds <= 3600)) return RefuseUsage("--seconds is 0.1 to 3600");
  if (!(spec.asks_for > 0 && spec.asks_for <= 1)) return RefuseUsage("--asks-for is above 0, and at most 1");
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
  command->add_option("--seconds", arguments->seconds, "How long each of the five loads runs (default 5)");
  command->add_option("--size", arguments->size, "Object size (default 4KiB)");
  command->add_option("--greedy-connections", arguments->spec.greedy_connections, "Connections of the greedy tenant (default 64)");
  command->add_option("--greedy-depth", arguments->spec.greedy_depth, "Its requests in flight, over all of them (default 256)");
  command->add_option("--modest-connections", arguments->spec.modest_connections, "Connections of the modest one at its steady rate (default 8)");
  command->add_option("--modest-depth", arguments->spec.modest_depth, "Its requests in flight, at most, at its steady rate (default 64)");
  command->add_option("--asks-for", arguments->spec.asks_for,
                      "Its steady rate, of what both get when both take all they can (default 0.5)");
  command->add_flag("--yield,!--no-yield", arguments->spec.greedy_yields,
                    "The greedy tenant's threads get only the processor time that nobody else wants (default), or compete for it");
  command->callback([arguments, &invocation] {
    invocation.run = [arguments, &invocation] { return RunFair(*arguments, invocation); };
  });
}

}  // namespace forebay::app
